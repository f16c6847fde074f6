"""The library's own controllers under their sweeps and many seeds: some of them here, all in `make sweep`."""

import os

import pytest

from reconcile.testing import FaultPlan, Scenario, ScenarioReport, replay, seeds, sweep
from tests.helpers.sweeps import sweep_runs
from tests.simulation.bundled_scenarios import BUNDLED, REAL_CRD, real_definition, worker_groups

SEEDS = int(os.environ.get("SWEEP_SEEDS", "4"))
RUNS = sweep_runs(15)

pytestmark = pytest.mark.timeout(60 if RUNS else 3600)


def told(name: str, what: str, report: ScenarioReport, in_full: str = "") -> None:
    print(f"\n{name}: {what}: {report}{in_full}")


@pytest.mark.rule("sim-library")
@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_controller_passes_its_sweep(name: str) -> None:
    report = sweep(BUNDLED[name](), most=RUNS)
    told(name, "sweep", report)
    assert report.runs == min(report.in_full or 0, RUNS or 10**9)


@pytest.mark.rule("sim-library")
@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_controller_passes_many_seeds(name: str) -> None:
    told(name, "seeds", seeds(BUNDLED[name](), SEEDS), " of 2000")


@pytest.mark.skipif(not REAL_CRD.exists(), reason="needs KubeRay's definition")
def test_worker_groups_pass_on_the_real_definition_too() -> None:
    replay(worker_groups(definition=real_definition()), FaultPlan())


def test_the_bundled_scenarios_create_the_objects_that_their_invariants_check() -> None:
    scenario: Scenario = BUNDLED["worker-groups"]()
    run = replay(scenario, FaultPlan())
    made = [one for one in run.world.changes if one.change.resource[1] == "pods" and one.change.old is None]
    assert len(made) == 1 + 3
    run = replay(BUNDLED["registry-secrets"](), FaultPlan())
    assert len([one for one in run.world.changes if one.change.key.name == "kubero-pull-secret"]) >= 6
