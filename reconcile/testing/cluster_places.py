"""Where the tests of an operator run: a cluster in virtual time, or a server on HTTPS."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
from attrs import define, field

from informers import Clock, Response, StreamingResponse, SystemClock, Transport, Unreachable
from informers.transport import HttpRequest, PassingTransport
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.embedded import InProcessTransport
from reconcile.kinds import Namespace
from reconcile.manager.installed_definitions import install
from reconcile.models import Object, ObjectMeta, kind_of
from reconcile.testing.cluster_actor import ClusterActor
from reconcile.testing.fake_client import FakeClient
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.late_watches import LateTransport
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import simulate
from reconcile.webhooks.in_process import served_by

if TYPE_CHECKING:
    from reconcile.testing.control_plane import ServerEndpoint

T = TypeVar("T")

_SERVED_SECONDS = 30.0
_NOT_FOUND = 404
_CLOSED = "the transport of a test is connected only while a manager runs"


class VirtualCluster:
    """A cluster inside the test, in virtual time: the fixture `cluster`.

    `client` reads and writes without a cache and without faults; it is a `FakeClient`, so `client.add`
    puts any object there with its status. Watches of managers are late, by lags drawn from `seed`.
    """

    virtual = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.clock = VirtualClock(seed)
        self.client = FakeClient(seed=seed, clock=self.clock)
        self.server = self.client.server
        late = LateTransport(InProcessTransport(self.server, settle=True), seed)
        self.transport = FaultyTransport(late, effects=ClusterActor(self.server))

    def __repr__(self) -> str:
        return f"VirtualCluster(seed={self.seed})"

    def run(self, test: Callable[[], Awaitable[T]], *, limit_seconds: float = 3600) -> T:
        """Run an async function in virtual time, for tests that are plain functions."""
        return simulate(test, seed=self.seed, limit_seconds=limit_seconds)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Do nothing: it is always open."""
        yield

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        """The same as `client`, for tests that also run on a `ListeningServer`."""
        yield self.client

    async def define(self, kinds: Iterable[type[Object]]) -> None:
        """Make the server serve these models."""
        self.client.serve(*kinds)

    async def prepare(self, controllers: Iterable[Controller[Any]]) -> None:
        """Make the server serve the kinds of these controllers, and call their webhooks."""
        self.client.serve(*controllers)


@define(eq=False)
class ListeningServer:
    """A server on HTTPS, in real time: the fixture `api_server`.

    `url` and `kubeconfig` lead to it as its administrator. `namespace` exists and is empty when a test
    begins; tests share a real server, so keep to that namespace. `real` is True for a kube-apiserver.
    """

    url: str
    kubeconfig: Path
    namespace: str
    real: bool
    clock: Clock = field(factory=SystemClock)
    transport: FaultyTransport = field(init=False, repr=False)
    _connection: "_ReopenableTransport" = field(init=False, repr=False)

    virtual = False

    def __attrs_post_init__(self) -> None:
        self._connection = _ReopenableTransport(self.kubeconfig)
        self.transport = FaultyTransport(self._connection)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect until the last of several contexts is left."""
        async with self._connection.opened():
            yield

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        """A client with connections of its own, without a cache."""
        transport = await _connect(self.kubeconfig)
        try:
            yield Client(transport, clock=self.clock)
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()

    async def define(self, kinds: Iterable[type[Object]]) -> None:
        """Install the definitions that are missing. Raises TimeoutError if that takes half a minute."""
        async with self.connect() as client:
            for kind in kinds:
                if not await _is_served(client, kind):
                    await install(client, kind)
                    with anyio.fail_after(_SERVED_SECONDS):
                        while not await _is_served(client, kind):  # noqa: ASYNC110 - the server announces it nowhere
                            await anyio.sleep(0.05)

    async def prepare(self, controllers: Iterable[Controller[Any]]) -> None:
        """Install the definitions of the controllers' kinds that are missing; raises as `define`."""
        await self.define(served_by(controllers))


ClusterPlace: TypeAlias = VirtualCluster | ListeningServer


def listening_server(endpoint: "ServerEndpoint") -> ListeningServer:
    namespace = f"test-{SystemClock().uuid().hex[:12]}"
    server = ListeningServer(endpoint.url, endpoint.kubeconfig, namespace, endpoint.real)

    async def prepare() -> None:
        async with server.connect() as client:
            await client.create(Namespace(metadata=ObjectMeta(namespace)))

    anyio.run(prepare)
    return server


class _ReopenableTransport(PassingTransport):
    """A transport that is connected while a context holds it open: connections belong to one event loop."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._holders = 0
        super().__init__(_ClosedTransport())

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
                inner, self._inner = self._inner, _ClosedTransport()
                with anyio.CancelScope(shield=True):
                    await inner.aclose()

    async def aclose(self) -> None:
        """Does nothing: leaving the last context disconnects it."""


class _ClosedTransport:
    server = "not connected"

    async def request(self, request: HttpRequest) -> Response:
        raise Unreachable(_CLOSED, str(request))

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        raise Unreachable(_CLOSED, str(request))

    async def aclose(self) -> None:
        """Does nothing."""


async def _connect(kubeconfig: Path) -> Transport:
    from informers.kubernetes import connect

    return await connect(kubeconfig)


async def _is_served(client: Client, kind: type[Object]) -> bool:
    path = kind_of(kind).resource.path("")
    return (await client.transport.request(HttpRequest("GET", path, {"limit": "1"}))).status != _NOT_FOUND
