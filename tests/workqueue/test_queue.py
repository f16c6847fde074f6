"""One entry per key, one worker per key; nothing lost, nothing twice."""

import math
import random
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reconcile.testing.loop import simulate
from workqueue import Backoff, Item, QueueClosed, Work, WorkQueue

KEYS = ("a", "b", "c", "d")


async def take(queue: WorkQueue[str]) -> tuple[Work[str], Item[str]]:
    work = queue.get()
    return work, await work.__aenter__()


async def end(work: Work[str]) -> None:
    await work.__aexit__(None, None, None)


async def drained(queue: WorkQueue[str]) -> list[str]:
    keys = []
    while len(queue):
        async with queue.get() as item:
            keys.append(item.key)
    return keys


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.anyio
@pytest.mark.rule("inv-01")
async def test_a_key_is_not_handed_out_while_it_is_in_work() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    async with queue.get() as item:
        queue.add("a")
        assert item.key == "a"
        with anyio.move_on_after(0.01) as scope:
            async with queue.get():
                pytest.fail("the key is in work")
        assert scope.cancelled_caught
    assert await drained(queue) == ["a"]


@pytest.mark.anyio
@pytest.mark.rule("inv-02")
async def test_many_adds_during_work_give_exactly_one_more_run_at_the_tail() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    async with queue.get():
        for _ in range(5):
            queue.add("a")
        queue.add("b")
    assert await drained(queue) == ["b", "a"]


@pytest.mark.anyio
@pytest.mark.rule("inv-03")
async def test_keys_come_in_the_order_of_their_first_add() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abcab":
        queue.add(key)
    assert await drained(queue) == ["a", "b", "c"]


@pytest.mark.anyio
@pytest.mark.rule("P2")
async def test_higher_priority_comes_first_and_a_raised_key_goes_to_the_tail_of_its_class() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("low", priority=-100)
    queue.add("a")
    queue.add("b", priority=5)
    queue.add("a", priority=5)
    assert await drained(queue) == ["b", "a", "low"]


@pytest.mark.anyio
@pytest.mark.rule("P3")
async def test_adding_again_at_a_lower_priority_does_not_lower_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", priority=3)
    queue.add("a", priority=-3)
    async with queue.get() as item:
        assert item.priority == 3


@pytest.mark.anyio
@pytest.mark.rule("P4")
async def test_a_key_in_work_does_not_block_others_of_lower_priority() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", priority=9)
    async with queue.get():
        queue.add("a", priority=9)
        queue.add("b")
        async with queue.get() as other:
            assert other.key == "b"


@pytest.mark.rule("P1")
@pytest.mark.rule("inv-08")
def test_an_undelayed_add_cancels_a_pending_delay() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 60)
        queue.add("a")
        assert await drained(queue) == ["a"]
        await anyio.sleep(120)
        assert len(queue) == 0

    simulate(scenario)


@pytest.mark.rule("inv-07")
def test_of_several_delays_the_shortest_counts_and_it_is_exact() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 60)
        queue.add_after("a", 10)
        queue.add_after("a", 90)
        started = anyio.current_time()
        async with queue.get() as item:
            assert item.key == "a"
        assert anyio.current_time() - started == pytest.approx(10)

    simulate(scenario)


def test_a_shorter_delay_wakes_a_worker_that_waits_for_a_longer_one() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("late", 100)
        got: list[tuple[str, float]] = []

        async def worker() -> None:
            while True:
                async with queue.get() as item:
                    got.append((item.key, anyio.current_time()))

        async with anyio.create_task_group() as group:
            group.start_soon(worker)
            group.start_soon(worker)
            await anyio.sleep(1)
            queue.add_after("soon", 1)
            await anyio.sleep(200)
            group.cancel_scope.cancel()
        assert [(key, round(at)) for key, at in got] == [("soon", 2), ("late", 100)]

    simulate(scenario)


@pytest.mark.rule("P5")
def test_the_length_counts_ready_keys_only() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add_after("b", 5)
        assert len(queue) == 1
        assert (queue.status().ready, queue.status().delayed, queue.status().working) == (1, 1, 0)
        await anyio.sleep(6)
        assert (queue.status().ready, queue.status().delayed) == (2, 0)

    simulate(scenario)


@pytest.mark.rule("P8")
def test_a_hand_out_carries_the_highest_priority_and_the_newest_causes() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for number in range(12):
            queue.add("a", priority=number % 5, cause=number)
        queue.add("a", cause=11)
        async with queue.get() as item:
            assert item.priority == 4
            assert item.causes == (4, 5, 6, 7, 8, 9, 10, 11)
            assert item.dropped_causes == 4

    simulate(scenario)


@pytest.mark.anyio
@pytest.mark.rule("inv-04")
async def test_a_closed_queue_takes_no_keys_hands_out_what_is_left_and_then_says_so() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add_after("later", 1)
    queue.close()
    queue.add("b")
    assert await drained(queue) == ["a"]
    with pytest.raises(QueueClosed):
        await queue.get().__aenter__()


@pytest.mark.anyio
@pytest.mark.rule("inv-04")
async def test_a_key_added_during_work_still_runs_after_close() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    async with queue.get():
        queue.add("a")
        queue.close()
    assert await drained(queue) == ["a"]


@pytest.mark.anyio
@pytest.mark.rule("P6")
async def test_closing_with_drop_forgets_what_is_queued_and_wakes_every_worker() -> None:
    queue: WorkQueue[str] = WorkQueue()
    ended = 0

    async def worker() -> None:
        nonlocal ended
        with pytest.raises(QueueClosed):
            await queue.get().__aenter__()
        ended += 1

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(worker)
            await anyio.sleep(0.01)
            queue.close(drop=True)
    assert ended == 5


@pytest.mark.anyio
@pytest.mark.rule("inv-05")
async def test_join_waits_for_what_is_ready_and_in_work() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("b")
    done: list[str] = []

    async def worker() -> None:
        while True:
            async with queue.get() as item:
                await anyio.sleep(0.01)
                done.append(item.key)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(worker)
            await queue.join()
            group.cancel_scope.cancel()
    assert done == ["a", "b"]


@pytest.mark.anyio
async def test_work_that_ends_in_an_exception_puts_its_key_back_with_its_causes() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", priority=2, cause="why")
    with pytest.raises(RuntimeError):
        async with queue.get():
            raise RuntimeError
    async with queue.get() as item:
        assert (item.key, item.priority, item.causes) == ("a", 2, ("why",))


@pytest.mark.rule("P7")
def test_a_rate_limited_add_waits_for_the_back_off_of_its_key() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(backoff=Backoff(1, 10, jitter=0))
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

    simulate(scenario)


@pytest.mark.anyio
@pytest.mark.parametrize("delay", [-1, math.nan])
async def test_a_delay_that_is_no_time_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="a delay is 0 s or more"):
        WorkQueue[str]().add_after("a", delay)


@pytest.mark.anyio
async def test_an_unhashable_key_is_refused_at_the_add() -> None:
    with pytest.raises(TypeError):
        WorkQueue[Any]().add([])


@pytest.mark.rule("inv-01")
@given(seed=st.integers(0, 2**32))
def test_no_key_is_lost_or_worked_on_twice_whatever_is_cancelled(seed: int) -> None:
    async def scenario() -> None:
        chance = random.Random(seed)
        queue: WorkQueue[int] = WorkQueue()
        wanted: dict[int, int] = {}
        served: dict[int, int] = {}
        at_work: set[int] = set()

        async def producer() -> None:
            for number in range(20):
                key = chance.randrange(6)
                wanted[key] = number
                queue.add_after(key, chance.choice([0, 0, 0.5, 2]), priority=chance.randrange(3))
                await anyio.sleep(chance.random())

        async def worker() -> None:
            async with queue.get() as item:
                assert item.key not in at_work
                at_work.add(item.key)
                try:
                    seen = wanted[item.key]
                    await anyio.sleep(chance.random())
                    served[item.key] = seen
                finally:
                    at_work.discard(item.key)

        async def unlucky_worker() -> None:
            while True:
                with anyio.move_on_after(chance.random() * 1.5):
                    await worker()

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(unlucky_worker)
            async with anyio.create_task_group() as producers:
                for _ in range(2):
                    producers.start_soon(producer)
            await anyio.sleep(120)
            assert not at_work
            group.cancel_scope.cancel()
        assert served == wanted
        assert (len(queue), queue.status().working, queue.status().delayed) == (0, 0, 0)

    simulate(scenario, seed=seed)


class AgainstAnOracle(RuleBasedStateMachine):
    """The queue, without time, beside a dictionary that says what it must do."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: WorkQueue[str] = WorkQueue()
        self.ready: dict[str, tuple[int, int]] = {}
        self.dirty: dict[str, int] = {}
        self.working: dict[str, Work[str]] = {}
        self.order = 0

    @rule(key=st.sampled_from(KEYS), priority=st.integers(-2, 2))
    def add(self, key: str, priority: int) -> None:
        anyio.run(self._add, key, priority)
        self.order += 1
        if key in self.working:
            self.dirty[key] = max(priority, self.dirty.get(key, priority))
        elif key not in self.ready or priority > self.ready[key][0]:
            self.ready[key] = (priority, self.order)

    async def _add(self, key: str, priority: int) -> None:
        self.queue.add(key, priority=priority)

    @precondition(lambda self: self.ready)
    @rule()
    def take(self) -> None:
        work, item = anyio.run(take, self.queue)
        expected = min(self.ready, key=lambda key: (-self.ready[key][0], self.ready[key][1]))
        assert item.key == expected
        assert item.priority == self.ready.pop(expected)[0]
        assert expected not in self.working
        self.working[expected] = work

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        anyio.run(end, self.working.pop(key))
        if key in self.dirty:
            self.order += 1
            self.ready[key] = (self.dirty.pop(key), self.order)

    @invariant()
    def counts_agree(self) -> None:
        anyio.run(self._check)

    async def _check(self) -> None:
        status = self.queue.status()
        assert (status.ready, status.working) == (len(self.ready), len(self.working))


AgainstAnOracle.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


@pytest.mark.rule("P1")
@pytest.mark.rule("inv-02")
class TestTheQueueAgainstAnOracle(AgainstAnOracle.TestCase):
    """Any order of adds, hand-outs and ends."""
