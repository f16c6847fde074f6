"""A cluster in this process: the embedded API server on loopback HTTPS, its kubeconfig, simulated nodes."""

import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import anyio
from attrs import field, frozen

from informers import AlreadyExists, Transport
from informers.clock import SystemClock
from reconcile.client.client import Client
from reconcile.commands.problems import Problem
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import KubeconfigRefused, write_kubeconfig
from reconcile.kinds import Namespace
from reconcile.manager.manager import Manager
from reconcile.models import ObjectMeta
from reconcile.runs.supervision import without_groups
from reconcile.simulation import SimulatedNodes, SimulatedWorkloads


@frozen
class EmbeddedCluster:
    url: str
    kubeconfig: Path
    nodes: int
    _server: ApiServer = field(repr=False)

    def transport(self) -> Transport:
        return InProcessTransport(self._server)

    @property
    def client(self) -> Client:
        return Client(self.transport(), field_manager="reconcile")

    async def make_namespace(self, name: str) -> None:
        try:
            await self.client.create(Namespace(metadata=ObjectMeta(name)))
        except AlreadyExists:
            return


@asynccontextmanager
async def embedded_cluster(
    kubeconfig: Path,
    *,
    port: int = 0,
    nodes: int = 3,
    workloads: bool = False,
    tls: bool = True,
    token: str | None = None,
    rbac: bool = True,
) -> AsyncIterator[EmbeddedCluster]:
    """Run an embedded cluster until the context is left; its kubeconfig is written to that file.

    With `workloads`, Deployments, StatefulSets and Jobs get pods. Port 0 takes a free one, and TLS without a
    `token` a random one. Raises Problem if the port or the file is not available.
    """
    server = ApiServer(rbac=rbac)
    if token is None and tls:
        token = SystemClock().uuid().hex
    with without_groups():
        async with AsyncExitStack() as stack:
            try:
                handle = await stack.enter_async_context(serve(server, port=port, tls=tls, token=token))
            except OSError as error:
                raise _cannot_listen(port, error) from None
            with writing_kubeconfig(kubeconfig):
                write_kubeconfig(kubeconfig, handle.url, handle.ca_pem, handle.token)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(server.run)
            cluster = EmbeddedCluster(handle.url, kubeconfig, nodes, server)
            if nodes or workloads:
                simulated = SimulatedNodes(nodes)
                await simulated.register(cluster.client)
                played = SimulatedWorkloads().controllers if workloads else ()
                manager = Manager(simulated.controller, *played, transport=cluster.transport(), environ={})
                await tasks.start(manager.run)
            yield cluster


@contextmanager
def writing_kubeconfig(path: Path) -> Iterator[None]:
    try:
        yield
    except KubeconfigRefused as refused:
        raise Problem(str(refused), "choose another --kubeconfig-out") from None
    except OSError as error:
        raise Problem(f"cannot write the kubeconfig {path}", error.strerror or str(error)) from None


def _cannot_listen(port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        hint = "choose another --port, or leave it out for a free one"
        return Problem(f"port {port} on 127.0.0.1 is in use", hint)
    if error.errno == errno.EACCES:
        return Problem(f"port {port} needs privileges that you do not have", "choose a --port above 1023")
    return Problem(f"cannot listen on port {port} of 127.0.0.1", error.strerror or str(error))
