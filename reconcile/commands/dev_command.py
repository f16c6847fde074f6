"""`reconcile dev`: runs an operator while it is being written."""

import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import click
from attrs import define, field
from rich.console import Console

from informers import ApiError, Snapshot
from reconcile.commands.completions import targets
from reconcile.commands.dev_screen import DevLines, Shown, view_of
from reconcile.commands.dev_sources import Sources
from reconcile.commands.dev_world import own_world
from reconcile.commands.embedded_cluster import EmbeddedCluster, embedded_cluster, opened_data
from reconcile.commands.problems import Problem
from reconcile.commands.screens import showing
from reconcile.commands.targets import Operator
from reconcile.commands.web_browser import open_in_browser, status_page
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.manager.manager import Manager
from reconcile.manager.signals import on_signal
from reconcile.models import kind_of
from reconcile.ops.log_setup import configure_logging
from reconcile.ops.serving_addresses import ServeError, parse_address
from reconcile.runs.supervision import without_groups

LOOK_SECONDS = 0.5
STOP_SECONDS = 2.0
_OBJECTS = 100


@click.command()
@click.argument("module", shell_complete=targets)
@click.option("--nodes", type=click.IntRange(0, 1000), default=3, help="Simulated nodes. Default: 3.")
@click.option(
    "--workloads/--no-workloads",
    default=True,
    help="Whether Deployments, StatefulSets and Jobs get pods. Default: they do.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free one."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder that keeps the objects between runs. Default: .reconcile/MODULE.",
)
@click.option("--fresh", is_flag=True, help="Forget the objects of earlier runs first.")
@click.option("--open", "opens", is_flag=True, help="Open the status page in a browser.")
@click.option("--verbose", is_flag=True, help="Log debug lines too, and show tracebacks of failed runs.")
def dev(
    module: str,
    nodes: int,
    workloads: bool,
    port: int,
    data: Path | None,
    fresh: bool,
    opens: bool,
    verbose: bool,
) -> None:
    """Run the operator of MODULE while you write it, until Ctrl-C.

    MODULE is a module with a Manager or with Controllers, or my_module:manager. It runs on an API
    server in this process, with simulated nodes and workloads; the path of its kubeconfig is printed, and
    yours is neither read nor written. Use --no-workloads for an operator that makes the pods of
    Deployments, StatefulSets or Jobs itself. When a file of the operator changes, the operator is imported
    and started again; the objects stay, also for the next run. If the import fails, the error is shown
    and the operator keeps running as it was. The address of its status page is printed, which shows
    what it does; --open opens it.
    """
    sys.dont_write_bytecode = True  # bytecode could hide a change within the same second
    sources = Sources(module)
    operator = sources.load()
    _check(operator)
    with tempfile.TemporaryDirectory(prefix="reconcile-dev-") as folder, ExitStack() as stack:
        world = data or own_world(module)
        kept = stack.enter_context(opened_data(world, fresh=fresh))
        console = Console(highlight=False)
        terminal = console.is_terminal and not console.is_dumb_terminal
        log = Path(folder) / "dev.log"
        stream = stack.enter_context(log.open("w")) if terminal else sys.stderr
        configure_logging(stream, format="text", level="DEBUG" if verbose else "INFO")
        work = Development(sources, operator, console, log if terminal else None, verbose, opens)
        anyio.run(work.run, world.absolute() / "kubeconfig", nodes, workloads, port, kept)
    click.echo("\nstopped")


def _check(operator: Operator) -> None:
    if operator.manager.options["clusters"]:
        raise Problem("the manager works in several clusters, and dev has one", "name one that works in one")


@define
class Development:
    """An operator on its cluster, from the first start to Ctrl-C.

    `log` is its log file; None: stderr. `opens`: open the status page in a browser at the first start.
    """

    sources: Sources
    operator: Operator
    console: Console
    log: Path | None
    verbose: bool = False
    opens: bool = False
    note: str = field(default="", init=False)
    _running: Manager | None = field(default=None, init=False)
    _starts: int = field(default=0, init=False)
    _address: str = field(default="", init=False)
    _served: anyio.Event = field(factory=anyio.Event, init=False)
    """Set once `_address` is known."""
    _page: str = field(default="status page:", init=False)
    """What is said before the address of the status page."""

    async def run(
        self, kubeconfig: Path, nodes: int, workloads: bool, port: int, data: DataFolder | None = None
    ) -> None:
        with without_groups(), anyio.CancelScope() as scope, on_signal(scope.cancel):
            async with (
                embedded_cluster(
                    kubeconfig, port=port, nodes=nodes, workloads=workloads, data=data
                ) as cluster,
                anyio.create_task_group() as group,
            ):
                group.start_soon(self._show, cluster)
                if self.opens:
                    group.start_soon(self._open_page)
                while True:
                    await self._work(cluster)

    async def _work(self, cluster: EmbeddedCluster) -> None:
        ended = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(self._run, cluster, ended)
            operator = await self._next_operator()
            if self._running is not None:
                self._running.stop()
                with anyio.move_on_after(2 * STOP_SECONDS):
                    await ended.wait()
            group.cancel_scope.cancel()
        self.operator = operator

    async def _run(self, cluster: EmbeddedCluster, ended: anyio.Event) -> None:
        """Run the manager until it ends; an error becomes the note, and a change of a file restarts it."""
        self._starts += 1
        try:
            try:
                await self._run_manager(cluster)
            except ServeError:
                if not self._address:
                    raise
                self._address = ""  # another process took the port meanwhile
                await self._run_manager(cluster)
        except Exception as error:
            self.note = (
                f"the manager ended: {type(error).__name__}: {error}; it starts again when a file changes"
            )
        finally:
            self._running = None
            ended.set()

    async def _run_manager(self, cluster: EmbeddedCluster) -> None:
        running = self._manager(cluster)
        await cluster.serve_kinds(running.controllers)
        for namespace in running.namespaces:
            await cluster.make_namespace(namespace)
        self._running = running
        names = ", ".join(controller.name for controller in self.operator.manager.controllers)
        self.note = f"started {names}" if self._starts == 1 else f"restarted {names} ({self._starts - 1})"
        await running.run()

    def _manager(self, cluster: EmbeddedCluster) -> Manager:
        self.operator.manager.configure()
        address = parse_address(self.operator.manager.options["serve"] or "127.0.0.1:0")
        serve = self._address if self._address and not address.port else str(address)
        return self.operator.manager.on(
            cluster.transport(), leader_election=None, stop_seconds=STOP_SECONDS, serve=serve
        )

    async def _next_operator(self) -> Operator:
        while True:
            await anyio.sleep(LOOK_SECONDS)
            if self._running is not None and self._running.address:
                # Kept for the next start, so that clients such as `reconcile top` still reach it.
                self._address = self._running.address
                self._served.set()
            if not self.sources.changed():
                continue
            try:
                operator = self.sources.reload()
                _check(operator)
            except Problem as problem:
                self.note = f"not reloaded: {' '.join(problem.message.split())}"
                continue
            return operator

    async def _open_page(self) -> None:
        """Open the status page once it is served; where that fails, the screen says what to do."""
        await self._served.wait()
        if not await open_in_browser(status_page(self._address)):
            self._page = "no browser was found; open the status page by hand:"

    # --- the screen -------------------------------------------------------------------------------

    async def _show(self, cluster: EmbeddedCluster) -> None:
        with showing(self.console, view_of, DevLines(self.console).refresh) as show:
            while True:
                show(await self._shown(cluster))
                await anyio.sleep(LOOK_SECONDS)

    async def _shown(self, cluster: EmbeddedCluster) -> Shown:
        running = self._running
        head = [f"API server on {cluster.url}, {cluster.nodes} simulated nodes"]
        head.append(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
        if self.log is not None:
            head.append(f"logs go to {self.log}")
        if running is not None and running.address:
            head.append(f"reconcile top --manager http://{running.address}")
            head.append(f"{self._page} {status_page(running.address)}")
        state = {} if running is None else running.state()
        found = await self._objects(cluster)
        objects = [
            (kind, str(one.key), _conditions(one.to_dict()))
            for kind, snapshots in found.items()
            for one in snapshots[:_OBJECTS]
        ]
        keys = {(kind, str(one.key)) for kind, snapshots in found.items() for one in snapshots}
        return Shown(head, self.note, objects, state, keys, self.verbose)

    async def _objects(self, cluster: EmbeddedCluster) -> Mapping[str, Sequence[Snapshot]]:
        """The objects of each kind that the operator reconciles."""
        found: dict[str, Sequence[Snapshot]] = {}
        for controller in self.operator.manager.controllers:
            resource = kind_of(controller.kind).resource
            try:
                found[resource.kind] = await cluster.client.raw.snapshots(resource)
            except ApiError:  # its definition is not installed yet
                continue
        return found


def _conditions(body: dict[str, Any]) -> str:
    status = body.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    listed = conditions if isinstance(conditions, list) else ()  # a kind may mean something else by the word
    return ", ".join(f"{one.get('type')}={one.get('status')}" for one in listed if isinstance(one, dict))
