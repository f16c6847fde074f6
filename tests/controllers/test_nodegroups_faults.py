"""Node groups while requests go wrong and others write the same objects; and the incident, over seeds."""

import os
import random
from collections.abc import Iterator

import anyio
import pytest

from controllers.nodegroups import NodeAutoscaler, NodeGroupSettings, make_controller
from controllers.nodegroups.demo import incident as conflicts
from reconcile import Manager
from reconcile.simulation import Delays, IncidentVerdict, Logic, bundled_incidents
from reconcile.testing import (
    Cut,
    Drop,
    Expire,
    Fault,
    FaultPlan,
    FaultyTransport,
    LateTransport,
    LoseReply,
    Refuse,
    RefuseAsStale,
    When,
    simulate,
)
from tests.controllers.nodegroups import (
    API,
    MACHINES,
    OFFER,
    POOL,
    PRIORITIES,
    QUICK,
    SOON,
    autoscaler,
    definitions,
    group,
    groups_of,
    pod,
    say,
    size_of,
    wait_in_vain,
)
from tests.controllers.world import NAMESPACE, World, world
from tests.helpers.sweeps import sweep_runs

SEEDS = int(os.environ.get("SWEEP_SEEDS", "8"))
RUNS = sweep_runs(8)
WRITES = 12
"""The writes of a quiet scale-up and scale-down that the sweep spoils, one after the other."""
SPOILS = (RefuseAsStale(), LoseReply(), Drop(), Refuse(500, "InternalError", "no"), Refuse(429, "", "wait"))


def faults(chance: random.Random) -> Iterator[Fault]:
    """Some requests that go wrong, spread over the run."""
    for _ in range(10):
        yield Fault(When("write", nth=chance.randint(1, 25)), chance.choice(SPOILS))
    for _ in range(3):
        yield Fault(When("list", "*/machine*", nth=chance.randint(1, 30)), Refuse(500, "InternalError", "no"))
    for path in ("/api/v1/pods", "/api/v1/nodes", "*/nodeautoscalers"):
        yield Fault(
            When("watch", path), chance.choice((Cut(chance.randint(1, 9)), Expire(chance.randint(1, 9))))
        )


async def meddle(here: World, chance: random.Random) -> None:
    """Somebody else sizes the best group by one, up and down, by test and replace; and touches it."""
    for number in range(6):
        await anyio.sleep(chance.uniform(0.5, 8))
        best = (await groups_of(here.user))["best"]
        await here.user.scale(best.object, lambda size: min(6, max(0, size + chance.choice((-1, 1)))))
        said = {"metadata": {"annotations": {"somebody": str(number)}}}
        await here.user.raw.merge(best.object, said, guard={})


async def told(plan: FaultPlan, seed: int, *, meddling: bool) -> None:
    """Pods come, nodes come; pods go, nodes go: with every size within its bounds, and rest at the end."""
    chance = random.Random(seed)
    async with world(seed, *definitions(), delays=Delays()) as here:
        for name in ("best", "second"):
            await here.user.create(group(name, 0, ("0", "6"), **OFFER, **SOON))
        await say(here, PRIORITIES)
        await here.user.create(autoscaler(expanders=("priority",), scale_down=QUICK))
        recorded = FaultyTransport(here.transport, plan)
        ours = make_controller(NodeGroupSettings(API))
        async with (
            Manager(MACHINES.controller, transport=here.transport, clock=here.clock),
            Manager(ours, transport=LateTransport(recorded, seed), clock=here.clock),
        ):
            pods = [pod(f"p{number}", nodeSelector=POOL) for number in range(4)]
            for one in pods:
                await wait_in_vain(here.user, one)
            if meddling:
                await meddle(here, chance)
            await anyio.sleep(90)
            found = await here.user.get(NodeAutoscaler, "all", NAMESPACE)
            assert [one.name for one in found.status.groups if one.backoff_until] == [], seed
            sizes = [await size_of(here.user, name) for name in ("best", "second")]
            assert sizes[0] >= 4, (seed, sizes)
            assert sizes[1] == 0, (seed, sizes)
            for one in pods:
                await here.user.delete(await here.user.raw.unstructured(one), grace_seconds=0)
            await anyio.sleep(420)
            assert [await size_of(here.user, name) for name in ("best", "second")] == [0, 0], seed
            assert [one.name for one in (await groups_of(here.user))["best"].machines] == [], seed
            sent = len(recorded.writes)
            await anyio.sleep(60)
            assert recorded.writes[sent:] == [], seed
        for request in recorded.writes:
            if request.path.endswith("/scale") and isinstance(request.body, list):
                assert 0 <= request.body[-1]["value"]["replicas"] <= 6, (seed, request)


@pytest.mark.rule("node-groups-simulated", "capi-2d-lost-update")
def test_under_every_fault_the_best_group_gets_the_nodes_and_they_are_all_removed_again() -> None:
    for seed in range(SEEDS):
        plan = FaultPlan(tuple(faults(random.Random(seed))))
        simulate(lambda seed=seed, plan=plan: told(plan, seed, meddling=True), seed=seed)  # type: ignore[misc]
    print(f"\nnode groups: faults: {SEEDS} runs of 2000")


@pytest.mark.rule("node-groups-simulated")
def test_any_single_write_may_fail_in_any_way() -> None:
    every = [(nth, spoil) for nth in range(1, WRITES + 1) for spoil in SPOILS]
    chosen = random.Random(0).sample(every, min(len(every), RUNS or len(every)))
    for seed, (nth, spoil) in enumerate(chosen):
        plan = FaultPlan((Fault(When("write", nth=nth), spoil),))
        simulate(lambda seed=seed, plan=plan: told(plan, seed, meddling=False), seed=seed)  # type: ignore[misc]
    print(f"\nnode groups: single faults: {len(chosen)} runs of {len(every)}")


# The incident.


def played(seed: int, logic: Logic) -> IncidentVerdict:
    async def run() -> IncidentVerdict:
        async with world(seed, *definitions(published=seed == 0), delays=Delays()) as here:
            return await conflicts.play(here.stage, logic)

    return simulate(run, seed=seed)


@pytest.mark.rule("node-groups-incident")
@pytest.mark.parametrize("seed", range(2))
def test_the_best_group_is_reached_through_a_storm_of_conflicts(seed: int) -> None:
    verdict = played(seed, "ours")
    assert verdict.ok, verdict
    assert "0 groups backed off" in verdict.explanation


@pytest.mark.rule("node-groups-incident")
@pytest.mark.parametrize("seed", range(2))
def test_the_original_displaces_the_best_group(seed: int) -> None:
    verdict = played(seed, "original")
    assert not verdict.ok
    assert "0 groups backed off" not in verdict.explanation


@pytest.mark.rule("node-groups-incident")
def test_without_a_storm_the_incident_is_not_reproduced() -> None:
    async def run() -> IncidentVerdict:
        async with world(0, *definitions(), delays=Delays()) as here:
            calm = conflicts.ConflictScenario(refused=0, rewrites=0.5, rounds=1, conflicts=20)
            return await conflicts.play(here.stage, "ours", calm)

    verdict = simulate(run)
    assert not verdict.ok
    assert "fewer conflicts than the 20" in verdict.explanation


def test_the_incident_is_found_by_its_entry_point() -> None:
    assert bundled_incidents()["node-group-conflicts"].name == "node-group-conflicts"
