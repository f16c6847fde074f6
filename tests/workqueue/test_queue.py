"""One entry per key, one worker per key; nothing lost, nothing twice."""

import math
from typing import Any

import anyio
import pytest

from tests.helpers.tasks import beside
from tests.workqueue.helpers import Simulate, drained, end, starts, take, virtual
from workqueue import Backoff, KeyBackoff, WorkQueue

pytestmark = pytest.mark.anyio


@pytest.mark.rule("inv-01")
async def test_a_running_key_is_not_handed_out(queue: WorkQueue[str]) -> None:
    queue.add("a")
    async with queue.get() as item:
        queue.add("a")
        assert item.key == "a"
        with anyio.move_on_after(0.01) as scope:
            async with queue.get():
                pytest.fail("the key is in work")
        assert scope.cancelled_caught
    assert await drained(queue) == ["a"]


@pytest.mark.rule("inv-02")
async def test_many_adds_during_work_cause_exactly_one_more_run_at_the_tail(queue: WorkQueue[str]) -> None:
    queue.add("a")
    async with queue.get():
        for _ in range(5):
            queue.add("a")
        queue.add("b")
    assert await drained(queue) == ["b", "a"]


@pytest.mark.rule("inv-03")
async def test_keys_are_handed_out_in_the_order_of_their_first_add(queue: WorkQueue[str]) -> None:
    for key in "abcab":
        queue.add(key)
    assert await drained(queue) == ["a", "b", "c"]


@pytest.mark.rule("P2")
async def test_higher_priority_comes_first_and_a_raised_key_moves_to_the_tail_of_its_class() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("low", priority=-100)
    queue.add("a")
    queue.add("b", priority=5)
    queue.add("a", priority=5)
    assert await drained(queue) == ["b", "a", "low"]


@pytest.mark.rule("P2")
@virtual
async def test_a_key_raised_right_after_its_first_add_comes_first(queue: WorkQueue[str]) -> None:
    queue.add("other")
    queue.add("a")
    queue.add("a", priority=5)
    assert await drained(queue) == ["a", "other"]


@pytest.mark.rule("P3")
async def test_adding_again_with_a_lower_priority_does_not_lower_it(queue: WorkQueue[str]) -> None:
    queue.add("a", priority=3)
    queue.add("a", priority=-3)
    async with queue.get() as item:
        assert item.priority == 3


@pytest.mark.rule("P4")
async def test_a_running_key_does_not_block_others_of_lower_priority(queue: WorkQueue[str]) -> None:
    queue.add("a", priority=9)
    async with queue.get():
        queue.add("a", priority=9)
        queue.add("b")
        async with queue.get() as other:
            assert other.key == "b"


@pytest.mark.rule("P1", "inv-08")
@virtual
async def test_an_undelayed_add_cancels_a_pending_delay(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 60)
    queue.add("a")
    assert await drained(queue) == ["a"]
    await anyio.sleep(120)
    assert len(queue) == 0


@pytest.mark.rule("inv-07")
@virtual
async def test_of_several_delays_the_shortest_counts_exactly(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 60)
    queue.add_after("a", 10)
    queue.add_after("a", 90)
    started = anyio.current_time()
    async with queue.get() as item:
        assert item.key == "a"
    assert anyio.current_time() - started == pytest.approx(10)


@virtual
async def test_a_shorter_delay_wakes_a_worker_that_waits_for_a_longer_one(queue: WorkQueue[str]) -> None:
    queue.add_after("late", 100)
    got: list[tuple[str, float]] = []

    async def worker() -> None:
        while True:
            async with queue.get() as item:
                got.append((item.key, anyio.current_time()))

    async with beside(worker), beside(worker):
        await anyio.sleep(1)
        queue.add_after("soon", 1)
        await anyio.sleep(200)
    assert [(key, round(at)) for key, at in got] == [("soon", 2), ("late", 100)]


@pytest.mark.rule("P5")
@virtual
async def test_the_length_counts_only_ready_keys(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add_after("b", 5)
    assert len(queue) == 1
    assert (queue.status().ready, queue.status().delayed, queue.status().working) == (1, 1, 0)
    await anyio.sleep(6)
    assert len(queue) == 2
    assert (queue.status().ready, queue.status().delayed) == (2, 0)


@pytest.mark.rule("P8")
@virtual
async def test_a_hand_out_carries_the_highest_priority_and_the_newest_causes(queue: WorkQueue[str]) -> None:
    for number in range(12):
        queue.add("a", priority=number % 5, cause=number)
    queue.add("a", cause=11)
    async with queue.get() as item:
        assert item.priority == 4
        assert item.causes == (4, 5, 6, 7, 8, 9, 10, 11)
        assert item.dropped_causes == 4


@pytest.mark.rule("queue-cancelled")
async def test_work_that_raises_puts_its_key_back_with_its_causes(queue: WorkQueue[str]) -> None:
    queue.add("a", priority=2, cause="why")
    with pytest.raises(RuntimeError):
        async with queue.get():
            raise RuntimeError
    async with queue.get() as item:
        assert (item.key, item.priority, item.causes) == ("a", 2, ("why",))


@pytest.mark.rule("P7")
@virtual
async def test_a_rate_limited_add_waits_for_the_back_off_of_its_key() -> None:
    queue: WorkQueue[str] = WorkQueue(limiter=KeyBackoff(Backoff(1, 10, jitter=0)))
    times = []
    for _ in range(5):
        queue.add_rate_limited("a")
        started = anyio.current_time()
        async with queue.get():
            times.append(round(anyio.current_time() - started))
    assert times == [1, 2, 4, 8, 10]
    assert queue.retries("a") == 5
    queue.forget("a")
    assert queue.retries("a") == 0


@pytest.mark.rule("P7")
@virtual
async def test_the_earlier_of_a_delay_and_a_back_off_counts_and_so_does_the_failure() -> None:
    queue: WorkQueue[str] = WorkQueue(limiter=KeyBackoff(Backoff(8, 100, jitter=0)))
    queue.add_after("a", 3)
    queue.add_rate_limited("a")
    queue.add_after("b", 30)
    queue.add_rate_limited("b")
    assert await starts(queue, 60) == [("a", 3), ("b", 8)]
    assert queue.retries("a") == 1


@virtual
async def test_a_rate_limited_add_with_a_delay_waits_for_that_and_counts() -> None:
    queue: WorkQueue[str] = WorkQueue(limiter=KeyBackoff(Backoff(8, 100, jitter=0)))
    assert queue.add_rate_limited("a", delay=3) == 3
    assert await starts(queue, 60) == [("a", 3)]
    assert queue.add_rate_limited("a") == 16
    with pytest.raises(ValueError, match="finite delay"):
        queue.add_rate_limited("b", delay=-1)


@pytest.mark.rule("queue-delay")
def test_a_delay_too_small_for_the_clock_still_ends_later_than_now(simulate: Simulate) -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(limiter=KeyBackoff(Backoff(1e-300, 1e-300)))
        await anyio.sleep(80_000)
        moments = []
        queue.add_after("a", 5e-324)
        for _ in range(50):
            async with queue.get():
                moments.append(anyio.current_time())
                queue.add_rate_limited("a")
        assert moments == sorted(set(moments))

    simulate(scenario, limit_seconds=100_000)


@pytest.mark.rule("P2")
@virtual
async def test_keys_are_ordered_by_the_end_of_their_delay(queue: WorkQueue[str]) -> None:
    queue.add_after("third", 5)
    queue.add_after("first", 3)
    queue.add_after("second", 4)
    await anyio.sleep(6)
    queue.add("last")
    assert await drained(queue) == ["first", "second", "third", "last"]


@pytest.mark.rule("P2")
@virtual
async def test_a_delayed_key_is_ready_on_time_however_busy_the_workers_are(queue: WorkQueue[str]) -> None:
    queue.add_after("high", 1, priority=1)
    queue.add("low")
    async with queue.get():
        await anyio.sleep(2)
        queue.add("another low")
    assert await drained(queue) == ["high", "another low"]


@pytest.mark.rule("inv-02")
async def test_failed_work_whose_key_was_added_again_returns_once_with_both_causes() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", priority=2, cause="first")
    work, _ = await take(queue)
    queue.add("a", priority=5, cause="second")
    await end(work, RuntimeError())
    work, item = await take(queue)
    assert (item.priority, item.causes) == (5, ("first", "second"))
    await end(work)
    assert len(queue) == 0


@pytest.mark.rule("queue-causes")
async def test_failed_work_counts_the_causes_dropped_before_and_during_it(queue: WorkQueue[str]) -> None:
    for cause in range(10):
        queue.add("a", cause=cause)
    work, item = await take(queue)
    assert item.dropped_causes == 2
    for cause in range(100, 109):
        queue.add("a", cause=cause)
    await end(work, RuntimeError())
    async with queue.get() as item:
        assert (item.causes, item.dropped_causes) == (tuple(range(101, 109)), 11)


@pytest.mark.rule("P3")
async def test_a_hand_out_resets_the_priority_and_the_causes(queue: WorkQueue[str]) -> None:
    queue.add("a", priority=7, cause="first")
    async with queue.get():
        queue.add("a", priority=-1, cause="second")
    async with queue.get() as item:
        assert (item.priority, item.causes) == (-1, ("second",))


@pytest.mark.rule("queue-causes")
async def test_a_repeated_cause_is_kept_once_as_the_newest(queue: WorkQueue[str]) -> None:
    for cause in ("a", "b", "a"):
        queue.add("key", cause=cause)
    async with queue.get() as item:
        assert (item.causes, item.dropped_causes) == (("b", "a"), 0)


@pytest.mark.rule("P5")
@pytest.mark.parametrize("ageing", [None, 5.0])
async def test_depth_by_priority_follows_raises_and_hand_outs(ageing: float | None) -> None:
    queue: WorkQueue[str] = WorkQueue(ageing=ageing)
    queue.add("a", priority=-100)
    queue.add("b", priority=-100)
    queue.add("a", priority=3)
    assert queue.status().depths == {-100: 1, 3: 1}
    assert await drained(queue) == ["a", "b"]
    assert queue.status().depths == {}


@pytest.mark.rule("P1")
@pytest.mark.parametrize("ageing", [None, 5.0])
async def test_a_key_raised_a_thousand_times_is_handed_out_once(ageing: float | None) -> None:
    queue: WorkQueue[str] = WorkQueue(ageing=ageing)
    queue.add("other")
    for priority in range(1000):
        queue.add("a", priority=priority)
    assert await drained(queue) == ["a", "other"]


@pytest.mark.rule("inv-08")
@virtual
async def test_a_key_delayed_and_added_a_thousand_times_leaves_nothing_behind(queue: WorkQueue[str]) -> None:
    queue.add_after("other", 1000)
    for _ in range(1000):
        queue.add_after("a", 500)
        queue.add("a")
        assert await drained(queue) == ["a"]
    assert queue.status().delayed == 1
    assert await starts(queue, 2000) == [("other", 1000)]


@pytest.mark.rule("queue-arguments")
@pytest.mark.parametrize("delay", [-1, -math.inf, math.nan, math.inf])
async def test_an_invalid_delay_is_refused(delay: float, queue: WorkQueue[str]) -> None:
    with pytest.raises(ValueError, match="expected a finite delay of 0 s or more"):
        queue.add_after("a", delay)
    assert queue.status().delayed == 0


@pytest.mark.rule("queue-arguments")
async def test_an_unhashable_key_is_refused_on_add_even_after_a_close() -> None:
    queue: WorkQueue[Any] = WorkQueue(min_interval=1)
    for _ in range(2):
        with pytest.raises(TypeError, match="unhashable"):
            queue.add([])
        with pytest.raises(TypeError, match="unhashable"):
            queue.add_after([], 1)
        with pytest.raises(TypeError, match="unhashable"):
            queue.add_rate_limited([])
        queue.close()


@pytest.mark.rule("queue-arguments")
async def test_a_priority_that_is_not_an_integer_is_refused(queue: WorkQueue[str]) -> None:
    priority: Any = math.nan
    with pytest.raises(TypeError, match="expected a priority that is an int, got nan"):
        queue.add("a", priority=priority)
    assert len(queue) == 0


@pytest.mark.rule("queue-arguments")
@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_an_invalid_interval_or_ageing_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="expected a finite minimum interval of 0 s or more"):
        WorkQueue[str](min_interval=seconds)
    with pytest.raises(ValueError, match="expected a positive number of seconds for ageing"):
        WorkQueue[str](ageing=seconds)
    with pytest.raises(ValueError, match="expected a positive number of seconds for ageing"):
        WorkQueue[str](ageing=0)


async def test_one_get_hands_out_one_key(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b")
    work = queue.get()
    async with work as item:
        assert item.key == "a"
        with pytest.raises(
            RuntimeError, match=r"^one `get\(\)` is one hand-out: call it again for the next$"
        ):
            await work.__aenter__()
    async with work as item:
        assert item.key == "b"


def test_a_queue_never_used_in_an_event_loop_reports_that_it_needs_one(queue: WorkQueue[str]) -> None:
    assert queue.status().ready == 0
    with pytest.raises(anyio.NoEventLoopError):
        queue.add("a")


async def test_a_key_whose_limiter_fails_at_the_hand_out_stays_in_the_queue() -> None:
    class Failing(KeyBackoff[str]):
        fails = True

        def retries(self, key: str) -> int:
            if self.fails:
                raise LookupError(key)
            return super().retries(key)

    limiter = Failing()
    queue: WorkQueue[str] = WorkQueue(limiter=limiter)
    queue.add("a", cause="why")
    with pytest.raises(LookupError):
        await take(queue)
    assert (queue.status().ready, queue.status().working) == (1, 0)
    limiter.fails = False
    async with queue.get() as item:
        assert (item.key, item.causes) == ("a", ("why",))
    assert queue.status().ready == 0
