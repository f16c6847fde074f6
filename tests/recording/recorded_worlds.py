"""Scenarios that are recorded as they are played: each life of a manager has a recording of its own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from reconcile.controller.declaration import Controller
from reconcile.manager.manager import Manager
from reconcile.recording import read_recording
from reconcile.testing import FaultPlan, Scenario, manager_process
from reconcile.testing.recorded_runs import ReplayReport, replay_recording
from reconcile.testing.scenario_runner import ScenarioRunner

CALM = FaultPlan()
Make = Callable[[], Sequence[Controller[Any]]]


@contextmanager
def recording_to(folder: Path) -> Iterator[None]:
    """While inside, managers of scenarios record to files in a folder, numbered by their starts."""
    made, starts = manager_process._RecordedManager, iter(range(1, 1_000))

    def recorded(record: Any, *controllers: Controller[Any], **options: Any) -> Manager:
        path = folder / f"{next(starts):03}.rec"
        return made(record, *controllers, **options, record=str(path))

    with mock.patch.object(manager_process, "_RecordedManager", recorded):
        yield


def record(scenario: Scenario, folder: Path, plan: FaultPlan = CALM) -> Sequence[Path]:
    """Play a scenario under a plan; the recordings of its managers."""
    with recording_to(folder):
        ScenarioRunner(scenario).run(plan)
    return sorted(folder.glob("*.rec"))


def replay_all(paths: Sequence[Path], make: Make) -> Sequence[ReplayReport]:
    return [replay_recording(read_recording(path), make()) for path in paths]
