"""Recorded runs of the bundled controllers replay identically; `RECORDED_RUNS=1000` plays the full number."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reconcile.recording import read_recording
from reconcile.testing import CrashAfter, Fault, FaultPlan, LoseReply, Refuse, Scenario, When
from reconcile.testing.recorded_runs import replay_recording
from tests.controllers import (
    test_autoscaling_simulated,
    test_fleets_simulated,
    test_nodegroups_simulated,
    test_workergroups_simulated,
)
from tests.recording.recorded_worlds import record
from tests.simulation.bundled_scenarios import registry_secrets

RUNS = int(os.environ.get("RECORDED_RUNS", "30"))
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

pytestmark = pytest.mark.timeout(60 if RUNS <= 30 else 3600)


@pytest.mark.rule("replay-identical")
@pytest.mark.parametrize("name", SYSTEMS)
def test_recorded_runs_of_a_bundled_controller_decide_the_same_when_replayed(
    name: str, tmp_path: Path
) -> None:
    scenario, runs, seed = SYSTEMS[name](), 0, 0
    while runs < RUNS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        # Every other world has lost answers, refusals and a crash in it.
        plan = FaultPlan(TROUBLE if seed % 2 else (), seed=seed)
        for path in record(scenario, folder, plan):
            report = replay_recording(
                read_recording(path), scenario.make_controllers(scenario.make_outside())
            )
            assert not report.differing, "\n".join(report.lines())
            runs += report.same
        seed += 1


IN_A_PROCESS = """
import sys
from pathlib import Path
from reconcile.recording import read_recording
from reconcile.testing.recorded_runs import replay_recording
from tests.recording.test_replayed_controllers import SYSTEMS
scenario = SYSTEMS[sys.argv[1]]()
for path in sys.argv[2:]:
    report = replay_recording(read_recording(Path(path)), scenario.make_controllers())
    print(report.runs, report.same)
"""


@pytest.mark.rule("replay-identical")
@pytest.mark.parametrize("name", ["registrysecrets"] if RUNS <= 30 else SYSTEMS)
def test_another_process_with_another_hash_seed_decides_the_same(name: str, tmp_path: Path) -> None:
    paths = record(SYSTEMS[name](), tmp_path)
    env = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, name, *map(str, paths)],
        env=env, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    counts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sum(runs for runs, _ in counts) >= 20
    assert all(runs == same for runs, same in counts), counts
