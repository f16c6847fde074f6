"""What is owed to users is checked on every schedule, and a story names what was left open since when."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reconcile import Context, Result
from reconcile.kinds import ConfigMap
from reconcile.testing import (
    Apply,
    Broken,
    CrashAfter,
    Delete,
    Edit,
    Fault,
    FaultPlan,
    LoseReply,
    Scenario,
    ScenarioAct,
    When,
    World,
    always_holds,
    becomes,
    condition,
    created,
    deleted,
    deletion_asked,
    eventually_holds,
    fuzz,
    leads_to,
    ready_or_failed,
    replay,
    seeds,
    spec_changed,
    sweep,
)
from reconcile.testing.exploration.obligations import Obligation
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from tests.simulation import loops
from tests.simulation.toys import PLOT, Plot, bed, scenario

Keep = Callable[[Context[Plot]], Awaitable[Any]]
ANSWERED = leads_to(spec_changed(Plot), ready_or_failed)
RYE, OATS = Edit(PLOT, {"spec": {"crop": "rye"}}), Edit(PLOT, {"spec": {"crop": "oats"}})


def played(
    reconcile: Keep,
    *obligations: Obligation,
    steps: tuple[ScenarioAct, ...] = (Apply(PLOT), RYE),
    **options: Any,
) -> ScenarioRun:
    told = scenario(reconcile, *steps, obligations=obligations, without=["extra-run"], **options)
    return ScenarioRunner(told, references=0).run(FaultPlan())


def broken(run: ScenarioRun) -> dict[str, str]:
    return {violation.rule: violation.text for violation in run.violations}


async def tells(ctx: Context[Plot]) -> None:
    """As it should be."""
    await ctx.apply(bed(ctx.object, 0))
    ctx.condition("Ready", True, reason="Dug")


async def gives_up_silently(ctx: Context[Plot]) -> None:
    """Does not know rye, and says nothing of it."""
    if ctx.object.spec.crop != "rye":
        await tells(ctx)


async def says_that_it_failed(ctx: Context[Plot]) -> None:
    if ctx.object.spec.crop != "rye":
        return await tells(ctx)
    ctx.condition("Ready", False, reason="UnknownCrop")
    ctx.condition("Failed", True, reason="UnknownCrop")
    return None


@pytest.mark.rule("sim-obligations")
def test_a_spec_that_is_answered_owes_nothing() -> None:
    assert not played(tells, ANSWERED).failed
    assert not played(says_that_it_failed, ANSWERED).failed


@pytest.mark.rule("sim-obligations")
def test_a_spec_that_is_never_answered_is_named_with_its_object_and_its_moment() -> None:
    run = played(gives_up_silently, ANSWERED)
    assert list(broken(run)) == ["spec_changed(Plot) leads to ready or failed"]
    (text,) = broken(run).values()
    assert text.startswith("plots default/east: left open since 26.")
    assert text.endswith("s, when it changed (generation 2); Ready is True")
    story = format_trace(run)
    (opened,) = [line for line in story.splitlines() if " s  obligation" in line]
    assert opened.endswith(
        "spec_changed(Plot) leads to ready or failed: plots default/east owes it from here on"
    )


def test_a_condition_of_an_earlier_generation_does_not_meet_what_a_later_one_owes() -> None:
    ready = leads_to(spec_changed(Plot), condition("Ready"), name="answered")
    assert set(broken(played(gives_up_silently, ready))) == {"answered"}
    assert not played(tells, ready).failed
    not_ready = leads_to(spec_changed(Plot), condition("Ready", False), name="refused")
    assert set(broken(played(tells, not_ready))) == {"refused"}


def test_a_spec_that_changes_again_is_owed_for_its_newest_generation_only() -> None:
    steps: tuple[ScenarioAct, ...] = (Apply(PLOT), RYE, OATS)
    assert not played(
        gives_up_silently, leads_to(spec_changed(Plot), ready_or_failed), steps=(Apply(PLOT), OATS)
    ).failed
    run = played(gives_up_silently, ANSWERED, steps=steps)
    assert len(run.violations) == 1  # that of the step in between, at which the world was at rest


def test_an_object_that_is_deleted_owes_its_end_alone() -> None:
    async def mute(ctx: Context[Plot]) -> None:
        return None

    steps: tuple[ScenarioAct, ...] = (Apply(PLOT), Delete(PLOT))
    first, *_ = played(mute, ANSWERED, steps=steps).violations
    assert first.at < 30  # at the first rest; nothing is owed after the deletion
    ends = leads_to(created(Plot), deleted, name="ends")
    assert set(broken(played(mute, ends, steps=(Apply(PLOT),)))) == {"ends"}
    assert not played(mute, leads_to(deletion_asked(Plot), deleted), steps=steps).failed


def test_a_deletion_that_a_finalizer_holds_for_ever_is_left_open() -> None:
    async def never(ctx: Context[Plot]) -> Result:
        return Result(requeue_after=600)

    gone = leads_to(deletion_asked(Plot), deleted, name="goes away")
    run = played(tells, gone, steps=(Apply(PLOT), Delete(PLOT)), controller={"cleanup": never})
    assert broken(run)["goes away"].startswith("plots default/east: left open since")


def test_an_outcome_that_comes_too_late_is_a_violation_of_within() -> None:
    async def slowly(ctx: Context[Plot]) -> Result | None:
        if ctx.object.status.conditions:
            await tells(ctx)
            return None
        ctx.condition("Digging", True, reason="Slow")
        return Result(requeue_after=10)

    steps = (Apply(PLOT),)
    assert not played(slowly, leads_to(spec_changed(Plot), ready_or_failed, within=30), steps=steps).failed
    late = leads_to(spec_changed(Plot), ready_or_failed, within=5, name="soon")
    (text,) = broken(played(slowly, late, steps=steps)).values()
    assert text.startswith("plots default/east: met only 10.")
    assert text.endswith("when it was created (generation 1); 5 s are allowed")


def test_functions_of_objects_and_of_the_world_are_predicates_too() -> None:
    def is_dug(plot: Plot) -> bool:
        return any(one.type == "Ready" for one in plot.status.conditions)

    def has_a_bed(world: World) -> bool:
        return world.has_any(ConfigMap)

    def has_a_plot(world: World) -> bool:
        return world.has_any(Plot)

    held = [
        leads_to(created(Plot), is_dug),
        leads_to(becomes(Plot, is_dug), condition("Ready")),
        leads_to(has_a_plot, has_a_bed),
        eventually_holds(has_a_bed),
        eventually_holds(is_dug, of=Plot),
        always_holds(lambda plot: plot.spec.size > 0, of=Plot, name="has a size"),
        always_holds(lambda world: len(world.objects(ConfigMap)) < 2, name="one bed at most"),
    ]
    assert not played(tells, *held).failed

    def has_two_beds(world: World) -> bool:
        return len(world.objects(ConfigMap)) > 1

    left = [
        leads_to(has_a_plot, has_two_beds, name="two"),
        eventually_holds(has_two_beds, name="some time"),
        eventually_holds(lambda plot: plot.status.size == 7, of=Plot, name="seven"),
        always_holds(lambda plot: plot.spec.crop != "rye", of=Plot, name="no rye"),
        always_holds(lambda world: not has_a_bed(world), name="no bed"),
    ]
    assert set(broken(played(tells, *left))) == {"two", "some time", "seven", "no rye", "no bed"}


def test_predicates_can_be_combined() -> None:
    either = condition("Ready") | condition("Failed")
    assert str(either) == "Ready is True or Failed is True"
    assert not played(says_that_it_failed, leads_to(spec_changed(Plot), either)).failed
    both = condition("Ready") & ~condition("Failed")
    assert str(both) == "Ready is True and not Failed is True"
    assert played(says_that_it_failed, leads_to(spec_changed(Plot), both)).failed


def test_objects_that_are_there_at_the_beginning_owe_an_answer_too() -> None:
    async def mute(ctx: Context[Plot]) -> None:
        return None

    told = scenario(
        mute, Edit(PLOT, {"metadata": {"labels": {"a": "b"}}}), objects=[PLOT], obligations=[ANSWERED]
    )
    run = ScenarioRunner(told, references=0).run(FaultPlan())
    assert "when it was created (generation 1); it has no conditions" in run.violations[0].text


@pytest.mark.rule("sim-obligations")
def test_what_a_loop_leaves_open_is_a_violation_of_its_own() -> None:
    told = loops.alone(loops.stamp, obligations=[ANSWERED])
    run = ScenarioRunner(told, references=0).run(FaultPlan())
    assert [violation.rule for violation in run.violations] == [ANSWERED.name, "converges"]


# --- in every mode --------------------------------------------------------------------------------


async def tells_once(ctx: Context[Plot]) -> None:
    """Says that it is ready only in the run that made the bed: a crash in between leaves it unsaid."""
    if await ctx.client.find(ConfigMap, f"{ctx.object.name}-0", ctx.object.namespace) is None:
        await ctx.create(bed(ctx.object, 0))
        ctx.condition("Ready", True, reason="Dug")


def once(**options: Any) -> Scenario:
    return scenario(
        tells_once,
        Apply(PLOT),
        obligations=[ANSWERED],
        without=["end-state", "extra-run", "creates"],
        **options,
    )


@pytest.mark.rule("sim-obligations")
def test_a_sweep_finds_the_one_crash_that_leaves_an_obligation_open() -> None:
    assert seeds(once(), 3).runs == 3
    with pytest.raises(Broken) as caught:
        sweep(once())
    assert caught.value.rules == {ANSWERED.name}
    (fault,) = caught.value.plan.faults
    assert isinstance(fault.what, CrashAfter | LoseReply)
    with pytest.raises(Broken, match="left open since"):
        replay(once(), caught.value.plan)


def test_fuzz_finds_it_too() -> None:
    with pytest.raises(Broken) as caught:
        fuzz(once(), seconds=60, most=2000)
    assert ANSWERED.name in caught.value.rules


def test_the_mended_twin_keeps_its_word_under_every_fault() -> None:
    async def tells_always(ctx: Context[Plot]) -> None:
        await ctx.apply(bed(ctx.object, 0))
        ctx.condition("Ready", True, reason="Dug")

    told = scenario(tells_always, Apply(PLOT), RYE, obligations=[ANSWERED])
    assert sweep(told).runs > 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: leads_to(spec_changed(Plot), deleted, within=0), "expected a positive number of seconds"),
        (lambda: eventually_holds(deleted, of=Plot, within=-1), "expected a positive number of seconds"),
        (lambda: leads_to(lambda world: True, deleted), "leads_to: deleted is about an object"),
        (lambda: always_holds(condition("Ready")), "Ready is True is about an object: say of which kind"),
        (lambda: eventually_holds(Plot, of=Plot), "expected a predicate or a function of a Plot"),
    ],
)
def test_what_cannot_be_an_obligation_is_refused_with_what_would_be_one(
    make: Callable[[], Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_a_fault_that_hits_no_write_of_the_obligation_leaves_nothing_open() -> None:
    told = scenario(tells, Apply(PLOT), obligations=[ANSWERED])
    fault = Fault(When("patch", "*/configmaps/*"), CrashAfter())
    assert not ScenarioRunner(told, references=0).run(FaultPlan([fault])).failed
