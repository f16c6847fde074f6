"""Never two at once, never lost, never more often than asked for, whatever is cancelled and when."""

import anyio
import pytest

from tests.helpers.scenarios import simulated
from tests.workqueue.fuzz import CancelledAt, play
from tests.workqueue.helpers import Simulate
from workqueue import WorkQueue

SEEDS = 40


@pytest.mark.rule("inv-01", "inv-02", "inv-05", "P6", "P9", "queue-cancelled", "queue-memory")
def test_a_hundred_workers_cancelled_anywhere_neither_lose_nor_duplicate_a_key() -> None:
    assert sum(play(seed) for seed in range(SEEDS)) > SEEDS * 50  # so many were cancelled


@pytest.mark.rule("queue-cancelled")
def test_the_same_holds_under_trio() -> None:
    assert sum(play(seed, "trio") for seed in range(5)) > 250


@pytest.mark.rule("queue-cancelled")
@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("seed", range(5))
@simulated
async def test_a_worker_cancelled_at_any_await_leaves_its_key_to_the_other(
    simulate: Simulate, seed: int, nth: int, delay: float
) -> None:
    served: list[str] = []

    async def work(queue: WorkQueue[str], wanted: int) -> None:
        while len(served) < wanted:
            async with queue.get() as item:
                await anyio.sleep(1)
                await anyio.lowlevel.checkpoint()
                served.append(item.key)

    async def victim(queue: WorkQueue[str]) -> None:
        with anyio.CancelScope() as scope:
            await CancelledAt(work(queue, 2), scope, nth)

    queue: WorkQueue[str] = WorkQueue()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(victim, queue)
            await anyio.sleep(0.1)
            group.start_soon(work, queue, 2)
            await anyio.sleep(0.1)
            queue.add_after("a", delay)
            queue.add_after("b", delay)
            await queue_is_empty(queue)
            group.cancel_scope.cancel()
    assert sorted(served) == ["a", "b"]


async def queue_is_empty(queue: WorkQueue[str]) -> None:
    while (status := queue.status()).ready or status.delayed or status.working:
        await anyio.sleep(0.5)


@pytest.mark.rule("P9")
def test_of_many_workers_woken_at_once_the_first_to_run_gets_the_first_key(simulate: Simulate) -> None:
    async def scenario() -> list[int]:
        queue: WorkQueue[int] = WorkQueue()
        order: list[int] = []

        async def worker() -> None:
            async with queue.get() as item:
                order.append(item.priority)

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(worker)
            await anyio.sleep(1)
            for priority in range(20):
                queue.add(priority, priority=priority)
        return order

    for seed in range(20):
        assert simulate(scenario, seed=seed) == list(range(19, -1, -1))
