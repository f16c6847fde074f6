"""Guided fuzzing: what it finds that drawing alone does not, and that one seed makes the same runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Context
from reconcile.testing import Apply, Broken, FaultPlan, Kill, Scenario, World, fuzz
from reconcile.testing.fuzzing import DrawnPlans, drawn_plans, fault_kinds, process_acts
from reconcile.testing.guidance import corpus
from reconcile.testing.guidance.covered_lines import line_recorder
from reconcile.testing.guidance.guided_plans import GuidedPlans
from reconcile.testing.guidance.mutation import MOST_ACTS, MOST_FAULTS, Mutator, Parent
from reconcile.testing.guidance.observed_run import places_of
from reconcile.testing.guidance.situations import situations_of
from reconcile.testing.guidance.world_outline import outline_of
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.seeded_random import SeededRandom
from tests.simulation import toys
from tests.simulation.run_history_bytes import history
from tests.simulation.toys import PLOT, Plot, scenario
from tests.verification.zoo.all_bugs import BY_NAME

ROOT = Path(__file__).parents[2]
DEEP = BY_NAME["paid-twice-after-two-crashes"]
FAST = 0
"""A seed with which guidance finds it soon."""


def runs_until_broken(plans: DrawnPlans | GuidedPlans, most: int) -> int | None:
    for number, plan in zip(range(1, most + 1), plans.plans(), strict=False):
        if plans.run(plan).failed:
            return number
    return None


@pytest.mark.rule("sim-guided")
def test_a_bug_behind_two_crashes_in_order_is_found_by_guidance_and_not_by_drawing_alone() -> None:
    assert runs_until_broken(GuidedPlans(DEEP.broken, FAST), 60) is not None
    assert runs_until_broken(DrawnPlans(DEEP.broken, FAST), 60) is None


@pytest.mark.rule("sim-guided")
def test_a_guided_fuzz_shrinks_what_it_finds_and_passes_the_mended_twin() -> None:
    with pytest.raises(Broken) as broken:
        fuzz(DEEP.broken, seconds=60, most=100, seed=FAST)
    assert broken.value.rules == {"paid_once"}
    assert len(broken.value.plan.faults) + len(broken.value.plan.acts or ()) <= 4
    assert fuzz(DEEP.mended, seconds=60, most=20, seed=FAST).runs == 20


@pytest.mark.rule("sim-guided")
def test_all_plans_that_hold_are_kept_with_whether_they_reached_something_new() -> None:
    plans = GuidedPlans(scenario(), 0)
    played: list[tuple[FaultPlan, bool]] = []
    for _, plan in zip(range(25), plans.plans(), strict=False):
        before = plans.reached
        plans.run(plan)
        played.append((plan, plans.reached > before))
    assert [(kept.parent.plan, kept.is_new) for kept in plans.corpus.kept] == played
    assert {is_new for _, is_new in played} == {True, False}


def test_of_too_many_plans_those_that_reached_nothing_new_are_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus, "MOST_KEPT", 3)
    kept = corpus.Corpus()
    for number, situations in enumerate(("a", "a", "b", "ab", "c", "abc")):
        parent = Parent(FaultPlan((), [Apply(PLOT)] * (1 + number)), ())
        kept.keep(parent, kept.learn(situations))
    assert [len(parent.plan.acts or ()) for parent in kept.parents] == [1, 3, 5]
    kept.keep(Parent(FaultPlan((), [Kill()]), ()), kept.learn("d"))
    assert [len(parent.plan.acts or ()) for parent in kept.parents] == [1, 3, 1]  # not the longest


@pytest.mark.rule("sim-guided")
def test_the_first_plan_is_the_steps_of_the_scenario_and_functions_stay_steps() -> None:
    async def look(world: World) -> None:
        world.note("looked")

    plans = GuidedPlans(scenario(), 3)
    assert next(plans.plans()) == FaultPlan((), toys.STORY, 3)
    told = Scenario(controllers=scenario().controllers, steps=[Apply(PLOT), look])
    assert next(GuidedPlans(told, 3).plans()).acts is None
    assert fuzz(told, seconds=30, most=15).runs == 15


PLANS = """
from reconcile.testing.guidance.guided_plans import GuidedPlans
from tests.simulation.toys import scenario
plans = GuidedPlans(scenario(), 5)
for _, plan in zip(range(12), plans.plans()):
    plans.run(plan)
    print(plan.to_json(), plans.reached)
"""


@pytest.mark.rule("sim-guided")
def test_one_seed_makes_the_same_plans_in_two_processes() -> None:
    made = []
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PLANS],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            text=True,
        )
        made.append(done.stdout.splitlines())
    assert made[0] == made[1]
    assert len(set(made[0])) == 12


# --- changing plans -------------------------------------------------------------------------------

RUN = ScenarioRunner(scenario()).run(FaultPlan((), toys.STORY))
PARENT = Parent(RUN.plan, places_of(RUN))
STOCK = drawn_plans(scenario(), seed=1, count=10)


@pytest.mark.rule("sim-guided")
@given(st.integers(0, 10_000))
def test_a_changed_plan_differs_stays_within_bounds_and_survives_json(seed: int) -> None:
    chance = SeededRandom(f"{seed}/test")
    mutator = Mutator(chance, fault_kinds(scenario()), process_acts(scenario()))
    parent, plans = PARENT, [PARENT]
    for _ in range(5):
        plan = mutator.child(parent, STOCK, plans)
        assert plan != parent.plan
        assert len(plan.faults) <= MOST_FAULTS
        assert 1 <= len(plan.acts or ()) <= MOST_ACTS
        assert FaultPlan.from_json(plan.to_json()) == plan
        parent = Parent(plan, PARENT.places)
        plans.append(parent)


@pytest.mark.rule("sim-guided")
def test_a_fault_is_planned_where_a_request_was_seen_after_the_last_fault() -> None:
    places = places_of(RUN)
    writes = [request for request in RUN.world.requests if request.mutating and request.counted]
    assert [place.path for place in places if place.mutating] == [request.path for request in writes]
    patched = [place.nth for place in places if (place.verb, place.path) == ("patch", writes[-1].path)]
    assert patched == list(range(1, len(patched) + 1))
    first = next(place for place in places if place.mutating)
    chance = SeededRandom("test")
    mutator = Mutator(chance, fault_kinds(scenario()), process_acts(scenario()))
    broken = ScenarioRunner(scenario()).run(mutator.struck(FaultPlan(), [first]))
    (fault,) = broken.plan.faults
    assert fault.when.path == first.path
    (process,) = broken.world.processes
    assert [one.what for one in process.transport.injected] == [fault.what]
    assert not all(place.late for place in places_of(broken))


# --- what a run reached ---------------------------------------------------------------------------


@pytest.mark.rule("sim-guided")
def test_situations_tell_apart_worlds_and_faults_but_not_names_uids_and_times() -> None:
    def reached(plan: FaultPlan) -> set[object]:
        return situations_of(ScenarioRunner(scenario()).run(plan), ())

    plain = reached(FaultPlan((), [Apply(PLOT)]))
    renamed = Plot(metadata=toys.ObjectMeta("west"), spec=PLOT.spec)
    assert reached(FaultPlan((), [Apply(renamed)])) == plain
    other_fault = reached(FaultPlan((), [Apply(PLOT), Kill(), Apply(toys.Plot(metadata=PLOT.metadata))]))
    assert other_fault - plain


def test_an_outline_says_whether_an_object_is_deleted_and_what_its_status_says() -> None:
    run = ScenarioRunner(scenario(toys.keep, Apply(PLOT))).run(FaultPlan())
    (plot,) = run.world.server.log.snapshot(("toys.example.com", "plots"))
    assert set(outline_of(plot)) == {"exists", ("observedGeneration", True), ("size", "2")}


# --- lines ----------------------------------------------------------------------------------------


async def two_ways(ctx: Context[Plot]) -> None:
    if ctx.object.spec.crop == "rye":
        ctx.status(seen="rye")
    else:
        await toys.keep(ctx)


def lines_of(run: str, told: Scenario) -> set[int]:
    recorder = line_recorder(told)
    runner = ScenarioRunner(recorder.instrumented(told), references=0)
    for seed in range(8):  # a sample: one of some runs of a reconciler
        runner.run(
            FaultPlan((), toys.STORY if run == "rye" else [Apply(PLOT)], seed), during=recorder.recording
        )
    return {line for file, line, _ in recorder.taken() if file == __file__}


@pytest.mark.rule("sim-guided")
def test_lines_of_the_author_are_recorded_with_the_branch_that_was_taken() -> None:
    first = two_ways.__code__.co_firstlineno
    assert lines_of("barley", scenario(two_ways)) == {first + 1, first + 4}
    assert lines_of("rye", scenario(two_ways)) == {first + 1, first + 2, first + 4}


@pytest.mark.rule("sim-guided")
@pytest.mark.parametrize("reconcile", [toys.keep, toys.never_done, toys.asking])
def test_recording_lines_changes_nothing_of_a_run(reconcile: toys.Keep) -> None:
    told = scenario(reconcile, without=["converges"])
    recorder = line_recorder(told)
    plans = [FaultPlan((), toys.STORY), *drawn_plans(told, seed=2, count=3)]
    with_lines = ScenarioRunner(recorder.instrumented(told), references=0)
    plain = ScenarioRunner(told, references=0)
    for plan in plans:
        recorded = with_lines.run(plan, during=recorder.recording)
        assert history(recorded) == history(plain.run(plan))


@pytest.mark.rule("sim-guided")
def test_a_tracer_of_others_is_left_alone_and_lines_are_recorded_only_beside_it() -> None:
    """From Python 3.12 on `sys.monitoring` records beside a tracer; before, there can be one tracer only."""
    told = scenario()
    tracing = sys.gettrace()
    sys.settrace(tracer := lambda frame, event, arg: None)
    try:
        recorder = line_recorder(told)
        run = ScenarioRunner(recorder.instrumented(told)).run(FaultPlan(), during=recorder.recording)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(tracing)
    assert not run.failed
    assert bool(recorder.taken()) == hasattr(sys, "monitoring")
