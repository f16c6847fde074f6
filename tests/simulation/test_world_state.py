"""The state of a simulated world as a value: what is in it, and what is not."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from reconcile import Context, Controller, ObjectMeta, Result
from reconcile.kinds import ConfigMap
from reconcile.testing import Apply, Delete, Edit, FaultPlan, Scenario, ScenarioAct, Touch, Wait, World
from reconcile.testing.exploration.world_state import WorldState, WorldStates, digest
from reconcile.testing.scenario_runner import ScenarioRunner
from tests.helpers.processor_time import within
from tests.simulation.toys import PLOT, Plot, keep, scenario

BED = "/api/v1/namespaces/default/configmaps/east-0"
OATS = {"spec": {"crop": "oats"}}
BARLEY = {"spec": {"crop": "barley"}}


def states_of(told: Scenario, *, seed: int = 0, alike: bool = False) -> list[WorldState]:
    """The state after each step at which the world rests, and at its end."""
    found: list[WorldState] = []
    states: list[WorldStates] = []

    def look(world: World) -> None:
        if not states:
            states.append(WorldStates(world, alike=alike))
        found.append(states[0].state())

    run = ScenarioRunner(evolve(told, invariants=[look]), references=0).run(FaultPlan(seed=seed))
    assert not run.failed, run.violations
    return found


def digests_of(told: Scenario, *, seed: int = 0, alike: bool = False) -> list[str]:
    return [state.digest for state in states_of(told, seed=seed, alike=alike)]


def in_a_step(told: Scenario, look: Callable[[World], Any]) -> list[Any]:
    """What `look` tells after each change."""
    found: list[Any] = []
    ScenarioRunner(evolve(told, always=[lambda world: found.append(look(world))]), references=0).run(
        FaultPlan(seed=3)
    )
    return found


def test_worlds_at_rest_with_the_same_content_are_in_one_state_whatever_the_order_was() -> None:
    expected = digests_of(scenario())
    assert len(set(expected)) == len(expected)  # each step leaves another state
    assert all(digests_of(scenario(), seed=seed) == expected for seed in range(1, 12))


def test_a_world_that_is_back_where_it_began_has_the_state_of_the_beginning() -> None:
    told = scenario(keep, Apply(PLOT), Edit(PLOT, OATS), Edit(PLOT, BARLEY))
    first, changed, again = digests_of(told, alike=True)
    assert first != changed
    assert first == again
    first, _, again = digests_of(told)
    assert first != again  # another user owns the crop, by which an apply decides


def test_a_recreated_object_is_another_one_unless_objects_are_alike() -> None:
    story: tuple[ScenarioAct, ...] = (Apply(PLOT), Delete(PLOT), Apply(PLOT))
    first, _, again = digests_of(scenario(keep, *story))
    assert first != again
    first, _, again = digests_of(scenario(keep, *story), alike=True)
    assert first == again


async def makes_two(ctx: Context[Plot]) -> None:
    """Two children with generated names; the status lists them."""
    children = await ctx.owned(ConfigMap)
    for _ in range(len(children), 2):
        await ctx.create(ConfigMap(metadata=ObjectMeta("", ctx.object.namespace, generate_name="bed-")))
    ctx.status(seen=" ".join(sorted(child.name for child in children)))


def test_generated_names_are_numbered_in_the_order_of_their_creation() -> None:
    story = scenario(makes_two, Apply(PLOT))
    expected = states_of(story)[-1]
    names = [name for plural, _, name, _ in expected.objects if plural == "configmaps"]
    assert names == ["default/bed-*#1", "default/bed-*#2"]
    for seed in range(1, 6):
        assert [part[:3] for part in states_of(story, seed=seed)[-1].objects] == [
            part[:3] for part in expected.objects
        ]


def test_times_versions_and_touches_of_the_clock_are_not_part_of_a_state() -> None:
    async def dated(ctx: Context[Plot]) -> None:
        if ctx.object.spec.crop not in ctx.object.status.seen:
            ctx.status(seen=f"{ctx.object.spec.crop} {ctx.clock.now().isoformat()}")

    told = scenario(dated, Apply(PLOT), Edit(PLOT, OATS), Edit(PLOT, BARLEY))
    first, _, again = digests_of(told, alike=True)
    assert first == again


def test_an_observed_generation_that_lags_is_another_state_than_the_present_one() -> None:
    async def observe_once(ctx: Context[Plot]) -> None:
        if ctx.object.status.observed_generation is None:
            ctx.status(observed_generation=ctx.object.metadata.generation)

    first, second, third = states_of(
        scenario(observe_once, Apply(PLOT), Edit(PLOT, OATS), Edit(PLOT, BARLEY)), alike=True
    )
    assert first.digest != third.digest  # the same content, observed too early
    assert second.digest != third.digest


def test_lines_under_way_keys_and_runs_are_part_of_a_state() -> None:
    def look(world: World) -> WorldState:
        return WorldStates(world).state()

    found = in_a_step(scenario(keep, Apply(PLOT)), look)
    assert any(state.caches for state in found)
    assert any(state.runs for state in found)
    late = next(state for state in found if state.caches)
    process, resource, _, how, pending = late.caches[0]
    assert (process, how) == (1, ("Watching", True, False))
    assert resource.startswith("plots.toys.example.com")
    assert pending[0][0] == "default/east"


def test_a_key_is_ready_delayed_or_failing_and_not_due_at_a_time() -> None:
    async def again_later(ctx: Context[Plot]) -> Result:
        return Result(requeue_after=100 + ctx.clock.random())

    async def failing(ctx: Context[Plot]) -> None:
        raise RuntimeError("not yet")

    queued = [states_of(scenario(again_later, Apply(PLOT), without=["extra-run"]), seed=s) for s in range(4)]
    assert {state.queues[0] for (state,) in queued} == {(1, "plots", "default/east", "delayed")}
    assert len({state.digest for (state,) in queued}) == 1
    story = scenario(failing, Apply(PLOT), Wait(0.05), Touch(PLOT), without=["extra-run"])
    assert [part[-1] for part in states_of(story)[-1].queues] == ["failing"]


def test_what_a_run_has_seen_tells_it_from_one_that_saw_something_else() -> None:
    async def looks_and_writes(ctx: Context[Plot]) -> None:
        others = await ctx.client.list(ConfigMap, "default", live=True)
        if not any(one.name == "note" for one in others):
            await ctx.client.create(ConfigMap(metadata=ObjectMeta("note", "default")), undeclared=True)

    def runs(*before: ScenarioAct) -> set[Any]:
        told = Scenario(
            controllers=lambda: Controller(Plot, keep, name="plots", owns=[ConfigMap]),
            steps=[*before, Apply(PLOT)],
        )
        return {part for state in in_a_step(told, lambda w: WorldStates(w).state()) for part in state.runs}

    crowded = Apply(ConfigMap(metadata=ObjectMeta("other", "default"), data={"a": "b"}))
    assert runs() == runs()
    assert runs() != runs(crowded)


def test_what_lives_outside_is_part_of_a_state() -> None:
    class Billing:
        def __init__(self, accounts: int = 0) -> None:
            self.accounts = accounts

        def state(self) -> dict[str, int]:
            return {"accounts": self.accounts}

    def told(accounts: int) -> Scenario:
        def make(_: Billing) -> Controller[Plot]:
            return Controller(Plot, keep, name="plots", owns=[ConfigMap])

        return Scenario(controllers=make, outside=lambda: Billing(accounts), steps=[Apply(PLOT)])

    assert digests_of(told(1)) == digests_of(told(1))
    assert digests_of(told(1)) != digests_of(told(2))


def test_a_state_told_again_and_again_is_the_state_told_once() -> None:
    kept: list[WorldStates] = []

    def both(world: World) -> tuple[str, str]:
        if not kept:
            kept.append(WorldStates(world))
        return kept[0].digest(), digest(world)

    found = in_a_step(scenario(keep, Apply(PLOT), Delete(BED), Delete(PLOT)), both)
    assert len(found) > 8
    assert all(again == once for again, once in found)


@pytest.mark.parametrize("most_seconds", [0.001])
def test_a_state_of_a_small_world_takes_less_than_a_millisecond(most_seconds: float) -> None:
    kept: list[WorldStates] = []

    def cost(world: World) -> float:
        if not kept:
            kept.append(WorldStates(world))
        began = time.process_time()
        kept[0].digest()
        return time.process_time() - began

    costs = sorted(in_a_step(scenario(), cost))
    assert within(costs[len(costs) // 2], most_seconds)
