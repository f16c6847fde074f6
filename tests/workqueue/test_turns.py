"""Hand-outs without a pause do not keep the event loop from turning."""

import asyncio
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from tests.helpers.tasks import beside
from tests.workqueue.helpers import Simulate
from workqueue import WorkQueue


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop on which 10 us pass whenever somebody looks at the clock."""

    moment = 0.0

    def time(self) -> float:
        self.moment += 10e-6
        return self.moment


class StandingLoop(asyncio.SelectorEventLoop):
    """A loop whose time is what it is told."""

    moment = 0.0

    def time(self) -> float:
        return self.moment


async def longest_without_a_turn(workers: int) -> float:
    """In seconds, while `workers` do nothing but take keys."""
    loop = asyncio.get_running_loop()
    queue: WorkQueue[int] = WorkQueue()
    for key in range(5000):
        queue.add(key)
    longest, turned = 0.0, loop.time()

    async def worker() -> None:
        while True:
            async with queue.get():
                pass

    async def watch() -> None:
        nonlocal longest, turned
        while len(queue):
            await asyncio.sleep(0)
            longest, turned = max(longest, loop.time() - turned), loop.time()

    async with anyio.create_task_group() as group:
        for _ in range(workers):
            group.start_soon(worker)
        await watch()
        group.cancel_scope.cancel()
    return longest


@pytest.mark.rule("queue-turn")
@pytest.mark.parametrize("workers", [1, 2, 20])
def test_the_event_loop_runs_every_millisecond_however_many_workers_take_keys(workers: int) -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        longest = runner.run(longest_without_a_turn(workers))
    a_few_looks_for_each_worker = (workers + 5) * 10 * 10e-6
    assert 0.0005 < longest < 0.001 + a_few_looks_for_each_worker


@pytest.mark.rule("queue-turn")
def test_a_worker_that_refills_its_own_queue_lets_others_run_even_if_time_stands_still(
    simulate: Simulate,
) -> None:
    async def scenario() -> list[int]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        runs = 0
        seen = []

        async def worker() -> None:
            nonlocal runs
            while True:
                async with queue.get():
                    runs += 1
                    queue.add("a")

        async with beside(worker):
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
                seen.append(runs)
        return seen

    seen = simulate(scenario)
    assert min(later - sooner for sooner, later in pairwise(seen) if later > sooner) == 1000
    assert 5000 <= seen[-1] <= 10_000


async def do_others_run_first(delay: float) -> bool:
    """Whether the loop turns before a key is handed out that became ready after so many seconds of one."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StandingLoop)
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", delay)
    loop.moment = 1.0
    other_ran = asyncio.Event()
    loop.call_soon(other_ran.set)
    async with queue.get():
        return other_ran.is_set()


@pytest.mark.rule("queue-turn")
@pytest.mark.parametrize("delay", [0, 0.5, 1])
def test_a_worker_that_returns_after_a_while_lets_others_run_even_if_a_delay_has_just_ended(
    delay: float,
) -> None:
    with asyncio.Runner(loop_factory=StandingLoop) as runner:
        assert runner.run(do_others_run_first(delay))


@pytest.mark.anyio
@pytest.mark.rule("queue-turn")
async def test_a_worker_that_never_waits_can_be_cancelled(queue: WorkQueue[str]) -> None:
    queue.add("a")

    async def worker() -> None:
        while True:
            async with queue.get():
                queue.add("a")

    with anyio.fail_after(20):
        async with beside(worker):
            await anyio.sleep(0.01)
    assert len(queue) == 1
