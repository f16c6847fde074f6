"""A replica that dies at any of its writes: others run again all that it had, and no invariant breaks.

The writes are those of a run without such deaths; up to the nth of them the run with one goes the same way.
"""

from collections.abc import Sequence
from functools import cache

import pytest

from reconcile.client.buckets import Buckets
from reconcile.sharding import Sharding
from reconcile.sharding.assignment import Assignment
from reconcile.sharding.member_lease import RECORD
from reconcile.sharding.ring import ASSIGNMENT
from reconcile.testing import (
    CrashAfter,
    CrashBefore,
    Fault,
    FaultPlan,
    Kill,
    ScenarioRun,
    Stop,
    Touch,
    Wait,
    When,
    World,
)
from reconcile.testing.manager_identity import identity_of
from reconcile.testing.recorded_requests import RecordedRequest
from reconcile.testing.run_records import Death
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.shard_invariants import assignments
from tests.helpers.sweeps import sweep_runs
from tests.manager.shard_schedules import TERMS, each_plot_has_its_beds
from tests.simulation.shared_plots import shared, sown
from tests.simulation.toys import Plot

BUCKETS = Buckets(4)
NEVER = 10_000.0
ANY_WRITE = When("write")
REPLICAS = (1, 2, 3)
"""The first leaves and comes back, the second is killed, the third only looks on."""
STORY = (Wait(1.0), Kill(2), Wait(8.0), sown(1), Stop(1, 5.0), Wait(6.0), sown(2), Touch("*/plots/*"))


async def taken_over(world: World) -> None:
    """What a replica had when it died was run again by another: it is not started again itself."""
    for process in world.processes:
        for death in process.deaths:
            for plot in world.objects(Plot):
                if owner_at(world, death.at, plot) == identity_of(death.process, death.life):
                    assert ran_again(world, plot, death), f"{plot.name} was not run after {death}"


def owner_at(world: World, time: float, plot: Plot) -> str:
    before = [assignment for at, assignment in assignments(world) if at <= time]
    latest = before[-1] if before else Assignment.empty(BUCKETS.count, 0)
    return latest.holdings[BUCKETS.of(plot.uid)].owner


def ran_again(world: World, plot: Plot, death: Death) -> bool:
    return any(
        run.request.name == plot.name
        and run.started > death.at
        and run.process != death.process
        and run.outcome == "success"
        for run in world.runs
    )


@cache
def runner() -> ScenarioRunner:
    """Replicas that die are not started again, so that others have to do their work."""
    told = shared(
        *STORY,
        taken_over,
        sharding=Sharding("plots", buckets=BUCKETS.count),
        lease_terms=TERMS,
        invariants=[each_plot_has_its_beds],
        quiet_seconds=8,
        restart_seconds=NEVER,
    )
    return ScenarioRunner(told, references=0)


@cache
def undisturbed() -> ScenarioRun:
    return runner().run(FaultPlan())


def writes_of(run: ScenarioRun, process: int) -> Sequence[RecordedRequest]:
    """What `When("write")` counts."""
    requests = run.world.processes[process - 1].transport.requests
    return [one for one in requests if ANY_WRITE.matches(one.verb, one.path)]


def writes_until_rest(process: int) -> Sequence[RecordedRequest]:
    """All of the run that are followed by a check of `taken_over`; afterwards there are renewals alone."""
    run = undisturbed()
    (rested,) = (act.at for act in run.world.acts if act.text == "step taken_over")
    return [write for write in writes_of(run, process) if write.at < rested]


def sort_of(write: RecordedRequest, process: int) -> str:
    """What a write is for."""
    if write.target.resource != "leases":
        return f"{write.verb} {write.target.resource}"
    if write.verb == "delete":
        return "delete own Lease" if f"-{process}." in write.target.name else "delete Lease of another"
    annotations = write.body["metadata"]["annotations"]
    if ASSIGNMENT in annotations:
        return f"{write.verb} assignment"
    said = [word for word in ("warm", "released", "draining") if f'"{word}"' in annotations[RECORD]]
    return f"{write.verb} own Lease: {' and '.join(said) or 'no bucket'}"


def test_the_run_without_deaths_has_every_sort_of_write() -> None:
    assert not undisturbed().failed, format_trace(undisturbed())
    assert {sort_of(write, process) for process in REPLICAS for write in writes_until_rest(process)} == {
        "create own Lease: no bucket",
        "update own Lease: no bucket",
        "update own Lease: warm",
        "update own Lease: released",
        "update own Lease: released and draining",
        "update own Lease: draining",
        "delete own Lease",
        "delete Lease of another",
        "create assignment",
        "update assignment",
        "patch configmaps",
        "patch plots",
    }


@pytest.mark.timeout(300)
@pytest.mark.rule("sim-one-owner", "sim-owned")
@pytest.mark.parametrize("fault", [CrashBefore(), CrashAfter()], ids=["before", "after"])
@pytest.mark.parametrize("process", REPLICAS)
def test_others_run_again_what_a_replica_had_that_died_at_a_write(
    process: int, fault: CrashBefore | CrashAfter
) -> None:
    """The suite plays each third write, SWEEP_RUNS=0 all of them."""
    writes = writes_until_rest(process)
    step = 1 if sweep_runs(3) is None else 3
    played = list(enumerate(writes, 1))[process % step :: step]
    for nth, write in played:
        when = When("write", nth=nth, process=process)
        run = runner().run(FaultPlan([Fault(when, fault)]))
        assert not run.failed, format_trace(run)
        died_at = writes_of(run, process)[nth - 1]
        assert (died_at.at, str(died_at)) == (write.at, str(write))
        crashes = [death for death in run.world.processes[process - 1].deaths if "crashed" in death.why]
        assert [death.at for death in crashes] == [write.at], "it died at this write, and is not back"
    print(f"\nreplica {process} dies {type(fault).__name__}: {len(played)} of {len(writes)} writes")
