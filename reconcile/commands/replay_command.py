"""`reconcile replay`: executes recorded runs again, with the same or with newer code."""

import datetime
import json
import math
from collections.abc import Sequence
from pathlib import Path

import click
from attrs import frozen

from reconcile.commands.completions import targets as completed_targets
from reconcile.commands.life_export import replace_file
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.targets import load_manager, targets_of
from reconcile.controller.entry_points import CONTROLLERS, entries
from reconcile.doctor.findings import printable
from reconcile.manager.manager import Manager
from reconcile.recording.recorded_events import Began, Ended, Header
from reconcile.recording.recording_reader import Recording, RecordingProblem, read_recording
from reconcile.testing.recorded_runs.replay_report import ReplayReport
from reconcile.testing.recorded_runs.run_replay import replay_recording
from reconcile.testing.sealed_loop import SimulationError

_AFTER = 60.0
"""Seconds after the beginning of a scenario that belong to it, unless --to says otherwise."""


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--controller",
    "names",
    metavar="TARGET",
    multiple=True,
    required=True,
    shell_complete=completed_targets,
    help="What to execute, as for `reconcile run`: a module, my_module:manager, or a bundled controller.",
)
@click.option("--from", "begins", metavar="TIME", help="Compare runs from then on: seconds, or ISO 8601.")
@click.option("--to", "ends", metavar="TIME", help="Compare runs that began until then.")
@click.option("--run", metavar="ID", help="Compare one run: its reconcile_id in the log.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--scenario",
    "module",
    metavar="FILE.py",
    help="Write a scenario that begins at --from or with --run, and execute nothing.",
)
def replay(
    file: Path,
    names: tuple[str, ...],
    begins: str | None,
    ends: str | None,
    run: str | None,
    as_json: bool,
    module: str | None,
) -> int:
    """Execute the runs that a manager recorded into FILE (`record=`); exit status 1 if one decides otherwise.

    All runs are executed, in this process and on virtual time; nothing is sent anywhere. Each one gets what
    it got then. Listed are the runs that send other requests or end otherwise: with the same code there
    are none.
    """
    if module is not None and not module.endswith(".py"):
        raise Problem(f"--scenario: {module!r} is not the name of a module", "give a name that ends with .py")
    if module is not None and as_json:
        raise Problem("--scenario executes nothing that --json could report", "leave one of them out")
    targets = [resolved for name in names for resolved in targets_of(name)]
    manager = load_manager(targets)
    try:
        recording = read_recording(file)
        window = _window(recording, begins, ends, run)
        if module is not None:
            return _write_scenario(recording, window, targets, module)
        with progress(f"replaying {file}"):
            report = _replayed(recording, manager, window)
    except RecordingProblem as error:
        raise Problem(str(error)) from None
    if not report.runs:
        raise Problem(*_why_none(recording, report, window))
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        for line in report.lines():
            click.echo(printable(line))
    return 0 if report.identical else 1


@frozen
class _Window:
    """The runs that are meant, by seconds of the recording, or one by its id."""

    begins: float
    ends: float
    run: str
    namespace: str = ""
    cluster: str = ""

    @property
    def is_all(self) -> bool:
        """Whether all runs are meant."""
        return self.begins == 0 and self.ends == math.inf and not self.run

    def has(self, at: float, run: str) -> bool:
        return self.begins <= at <= self.ends and self.run in ("", run)


def _window(recording: Recording, begins: str | None, ends: str | None, run: str | None) -> _Window:
    start = 0.0 if begins is None else _seconds("--from", begins, recording.header)
    end = math.inf if ends is None else _seconds("--to", ends, recording.header)
    if start > end:
        raise Problem("--from is later than --to", "give an earlier one")
    if run is None:
        return _Window(start, end, "")
    known: dict[int, Began] = {}
    for event in recording.events():
        if isinstance(event, Began):
            known[event.run] = event
            continue
        began = known.pop(event.run, None) if isinstance(event, Ended) else None
        if began is not None and isinstance(event, Ended) and event.reconcile_id == run:
            return _Window(began.at / 1e6, end, run, began.namespace, began.cluster)
    raise Problem(f"the recording has no run {printable(run)}", "take the reconcile_id of a line of the log")


def _seconds(option: str, text: str, header: Header) -> float:
    """A time as seconds of a recording. Raises Problem."""
    try:
        seconds = float(text)
    except ValueError:
        return _seconds_until(option, text, header)
    if not 0 <= seconds < math.inf:
        raise Problem(f"{option}: {text!r} is not a number of seconds", "give one from 0 on")
    return seconds


def _seconds_until(option: str, text: str, header: Header) -> float:
    """A point in time as seconds of a recording; 0 for one before it. Raises Problem."""
    try:
        began = datetime.datetime.fromisoformat(header.began)
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Problem(
            f"{option}: {text!r} is not a time", "give seconds, or 2026-11-23T17:40:00+00:00"
        ) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=datetime.UTC)
    return max(0.0, (at - began).total_seconds())


def _replayed(recording: Recording, manager: Manager, window: _Window) -> ReplayReport:
    try:
        return replay_recording(
            recording, manager.controllers, chosen=window.has, informers=manager.options["informers"]
        )
    except SimulationError as error:
        raise Problem(
            f"the code cannot be replayed: {error}", "give a controller that reaches nothing outside"
        ) from None


def _why_none(recording: Recording, report: ReplayReport, window: _Window) -> tuple[str, str]:
    if report.unknown_controllers:
        recorded = ", ".join(sorted(map(printable, report.unknown_controllers)))
        return f"the recording has runs of {recorded}, and none of the given controllers", "name that one"
    if window.is_all:
        return (
            "the recording has no run that has ended",
            "record until the operator has worked, or copy all of it",
        )
    began = printable(recording.header.began)
    return "no run of the recording is within --from and --to", f"give other times: it began at {began}"


def _write_scenario(recording: Recording, window: _Window, targets: Sequence[str], module: str) -> int:
    # Here, since a scenario needs the embedded server, which replay does not.
    from reconcile.testing.recorded_runs.incident_cut import TooLarge, cut
    from reconcile.testing.recorded_runs.scenario_file import scenario_text

    begins, ends = window.begins, min(window.ends, window.begins + _AFTER)
    try:
        found = cut(recording.events(), begins, ends, cluster=window.cluster, namespace=window.namespace)
    except TooLarge as error:
        raise Problem(str(error), "choose a moment with --run, and an earlier --to") from None
    at = f"{begins:.3f} to {ends:.3f} s after {recording.header.began}"
    places = [_place_of(target) for target in targets]
    replace_file(Path(module), scenario_text(found, places, recording.files[-1].name, at))
    click.echo(module)
    return 0


def _place_of(target: str) -> str:
    """Module and name of a target; a bundled controller is looked up."""
    bundled = {entry.name: entry.value for entry in entries(CONTROLLERS)}
    return bundled.get(target, target)
