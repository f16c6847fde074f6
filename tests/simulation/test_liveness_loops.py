"""Livelocks are found while a scenario runs, and told as what came before and what goes round."""

import pytest

from controllers import registrysecrets
from controllers.registrysecrets.demo.original import make_original_controller
from informers import OutcomeUnknown
from reconcile import Context, ObjectMeta, Result, Storms
from reconcile.kinds import ConfigMap
from reconcile.testing import (
    Apply,
    Broken,
    Fault,
    FaultPlan,
    Refuse,
    Scenario,
    Touch,
    When,
    replay,
    seeds,
    sweep,
)
from reconcile.testing.exploration.livelocks import LivelockWatch
from reconcile.testing.run_records import Livelock
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from tests.simulation import loops
from tests.simulation.bundled_scenarios import pipeline, registry_secrets, source, worker_groups
from tests.simulation.toys import PLOT, Plot, keep, scenario


def played(told: Scenario, seed: int = 0, *faults: Fault) -> ScenarioRun:
    return ScenarioRunner(told, references=0).run(FaultPlan(faults, seed=seed))


def livelock_of(told: Scenario, seed: int = 0) -> Livelock:
    run = played(told, seed)
    assert [violation.rule for violation in run.violations] == ["converges"], run.violations
    assert run.world.livelock is not None
    return run.world.livelock


def original() -> Scenario:
    return Scenario(
        controllers=make_original_controller,
        definitions=[registrysecrets.definition()],
        steps=[Apply(source("one")), Apply(pipeline("test", "production"))],
    )


PROVEN = {
    "a fight": (loops.fight(), 2, False),
    "a time": (loops.alone(loops.stamp), 1, False),
    "three values in turn": (loops.alone(loops.turn_round), 3, False),
    "an object made anew": (loops.alone(loops.dig_over), 2, False),
    "a random value": (loops.alone(loops.draw_lots), 1, True),
}


@pytest.mark.rule("sim-livelock")
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", PROVEN)
def test_a_livelock_is_proven_and_ends_the_run_within_seconds(name: str, seed: int) -> None:
    told, changes, fresh = PROVEN[name]
    found = livelock_of(told, seed)
    assert found.proven is not fresh
    assert found.endless is fresh
    assert len(found.steps) % changes == 0
    assert found.ended < 10
    assert found.turns == (30 if fresh else 3)


@pytest.mark.rule("sim-livelock")
def test_the_copy_loop_of_kubero_is_found_in_a_fraction_of_a_thousand_changes() -> None:
    run = played(original())
    found = run.world.livelock
    assert found is not None
    assert found.endless  # not proven: each release has a number
    assert len(run.world.changes) < 180
    assert "; only such a value could end it" in run.violations[0].text


def test_a_story_shows_what_came_before_the_loop_then_the_loop_and_who_wakes_whom() -> None:
    run = played(loops.fight())
    before, _, rest = format_trace(run).partition("The loop, which goes on like this:\n")
    loop, _, wrong = rest.partition("\n\nWhat is wrong:\n")
    assert "user       apply plots default/east" in before
    first, change, second, back, end = loop.splitlines()
    assert first.endswith(
        "right for default/east, woken by what left for default/east wrote to configmaps default/bed"
    )
    assert second.endswith(
        "left for default/east, woken by what right for default/east wrote to configmaps default/bed"
    )
    assert change.strip() == 'configmaps default/bed: data.crop: "rye" -> "oats"'
    assert back.strip() == 'configmaps default/bed: data.crop: "oats" -> "rye"'
    assert end.endswith("s  and so on")
    assert wrong.startswith(
        "  converges: a livelock: since 1.349 s 2 changes lead back to the same state, 3 times so far"
    )


def test_a_story_of_a_loop_does_not_show_secrets() -> None:
    async def tells(ctx: Context[Plot]) -> None:
        password = "rosebud" if ctx.object.spec.password == "sesame" else "sesame"
        await ctx.client.raw.merge(ctx.object, {"spec": {"password": password}})

    told = loops.alone(tells, without=["declared"])
    text = format_trace(played(told))
    assert "The loop, which goes on like this:" in text
    assert "a secret has changed" in text
    assert "sesame" not in text
    assert "rosebud" not in text


def test_a_key_that_a_storm_guard_holds_is_not_taken_for_rest() -> None:
    run = played(loops.alone(loops.draw_lots, storms=Storms()))
    (violation,) = run.violations
    assert violation.rule == "converges"
    assert violation.text.startswith(
        "a storm of plots for default/east: woken by its own writes to .data.lot of ConfigMap default/bed; "
    )
    assert "the storm guard of manager 1 holds it" in violation.text
    assert "The loop, which goes on like this:" in format_trace(run)


def test_a_storm_without_a_cycle_is_told_with_its_last_writes() -> None:
    run = played(loops.alone(loops.dig_over, storms=Storms()))
    assert run.violations[0].text.startswith(
        "a storm of plots for default/east: makes objects of kind ConfigMap"
    )
    assert run.world.livelock is not None
    assert run.world.livelock.steps


def test_seeds_and_sweeps_find_a_livelock_and_shrink_to_no_faults() -> None:
    for mode in (lambda told: seeds(told, 2), sweep):
        with pytest.raises(Broken) as broken:
            mode(loops.fight())
        assert broken.value.rules == {"converges"}
        assert broken.value.plan.faults == ()
        assert broken.value.run.world.livelock is not None


def test_a_loop_that_only_a_fault_begins_is_found_by_a_sweep() -> None:
    async def corrects_itself(ctx: Context[Plot]) -> None:
        """Two values in turn once it has seen that its first attempt was refused."""
        page = await ctx.client.find(ConfigMap, "bed", "default")
        if page is None:
            try:
                await ctx.create(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"crop": "rye"}))
            except OutcomeUnknown:
                mark = ConfigMap(metadata=ObjectMeta("mark", "default"), data={"crop": "none"})
                await ctx.create(mark)
            return
        if await ctx.client.find(ConfigMap, "mark", "default") is not None:
            other = "oats" if page.data["crop"] == "rye" else "rye"
            await ctx.apply(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"crop": other}))

    with pytest.raises(Broken) as broken:
        sweep(loops.alone(corrects_itself, without=["end-state", "creates"]))
    assert len(broken.value.plan.faults) == 1
    assert broken.value.run.world.livelock is not None
    assert broken.value.run.world.livelock.proven


# --- what only looks like a livelock --------------------------------------------------------------


HONEST: dict[str, Scenario] = {
    "a count in a number": loops.alone(loops.counts_to(25), without=["extra-run"]),
    "a rollout": loops.alone(loops.digs_beds(40)),
    "a heart that beats for a while": loops.alone(loops.beats(40)),
    "a loop that a delayed key ends": loops.turns_until(loops.ends_later()),
    "a loop that a slow run ends": loops.turns_until(loops.ends_slowly),
}


@pytest.mark.rule("sim-livelock")
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", HONEST)
def test_what_comes_to_an_end_is_no_livelock(name: str, seed: int) -> None:
    run = played(HONEST[name], seed)
    assert run.world.livelock is None
    assert not run.failed, run.violations


def test_periodic_work_that_writes_nothing_is_rest() -> None:
    async def looks_again(ctx: Context[Plot]) -> Result:
        await keep(ctx)
        return Result(requeue_after=0.5)

    assert not played(scenario(looks_again)).failed


def test_what_a_timer_drives_is_not_proven_but_shown_at_the_limit() -> None:
    async def restless(ctx: Context[Plot]) -> Result:
        ctx.status(seen=ctx.clock.now().isoformat())
        return Result(requeue_after=1)

    found = livelock_of(scenario(restless, Apply(PLOT)))
    assert not found.proven
    assert found.ended > 290
    assert found.steps[0].woken is not None
    assert found.steps[0].woken[0].verb == "scheduled"


def test_what_users_do_begins_the_count_anew() -> None:
    touches = [Touch(PLOT)] * 12

    async def answers(ctx: Context[Plot]) -> None:
        seen = "a" if ctx.object.status.seen == "b" else "b"
        ctx.status(seen=seen)

    assert played(loops.alone(answers, *touches, without=["extra-run"])).world.livelock is None


def test_a_fault_that_goes_on_for_ever_proves_nothing() -> None:
    told = loops.alone(loops.counts_to(3), without=["extra-run"])
    refused = Fault(When("patch", "*/configmaps/*", times=None), Refuse(500))
    run = played(told, 0, refused)
    assert run.world.livelock is None


@pytest.mark.parametrize("told", [scenario(), registry_secrets(), worker_groups()])
def test_no_states_are_compared_in_a_run_that_does_not_write_the_same_again_and_again(
    told: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[float] = []
    moment = LivelockWatch._moment
    monkeypatch.setattr(LivelockWatch, "_moment", lambda watch: (compared.append(0.0), moment(watch))[1])
    runner = ScenarioRunner(told, references=0)
    for seed in range(3):
        assert not runner.run(FaultPlan(seed=seed)).failed
    assert len(compared) <= 3 * 5  # a status that counts pods


def test_a_regression_test_replays_the_loop() -> None:
    with pytest.raises(Broken, match="a livelock: since"):
        replay(loops.fight(), FaultPlan())
