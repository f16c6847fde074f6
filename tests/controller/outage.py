"""A way to a server that a test can cut, and a manager on it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio

from informers import OutcomeUnknown, Response, StreamingResponse, Transport, Unreachable
from informers.transport import HttpRequest, PassingTransport
from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.testing import simulate
from tests.helpers import managers
from tests.helpers.managers import Toy

Weather = Callable[[str, str], "Response | Exception | float | None"]
"""An answer, an error, seconds until the request is given up, or None, by method and path."""


def fair(method: str, path: str) -> None:
    """Every request reaches the server."""


def refused(method: str, path: str) -> Exception:
    return Unreachable("nothing listens there", f"{method} {path}")


def reset(method: str, path: str) -> Exception:
    return OutcomeUnknown("the connection was reset", f"{method} {path}")


def bad_gateway(method: str, path: str) -> Response:
    return Response(502, {"content-type": "text/html"}, b"<html>502 Bad Gateway</html>")


def unavailable(method: str, path: str) -> Response:
    return Response(503, {"content-type": "text/plain"}, b"no server is available")


def silent(method: str, path: str) -> float:
    """Nothing comes back, and after 10 s the connection is given up."""
    return 10.0


class Line(PassingTransport):
    """Leads to a server unless the weather is bad; notes the time, method and path of each request."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.weather: Weather = fair
        self.sent: list[tuple[float, str, str]] = []
        self._reading: set[anyio.CancelScope] = set()

    def break_down(self, weather: Weather, *, cut: bool = True) -> None:
        """Bad weather from now on; streams that are open are reset, or fall silent."""
        self.weather = weather
        if cut:
            for scope in self._reading:
                scope.cancel()

    def lead_to(self, server: Transport) -> None:
        """Another server answers from now on; what was open is cut."""
        self._inner = server
        self.break_down(self.weather)

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._reading)

    def sent_between(self, begin: float, end: float) -> list[tuple[float, str, str]]:
        return [sent for sent in self.sent if begin <= sent[0] < end]

    async def request(self, request: HttpRequest) -> Response:
        answer = await self._answer(request)
        return await super().request(request) if answer is None else answer

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        answer = await self._answer(request)
        if answer is not None:
            yield StreamingResponse(answer.status, answer.headers, _once(answer.body))
            return
        async with self._inner.stream(request) as found:
            yield StreamingResponse(found.status, found.headers, _Cuttable(found.chunks, self._reading))

    async def _answer(self, request: HttpRequest) -> Response | None:
        self.sent.append((anyio.current_time(), request.method, request.path))
        happened = self.weather(request.method, request.path)
        if isinstance(happened, float):
            await anyio.sleep(happened)
            raise Unreachable("no connection", str(request))
        if isinstance(happened, Exception):
            raise happened
        return happened


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


class _Cuttable:
    def __init__(self, chunks: AsyncIterator[bytes], reading: set[anyio.CancelScope]) -> None:
        self._chunks = chunks
        self._reading = reading

    def __aiter__(self) -> "_Cuttable":
        return self

    async def __anext__(self) -> bytes:
        with anyio.CancelScope() as scope:
            self._reading.add(scope)
            try:
                return await self._chunks.__anext__()
            finally:
                self._reading.discard(scope)
        raise OutcomeUnknown("the connection was reset", "a stream")


def child(ctx: Context[Toy], text: str, suffix: str = "") -> ConfigMap:
    """What a toy may have made for it."""
    return ConfigMap(metadata=ObjectMeta(f"{ctx.object.name}-child{suffix}"), data={"text": text})


async def build(ctx: Context[Toy]) -> None:
    """Give a toy a child and a status of its size."""
    size = ctx.object.spec.size
    await ctx.apply(ConfigMap(metadata=ObjectMeta(ctx.object.name), data={"size": str(size)}))
    ctx.status(size=size)


class World(managers.World):
    """A server with toys in virtual time, a line to it, and a client of the test that no weather reaches."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.line = Line(InProcessTransport(self.server))

    async def stock(self, count: int, size: int = 1) -> None:
        await self.define()
        for number in range(count):
            await self.make(f"toy-{number}", size=size)

    async def resize(self, size: int) -> None:
        for toy in await self.client.list(Toy, "default"):
            await self.client.raw.merge(toy, {"spec": {"size": size}})

    async def sizes(self) -> set[int]:
        """The sizes that the statuses tell."""
        return {toy.status.size for toy in await self.client.list(Toy, "default")}

    async def seconds_until(self, reached: Callable[[], Any], seconds: float = 300.0) -> float:
        """How long it takes until something awaited is true; looked at every 50 ms."""
        began = anyio.current_time()
        while not await reached():
            if anyio.current_time() - began > seconds:
                raise TimeoutError(f"not within {seconds:g} s")
            await anyio.sleep(0.05)
        return anyio.current_time() - began

    def running(self, *controllers: Controller[Any], **options: Any) -> AbstractAsyncContextManager[Manager]:
        return super().running(*controllers, **{"transport": self.line, "environ": {}, **options})


def played(scenario: Callable[[World], Any], *, seed: int = 0, toys: int = 20) -> World:
    """A scenario in a world with toys, in virtual time."""
    world = World(seed)

    async def run() -> None:
        await world.stock(toys)
        await scenario(world)

    simulate(run, seed=seed, limit_seconds=7200)
    return world
