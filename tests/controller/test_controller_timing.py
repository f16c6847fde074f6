"""When a key runs again: results, priorities, errors, timers, resyncs, and objects that are no more."""

import itertools
import math
from datetime import timedelta
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Delta, Snapshot, get_logger
from reconcile import Backoff, Context, Controller, ObjectMeta, Request, Result
from reconcile.controller.tombstones import Deleted, Tombstones
from reconcile.controller.triggers import INITIAL_PRIORITY
from reconcile.errors import ReconcileTimeout, TerminalError
from tests.helpers.managers import Toy, ToySpec, World, idle, keep_size, played
from tests.helpers.scenarios import in_world


@pytest.mark.rule("inv-11")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_failures_count_until_success_or_requeue_after_and_a_terminal_error_keeps_the_count(
    world: World, seed: int
) -> None:
    attempts: list[int] = []
    plan = ["fail", "fail", "final", "fail", "later", "fail", "again", "fail", "end"]

    async def act(ctx: Context[Toy]) -> Result | None:
        attempts.append(ctx.attempt)
        match plan[len(attempts) - 1]:
            case "fail":
                raise RuntimeError("no")
            case "final":
                raise TerminalError("not like this")
            case "later":
                return Result(requeue_after=1)
            case "again":
                return Result(requeue=True)
        return None

    async with world.running(Controller(Toy, act)):
        await world.make()
        await anyio.sleep(5)
        assert attempts == [0, 1, 2]
        await world.client.modify(Toy, "a", "default", lambda toy: toy.replace(spec=ToySpec(size=5)))
        await anyio.sleep(20)
    assert attempts == [0, 1, 2, 2, 3, 0, 1, 2, 3]


@pytest.mark.rule("P3", "result-priority")
@in_world(played)
async def test_a_key_keeps_its_priority_through_retries_and_requeues_unless_the_result_sets_another(
    world: World,
) -> None:
    seen: list[tuple[str, int]] = []
    plan = [
        RuntimeError("no"),
        Result(requeue_after=1),
        Result(requeue=True),
        Result(requeue_after=1, priority=7),
        Result(),
        None,
    ]
    await world.make()

    async def act(ctx: Context[Toy]) -> Result | None:
        (run,) = running.runs("toy").running()
        step: Any = plan[len(seen)]
        seen.append((type(step).__name__, run.priority))
        if isinstance(step, Exception):
            raise step
        wanted: Result | None = step
        return wanted

    async with world.running(Controller(Toy, act)) as running:
        await anyio.sleep(20)
        await world.client.modify(Toy, "a", "default", lambda toy: toy.replace(spec=ToySpec(size=5)))
        await anyio.sleep(20)
    low = INITIAL_PRIORITY
    assert [priority for _, priority in seen] == [low, low, low, low, 7, 0]


@pytest.mark.rule("result-again")
@in_world(played)
async def test_requeue_backs_off_while_repeated_and_restarts_after_another_result(world: World) -> None:
    times: list[float] = []
    plan = ["again"] * 8 + ["done"] + ["again"] * 3 + ["later"] + ["again"] * 3

    async def act(ctx: Context[Toy]) -> Result | None:
        times.append(anyio.current_time())
        step = plan[len(times) - 1] if len(times) <= len(plan) else "done"
        return {"again": Result(requeue=True), "later": Result(requeue_after=0.5)}.get(step)

    async with world.running(Controller(Toy, act, every=30)):
        await world.make()
        await anyio.sleep(120)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    backoffs = [0.005 * 2**n for n in range(8)]
    for gap, backoff in zip(gaps, backoffs, strict=False):
        assert backoff <= gap <= 1.11 * backoff + 0.01
    for gap, backoff in zip(gaps[9:], backoffs[:3], strict=False):
        assert backoff <= gap <= 1.11 * backoff + 0.01
    assert 0.5 <= gaps[12] < 0.51
    assert gaps[13] <= 0.016


@pytest.mark.rule("result-after")
@in_world(played)
async def test_requeue_after_is_kept_and_an_earlier_wake_up_replaces_it(world: World) -> None:
    times: list[float] = []

    async def act(ctx: Context[Toy]) -> Result:
        times.append(anyio.current_time())
        return Result(requeue_after=50)

    async with world.running(Controller(Toy, act)):
        await world.make()
        await anyio.sleep(70)
        await world.client.modify(Toy, "a", "default", lambda toy: toy.replace(spec=ToySpec(size=5)))
        await anyio.sleep(59)
    gaps = [round(b - a) for a, b in itertools.pairwise(times)]
    assert gaps == [50, 20, 50] or gaps == [50, 20]
    assert times[-1] - times[-2] >= 20


@pytest.mark.rule("result-error")
@in_world(played)
async def test_after_an_error_only_the_back_off_counts_and_a_terminal_error_waits_for_a_change(
    world: World,
) -> None:
    times: list[float] = []

    async def act(ctx: Context[Toy]) -> Result | None:
        times.append(anyio.current_time())
        match len(times):
            case 1:
                return Result(requeue_after=100)
            case 2:
                raise RuntimeError("no")
            case 3:
                raise TerminalError("never")
        return None

    async with world.running(Controller(Toy, act)):
        await world.make()
        await anyio.sleep(1000)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert len(gaps) == 2
    assert gaps[0] >= 100
    assert gaps[1] <= 0.02


@pytest.mark.rule("priority-initial")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_new_changes_run_before_the_objects_of_the_initial_list(world: World, seed: int) -> None:
    order: list[str] = []

    async def slow(ctx: Context[Toy]) -> None:
        order.append(ctx.object.name)
        await anyio.sleep(1)

    for number in range(20):
        await world.make(f"old-{number:02}")
    async with world.running(Controller(Toy, slow, workers=1)):
        await anyio.sleep(3.5)
        await world.make("new")
        await anyio.sleep(25)
    assert order.index("new") <= 5
    assert len(order) == 21


@in_world(played)
async def test_a_result_with_only_a_priority_requests_no_run_even_from_a_cleanup(world: World) -> None:
    calls: list[str] = []

    async def clean(ctx: Context[Toy]) -> Result:
        calls.append("clean")
        return Result(priority=5)

    async with world.running(Controller(Toy, keep_size, cleanup=clean)):
        toy = await world.make()
        await anyio.sleep(2)
        await world.client.delete(toy)
        await anyio.sleep(5)
        assert await world.client.find(Toy, "a", "default") is None
    assert calls == ["clean"]


def test_a_result_accepts_its_time_as_a_duration() -> None:
    assert Result(requeue_after=timedelta(minutes=2, milliseconds=500)) == Result(requeue_after=120.5)


@pytest.mark.parametrize(
    "result",
    [
        {"requeue_after": 1, "requeue": True},
        {"requeue_after": 0, "requeue": True},
        {"requeue_after": math.nan},
        {"requeue_after": math.inf},
        {"requeue_after": "5"},
        {"requeue_after": True},
        {"priority": "high"},
    ],
)
def test_an_invalid_result_is_refused_on_construction(result: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match="Result"):
        Result(**result)


@given(seconds=st.floats(max_value=0.0, allow_nan=False))
def test_a_negative_requeue_time_means_now(seconds: float) -> None:
    assert Result(requeue_after=seconds) == Result(requeue_after=0.0)
    assert Result(requeue_after=seconds).wants_run


@pytest.mark.rule("result-at-once")
@pytest.mark.parametrize("after", [0, -5, timedelta(), timedelta(seconds=-1)])
@in_world(played)
async def test_a_key_requeued_at_once_is_paced_and_lets_others_run(
    world: World, after: float | timedelta
) -> None:
    order: list[tuple[str, float]] = []

    async def hurry(ctx: Context[Toy]) -> Result | None:
        order.append((ctx.object.name, anyio.current_time()))
        return Result(requeue_after=after) if ctx.object.name == "hasty" else None

    await world.make("hasty")
    for number in range(3):
        await world.make(f"t{number}")
    async with world.running(Controller(Toy, hurry, workers=1)):
        await anyio.sleep(1)
    hasty = [at for name, at in order if name == "hasty"]
    pauses = [late - early for early, late in itertools.pairwise(hasty)]
    assert min(pauses) >= 0.005
    assert max(pauses) < 0.01
    assert [name for name, _ in order[:4]] == ["hasty", "t0", "t1", "t2"]


@pytest.mark.rule("inv-13")
@in_world(played)
async def test_only_the_controllers_own_deadline_is_reported_as_its_timeout(world: World) -> None:
    async def act(ctx: Context[Toy]) -> None:
        if ctx.object.name == "own":
            raise TimeoutError("a socket's")
        await anyio.sleep_forever()

    async with world.running(Controller(Toy, act, timeout=5)) as manager:
        await world.make("own")
        await anyio.sleep(1)
        (past,) = {run.error for _, runs in manager.runs("toy").recent() for run in runs}
        assert past == "TimeoutError: a socket's"
        await world.make("late")
        await anyio.sleep(7)
        errors = {run.error for _, runs in manager.runs("toy").recent() for run in runs}
        assert f"{ReconcileTimeout.__name__}: took longer than 5 s" in errors


@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_every_object_runs_again_on_its_own_timer_until_it_is_deleted(world: World, seed: int) -> None:
    times: dict[str, list[float]] = {}

    async def note(ctx: Context[Toy]) -> None:
        times.setdefault(ctx.object.name, []).append(anyio.current_time())
        if ctx.object.name == "bad":
            raise TerminalError("still no")

    async with world.running(Controller(Toy, note, every=60)) as manager:
        for name in ("a", "b", "bad"):
            await world.make(name)
        await anyio.sleep(1000)
        for name in ("a", "b", "bad"):
            await world.client.delete(await world.client.get(Toy, name, "default"))
        await anyio.sleep(100)
        assert manager.status().controllers[0].queue.delayed == 0
    for name in ("a", "b", "bad"):
        gaps = [b - a for a, b in itertools.pairwise(times[name])]
        assert len(gaps) >= 15
        assert all(60 <= gap <= 66.1 for gap in gaps)
        assert len({round(gap, 3) for gap in gaps}) > 10


@in_world(played)
async def test_the_timer_does_not_shorten_a_back_off_and_an_earlier_requeue_wins(world: World) -> None:
    times: list[float] = []

    async def note(ctx: Context[Toy]) -> Result:
        times.append(anyio.current_time())
        if len(times) < 15:
            raise RuntimeError("no")
        return Result(requeue_after=5) if len(times) < 18 else Result(requeue_after=500)

    async with world.running(Controller(Toy, note, every=10)):
        await world.make()
        await anyio.sleep(300)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps[13] > 40
    assert all(5 <= gap < 5.1 for gap in gaps[14:17])
    assert all(10 <= gap < 11.1 for gap in gaps[17:])


@pytest.mark.rule("inv-11")
@in_world(played)
async def test_a_controller_can_set_the_back_off_of_its_failures(world: World) -> None:
    times: list[float] = []

    async def fail(ctx: Context[Toy]) -> None:
        times.append(anyio.current_time())
        raise RuntimeError("no")

    async with world.running(Controller(Toy, fail, backoff=Backoff(base=2, limit=10), every=1)):
        await world.make()
        await anyio.sleep(60)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    for gap, backoff in zip(gaps, (2, 4, 8, 10, 10), strict=False):
        assert backoff <= gap <= 1.11 * backoff


@pytest.mark.rule("priority-initial")
@in_world(played)
async def test_a_resync_runs_all_objects_regardless_of_predicates_and_after_everything_else(
    world: World,
) -> None:
    seen: list[tuple[int, str]] = []

    async def note(ctx: Context[Toy]) -> None:
        (run,) = running.runs("toy").running()
        seen.append((run.priority, ctx.causes[0].verb))

    async with world.running(
        Controller(Toy, note, wakes=lambda old, new: False, resync=600, workers=1)
    ) as running:
        await world.make()
        await anyio.sleep(10)
        assert seen == [(0, "added")]
        await anyio.sleep(1350)
        assert seen[1:] == [(INITIAL_PRIORITY, "resynced")] * 2


@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_on_deleted_gets_the_last_state_once_and_again_after_a_failure(world: World, seed: int) -> None:
    told: list[tuple[str, int]] = []
    runs: list[str] = []

    async def forget(gone: Deleted[Toy]) -> None:
        told.append((gone.object.uid, gone.object.spec.size))
        if len(told) < 3:
            raise RuntimeError("not yet")

    async def note(ctx: Context[Toy]) -> None:
        runs.append(ctx.object.uid)

    async with world.running(Controller(Toy, note, on_deleted=forget)) as manager:
        first = await world.make(size=4)
        await anyio.sleep(2)
        await world.client.delete(first)
        second = await world.make(size=5)
        await anyio.sleep(20)
        assert told == [(first.uid, 4)] * 3
        assert runs[-1] == second.uid
        await world.client.delete(second)
        await anyio.sleep(5)
        assert told[3:] == [(second.uid, 5)]
        assert not manager._runners[0]._executor.tombstones._deleted


async def test_a_last_state_that_does_not_fit_the_model_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def forget(gone: Deleted[Toy]) -> None:
        raise AssertionError("cannot be read")

    raw = b'{"kind":"Toy","metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":{"size":"x"}}'
    tombstones = Tombstones(Toy, forget)
    tombstones.note(Delta(Snapshot.from_json(raw), None))
    for _ in range(2):
        await tombstones.deliver(Request("", "a"), None, get_logger("t"))  # type: ignore[arg-type]
    assert [vars(r)["event"] for r in caplog.records] == [
        "deleted, but its last state does not fit the model"
    ]


@pytest.mark.parametrize("option", ["timeout", "every", "resync"])
def test_options_in_seconds_must_be_positive(option: str) -> None:
    wrong: Any = {option: 0}
    with pytest.raises(ValueError, match=f"{option}= is a number of seconds above 0"):
        Controller(Toy, idle, **wrong)


def test_a_timer_that_never_comes_is_refused() -> None:
    with pytest.raises(ValueError, match="not inf: leave it out for no timer"):
        Controller(Toy, idle, every=math.inf)


@in_world(played)
async def test_a_manager_that_stops_watching_a_namespace_does_not_report_its_objects_as_deleted(
    world: World,
) -> None:
    told: list[str] = []

    async def forget(gone: Deleted[Toy]) -> None:
        told.append(gone.object.name)

    async with world.running(Controller(Toy, idle, on_deleted=forget), namespace="default") as manager:
        await world.make()
        await world.client.create(Toy(metadata=ObjectMeta("b", "kube-system")))
        cache = manager._clusters.members[0].cache
        cache.add_namespace("kube-system")
        await anyio.sleep(5)
        await cache.remove_namespace("kube-system")
        await anyio.sleep(5)
    assert told == []
