"""A cluster in this process: the embedded API server on loopback HTTPS, its kubeconfig, simulated nodes."""

import base64
import errno
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import click
from attrs import field, frozen

from informers import AlreadyExists, Transport
from informers.clock import SystemClock
from reconcile.client.client import Client
from reconcile.commands.problems import Problem
from reconcile.controller.declaration import Controller
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.durable.files import DataFault
from reconcile.embedded.http import ServerHandle, serve
from reconcile.embedded.listener.admin_kubeconfig import KubeconfigRefused, write_kubeconfig
from reconcile.embedded.listener.certificates import Authority, make_authority
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.kinds import Namespace
from reconcile.manager.manager import Manager
from reconcile.models import ObjectMeta, definition_of
from reconcile.models.versions import families
from reconcile.runs.supervision import without_groups
from reconcile.simulation import SimulatedNodes, SimulatedWorkloads
from reconcile.webhooks.in_process import configure, served_by, webhooks_of

_PORT = "port"


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

    async def serve_kinds(self, controllers: Iterable[Controller[Any]]) -> None:
        """Serve the custom kinds of controllers in all versions, and call their webhooks in this process.

        Definitions and configurations are those of a cluster, and replace those of an earlier run. Raises
        TypeError for versions that differ and are not converted, and ValueError for webhooks with one name.
        """
        controllers, webhooks = list(controllers), webhooks_of(self._server)
        for versions in families(served_by(controllers)):
            await self.client.apply(definition_of(*versions, conversion=webhooks.conversion_for(versions[0])))
        webhooks.serve(controllers, only=True)
        await configure(self.client, webhooks)

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
    data: DataFolder | None = None,
) -> AsyncIterator[EmbeddedCluster]:
    """Run an embedded cluster until the context is left; its kubeconfig is written to that file.

    With `workloads`, Deployments, StatefulSets and Jobs get pods. Port 0 takes a free one, and TLS without a
    `token` a random one. With `data`, objects, authority, token and, if it is free, port are those of the
    last run. Raises Problem if the port or the file is not available, or the folder cannot be used.
    """
    with using_data():
        server = _server(data, rbac=rbac)
        if token is None and tls:
            token = _new_token() if data is None else data.value("administrator", _new_token)
        authority = _authority(data) if data is not None and tls else None
    with without_groups():
        async with AsyncExitStack() as stack:
            handle = await _listen(stack, server, port, tls=tls, token=token, authority=authority, data=data)
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


def _server(data: DataFolder | None, *, rbac: bool) -> ApiServer:
    try:
        return ApiServer(rbac=rbac, data=data)
    except ApiFailure as failure:  # not even its first objects could be written
        raise Problem(failure.message, "choose a folder on a disk with room") from None


def _new_token() -> str:
    return SystemClock().uuid().hex


def _authority(data: DataFolder) -> Authority:
    def made() -> str:
        authority = make_authority()
        return "\n".join(base64.b64encode(part).decode() for part in (authority.certificate, authority.key))

    certificate, key = (base64.b64decode(part) for part in data.value("authority", made).split("\n"))
    return Authority(certificate, key)


async def _listen(
    stack: AsyncExitStack,
    server: ApiServer,
    port: int,
    *,
    tls: bool,
    token: str | None,
    authority: Authority | None,
    data: DataFolder | None,
) -> ServerHandle:
    """Serve on `port`, or if that is 0 on the last one, or on a free one. Raises Problem."""
    last = int((data.kept_value(_PORT) if data is not None else None) or 0)
    while True:
        try:
            handle = await stack.enter_async_context(
                serve(server, port=port or last, tls=tls, token=token, authority=authority)
            )
            break
        except OSError as error:
            if port or not last:
                raise _cannot_listen(port, error) from None
            last = 0
    if data is not None:
        with using_data():
            data.keep_value(_PORT, str(handle.port))
    return handle


@contextmanager
def using_data() -> Iterator[None]:
    """While inside, a DataFault becomes a Problem."""
    try:
        yield
    except DataFault as fault:
        raise Problem(fault.message, fault.hint) from None


@contextmanager
def opened_data(
    path: Path | None, *, repair: bool = False, fresh: bool = False
) -> Iterator[DataFolder | None]:
    """The data folder at `path`, until the context is left; prints what a repair dropped. Raises Problem."""
    if path is None:
        yield None
        return
    with using_data():
        folder = DataFolder(path, repair=repair, fresh=fresh)
    with folder:
        for one in folder.repairs:
            click.echo(str(one), err=True)
        yield folder


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
