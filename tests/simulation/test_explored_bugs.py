"""What `explore` finds: bugs that need one order of events, and obligations that one schedule leaves open."""

from collections.abc import Sequence

import pytest

from reconcile import Client, Context, Controller, ObjectMeta
from reconcile.errors import AlreadyExists
from reconcile.kinds import ConfigMap, Secret
from reconcile.owners import with_owner
from reconcile.testing import (
    Apply,
    Broken,
    FaultPlan,
    Scenario,
    World,
    condition,
    explore,
    leads_to,
    replay,
    spec_changed,
)
from tests.simulation.tiny_worlds import EAST, keep_secret
from tests.simulation.toys import Plot, bed
from tests.verification.zoo.unobserved_states import pod_never_seen_leaving

AS_USUAL = FaultPlan(schedule=())


def taken(broken: Broken) -> Sequence[str]:
    return [choice.take for choice in broken.plan.schedule or ()]


def plots(reconcile: object) -> Controller[Plot]:
    return Controller(Plot, reconcile, owns=[ConfigMap, Secret], name="plots")  # type: ignore[arg-type]


# --- a cache that is behind ---------------------------------------------------------------------------


def unnamed(plot: Plot) -> ConfigMap:
    bed = ConfigMap(metadata=ObjectMeta(namespace=plot.namespace, generate_name="bed-"))
    return with_owner(bed, plot, controller=True)


async def make_unless_seen(ctx: Context[Plot]) -> None:
    """Makes a bed if the cache shows none, past the client that would wait for its own writes to be seen."""
    if not await ctx.owned(ConfigMap):
        plain = Client(ctx.client.transport, clock=ctx.clock, field_manager="plain")
        await plain.create(unnamed(ctx.object))
    await keep_secret(ctx)


async def make_with_own_client(ctx: Context[Plot]) -> None:
    """The same with the client of the run."""
    if not await ctx.owned(ConfigMap):
        await ctx.create(unnamed(ctx.object))
    await keep_secret(ctx)


def one_bed(world: World) -> None:
    assert len(world.objects(ConfigMap)) == 1


def told(reconcile: object) -> Scenario:
    return Scenario(
        controllers=lambda: plots(reconcile),
        steps=[Apply(EAST)],
        invariants=[one_bed],
        without=["declared", "creates", "end-state"],
    )


@pytest.mark.rule("sim-explore")
def test_a_child_made_twice_on_a_cache_that_is_behind_is_found() -> None:
    replay(told(make_unless_seen), AS_USUAL)
    with pytest.raises(Broken) as broken:
        explore(told(make_unless_seen), crashes=0)
    assert broken.value.rules == {"one_bed"}
    (choice,) = taken(broken.value)
    assert choice.startswith("manager 1 sees secrets ADDED default/east")
    assert str(broken.value).count("create configmaps default/bed-* -> 201") == 2


@pytest.mark.rule("sim-explore")
def test_the_client_of_a_run_makes_no_child_twice_under_any_schedule() -> None:
    report = explore(told(make_with_own_client), crashes=0)
    assert report.exhaustive


# --- what is owed ------------------------------------------------------------------------------------


async def forget_after_a_crash(ctx: Context[Plot]) -> None:
    """Says that it is ready only in the run that made the bed."""
    try:
        await ctx.create(bed(ctx.object, 0))
    except AlreadyExists:
        return
    ctx.condition("Ready", True, reason="Sown")


async def remember_after_a_crash(ctx: Context[Plot]) -> None:
    await ctx.apply(bed(ctx.object, 0))
    ctx.condition("Ready", True, reason="Sown")


def owing(reconcile: object) -> Scenario:
    return Scenario(
        controllers=lambda: plots(reconcile),
        steps=[Apply(EAST)],
        obligations=[leads_to(spec_changed(Plot), condition("Ready"), name="ready")],
        without=["end-state", "extra-run"],
    )


@pytest.mark.rule("sim-explore")
@pytest.mark.rule("sim-obligations")
def test_an_obligation_that_one_schedule_leaves_open_is_found() -> None:
    replay(owing(forget_after_a_crash), AS_USUAL)
    with pytest.raises(Broken) as broken:
        explore(owing(forget_after_a_crash))
    assert broken.value.rules == {"ready"}
    assert taken(broken.value) == [
        "crash after manager 1 plots default/east: create configmaps default/east-0"
    ]
    assert "ready: plots default/east: left open since" in str(broken.value)
    with pytest.raises(Broken, match="ready: plots default/east: left open"):
        replay(owing(forget_after_a_crash), broken.value.plan)


@pytest.mark.rule("sim-explore")
def test_an_obligation_is_met_on_all_schedules_with_a_crash_and_a_lost_answer() -> None:
    report = explore(owing(remember_after_a_crash), lost_answers=1)
    assert report.exhaustive
    assert report.schedules is not None
    assert report.schedules > 50


@pytest.mark.rule("sim-explore")
def test_a_process_that_has_yet_to_prove_its_cache_is_told_from_one_that_has() -> None:
    with pytest.raises(Broken) as broken:
        explore(pod_never_seen_leaving(mended=False))
    # Its successor asks anew whether the cache is up to date, and sees what the first one did not.
    assert taken(broken.value) == ["crash after manager 1 clusters default/db: delete pods default/db-1"]
