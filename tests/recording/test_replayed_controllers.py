"""Recorded runs of the bundled controllers replay identically; `RECORDED_RUNS=1000` plays the full number."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from reconcile.recording import read_recording
from reconcile.testing import CrashAfter, Fault, FaultPlan, LoseReply, Refuse, Scenario, When
from reconcile.testing.recorded_runs import ReplayReport, replay_recording
from tests.controllers import (
    test_autoscaling_simulated,
    test_fleets_simulated,
    test_nodegroups_simulated,
    test_workergroups_simulated,
)
from tests.recording.recorded_worlds import record
from tests.simulation.bundled_scenarios import registry_secrets

RUNS = int(os.environ.get("RECORDED_RUNS", "20"))
SYSTEMS: dict[str, Callable[[], Scenario]] = {
    "autoscaling": test_autoscaling_simulated.scenario,
    "fleets": lambda: test_fleets_simulated.scenario(1, 0),
    "nodegroups": test_nodegroups_simulated.scenario,
    "registrysecrets": registry_secrets,
    "workergroups": lambda: test_workergroups_simulated.RESTARTED,
}
TROUBLE = (
    Fault(When("write", nth=2), LoseReply()),
    Fault(When("write", nth=4), Refuse(503)),
    Fault(When("write", nth=7), CrashAfter()),
)

pytestmark = pytest.mark.timeout(60 if RUNS <= 20 else 3600)


def replayed(name: str, path: Path) -> ReplayReport:
    scenario = SYSTEMS[name]()
    return replay_recording(read_recording(path), scenario.make_controllers(scenario.make_outside()))


@pytest.fixture(scope="module")
def recordings() -> dict[str, list[Path]]:
    """Those that were replayed here, by controller."""
    return {}


@pytest.mark.rule("replay-identical")
@pytest.mark.parametrize("name", SYSTEMS)
def test_recorded_runs_of_a_bundled_controller_decide_the_same_when_replayed(
    name: str, tmp_path: Path, recordings: dict[str, list[Path]]
) -> None:
    runs, seed = 0, 0
    while runs < RUNS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        # Every other world has lost answers, refusals and a crash in it.
        plan = FaultPlan(() if seed % 2 else TROUBLE, seed=seed)
        for path in record(SYSTEMS[name](), folder, plan):
            report = replayed(name, path)
            assert not report.differing, "\n".join(report.lines())
            runs += report.same
            recordings.setdefault(name, []).append(path)
        seed += 1


IN_A_PROCESS = """
import json, sys
from pathlib import Path
from tests.recording.test_replayed_controllers import replayed
for name, paths in json.load(sys.stdin).items():
    reports = [replayed(name, Path(path)) for path in paths]
    print(name, sum(report.runs for report in reports), sum(report.same for report in reports))
"""


def replayed_elsewhere(recordings: Mapping[str, Sequence[Path]]) -> Mapping[str, tuple[int, int]]:
    """The runs of each controller that were replayed in another process, and those that decided the same."""
    env = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS],
        input=json.dumps(recordings, default=str), cwd=Path(__file__).parents[2],
        env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: (int(runs), int(same)) for name, runs, same in lines}


@pytest.mark.rule("replay-identical")
def test_another_process_with_another_hash_seed_decides_the_same(
    tmp_path: Path, recordings: dict[str, list[Path]]
) -> None:
    few = {*SYSTEMS} - {*recordings}  # where the tests above are not selected, or run elsewhere
    for name in few:
        (tmp_path / name).mkdir()
        recordings[name] = [*record(SYSTEMS[name](), tmp_path / name)]
    counts = replayed_elsewhere(recordings)
    assert counts.keys() == SYSTEMS.keys()
    assert all(runs == same for runs, same in counts.values()), counts
    assert all(runs >= (10 if name in few else RUNS) for name, (runs, _) in counts.items()), counts
