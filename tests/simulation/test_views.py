"""Views of the server's log that differ from the log, and acts of others, as a manager meets them."""

from collections.abc import Sequence

import pytest
from attrs import evolve

from reconcile import Context, LeaderElection
from reconcile.kinds import ConfigMap, Namespace
from reconcile.testing import (
    Apply,
    Coalesce,
    DelayGarbage,
    Delete,
    Edit,
    Fault,
    FaultPlan,
    FaultyTransport,
    Hold,
    JumpClock,
    Kill,
    Meanwhile,
    Recreate,
    Refuse,
    Release,
    Repeat,
    Scenario,
    ScenarioAct,
    TimeTravel,
    Touch,
    Wait,
    When,
    World,
    replay,
)
from reconcile.testing.faults import What
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from tests.simulation import toys
from tests.simulation.toys import PLOT, Plot, PlotSpec, scenario

CROPS = [Edit(PLOT, {"spec": {"crop": crop}}) for crop in ("rye", "oats", "maize")]
PLOTS = When("watch", "*/plots")


def seen_under(
    what: What | None, acts: Sequence[ScenarioAct], when: When = PLOTS
) -> tuple[list[tuple[float, str]], ScenarioRun]:
    """The crops that a reconciler saw, and when, in seconds from the start."""
    seen: list[tuple[float, str]] = []

    async def keep(ctx: Context[Plot]) -> None:
        seen.append((round(toys.anyio.current_time(), 1), ctx.object.spec.crop))

    told = scenario(keep, Apply(PLOT), without=["end-state"])
    faults = [] if what is None else [Fault(when, what)]
    run = ScenarioRunner(told, references=0).run(FaultPlan(faults, acts))
    return [one for one in seen if one[0] < run.world.acts[-1].at + 20], run


def crops(seen: list[tuple[float, str]]) -> list[str]:
    return [crop for _, crop in seen]


def racing(*acts: ScenarioAct) -> list[ScenarioAct]:
    """The acts, half a second apart."""
    between: list[ScenarioAct] = []
    for act in acts:
        between += [act, Wait(0.5)]
    return between[:-1]


@pytest.mark.rule("sim-views")
def test_a_held_event_arrives_after_the_given_number_of_later_events() -> None:
    acts = racing(Apply(PLOT), *CROPS)
    plain, _ = seen_under(None, acts)
    assert crops(plain) == ["barley", "rye", "oats", "maize"]
    held, run = seen_under(Hold(after=2, events=2), acts)
    assert crops(held) == ["barley", "maize"]
    assert len(run.world.processes[0].transport.applied) == 1


@pytest.mark.rule("sim-views")
def test_a_held_event_without_a_later_one_is_not_lost() -> None:
    held, _ = seen_under(Hold(after=2, events=3, seconds=7), racing(Apply(PLOT), CROPS[0]))
    assert crops(held) == ["barley", "rye"]
    assert held[1][0] >= 1.5 + 7


@pytest.mark.rule("sim-views")
def test_coalesced_events_arrive_as_a_list_with_only_their_combined_effect() -> None:
    coalesced, run = seen_under(Coalesce(after=2, events=3), racing(Apply(PLOT), *CROPS))
    assert crops(coalesced) == ["barley", "maize"]
    assert len([r for r in run.world.requests if r.verb == "watch" and r.path.endswith("/plots")]) == 2
    gone, _ = seen_under(Coalesce(after=1, events=2), racing(Apply(PLOT), Delete(PLOT)))
    assert crops(gone) == []


@pytest.mark.rule("sim-views")
def test_a_repeated_event_starts_no_run() -> None:
    repeated, run = seen_under(Repeat(after=1), racing(Apply(PLOT), *CROPS))
    assert crops(repeated) == ["barley", "rye", "oats", "maize"]
    assert len(run.world.processes[0].transport.applied) == 1


@pytest.mark.rule("sim-views")
def test_a_restarted_process_can_see_a_past_state_and_then_the_events_since() -> None:
    travelled, run = seen_under(
        TimeTravel(events=1, seconds=3), [Apply(PLOT), CROPS[0], Kill()], When("watch", "*/plots", nth=2)
    )
    assert crops(travelled) == ["barley", "rye", "barley", "rye"]
    (_, past), (late, _) = travelled[2], travelled[3]
    assert past == "barley"
    assert late - travelled[2][0] >= 3
    assert len(run.world.processes[0].transport.applied) == 1


@pytest.mark.rule("sim-views")
def test_kinds_lag_independently_of_one_another() -> None:
    orders: list[str] = []

    async def keep(ctx: Context[Plot]) -> None:
        await ctx.apply(toys.bed(ctx.object, 0))
        orders.append(ctx.object.spec.crop)

    faults = [Fault(When("watch", "*/configmaps"), Hold(after=1, events=1, seconds=9))]
    run = replay(scenario(keep, Apply(PLOT), CROPS[0], without=["end-state"]), FaultPlan(faults))
    assert orders[-1] == "rye"
    assert not run.failed


# --- requests ---------------------------------------------------------------------------------------


@pytest.mark.rule("sim-views")
def test_a_user_can_write_just_before_a_request_so_that_its_conflict_is_genuine() -> None:
    async def keep(ctx: Context[Plot]) -> None:
        child = await ctx.client.find(ConfigMap, "shared", ctx.object.namespace)
        if child is not None and child.data.get("crop") != ctx.object.spec.crop:
            await ctx.client.raw.update(child.replace(data={"crop": ctx.object.spec.crop}))

    shared = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"crop": ""}}
    told = scenario(keep, Apply(PLOT), objects=[shared], without=["extra-run", "end-state"])
    run = ScenarioRunner(told, references=0).run(FaultPlan([Fault(When("update"), Meanwhile(Touch()))]))
    assert [r.server_status for r in run.world.requests if r.verb == "update"] == [409, 200]
    assert run.violations == ()


def test_an_answer_can_report_a_timeout_for_a_write_that_was_executed() -> None:
    fault = Fault(When("patch", "*/configmaps/*"), Refuse(504, applied=True))
    run = replay(scenario(toys.keep, Apply(PLOT)), FaultPlan([fault]))
    (first, *_) = [r for r in run.world.requests if r.mutating]
    assert (first.status, first.server_status) == (504, 201)


def test_a_fault_can_apply_to_only_one_of_several_managers() -> None:
    told = scenario(toys.keep, Apply(PLOT), replicas=2, leader_election=LeaderElection("plots"))
    slow = Fault(When("watch", "*/plots", process=2), Hold(after=1, events=3))
    run = replay(told, FaultPlan([slow]))
    assert [len(process.transport.applied) for process in run.world.processes] == [0, 1]


def test_the_fault_meanwhile_needs_effects() -> None:
    from reconcile.embedded import ApiServer, InProcessTransport

    plan = FaultPlan([Fault(When(), Meanwhile(Touch()))])
    with pytest.raises(ValueError, match="effects="):
        FaultyTransport(InProcessTransport(ApiServer()), plan)


# --- acts -------------------------------------------------------------------------------------------


def told_by(acts: Sequence[ScenarioAct]) -> World:
    return ScenarioRunner(scenario(toys.keep, Apply(PLOT)), references=0).run(FaultPlan(acts=acts)).world


def test_a_delete_by_pattern_deletes_the_oldest_match() -> None:
    world = told_by([Apply(PLOT), Delete("*/configmaps/east-*")])
    assert "delete configmaps default/east-0" in [act.text for act in world.acts]
    assert len(world.objects(ConfigMap)) == 2


def test_a_recreated_object_has_a_new_uid_and_new_children() -> None:
    world = told_by([Apply(PLOT), Recreate(PLOT)])
    (plot,) = world.objects(Plot)
    uids = {
        one.change.new.uid for one in world.changes if one.change.new and one.change.resource[1] == "plots"
    }
    assert len(uids) == 2
    assert {owner.uid for bed in world.objects(ConfigMap) for owner in bed.metadata.owner_references} == {
        plot.uid
    }


def test_finalizers_can_be_removed_and_acts_on_missing_objects_are_harmless() -> None:
    manifest = {
        "apiVersion": "toys.example.com/v1",
        "kind": "Plot",
        "metadata": {"name": "held", "namespace": "default", "finalizers": ["a.b/c"]},
    }
    path = "/apis/toys.example.com/v1/namespaces/default/plots/held"
    world = told_by([Apply(manifest), Delete(path), Release(path), Touch(path)])
    assert world.objects(Plot) == []
    assert world.acts[-1].text == f"touch {path}: not found"


def test_a_namespace_is_deleted_with_its_content() -> None:
    elsewhere = {
        "apiVersion": "toys.example.com/v1",
        "kind": "Plot",
        "metadata": {"name": "far", "namespace": "abroad"},
    }
    world = told_by([Apply(elsewhere), Delete("/api/v1/namespaces/abroad")])
    assert world.find(Namespace, "abroad") is None
    assert world.objects(Plot) == []


def test_garbage_collection_can_be_late_and_the_wall_clock_can_jump() -> None:
    world = told_by([Apply(PLOT), DelayGarbage(40), JumpClock(3600), Delete(PLOT)])
    times = {one.change.key.name: one.at for one in world.changes if one.change.new is None}
    assert times["east-0"] - times["east"] >= 40
    assert (world.clock.now() - world.clock.start).total_seconds() > 3600


def test_a_scenario_whose_objects_are_refused_reports_it_at_once() -> None:
    with pytest.raises(LookupError, match="add its model to kinds="):
        ScenarioRunner(
            Scenario(
                controllers=scenario().controllers,
                objects=[{"apiVersion": "v9", "kind": "X", "metadata": {}}],
            )
        )


@pytest.mark.rule("write-9")
def test_a_standby_that_has_not_seen_the_new_spec_deletes_nothing_that_was_made_for_it() -> None:
    """Its cache of plots lags; that of the beds, one of which is new, does not."""
    small = evolve(PLOT, spec=PlotSpec(1))
    steps = Apply(small), Edit(small, {"spec": {"size": 2}}), Wait(5.0), Kill()
    told = scenario(
        toys.keep, *steps, replicas=2, restart_seconds=100.0, leader_election=LeaderElection("plots")
    )
    late = Fault(When("watch", "*/plots", process=2), Hold(after=3, events=50, seconds=200.0))
    run = replay(told, FaultPlan([late]))
    deleting = [request for request in run.world.requests if request.verb == "delete"]
    assert deleting == []
    assert run.world.processes[1].transport.applied
    assert {one.process for one in run.world.runs} == {1, 2}
