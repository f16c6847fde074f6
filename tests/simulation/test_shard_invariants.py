"""Replicas that share objects hold what the kit checks; each way to break the protocol is found by it."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from itertools import permutations
from typing import Any

import anyio
import pytest
from attrs import evolve

from reconcile import Context
from reconcile.client.certainty import LedTransport
from reconcile.client.guarded_writes import HeldTransport, NotLeading
from reconcile.controller.runner import Runner
from reconcile.manager.sharded_work import ShardedWork
from reconcile.sharding import coordinator
from reconcile.sharding.assignment import Assignment, MemberRecord, Orders
from reconcile.sharding.planning import plan
from reconcile.testing import (
    Broken,
    CutOff,
    Fault,
    FaultPlan,
    Freeze,
    Hold,
    Kill,
    Pause,
    Scenario,
    ScenarioAct,
    SlowReply,
    Stop,
    Wait,
    When,
    replay,
)
from reconcile.testing.end_state import end_state_of
from reconcile.testing.shard_invariants import one_owner
from tests.manager.shard_schedules import play
from tests.simulation import toys
from tests.simulation.shared_plots import STORY, keep_slowly, shared, sown
from tests.simulation.toys import Plot

ROLLOUT = (Stop(1, 3.0), Wait(8.0), sown(1), sown(2), Stop(2, 3.0), Wait(8.0), sown(3))

HAPPENINGS: Mapping[str, tuple[ScenarioAct, ...]] = {
    "nothing": STORY,
    "death": (Kill(1), sown(1), Kill(2), Wait(1.0), sown(2)),
    "short-freeze": (Freeze(1, 2.0), Wait(0.5), sown(1), sown(2), sown(3)),
    "long-freeze": (Freeze(1, 20.0), Wait(0.5), sown(1), sown(2), sown(3)),
    "short-cut": (CutOff(1, 2.0), Wait(0.5), sown(1), sown(2), sown(3)),
    "long-cut": (CutOff(1, 20.0), Wait(0.5), sown(1), sown(2), sown(3)),
    "rollout": ROLLOUT,
    "all-at-once": (Stop(1, 1.0), Kill(2), Freeze(3, 9.0), Wait(3.0), sown(1), sown(2)),
}


@pytest.mark.rule("sim-one-owner", "sim-owned")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("happening", HAPPENINGS)
def test_whatever_happens_to_replicas_each_object_has_one_owner(happening: str, seed: int) -> None:
    replay(shared(*HAPPENINGS[happening], beside=True), FaultPlan(seed=seed))


@pytest.mark.rule("sim-one-owner")
@pytest.mark.parametrize("fault", [Pause(20.0), SlowReply(8.0)])
def test_a_write_that_was_on_its_way_for_long_is_no_write_of_a_former_owner(fault: Pause | SlowReply) -> None:
    plan = FaultPlan([Fault(When("patch", "*/configmaps/*", nth=2), fault)])
    run = replay(shared(*STORY, reconcile=keep_slowly), plan)
    assert any(process.transport.applied for process in run.world.processes)
    assert any(process.deaths for process in run.world.processes) == isinstance(fault, Pause)


@pytest.mark.rule("sim-one-owner")
def test_a_write_in_the_epoch_of_another_owner_is_reported() -> None:
    world = replay(shared(), FaultPlan()).world
    assert not list(one_owner(world))
    pairs = permutations(world.processes, 2)
    written, other = next(
        (write, two) for one, two in pairs for write in one.transport.writes if write.tenure is not None
    )
    other.transport.requests.append(written)
    (fault,) = one_owner(world)
    assert f"{written.summary} at {written.at:.3f} s by manager {other.number}, in epoch" in fault


@pytest.mark.rule("sim-one-owner", "sim-owned")
@pytest.mark.parametrize("number", [9340, 52314], ids=["lease deleted before a freeze", "three slow lists"])
def test_what_only_looks_like_a_fault_is_not_reported(number: int) -> None:
    run = play(number)
    assert not run.failed, run.violations


@pytest.mark.rule("sim-one-owner")
def test_a_replica_that_starts_after_a_lease_was_deleted_by_hand_takes_nothing_from_its_member() -> None:
    run = play(8248)
    assert not run.failed, run.violations


def test_the_only_replica_begins_at_once_after_it_was_stopped() -> None:
    world = replay(shared(Stop(1, 3.0), replicas=1), FaultPlan()).world
    leases = [one for one in world.changes if one.change.key.name == "plots-manager-1.2"]
    assert min(run.started for run in world.runs if run.life == 2) < leases[0].at + 1.0


@pytest.mark.rule("sim-end-state")
def test_the_bucket_of_an_object_is_no_part_of_an_end_state() -> None:
    first, second = (end_state_of(replay(shared(), FaultPlan(seed=seed)).world) for seed in (0, 1))
    assert first.objects == second.objects


# --- each part of the protocol, left out ----------------------------------------------------------


def broken_rules(told: Scenario, seeds: int = 5, faults: Sequence[Fault] = ()) -> frozenset[str]:
    """The invariants that do not hold under the first seed that breaks one."""
    for seed in range(seeds):
        try:
            replay(told, FaultPlan(faults, seed=seed))
        except Broken as broken:
            return broken.rules
    return frozenset()


async def writes_on(ctx: Context[Plot]) -> None:
    """Has a task of its own write long after its run has ended."""

    async def write() -> None:
        with contextlib.suppress(NotLeading):
            for _ in range(40):
                await anyio.sleep(0.5)
                await ctx.client.apply(toys.bed(ctx.object, 0))

    await ctx.apply(toys.bed(ctx.object, 0))
    tasks.append(asyncio.create_task(write()))


tasks: list[asyncio.Task[None]] = []
ALONE = ("converges", "stays", "extra-run", "end-state", "creates", "deletes", "owned", "requests")


@pytest.mark.rule("sim-one-owner")
@pytest.mark.parametrize("guarded", [True, False])
def test_writes_in_a_bucket_that_was_handed_over_are_reported(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not guarded:
        monkeypatch.setattr(HeldTransport, "request", lambda self, request: self._inner.request(request))
    found = broken_rules(shared(*ROLLOUT, reconcile=writes_on, without=ALONE), 3)
    assert found == (frozenset() if guarded else {"one-owner"})


@pytest.mark.rule("sim-one-owner")
def test_a_bucket_that_is_given_away_before_its_owner_released_it_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(assignment: Assignment, members: Mapping[str, MemberRecord], orders: Orders) -> Assignment:
        planned = plan(assignment, members, orders)
        holdings = (
            evolve(one, owner=one.next_owner, next_owner="", epoch=one.epoch + 1) if one.next_owner else one
            for one in planned.holdings
        )
        return evolve(planned, holdings=tuple(holdings))

    monkeypatch.setattr(coordinator, "plan", hasty)
    assert "one-owner" in broken_rules(shared(*ROLLOUT, reconcile=keep_slowly, lag=(0.005, 3.0)))


@pytest.mark.rule("sim-one-owner")
def test_a_member_that_does_not_wait_for_its_runs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def release(self: Any, buckets: Any) -> None:
        return None

    async def outlast_hand_overs(ctx: Context[Plot]) -> None:
        await anyio.sleep(3.0)
        await toys.keep(ctx)

    monkeypatch.setattr(Runner, "release", release)
    monkeypatch.setattr(Runner, "cancel_runs", lambda self, buckets: None)
    assert "one-owner" in broken_rules(shared(*ROLLOUT, reconcile=outlast_hand_overs))


@pytest.mark.rule("sim-one-owner")
@pytest.mark.parametrize("guarded", [True, False])
def test_writes_of_a_member_that_stood_still_past_its_lease_are_reported(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not guarded:
        monkeypatch.setattr(LedTransport, "request", lambda self, request: self._inner.request(request))
    freezes = (Wait(3.0), sown(1), Wait(0.2), sown(3), Wait(0.3), Freeze(1, 12.0), Wait(0.0), Freeze(2, 12.0))
    found = broken_rules(shared(*freezes, reconcile=writes_on, without=ALONE), 3)
    assert found == (frozenset() if guarded else {"one-owner"})


SOWING = (sown(1), Wait(0.05), sown(2), Wait(0.05), sown(3), Wait(0.1))
SOWN_BEFORE_EACH_LEAVES = tuple(
    act for process in (1, 2, 3) for act in (Wait(4.0), *SOWING, Stop(process, 3.0), Wait(4.0))
)
SLOW_WATCHES = (Fault(When("watch", "*/plots*", times=None), Hold(0, 50, 3.0)),)


@pytest.mark.rule("sim-caught-up")
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_bucket_held_before_the_caches_have_what_was_written_there_is_reported(
    waits: bool, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a kind that each replica follows whole, as a controller beside it needs all objects."""

    async def catch_up(self: ShardedWork, buckets: Collection[int], reached: Any) -> None:
        await self.labelled.wait()

    if not waits:
        monkeypatch.setattr(ShardedWork, "catch_up", catch_up)
    told = shared(*SOWN_BEFORE_EACH_LEAVES, reconcile=keep_slowly, beside=whole)
    assert broken_rules(told, 8, SLOW_WATCHES) == (frozenset() if waits else {"caught-up"})


@pytest.mark.rule("sim-owned")
def test_objects_that_a_new_owner_never_runs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "gain", lambda self, buckets, **_: None)
    assert "owned" in broken_rules(shared(Stop(1, 3.0)), 1)


@pytest.mark.rule("sim-owned")
def test_buckets_that_stay_with_a_dead_member_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.sharding.ring.Ring.overdue", lambda self: [])
    assert "owned" in broken_rules(shared(Kill(1)), 1)
