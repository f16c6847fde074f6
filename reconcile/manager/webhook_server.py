"""Serves the webhooks of a manager over HTTPS on a port of its own.

The network, the functions of authors and the manager are kept apart: requests are read in a thread with an
event loop of its own, functions run in further threads, and neither waits for the manager's loop.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio
from attrs import define, field, frozen

from informers import get_logger
from reconcile.ops.page_connections import MAX_CONNECTIONS, MAX_HEAD, PageConnectionPool
from reconcile.ops.page_server import connection_limit
from reconcile.ops.serving_addresses import Address
from reconcile.ops.serving_thread import ServingThread
from reconcile.webhooks.call_threads import Busy, CallThreads
from reconcile.webhooks.handler import MAX_BODY, answer, frames_of
from reconcile.webhooks.routes import Route

if TYPE_CHECKING:
    from aiohttp import web

MAX_CALLS: Final = 32
"""Calls at once; each may hold a body of MAX_BODY."""
DEFAULT_SECONDS: Final = 10.0
"""For a call without `timeout`, as an API server has it by default."""
MAX_SECONDS: Final = 30.0
"""The longest time that an API server gives a webhook."""
QUIET_SECONDS: Final = 1.0
"""At a stop the port stays open until no call came for so long: API servers learn of a stop by and by."""
DRAIN_SECONDS: Final = 5.0
"""How long the port stays open at a stop at most; calls in progress then get STOP_SECONDS."""
STOP_SECONDS: Final = 5.0

_DURATION: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(ms|s|m)")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_log = get_logger("reconcile.webhooks")


class ServingCertificate(Protocol):
    """A certificate for TLS; its owner may replace it in the same context at any time."""

    @property
    def context(self) -> ssl.SSLContext: ...


@frozen
class Call:
    """A call that has ended. `result` is that of the handler, `busy` or `timeout`; `seconds` its duration."""

    webhook: str
    status: int
    result: str
    seconds: float


@asynccontextmanager
async def serving_webhooks(
    address: Address,
    routes: Iterable[Route],
    certificate: ServingCertificate,
    on_call: Callable[[Call], None] = lambda call: None,
) -> AsyncIterator[Address]:
    """Serve while inside; yields the address, with the port that was chosen for 0. Raises ServeError.

    `on_call` is called in another thread. On leaving, calls are accepted until API servers go elsewhere, and
    those in progress end.
    """
    server = _Server({route.path: route for route in routes}, on_call)
    thread = ServingThread(
        "webhooks",
        address,
        server.application,
        certificate.context,
        connection_limit(MAX_CONNECTIONS),
        max_head=MAX_HEAD + MAX_BODY,
        stop_seconds=STOP_SECONDS,
        drained=server.drained,
    )
    try:
        bound = await thread.start()
        _log.info(
            "serving webhooks", address=str(bound), webhooks=[str(one) for one in server.routes.values()]
        )
        yield bound
    finally:
        with anyio.CancelScope(shield=True):
            await thread.stop()
            server.threads.end()


def seconds_of(text: str | None) -> float:
    """The time of a call by its `timeout`, a duration such as `10s` or `500ms`; else the default."""
    found = _DURATION.fullmatch(text or "")
    seconds = DEFAULT_SECONDS if found is None else float(found[1]) * _UNITS[found[2]]
    return min(seconds, MAX_SECONDS)


@frozen
class _Answered:
    status: int
    body: bytes
    result: str


@define(eq=False)
class _Server:
    routes: Mapping[str, Route]
    on_call: Callable[[Call], None]
    threads: CallThreads = field(factory=lambda: CallThreads(MAX_CALLS), init=False)
    _calls: int = field(default=0, init=False)
    _last: float = field(default=float("-inf"), init=False)
    """When the last call began or ended, in the time of the event loop."""
    _stopping: bool = field(default=False, init=False)

    def application(self, connections: PageConnectionPool) -> "web.Application":
        from aiohttp import web

        application = web.Application(client_max_size=MAX_BODY)
        for route in self.routes.values():
            application.router.add_post(route.path, self._page(route, connections))
        return application

    def _page(self, route: Route, connections: PageConnectionPool) -> Callable[["web.Request"], Any]:
        from aiohttp import web

        async def page(request: web.Request) -> web.Response:
            # The connection is not cut from here on, since the time of the call bounds it.
            connection = connections.of(request.protocol)
            if connection is not None:
                connection.begin()
            try:
                got = await self._called(route, request)
            finally:
                if connection is not None:
                    connection.end()
            kind = "application/json" if got.status == 200 else "text/plain"
            response = web.Response(status=got.status, body=got.body, content_type=kind)
            if self._stopping or got.status in (413, 503):
                response.force_close()
            return response

        return page

    async def _called(self, route: Route, request: "web.Request") -> _Answered:
        began = self._last = _now()
        busy = self._calls >= MAX_CALLS
        self._calls += 1
        try:
            got = _BUSY if busy else await self._answered(route, request)
        finally:
            self._calls -= 1
            self._last = _now()
        self.on_call(Call(route.name, got.status, got.result, self._last - began))
        return got

    async def _answered(self, route: Route, request: "web.Request") -> _Answered:
        from aiohttp import web

        if request.content_type != "application/json":
            return _refused(415, "expected the content type application/json")
        seconds = seconds_of(request.query.get("timeout"))
        try:
            async with asyncio.timeout(seconds):
                body = await request.read()
                got = await self.threads.call(partial(answer, route, body))
        except web.HTTPRequestEntityTooLarge:
            return _refused(413, f"expected at most {MAX_BODY} bytes")
        except Busy:
            return _BUSY
        except TimeoutError:
            _log.warning("a call of a webhook took too long", webhook=route.name, seconds=seconds)
            return _Answered(504, f"no answer within {seconds:g} s\n".encode(), "timeout")
        except Exception as error:
            _log.error(
                "a call of a webhook failed",
                webhook=route.name,
                error=type(error).__name__,
                traceback=frames_of(error),
            )
            return _Answered(500, b"the webhook failed\n", "failed")
        return _Answered(got.status, got.body, got.result)

    async def drained(self) -> None:
        """Wait until calls have stopped coming, or for DRAIN_SECONDS."""
        self._stopping = True
        end = _now() + DRAIN_SECONDS
        while True:
            left = min(self._last + QUIET_SECONDS, end) - _now()
            if left <= 0:
                return
            await asyncio.sleep(left)  # only time tells that no call comes any more


def _now() -> float:
    return asyncio.get_running_loop().time()


def _refused(status: int, text: str) -> _Answered:
    return _Answered(status, f"{text}\n".encode(), "bad-request")


_BUSY: Final = _Answered(503, b"too many calls at once\n", "busy")
