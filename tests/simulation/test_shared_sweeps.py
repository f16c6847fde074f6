"""Replicas that share objects, swept and fuzzed: some of it here, all in `make sweep`."""

import pytest
from attrs import evolve

from reconcile.sharding import Sharding
from reconcile.testing import (
    Apply,
    Delete,
    FaultPlan,
    Freeze,
    Kill,
    Scenario,
    Stop,
    Wait,
    fuzz,
    replay,
    sweep,
)
from tests.helpers.sweeps import sweep_runs
from tests.simulation.bundled_scenarios import DEMO, cluster, worker_groups
from tests.simulation.shared_plots import TERMS, shared

RUNS = sweep_runs(6)

pytestmark = pytest.mark.timeout(120 if RUNS else 7200)


def shared_groups() -> Scenario:
    """The bundled controller of worker groups on three replicas."""
    return evolve(worker_groups(), replicas=3, sharding=Sharding("groups", buckets=8), lease_terms=TERMS)


@pytest.mark.rule("sim-one-owner", "sim-sweep")
@pytest.mark.parametrize("name", ["plots", "worker-groups"])
def test_replicas_that_share_objects_pass_their_simulated_sweep(name: str) -> None:
    report = sweep(shared(beside=True) if name == "plots" else shared_groups(), most=RUNS)
    print(f"\nshared {name}: sweep: {report}")
    assert report.runs == min(report.in_full or 0, RUNS or 10**9)


@pytest.mark.rule("sim-one-owner", "sim-fuzz")
def test_replicas_that_share_objects_pass_random_acts_and_faults() -> None:
    assert fuzz(shared(beside=True, objects=()), seconds=60, most=RUNS or 15).runs > 0


@pytest.mark.rule("sim-one-owner")
@pytest.mark.parametrize("seed", range(2))
def test_worker_groups_move_between_replicas_at_every_change_of_theirs(seed: int) -> None:
    acts = [
        Apply(cluster()),
        Stop(1, 3.0),
        Apply(cluster(3)),
        Kill(2),
        Wait(0.5),
        Apply(cluster(1)),
        Freeze(3, 9.0),
        Wait(1.0),
        Delete(DEMO),
    ]
    replay(shared_groups(), FaultPlan(acts=acts, seed=seed))
