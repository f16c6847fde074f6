"""Where the tests of an operator run: a cluster in virtual time, or a server that really listens."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio
from attrs import define, field

from informers import Clock, Response, StreamingResponse, SystemClock, Transport, Unreachable
from informers.transport import PassingTransport
from reconcile.client.client import Client
from reconcile.embedded import InProcessTransport
from reconcile.kinds import Namespace
from reconcile.manager.installed_definitions import install
from reconcile.models import Object, ObjectMeta, kind_of
from reconcile.testing.clock import VirtualClock
from reconcile.testing.fake import FakeClient
from reconcile.testing.faulty import FaultyTransport
from reconcile.testing.late import LateTransport
from reconcile.testing.loop import simulate
from reconcile.testing.stage import Stage

if TYPE_CHECKING:
    from reconcile.testing.control_plane import Endpoint

T = TypeVar("T")

_SERVED_SECONDS = 30.0
_NOT_FOUND = 404
_NOTHING: Mapping[str, str] = {}
_CLOSED = "the transport of a test leads somewhere only while a manager runs"


class Place(Protocol):
    """A cluster as a test sees it: the test's own way in, and that of the managers under test."""

    @property
    def clock(self) -> Clock:
        """The clock of managers there."""
        ...

    @property
    def transport(self) -> FaultyTransport:
        """The way in of managers under test: recorded, and what the test plans goes wrong on it."""
        ...

    @property
    def virtual(self) -> bool:
        """Whether time there is virtual."""
        ...

    def opened(self) -> AbstractAsyncContextManager[None]:
        """As long as it lasts, `transport` leads somewhere."""
        ...

    def connect(self) -> AbstractAsyncContextManager[Client]:
        """The test's own way in, on which nothing goes wrong."""
        ...

    async def define(self, kinds: Iterable[type[Object]]) -> None:
        """Have models served there; returns when they are."""
        ...


class VirtualCluster:
    """A cluster inside the test, in virtual time: what `cluster` is.

    `client` reads and writes without a cache and is met by no fault; it is a `FakeClient`, so
    `client.add` puts anything there as it is. Watches of managers are late, by lags drawn from `seed`.
    """

    virtual = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.clock = VirtualClock(seed)
        self.client = FakeClient(seed=seed, clock=self.clock)
        self.server = self.client.server
        late = LateTransport(InProcessTransport(self.server, settle=True), seed)
        self.transport = FaultyTransport(late, around=Stage(self.server))

    def __repr__(self) -> str:
        return f"VirtualCluster(seed={self.seed})"

    def run(self, test: Callable[[], Awaitable[T]], *, limit_seconds: float = 3600) -> T:
        """Run an async function in virtual time, for tests that are plain functions."""
        return simulate(test, seed=self.seed, limit_seconds=limit_seconds)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """It is always open."""
        yield

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        """The same as `client`, for tests that run on a server that listens too."""
        yield self.client

    async def define(self, kinds: Iterable[type[Object]]) -> None:
        """Have models served."""
        for kind in kinds:
            self.client.serve(kind)


@define(eq=False)
class ListeningServer:
    """A server on HTTPS, in real time: what `api_server` is.

    `url` and `kubeconfig` lead to it, as its administrator. `namespace` is there and empty when a test
    begins; on a real server, which tests share, keep to it. `real` says whether this is a kube-apiserver.
    """

    url: str
    kubeconfig: Path
    namespace: str
    real: bool
    clock: Clock = field(factory=SystemClock)
    transport: FaultyTransport = field(init=False, repr=False)
    _line: "_Line" = field(init=False, repr=False)

    virtual = False

    def __attrs_post_init__(self) -> None:
        self._line = _Line(self.kubeconfig)
        self.transport = FaultyTransport(self._line)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connections are given back where the last context of several is left."""
        async with self._line.opened():
            yield

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        """A client of its own connections, without a cache."""
        transport = await _connect(self.kubeconfig)
        try:
            yield Client(transport, clock=self.clock)
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()

    async def define(self, kinds: Iterable[type[Object]]) -> None:
        """Have models served that are not. Raises TimeoutError where that takes half a minute."""
        async with self.connect() as client:
            for kind in kinds:
                if not await _served(client, kind):
                    await install(client, kind)
                    with anyio.fail_after(_SERVED_SECONDS):
                        while not await _served(client, kind):  # noqa: ASYNC110 - nobody tells
                            await anyio.sleep(0.05)


def listening(endpoint: "Endpoint") -> ListeningServer:
    """A server for one test, with a namespace of its own that is empty."""
    namespace = f"test-{SystemClock().uuid().hex[:12]}"
    server = ListeningServer(endpoint.url, endpoint.kubeconfig, namespace, endpoint.real)

    async def prepare() -> None:
        async with server.connect() as client:
            await client.create(Namespace(metadata=ObjectMeta(namespace)))

    anyio.run(prepare)
    return server


class _Line(PassingTransport):
    """A transport that is connected while somebody holds it open: connections belong to one event loop."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._holders = 0
        super().__init__(_Nowhere())

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        if self._holders == 0:
            self._inner = await _connect(self._kubeconfig)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if self._holders == 0:
                inner, self._inner = self._inner, _Nowhere()
                with anyio.CancelScope(shield=True):
                    await inner.aclose()

    async def aclose(self) -> None:
        """Who holds it open closes it."""


class _Nowhere:
    """Where a line leads that nobody holds open."""

    server = "nowhere"

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
        body: bytes | None = None,
    ) -> Response:
        raise Unreachable(_CLOSED, f"{method} {path}")

    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        raise Unreachable(_CLOSED, f"{method} {path}")

    async def aclose(self) -> None:
        """There is nothing to close."""


async def _connect(kubeconfig: Path) -> Transport:
    from informers.kubernetes import connect

    return await connect(kubeconfig)


async def _served(client: Client, kind: type[Object]) -> bool:
    path = kind_of(kind).resource.path("")
    return (await client.transport.request("GET", path, {"limit": "1"})).status != _NOT_FOUND
