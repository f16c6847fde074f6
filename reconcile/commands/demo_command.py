"""`reconcile demo`: real incidents, with the original's logic and with ours, then a cluster to try."""

import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import click
import msgspec
import yaml
from attrs import define, field
from rich.console import Console

from reconcile.commands.demo_screen import keep_showing
from reconcile.commands.embedded_cluster import EmbeddedCluster, embedded_cluster
from reconcile.commands.incident_play import IncidentPlay, play_all
from reconcile.commands.problems import Problem, writing_files
from reconcile.commands.targets import bundled_controllers
from reconcile.controller.entry_points import CONTROLLERS, entries, sample_of
from reconcile.manager.installed_definitions import install_missing
from reconcile.manager.manager import Manager
from reconcile.manager.signals import INTERRUPTED, on_signal
from reconcile.ops.log_setup import configure_logging
from reconcile.runs.supervision import without_groups
from reconcile.simulation import Incident, bundled_incidents

_TRY = re.compile(r"^# try (\d+): (.+)$", re.MULTILINE)
_STOP_SECONDS = 1.0
_NODES = 3


@click.command()
@click.option(
    "--once", is_flag=True, help="Exit after the incidents, with status 0 only if all of them hold."
)
@click.option(
    "--json", "report", metavar="FILE", type=click.Path(path_type=Path), help="Write the counts as JSON."
)
@click.option("--only", metavar="NAME", multiple=True, help="Play only this incident; may be repeated.")
@click.option(
    "--sabotage",
    metavar="NAME",
    help="Play this incident twice with the original's logic, so that it fails. Implies --once.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free one."
)
@click.pass_context
def demo(
    ctx: click.Context,
    once: bool,
    report: Path | None,
    only: tuple[str, ...],
    sabotage: str | None,
    port: int,
) -> None:
    """Play incidents that really happened, with the original's logic and with ours.

    Everything happens on an API server in this process, with a kubeconfig of its own; yours is
    neither read nor written. Afterwards the server stays up, with the bundled controllers, until
    Ctrl-C.
    """
    incidents = _chosen(only)
    if sabotage is not None and sabotage not in incidents:
        raise _unknown(sabotage, incidents)
    if report is not None:
        _check_writable(report)
    manager = Manager(*bundled_controllers(), stop_seconds=_STOP_SECONDS)
    folder = Path(tempfile.mkdtemp(prefix="reconcile-demo-"))
    log = folder / "demo.log"
    status = 1
    try:
        with log.open("w") as stream:
            configure_logging(stream, format="text")
            work = Demo(incidents, manager, folder, once or sabotage is not None, report, sabotage)
            status = anyio.run(work.run, port)
    finally:
        _tidy(folder, keep_log=status == 1)
    ctx.exit(status)


def _chosen(only: Sequence[str]) -> Mapping[str, Incident]:
    try:
        incidents = bundled_incidents()
    except Exception as error:
        raise Problem("the incidents cannot be imported", f"{type(error).__name__}: {error}") from error
    for name in only:
        if name not in incidents:
            raise _unknown(name, incidents)
    return {name: incident for name, incident in incidents.items() if not only or name in only}


def _unknown(name: str, incidents: Mapping[str, Incident]) -> Problem:
    return Problem(f"there is no incident {name}", f"the incidents are {', '.join(incidents) or 'none'}")


def _check_writable(path: Path) -> None:
    """Raise Problem now, not after the incidents, if the report cannot be written."""
    existed = path.exists()
    with writing_files(path):
        path.open("a").close()
    if not existed:
        path.unlink()


def _tidy(folder: Path, *, keep_log: bool) -> None:
    """Remove the folder; with `keep_log` leave the log in it, unless that is empty."""
    log = folder / "demo.log"
    if keep_log and log.exists() and log.stat().st_size > 0:
        (folder / "kubeconfig").unlink(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


@define
class Demo:
    incidents: Mapping[str, Incident]
    manager: Manager
    folder: Path
    once: bool
    report: Path | None
    sabotage: str | None
    _console: Console = field(factory=lambda: Console(highlight=False))

    async def run(self, port: int) -> int:
        plays = [IncidentPlay(one, one.name == self.sabotage) for one in self.incidents.values()]
        with without_groups(), anyio.CancelScope() as scope, on_signal(scope.cancel):
            kubeconfig = self.folder / "kubeconfig"
            async with embedded_cluster(kubeconfig, port=port, nodes=_NODES) as cluster:
                await self._set_up(cluster)
                await self._play(plays, cluster)
                self._report(plays)
                if not self.once:
                    await self._stay(cluster)
        held = all(play.holds for play in plays if play.finished)
        if scope.cancelled_caught:
            self._say("\nstopped")
            if self.once:
                return INTERRUPTED
        return 0 if held else 1

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, markup=False)

    async def _set_up(self, cluster: EmbeddedCluster) -> None:
        self._say(f"API server on {cluster.url}, {cluster.nodes} simulated nodes")
        kinds = [kind for controller in self.manager.controllers for kind in controller.kinds]
        installed = await install_missing(cluster.client, kinds)
        if installed:
            self._say(f"installed {', '.join(resource.name for resource in installed)}")
        self._say(f"logs go to {self.folder / 'demo.log'}")

    async def _play(self, plays: Sequence[IncidentPlay], cluster: EmbeddedCluster) -> None:
        if not plays:
            raise Problem("no incident is installed", "pip install --force-reinstall reconcile-runtime")
        number = "1 incident" if len(plays) == 1 else f"{len(plays)} incidents"
        self._say(f"playing {number}, first on the original's logic and then on ours")
        self._say("")
        async with anyio.create_task_group() as group:
            group.start_soon(keep_showing, self._console, plays)
            await play_all(plays, cluster)
            group.cancel_scope.cancel()
        for play in plays:
            for note in play.notes:
                self._say(f"note: {note}")

    def _report(self, plays: Sequence[IncidentPlay]) -> None:
        if self.report is not None:
            text = msgspec.json.encode({"incidents": [play.to_json() for play in plays]})
            with writing_files(self.report):
                self.report.write_bytes(msgspec.json.format(text) + b"\n")
        failed = [
            f"{play.incident.name} (sabotaged)" if play.sabotaged else play.incident.name
            for play in plays
            if not play.holds
        ]
        if failed:
            self._say(f"did not hold: {', '.join(failed)}; see {self.folder / 'demo.log'}")
        else:
            self._say(f"all {len(plays)} incidents hold" if len(plays) > 1 else "the incident holds")

    async def _stay(self, cluster: EmbeddedCluster) -> None:
        samples = [sample for entry in entries(CONTROLLERS) if (sample := sample_of(entry))]
        manager = self.manager.on(cluster.transport())
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            client = cluster.client
            for manifest in yaml.safe_load_all("\n---\n".join(samples)):
                await client.create(await client.raw.unstructured(manifest))
            names = ", ".join(controller.name for controller in self.manager.controllers)
            self._say(f"\n{names} keep running until Ctrl-C. In another terminal:\n")
            export = f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}"
            for command in (export, *commands_in(samples)):
                self._say(f"  {command}")
            self._say("")


def commands_in(samples: Sequence[str]) -> Sequence[str]:
    """The commands in the comments of the samples, `# try 1: kubectl get pods`, by their numbers."""
    proposed = [(int(number), command) for sample in samples for number, command in _TRY.findall(sample)]
    return [command for _, command in sorted(proposed)]
