"""A sweep takes each step also while no process runs, which finds what is learnt from events alone."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from reconcile import Context, Controller, Deleted
from reconcile.testing import Apply, Broken, Delete, Edit, Kill, Scenario, Stop, Wait, World, sweep
from reconcile.testing.unattended_acts import unattended_act_plans
from tests.simulation import toys
from tests.simulation.toys import PLOT, Plot, scenario

RYE = Edit(PLOT, {"spec": {"crop": "rye"}})


def leases(on_deletion: bool) -> Scenario:
    """Plots are leased outside; the lease ends when an event says that the plot is gone, or in a cleanup."""

    def make(leased: set[str]) -> Controller[Plot]:
        async def lease(ctx: Context[Plot]) -> None:
            leased.add(ctx.object.name)

        async def end(ctx: Context[Plot]) -> None:
            leased.discard(ctx.object.name)

        async def gone(deleted: Deleted[Plot]) -> None:
            leased.discard(deleted.object.name)

        if on_deletion:
            return Controller(Plot, lease, on_deleted=gone, name="plots")
        return Controller(Plot, lease, cleanup=end, name="plots")

    def no_lease_without_a_plot(world: World) -> None:
        assert set(world.outside) <= {plot.name for plot in world.objects(Plot)}

    steps = [Apply(PLOT), Delete(PLOT)]
    return Scenario(controllers=make, outside=set, steps=steps, invariants=[no_lease_without_a_plot])


@pytest.mark.rule("sim-unattended")
def test_a_deletion_that_only_an_event_tells_is_missed_while_no_process_runs() -> None:
    with pytest.raises(Broken) as broken:
        sweep(leases(on_deletion=True))
    assert broken.value.rules == {"no_lease_without_a_plot"}
    assert any(isinstance(act, Kill) for act in broken.value.plan.acts or ())
    sweep(leases(on_deletion=False))


@pytest.mark.rule("sim-unattended")
def test_a_controller_that_follows_the_state_passes_whatever_is_done_while_it_is_away() -> None:
    plans = [*unattended_act_plans(scenario(), 0)]
    assert [plan.acts[-1] for plan in plans if plan.acts] == [toys.STORY[-1]] * (len(toys.STORY) - 1)
    assert sweep(scenario()).runs > len(plans)


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        ([Apply(PLOT)], {}),
        ([Apply(PLOT), Wait(1.0), RYE], {}),
        ([Apply(PLOT), Stop(), RYE], {}),
        ([Apply(PLOT), RYE], {"replicas": 2}),
        ([Apply(PLOT), RYE], {"restart_seconds": 0.0}),
    ],
)
def test_steps_that_race_already_or_that_another_replica_sees_are_not_taken_so(
    steps: Sequence[Any], options: dict[str, Any]
) -> None:
    assert [*unattended_act_plans(scenario(toys.keep, *steps, **options), 0)] == []


def test_steps_that_are_functions_are_not_taken_so() -> None:
    async def sow(world: World) -> None:
        await world.act(RYE)

    assert [*unattended_act_plans(evolve(scenario(), steps=[Apply(PLOT), sow]), 0)] == []
