"""Sweep, fuzz and replay: what they find, how small it gets, and how it is told."""

import base64
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from reconcile import Client, Context, Controller, ObjectMeta, OwnerReference
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import (
    Apply,
    Broken,
    CrashAfter,
    Delete,
    Edit,
    Fault,
    FaultPlan,
    Hold,
    Kill,
    LoseReply,
    RealWorldError,
    Scenario,
    Wait,
    When,
    World,
    fuzz,
    replay,
    scenario_runner,
    sweep,
)
from reconcile.testing.run_trace import format_trace, pytest_parameter
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.shrinking import shrink
from tests.simulation import toys
from tests.simulation.bundled_scenarios import BUNDLED
from tests.simulation.run_history_bytes import history
from tests.simulation.toys import PLOT, Plot, PlotSpec, scenario

ROOT = Path(__file__).parents[2]


# --- sweep ------------------------------------------------------------------------------------------


@pytest.mark.rule("sim-sweep")
def test_a_sweep_disturbs_every_effective_write_and_every_event_three_times() -> None:
    told = scenario(toys.keep, Apply(PLOT))
    first = ScenarioRunner(told).run(FaultPlan(), record_events=True)
    (process,) = first.world.processes
    writes = [request for request in process.transport.requests if request.effective]
    events = [one for one in process.transport.events if b'"BOOKMARK"' not in one.text]
    assert len(writes) == 3  # two beds and a status
    assert len(events) == 4  # the plot, its status, two beds
    assert sweep(told).in_full == 3 * len(writes) + 3 * len(events)


@pytest.mark.rule("sim-sweep")
def test_a_bounded_sweep_reports_how_much_of_it_was_run() -> None:
    assert str(sweep(scenario(toys.keep, Apply(PLOT)), most=4)) == "4 runs of 21"


@pytest.mark.rule("sim-sweep")
def test_a_decision_on_a_stale_cache_is_detected_by_delaying_events() -> None:
    async def keep(ctx: Context[Plot]) -> None:
        """Takes the beds it sees for all there are: a late one is made again under another name."""
        plot = ctx.object
        owner = OwnerReference("toys.example.com/v1", "Plot", plot.name, plot.uid, controller=True)
        for _ in range(plot.spec.size - len(await ctx.owned(ConfigMap))):
            # A client without a memory of what it wrote, as of other libraries.
            client = Client(ctx.client.transport, clock=ctx.clock)
            meta = ObjectMeta("", plot.namespace, generate_name="bed-", owner_references=(owner,))
            await client.create(ConfigMap(metadata=meta))

    with pytest.raises(Broken) as broken:
        sweep(scenario(keep, Apply(PLOT), Edit(PLOT, {"spec": {"crop": "rye"}})))
    assert broken.value.rules & {"creates", "converges", "end-state"}


def doubtful(book: list[str]) -> Controller[Plot]:
    """Enters each plot into a book outside, and notes in the status that it has."""

    async def keep(ctx: Context[Plot]) -> None:
        if not ctx.object.status.seen:
            book.append(ctx.object.name)
            ctx.status(seen="entered")

    return Controller(Plot, keep)


def sure(book: list[str]) -> Controller[Plot]:
    """Looks whether the plot is in the book."""

    async def keep(ctx: Context[Plot]) -> None:
        if ctx.object.name not in book:
            book.append(ctx.object.name)
        ctx.status(seen="entered")

    return Controller(Plot, keep)


def entered_once(world: World) -> None:
    assert world.outside == ["east"]


@pytest.mark.rule("sim-outside")
def test_the_outside_world_is_new_in_each_run_and_outlives_processes() -> None:
    told = Scenario(controllers=sure, outside=list, steps=[Apply(PLOT)], invariants=[entered_once])
    report = sweep(told)
    assert report.runs == report.in_full == 9  # a status, and the events of it and of the plot


@pytest.mark.rule("sim-outside")
def test_a_duplicate_external_effect_is_detected_by_a_crash_before_the_status_write() -> None:
    told = Scenario(controllers=doubtful, outside=list, steps=[Apply(PLOT)], invariants=[entered_once])
    with pytest.raises(Broken) as broken:
        sweep(told)
    assert broken.value.rules == {"entered_once"}
    (fault,) = broken.value.plan.faults
    assert fault.when.path.endswith("/status")


# --- fuzz -------------------------------------------------------------------------------------------


@pytest.mark.rule("sim-fuzz")
def test_a_fuzz_finds_a_failure_of_rare_objects_and_shrinks_it_to_one_act() -> None:
    async def keep(ctx: Context[Plot]) -> None:
        if ctx.object.spec.size == 3:
            ctx.status(observed_generation=99)

    told = scenario(keep, Delete(PLOT))
    with pytest.raises(Broken) as broken:
        fuzz(told, seconds=60, most=2000)
    plan = broken.value.plan
    assert plan.faults == ()
    (act,) = plan.acts or ()
    assert isinstance(act, Apply)
    assert act.manifest["spec"]["size"] == 3


@pytest.mark.rule("sim-fuzz")
def test_a_fuzz_sets_fields_of_applied_objects_to_any_value_of_their_type() -> None:
    async def keep(ctx: Context[Plot]) -> None:
        if ctx.object.spec.size == 0:
            ctx.status(observed_generation=99)

    with pytest.raises(Broken) as broken:
        fuzz(scenario(keep, Apply(PLOT)), seconds=60, most=2000)
    applied, edited = broken.value.plan.acts or ()
    assert (applied, edited) == (Apply(PLOT), Edit(PLOT, {"spec": {"size": 0}}))


@pytest.mark.rule("sim-fuzz")
def test_a_fuzz_passes_a_correct_controller_and_reports_the_number_of_runs() -> None:
    assert str(fuzz(scenario(), seconds=30, most=25, guided=False)) == "25 runs"
    report = fuzz(scenario(), seconds=30, most=25)
    assert str(report) == f"25 runs, {report.reached} situations"


@pytest.mark.rule("sim-fuzz")
def test_the_strategies_of_a_scenario_determine_the_objects_of_users() -> None:
    seen: list[str] = []

    async def keep(ctx: Context[Plot]) -> None:
        seen.append(ctx.object.spec.crop)

    mine = st.builds(Plot, metadata=st.just(ObjectMeta("mine")), spec=st.just(PlotSpec(crop="maize")))
    fuzz(scenario(keep, Delete(PLOT), strategies={Plot: mine}), seconds=30, most=25)
    assert set(seen) == {"maize"}


# --- runs without faults to compare with --------------------------------------------------------------


def runs_of(reconcile: toys.Keep, *plans: FaultPlan) -> tuple[int, list[bool]]:
    """How often the steps were played for these plans, and which of them failed."""
    played: list[World] = []

    async def note(world: World) -> None:
        played.append(world)

    told = Scenario(controllers=scenario(reconcile).controllers, steps=[Apply(PLOT), note])
    runner = ScenarioRunner(told)
    failed = [runner.run(plan).failed for plan in plans]
    return len(played), failed


@pytest.mark.rule("sim-end-state")
def test_a_run_that_ends_like_one_run_without_faults_is_compared_with_no_more() -> None:
    lost = FaultPlan([Fault(When("create"), LoseReply())])
    assert runs_of(toys.keep, FaultPlan(), lost, FaultPlan(seed=3)) == (1 + 3, [False] * 3)


@pytest.mark.rule("sim-end-state")
def test_a_run_that_ends_otherwise_is_compared_with_three_runs_before_it_fails() -> None:
    async def drawn(ctx: Context[Plot]) -> None:
        """The status is another one under each seed."""
        if not ctx.object.status.seen:
            ctx.status(seen=ctx.clock.uuid().hex)

    assert runs_of(drawn, FaultPlan(seed=1)) == (1 + 1 + 2 + 1, [False])
    crash = FaultPlan([Fault(When("create"), CrashAfter())])
    assert runs_of(toys.once_too_often, crash, crash) == (1 + 1 + 2 + 1 + 1, [True, True])


def test_the_runs_without_faults_of_few_sequences_of_acts_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scenario_runner, "MOST_REMEMBERED", 2)
    played: list[World] = []
    told = scenario(toys.keep, invariants=[played.append])
    runner = ScenarioRunner(told)
    plans = [FaultPlan((), [Apply(PLOT)] * count) for count in (1, 2, 1, 3, 1, 2)]
    runs = []
    for plan in plans:
        before = len(played)
        assert not runner.run(plan).failed
        runs.append((len(played) - before) // len(plan.acts or ()))
    assert runs == [2, 2, 1, 2, 1, 2]  # the third drives out the second, which was used least recently


# --- shrinking --------------------------------------------------------------------------------------


@pytest.mark.rule("sim-shrink")
def test_shrinking_removes_everything_that_the_failure_does_not_need() -> None:
    crash = Fault(When("create", nth=2, times=3), CrashAfter())
    plan = FaultPlan(
        [Fault(When(), LoseReply()), crash, Fault(When("watch"), Hold(2, 3))],
        [Apply(PLOT), Wait(5), Kill(), Delete(PLOT)],
        seed=7,
    )

    def fails(plan: FaultPlan) -> bool:
        return any(isinstance(f.what, CrashAfter) for f in plan.faults) and Delete(PLOT) in (plan.acts or ())

    least = shrink(plan, fails)
    assert least == FaultPlan([Fault(When("create", nth=2), CrashAfter())], [Delete(PLOT)])


# --- replay and its story ---------------------------------------------------------------------------


def broken_by_a_crash() -> Broken:
    with pytest.raises(Broken) as broken:
        sweep(scenario(toys.once_too_often, Apply(PLOT)))
    return broken.value


@pytest.mark.rule("sim-replay")
def test_a_plan_read_from_json_fails_in_the_same_way() -> None:
    first = broken_by_a_crash()
    again = FaultPlan.from_json(first.plan.to_json())
    with pytest.raises(Broken) as broken:
        replay(scenario(toys.once_too_often, Apply(PLOT)), again)
    assert str(broken.value) == str(first)


@pytest.mark.rule("sim-replay")
def test_the_pytest_parameter_of_a_plan_evaluates_to_the_plan() -> None:
    plan = broken_by_a_crash().plan
    (parameter,) = eval(pytest_parameter(plan), {"pytest": pytest, "FaultPlan": FaultPlan})
    assert parameter.values == (plan,)


@pytest.mark.rule("sim-story")
def test_a_trace_shows_actors_actions_changes_and_faults() -> None:
    told = str(broken_by_a_crash())
    for line in (
        "user       apply plots default/east",
        "manager 1  create configmaps default/bed-* -> no answer; the server answered 201",
        "manager 1  life 1 ends: CREATE /api/v1/namespaces/default/configmaps: crashed after",
        'server     plots default/east: status: <nothing> -> {"size":1}',
        "creates: configmaps default/bed-*: 2 times, without faults 1",
        "pytest.param(FaultPlan.from_json(",
    ):
        assert line in told, told


@pytest.mark.rule("sim-secrets")
def test_no_trace_shows_the_values_of_secrets_and_secret_fields() -> None:
    def never(world: World) -> None:
        raise AssertionError("shown")

    async def keep(ctx: Context[Plot]) -> None:
        data = {"key": base64.b64encode(ctx.object.spec.password.encode()).decode()}
        await ctx.apply(Secret(metadata=ObjectMeta("key", ctx.object.namespace), data=data))

    def make() -> Controller[Plot]:
        return Controller(Plot, keep, owns=[Secret], name="plots")

    words = ("correct-horse", "battery-staple")
    applies = [Apply(Plot(metadata=ObjectMeta("east"), spec=PlotSpec(password=word))) for word in words]
    run = ScenarioRunner(Scenario(controllers=make, steps=applies, invariants=[never])).run(FaultPlan())
    told = format_trace(run)
    assert "shown" in told
    assert "a secret has changed" in told
    shown = [
        word for word in words for form in (word, base64.b64encode(word.encode()).decode()) if form in told
    ]
    assert shown == []


# --- a world of one's own ---------------------------------------------------------------------------


@pytest.mark.rule("sim-real-world")
@pytest.mark.parametrize("reach", [lambda: __import__("time").sleep(0), lambda: subprocess.run(["true"])])
def test_a_reconciler_that_uses_the_real_world_ends_the_run_and_the_error_names_its_line(
    reach: Callable[[], Any],
) -> None:
    async def keep(ctx: Context[Plot]) -> None:
        reach()

    with pytest.raises(RealWorldError, match=r"test_scenario_modes\.py:\d+"):
        sweep(scenario(keep, Apply(PLOT)))


@pytest.mark.rule("sim-inline")
def test_blocking_code_runs_in_line_and_takes_no_virtual_time() -> None:
    took: list[float] = []

    async def keep(ctx: Context[Plot]) -> None:
        before = toys.anyio.current_time()
        await ctx.run_sync(sum, range(1000))
        took.append(toys.anyio.current_time() - before)

    replay(scenario(keep, Apply(PLOT)), FaultPlan())
    assert set(took) == {0.0}


@pytest.mark.rule("sim-restart")
def test_the_memory_of_a_controller_is_lost_with_its_process() -> None:
    lives: list[set[str]] = []

    def make() -> Controller[Plot]:
        memory: set[str] = set()
        lives.append(memory)

        async def keep(ctx: Context[Plot]) -> None:
            memory.add(ctx.object.spec.crop)

        return Controller(Plot, keep, name="plots")

    steps = [Apply(PLOT), Kill(), Edit(PLOT, {"spec": {"crop": "oats"}})]
    replay(Scenario(controllers=make, steps=steps), FaultPlan())
    assert [memory for memory in lives if memory][-2:] == [{"barley"}, {"barley", "oats"}]


def test_a_step_can_be_a_function_with_assertions() -> None:
    async def look(world: World) -> None:
        assert world.find(Plot, "west") is not None, "no plot in the west"

    told = Scenario(controllers=scenario().controllers, steps=[Apply(PLOT), look])
    with pytest.raises(Broken, match="step: no plot in the west"):
        replay(told, FaultPlan())


def test_acts_that_the_server_refuses_are_in_the_trace_and_do_not_fail_the_run() -> None:
    wrong = Edit(PLOT, {"spec": {"size": -1}})
    run = replay(scenario(toys.keep, Apply(PLOT), wrong), FaultPlan())
    assert "edit: refused" in format_trace(run)


# --- determinism ------------------------------------------------------------------------------------

HISTORY = """
import sys
from reconcile.testing import Fault, FaultPlan, When, CrashAfter
from reconcile.testing.scenario_runner import ScenarioRunner
from tests.simulation.toys import scenario
from tests.simulation.run_history_bytes import history
for seed in range(3):
    plan = FaultPlan([Fault(When("write", nth=2), CrashAfter())], seed=seed)
    sys.stdout.buffer.write(history(ScenarioRunner(scenario()).run(plan)))
"""


@pytest.mark.rule("sim-determinism")
def test_one_seed_gives_byte_identical_histories_in_two_processes() -> None:
    histories = []
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", HISTORY],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        )
        histories.append(done.stdout)
    assert histories[0] == histories[1]
    assert len(histories[0]) > 10_000


@pytest.mark.rule("sim-determinism")
def test_a_run_leaves_nothing_behind_for_the_next_one() -> None:
    runner = ScenarioRunner(BUNDLED["worker-groups"]())
    plan = FaultPlan([Fault(When("create", nth=2), CrashAfter())], seed=3)
    first = history(runner.run(plan))
    runner.run(FaultPlan(seed=4))
    assert history(runner.run(plan)) == first


def test_another_seed_gives_another_history() -> None:
    runner = ScenarioRunner(scenario())
    one, two = (history(runner.run(FaultPlan(seed=seed))) for seed in (1, 2))
    assert one != two
