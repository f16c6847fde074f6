"""Storms and busy controllers from seeds, as scenarios: storms are loops, busy controllers are not."""

import os
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, Intent, ObjectMeta, Request, Storms, Watch, kind_of
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import Apply, Delete, Fault, FaultPlan, Scenario, Stall, Wait, When, replay
from reconcile.testing import World as SimulatedWorld
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from tests.helpers.managers import Toy, ToySpec
from tests.manager import healthy_world
from tests.manager.healthy_world import Healthy, Rollout
from tests.simulation.toys import PLOT, Plot, keep, scenario
from tests.storms.storms_world import Case, Operator, value_at

STORMS, HEALTHY, CHILDREN = 200, 200, 60
IN_FULL = bool(os.environ.get("STORMS_IN_FULL"))
STORMS_RUN, HEALTHY_RUN = (STORMS, HEALTHY) if IN_FULL else (20, 4)
UNGUARDED = Storms(detect=False)
WRITES = [Toy, ConfigMap, Secret]


def stranger(case: Case, storms: Storms) -> Controller[Any]:
    """The other writer as a controller: it answers each change of the field with another value."""
    resource = kind_of(case.kind).resource
    theirs = [f"t{number}" for number in range(max(1, case.values))]
    turns = iter(range(1, 1_000_000))

    async def answer(ctx: Context[Toy]) -> None:
        await anyio.sleep(min(case.answer, 1.0))
        found = await ctx.client.raw.snapshot(resource, case.key, live=True)
        mine = [value_at(case.patch(value), case.path) for value in theirs]
        if found is not None and value_at(found.to_dict(), case.path) not in mine:
            value = theirs[next(turns) % len(theirs)]
            part = "status" if case.target == "status" else ""
            await ctx.client.raw.patch(resource, case.key, case.patch(value), guard={}, subresource=part)

    watches = [] if case.kind is Toy else [Watch(case.kind, to=lambda _: [Request("default", "a")])]
    return Controller(
        Toy,
        answer,
        name="stranger",
        watches=watches,
        writes=WRITES,
        wakes=lambda old, new: True,
        storms=storms,
    )


def storm(case: Case, storms: Storms) -> Scenario:
    def make() -> Sequence[Controller[Any]]:
        owned = [] if case.kind is Toy else [case.kind]
        more: dict[str, Any] = {"wakes": lambda old, new: True} if case.target == "status" else {}
        operator = Operator(case)
        mine = Controller(Toy, operator, owns=owned, writes=WRITES, name="toys", storms=storms, **more)
        return [mine, stranger(case, storms)] if case.writers == 2 else [mine]

    return Scenario(controllers=make, kinds=[ConfigMap, Secret], steps=[Apply(Toy(metadata=ObjectMeta("a")))])


def busy(case: Healthy) -> Scenario:
    """A rollout of many children, which users, nodes and rotations disturb for two minutes."""

    async def disturb(world: SimulatedWorld) -> None:
        with anyio.move_on_after(120):
            async with anyio.create_task_group() as group:
                for act in (healthy_world._nodes, healthy_world._scale, healthy_world._rotate):
                    group.start_soon(act, case, world.user, world)

    def make() -> Controller[Toy]:
        watch = Watch(Secret, by=lambda toy: "source")
        rollout = Rollout(case)
        return Controller(
            Toy, rollout, owns=[ConfigMap, Secret], watches=[watch], resync=case.resync, every=case.every
        )

    toy = Toy(metadata=ObjectMeta("a"), spec=ToySpec(size=case.size))
    return Scenario(controllers=make, kinds=[Secret], steps=[Apply(toy), disturb])


def played(told: Scenario, seed: int) -> ScenarioRun:
    return ScenarioRunner(told, references=0).run(FaultPlan(seed=seed))


@pytest.mark.rule("sim-livelock")
def test_storms_are_told_as_loops_by_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [Case.drawn(seed) for seed in range(STORMS_RUN)]
    untold = []
    for case in cases:
        run = played(storm(case, Storms()), case.seed)
        livelock = run.world.livelock
        if livelock is None or not livelock.ends_run or "The l" not in format_trace(run):
            untold.append(case)
    assert untold == []
    with capsys.disabled():
        print(f" [{STORMS_RUN} seeds run, {STORMS} in full]", end="")


@pytest.mark.rule("sim-livelock")
def test_storms_that_no_guard_slows_are_proven_from_their_states() -> None:
    # A request that changes nothing makes no loop in the world.
    cases = [case for case in map(Case.drawn, range(STORMS_RUN)) if case.target != "useless"]
    for case in cases:
        found = played(storm(case, UNGUARDED), case.seed).world.livelock
        assert found is not None, case
        assert found.proven if case.values else found.endless, case


@pytest.mark.rule("sim-livelock")
def test_busy_controllers_are_not_told_as_loops(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(HEALTHY_RUN):
        run = played(busy(Healthy.drawn(seed, CHILDREN)), seed)
        assert run.world.livelock is None, f"seed {seed}: {run.world.livelock}"
        assert len(run.world.runs) > 10
    with capsys.disabled():
        print(f" [{HEALTHY_RUN} seeds run, {HEALTHY} in full]", end="")


def behind(lines: int) -> FaultPlan:
    """After so many lines of its watch the cache shows the plot for a minute, whatever becomes of it."""
    return FaultPlan([Fault(When("watch", "*/plots"), Stall(after=lines, seconds=60.0))])


def beds_made(world: SimulatedWorld) -> list[float]:
    return [one.at for one in world.changes if one.change.resource[1] == "configmaps" and not one.change.old]


@pytest.mark.rule("write-10")
def test_children_are_not_made_again_for_an_object_that_is_gone_behind_a_stalled_watch() -> None:
    steps = Apply(PLOT), Wait(2.0), Delete(PLOT), Wait(70.0)
    assert len(beds_made(replay(scenario(keep, *steps), behind(3)).world)) == PLOT.spec.size


async def plant(ctx: Context[Plot]) -> None:
    """Make a bed that nothing owns."""
    await ctx.client.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name, ctx.object.namespace)))


async def clear(ctx: Context[ConfigMap]) -> None:
    """Delete a bed without a plot."""
    if await ctx.client.find(Plot, ctx.object.name, ctx.object.namespace, live=True) is None:
        await ctx.delete(ctx.object)


def planting_and_clearing() -> list[Controller[Any]]:
    plots = Watch(ConfigMap, to=lambda bed: [Request(bed.namespace, bed.name)])
    clears = {"writes": [ConfigMap], "reads": [Plot], "operator": "toys.example.com"}
    return [
        Controller(Plot, plant, watches=[plots], writes=[ConfigMap], name="plots"),
        Controller(ConfigMap, clear, name="beds", **clears),
    ]


@pytest.mark.rule("storm-healthy")
def test_runs_for_an_object_that_is_gone_behind_a_stalled_watch_are_no_storm() -> None:
    """Another controller deletes what they make, each time, until the cache is current."""
    steps = Apply(PLOT), Wait(2.0), Delete(PLOT), Wait(1.0), Delete((ConfigMap, "default/east")), Wait(70.0)
    world = replay(Scenario(controllers=planting_and_clearing, steps=steps), behind(2)).world
    made = beds_made(world)
    assert len(made) > 6
    assert max(made) < min(made) + 10.0
