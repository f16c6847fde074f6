"""Restarts that see the past: what a sweep with them finds, and what a correct controller may do."""

import pytest

from reconcile import Context
from reconcile.kinds import ConfigMap
from reconcile.testing import (
    Apply,
    Broken,
    Delete,
    Edit,
    FaultPlan,
    Kill,
    Scenario,
    TimeTravel,
    Wait,
    replay,
    sweep,
)
from reconcile.testing.old_views import old_view_plans
from tests.simulation import toys
from tests.simulation.toys import PLOT, Plot, PlotSpec, scenario

GROWS = (Apply(Plot(metadata=PLOT.metadata, spec=PlotSpec(1))), Edit(PLOT, {"spec": {"size": 2}}))


async def deletes_by_selector(ctx: Context[Plot]) -> None:
    """Deletes what the server has, by the spec that the cache has, which no deletion by object would do."""
    plot = ctx.object
    for number in range(plot.spec.size):
        await ctx.apply(toys.bed(plot, number))
    if plot.spec.size == 1:
        others = f"metadata.name!={plot.name}-0"
        await ctx.client.raw.delete_all(ConfigMap, plot.namespace, fields=others, owner=plot)
    ctx.status(size=plot.spec.size, observed_generation=plot.metadata.generation)


async def looks_twice(ctx: Context[Plot]) -> None:
    """Reads the plot from the server before it deletes a bed."""
    plot = ctx.object
    children = await ctx.owned(ConfigMap)
    if any(int(child.name.rpartition("-")[2]) >= plot.spec.size for child in children):
        plot = await ctx.client.get(Plot, plot.name, plot.namespace, live=True)
    for number in range(plot.spec.size):
        await ctx.apply(toys.bed(plot, number))
    for child in children:
        if int(child.name.rpartition("-")[2]) >= plot.spec.size:
            await ctx.delete(child)
    ctx.status(size=plot.spec.size, observed_generation=plot.metadata.generation)


@pytest.mark.rule("sim-old-views")
def test_a_deletion_that_follows_from_an_old_spec_is_found_by_a_sweep_with_old_views_alone() -> None:
    told = scenario(deletes_by_selector, *GROWS)
    assert sweep(told).runs
    with pytest.raises(Broken) as broken:
        sweep(told, old_views=True)
    assert broken.value.rules == {"lost"}
    assert "lost: configmaps default/east-1: 1 times, without faults 0" in str(broken.value)
    with pytest.raises(Broken) as again:
        replay(told, broken.value.plan.to_json())
    assert again.value.rules == {"lost"}


@pytest.mark.rule("sim-old-views")
def test_what_an_old_spec_does_not_ask_for_is_not_deleted_before_the_cache_is_current() -> None:
    assert sweep(scenario(toys.keep, *GROWS), old_views=True).runs


@pytest.mark.rule("sim-old-views")
def test_a_controller_may_create_and_delete_again_what_it_cannot_see() -> None:
    told = scenario(toys.keep, *toys.STORY)
    creates = []
    for plan in old_view_plans(told, 0):
        world = replay(told, plan).world
        (process,) = world.processes
        assert [type(fault.what) for fault in process.transport.injected] == [TimeTravel]
        creates.append(len([one for one in world.changes if one.change.old is None]))
    without_faults = len([one for one in replay(told, FaultPlan()).world.changes if one.change.old is None])
    assert min(creates) == without_faults < max(creates)


@pytest.mark.rule("sim-old-views")
def test_a_sweep_with_old_views_passes_a_controller_that_looks_twice_before_it_deletes() -> None:
    told = scenario(looks_twice, *GROWS)
    report = sweep(told, old_views=True)
    assert report.runs == (sweep(told).in_full or 0) + len(old_view_plans(told, 0))


@pytest.mark.rule("sim-old-views")
def test_each_step_after_which_the_world_rests_is_followed_by_a_restart_into_each_kind() -> None:
    steps = (Apply(PLOT), Kill(), Edit(PLOT, {"spec": {"size": 1}}), Wait(0.1), Delete(PLOT))
    plans = old_view_plans(scenario(toys.keep, *steps), seed=3)
    kinds, changes = 2, 4
    assert len(plans) == 2 * kinds * changes  # after the first step and the last one
    assert {plan.seed for plan in plans} == {3}
    first, last = plans[0], plans[-1]
    assert first.acts == (Apply(PLOT), Kill(), *steps[1:])
    assert last.acts == (*steps, Kill())
    assert (first.faults[0].when.nth, last.faults[0].when.nth) == (2, 3)
    assert first.faults[0].what == TimeTravel(1, 5.0)


async def look(world: object) -> None:
    """A step that no plan can hold."""


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (
            scenario(toys.keep, Apply(PLOT), look),
            "old_views=True expects steps that are acts, and look is a function",
        ),
        (scenario(toys.keep, replicas=2), "old_views=True expects one replica, got 2"),
    ],
)
def test_a_scenario_that_old_views_do_not_fit_is_refused(told: Scenario, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        sweep(told, old_views=True)
