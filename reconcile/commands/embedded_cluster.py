"""A cluster in this process: the embedded API server on loopback HTTPS, its kubeconfig, simulated nodes."""

import errno
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
from attrs import field, frozen

from informers import AlreadyExists, APIResource, Transport
from informers.clock import SystemClock
from reconcile.client.client import Client
from reconcile.commands.error_groups import without_groups
from reconcile.commands.problems import Problem
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.http import ServerHandle, serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.kinds import Namespace
from reconcile.manager.installed_definitions import install
from reconcile.manager.manager import Manager
from reconcile.models import Object, ObjectMeta, kind_of
from reconcile.simulation import SimulatedNodes, SimulatedWorkloads

FIELD_MANAGER = "reconcile"


@frozen
class EmbeddedCluster:
    """A running embedded cluster with simulated nodes; kubectl reaches it with `kubeconfig`."""

    url: str
    kubeconfig: Path
    nodes: int
    _server: ApiServer = field(repr=False)

    def transport(self) -> Transport:
        """A new transport to it, without a socket."""
        return InProcessTransport(self._server)

    @property
    def client(self) -> Client:
        """A client without a cache."""
        return Client(self.transport(), field_manager=FIELD_MANAGER)

    async def install(self, kinds: Iterable[type[Object]]) -> list[APIResource]:
        """Install the definitions of `kinds`; returns the resources that were not served before."""
        client = self.client
        installed = []
        for kind in dict.fromkeys(kinds):
            resource = kind_of(kind).resource
            if self._server.resources.get(resource.group, resource.version, resource.plural) is None:
                await install(client, kind)
                installed.append(resource)
        return installed

    async def make_namespace(self, name: str) -> None:
        """Create a namespace unless it exists."""
        try:
            await self.client.create(Namespace(metadata=ObjectMeta(name)))
        except AlreadyExists:
            return


@asynccontextmanager
async def embedded_cluster(
    folder: Path, *, port: int = 0, nodes: int = 3, workloads: bool = False
) -> AsyncIterator[EmbeddedCluster]:
    """Run an embedded cluster until the context is left; its kubeconfig is written into `folder`.

    With `workloads`, Deployments, StatefulSets and Jobs get pods. Port 0 takes a free one. Raises Problem
    if the port cannot be opened.
    """
    server = ApiServer()
    kubeconfig = folder / "kubeconfig"
    with without_groups():
        async with AsyncExitStack() as stack:
            try:
                token = SystemClock().uuid().hex
                face: ServerHandle = await stack.enter_async_context(serve(server, port=port, token=token))
            except OSError as error:
                raise cannot_listen(port, error) from None
            write_kubeconfig(kubeconfig, face.url, face.ca_pem, face.token)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(server.run)
            cluster = EmbeddedCluster(face.url, kubeconfig, nodes, server)
            simulated = SimulatedNodes(nodes)
            await simulated.register(cluster.client)
            played = SimulatedWorkloads().controllers if workloads else ()
            manager = Manager(simulated.controller, *played, transport=cluster.transport(), environ={})
            await tasks.start(manager.run)
            yield cluster


def cannot_listen(port: int, error: OSError) -> Problem:
    """The Problem for a port that cannot be opened."""
    if error.errno == errno.EADDRINUSE:
        hint = "choose another --port, or leave it out for a free one"
        return Problem(f"port {port} on 127.0.0.1 is in use", hint)
    if error.errno == errno.EACCES:
        return Problem(f"port {port} needs privileges that you do not have", "choose a --port above 1023")
    return Problem(f"cannot listen on port {port} of 127.0.0.1", error.strerror or str(error))
