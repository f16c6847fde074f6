"""`explore`: every schedule is played, up to the order of what commutes, and no state is left out."""

import os
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest
from attrs import frozen

from informers.transport import HttpRequest
from reconcile import Client, Context, Controller, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import (
    Apply,
    Broken,
    Choice,
    Edit,
    FaultPlan,
    Scenario,
    ScenarioAct,
    Wait,
    World,
    explore,
    replay,
)
from reconcile.testing.exploration.exhaustive_search import ScheduleSearch
from reconcile.testing.exploration.schedule_graph import Visit
from reconcile.testing.exploration.schedule_state import Touched
from reconcile.testing.scenario_runner import ScenarioRunner
from tests.simulation import toys
from tests.simulation.tiny_worlds import (
    EAST,
    RYE,
    THREE_OBJECTS,
    TINY,
    Enumeration,
    beds,
    beds_and_crops,
    crops,
    end_of,
    live_crops,
    tell_crop,
)
from tests.simulation.toys import Plot, scenario

SECONDS = 900.0
IN_FULL = "LABORATORY" in os.environ
"""Whether to draw many worlds, also larger ones, as `make laboratory` does; else a few small ones."""
COUNTED = ("a race", "a child", "a crash", "memory", *(["two controllers"] if IN_FULL else []))
"""The enumeration plays two controllers for ten seconds."""


def searched(told: Scenario, crashes: int, lost: int, *, reduced: bool = True) -> ScheduleSearch:
    search = ScheduleSearch(ScenarioRunner(told), crashes, lost, reduced)
    assert search.explore(perf_counter() + SECONDS) is None
    assert search.report().exhaustive
    return search


# --- what is explored -------------------------------------------------------------------------------


@pytest.mark.rule("sim-explore")
@pytest.mark.parametrize("name", COUNTED)
def test_there_are_as_many_schedules_as_an_enumeration_without_reduction_plays(name: str) -> None:
    told, crashes, lost = TINY[name]
    enumeration = Enumeration(told, crashes, lost)
    enumeration.play(most=1_000)
    report = searched(told, crashes, lost).report()
    assert report.schedules == enumeration.schedules
    assert report.runs <= 1 + enumeration.schedules  # the usual one is played whole before
    assert len(enumeration.ends) == 1


@pytest.mark.rule("sim-explore")
def test_reduction_saves_most_runs_and_no_schedule() -> None:
    report = explore(TINY["two managers"][0])
    assert str(report).startswith(f"all {report.schedules} schedules ({report.runs} runs")
    assert report.schedules is not None
    assert report.schedules > 20 * report.runs


@pytest.mark.rule("sim-explore")
def test_two_controllers_and_three_objects_are_explored_whole_with_a_crash() -> None:
    report = explore(THREE_OBJECTS, crashes=1, seconds=SECONDS)
    assert report.exhaustive
    assert report.schedules is not None
    assert report.schedules > 100 * report.runs


async def tell_crop_aloud(ctx: Context[Plot]) -> None:
    """Sends an Event, and asks what the server can do, before it writes."""
    if ctx.object.status.seen != ctx.object.spec.crop:
        ctx.event("Seen", f"the crop is {ctx.object.spec.crop}")
        await ctx.client.transport.request(HttpRequest("GET", "/version"))
    await tell_crop(ctx)


@pytest.mark.rule("sim-explore")
def test_events_and_questions_about_the_server_are_no_choices() -> None:
    aloud = Scenario(
        controllers=lambda: Controller(Plot, tell_crop_aloud, name="crops"), steps=[Apply(EAST), RYE]
    )
    quiet = Scenario(controllers=crops, steps=[Apply(EAST), RYE])
    reports = [explore(told, crashes=1, lost_answers=1, seconds=SECONDS) for told in (aloud, quiet)]
    assert reports[0].schedules == reports[1].schedules
    assert reports[0].runs == reports[1].runs


@frozen
class CountedWorld:
    """A scenario of so many replicas, whose states are counted with so many lost answers."""

    controllers: Callable[[], Any]
    second: tuple[ScenarioAct, ...] = ()
    lost: int = 0
    replicas: int = 1

    def __str__(self) -> str:
        acts = ", ".join(type(act).__name__ for act in self.second)
        return f"{self.replicas} of {self.controllers.__name__}, then {acts or 'nothing'}, {self.lost} lost"


LATER = (Wait(1), RYE)
ROUNDS = ((), (RYE,), LATER)
QUICK = [
    CountedWorld(live_crops, LATER),
    CountedWorld(beds, (RYE,)),
    CountedWorld(beds, (), 1),
    CountedWorld(crops, (RYE,), 1),
    CountedWorld(crops, LATER),
]
# What is left out takes longer than a search may: two managers of the beds have 1,776 states without a lost
# answer, two of two controllers 12,000.
ONE_MANAGER = (beds, crops, live_crops, beds_and_crops)
LARGER = [
    *(CountedWorld(one, second, lost) for one in ONE_MANAGER for second in ROUNDS for lost in (0, 1)),
    *(CountedWorld(crops, second, lost, 2) for second in ROUNDS for lost in (0, 1)),
    *(CountedWorld(beds, second, 0, 2) for second in ((), (RYE,))),
]


@pytest.mark.rule("sim-explore")
@pytest.mark.parametrize("world", LARGER if IN_FULL else QUICK, ids=str)
def test_the_states_are_the_same_with_and_without_reduction(world: CountedWorld) -> None:
    told = Scenario(
        controllers=world.controllers, steps=[Apply(EAST), *world.second], replicas=world.replicas
    )
    reduced, whole = searched(told, 0, world.lost), searched(told, 0, world.lost, reduced=False)
    assert reduced.graph.nodes.keys() == whole.graph.nodes.keys()
    assert reduced.graph.schedules() == whole.graph.schedules()
    assert reduced.graph.transitions <= whole.graph.transitions


LIVE = Scenario(controllers=live_crops, steps=[Apply(EAST), *LATER])


@pytest.mark.rule("sim-explore")
@pytest.mark.parametrize(
    ("told", "least"),
    [
        pytest.param(TINY["two controllers"][0], 40, id="two controllers"),
        pytest.param(LIVE, 8, id="live reads"),
    ],
)
def test_what_commutes_by_what_it_touches_leads_to_one_state_in_either_order(
    monkeypatch: pytest.MonkeyPatch, told: Scenario, least: int
) -> None:
    touched: dict[tuple[bytes, str], Touched] = {}
    after = Visit.after

    def noted(visit: Visit, label: str, by: Touched) -> dict[str, Touched]:
        touched[visit.node.state, label] = by
        return after(visit, label, by)

    monkeypatch.setattr(Visit, "after", noted)
    nodes = searched(told, 1, 0, reduced=False).graph.nodes
    pairs = 0
    for (state, one), by in touched.items():
        for other in nodes[state].enabled:
            if other > one and by.commutes_with(touched[state, other]):
                first, second = nodes[state].edges[one], nodes[state].edges[other]
                assert first is not None
                assert second is not None
                assert nodes[first].edges[other] == nodes[second].edges[one]
                pairs += 1
    assert pairs > least


# --- what is found ----------------------------------------------------------------------------------


@pytest.mark.rule("sim-explore")
def test_a_crash_between_two_writes_is_found_with_one_choice() -> None:
    with pytest.raises(Broken) as broken:
        explore(scenario(toys.once_too_often, Apply(EAST)))
    assert broken.value.rules == {"creates", "end-state"}
    (choice,) = broken.value.plan.schedule or ()
    assert choice.take.startswith("crash after manager 1 plots default/east: create configmaps")
    assert f"choice {choice.at}: crash after" in str(broken.value)


@pytest.mark.rule("sim-explore")
def test_a_plan_with_a_schedule_breaks_again_when_it_is_replayed() -> None:
    told = scenario(toys.once_too_often, Apply(EAST))
    with pytest.raises(Broken) as broken:
        explore(told)
    plan = FaultPlan.from_json(broken.value.plan.to_json())
    with pytest.raises(Broken) as again:
        replay(told, plan)
    assert str(again.value) == str(broken.value)


async def count_up(ctx: Context[Plot]) -> None:
    """Adds itself to a list that all share, and ignores what others have added since: an update is lost."""
    client = Client(ctx.client.transport, clock=ctx.clock, field_manager="counter")
    found = await client.get(ConfigMap, "names", "default", live=True)
    names = dict(found.data or {}).get("names", "")
    if ctx.object.name not in names.split():
        data = {"names": f"{names} {ctx.object.name}".strip()}
        await client.apply(ConfigMap(metadata=ObjectMeta("names", "default"), data=data))


def both_are_counted(world: World) -> None:
    (names,) = world.objects(ConfigMap)
    assert {*dict(names.data or {}).get("names", "").split()} == {plot.name for plot in world.objects(Plot)}


WEST = Plot(metadata=ObjectMeta("west"))
NAMES = ConfigMap(metadata=ObjectMeta("names", "default"), data={"names": ""})


@pytest.mark.rule("sim-explore")
def test_a_lost_update_of_two_runs_is_found_and_the_lines_that_led_to_it_are_told() -> None:
    def counting() -> Controller[Plot]:
        return Controller(Plot, count_up, name="plots")

    told = Scenario(
        controllers=counting,
        objects=[NAMES],
        steps=[Apply(EAST), Wait(1), Apply(WEST)],
        invariants=[both_are_counted],
        kinds=[ConfigMap],
        without=["declared", "end-state", "extra-run"],
    )
    with pytest.raises(Broken) as broken:
        explore(told, objects=3, crashes=0)
    assert broken.value.rules == {"both_are_counted"}
    assert "manager 1 sees plots ADDED default/west" in str(broken.value)
    assert len(broken.value.plan.schedule or ()) <= 3


@pytest.mark.rule("sim-explore")
def test_an_invariant_of_a_passing_moment_is_checked_in_every_state() -> None:
    def never_both(world: World) -> None:
        assert not (world.has_any(ConfigMap) and any(plot.status.seen for plot in world.objects(Plot)))

    with pytest.raises(Broken) as broken:
        explore(Scenario(controllers=beds_and_crops, steps=[Apply(EAST)], always=[never_both]))
    assert broken.value.rules == {"never_both"}


@pytest.mark.rule("sim-explore")
def test_what_never_comes_to_rest_is_not_taken_for_explored() -> None:
    with pytest.raises(Broken) as broken:
        explore(scenario(toys.restless, Apply(EAST), limit_seconds=30.0), crashes=0)
    assert "converges" in broken.value.rules


# --- what it says -----------------------------------------------------------------------------------


@pytest.mark.rule("sim-explore")
def test_an_exploration_that_was_stopped_is_not_called_exhaustive() -> None:
    report = explore(TINY["two managers"][0], most=5)
    assert not report.exhaustive
    assert report.schedules is None
    assert str(report).startswith("stopped after 5 runs")
    assert str(report).endswith("not exhaustive")


@pytest.mark.rule("sim-explore")
def test_a_report_says_that_not_all_of_a_large_memory_was_looked_at() -> None:
    table = dict.fromkeys(range(30_000))

    async def look_up(ctx: Context[Plot]) -> None:
        ctx.status(seen=str(table.get(0)))

    report = explore(scenario(look_up, Apply(EAST)), crashes=0, most=2)
    assert "states may be taken for one, as the code remembers more than the 20000 values" in str(report)


@pytest.mark.rule("sim-explore")
def test_states_that_recur_have_schedules_without_end() -> None:
    asking = explore(scenario(toys.asking, Apply(EAST), without=["extra-run"]), crashes=0)
    assert asking.exhaustive
    assert asking.schedules is not None

    async def fails(ctx: Context[Plot]) -> None:
        raise RuntimeError("never")

    report = explore(scenario(fails, Apply(EAST), without=["backs-off"]), crashes=0)
    assert report.exhaustive
    assert "all schedules, without end as states recur" in str(report)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (scenario(toys.keep, Apply(EAST), Apply(WEST)), "the scenario has 2 objects: pass objects=2"),
        (Scenario(controllers=crops, replicas=2), "the scenario has 2 managers: pass managers=2"),
    ],
)
def test_a_scenario_that_is_too_large_is_refused_with_the_next_step(told: Scenario, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explore(told, objects=1, managers=1)


def test_a_choice_that_is_not_possible_is_passed_over() -> None:
    told = Scenario(controllers=crops, steps=[Apply(EAST), Edit(EAST, {"spec": {"crop": "oats"}})])
    runner = ScenarioRunner(told)
    plan = FaultPlan(schedule=[Choice(1, "manager 7 sees things")])
    assert end_of(runner.run(plan).world) == end_of(runner.run(FaultPlan(schedule=())).world)
