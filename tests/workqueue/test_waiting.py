"""Workers that wait: who is woken, who watches for the next delay, and what becomes of it when they go."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.workqueue.helpers import Simulate, drained, virtual
from workqueue import WorkQueue
from workqueue.waiters import Waiters


async def work(queue: WorkQueue[str], seconds: float, started: dict[str, float]) -> None:
    while True:
        async with queue.get() as item:
            started[item.key] = anyio.current_time()
            await anyio.sleep(seconds)


async def wait_and_be_cancelled(queue: WorkQueue[str], scope: anyio.CancelScope) -> None:
    with scope:
        async with queue.get():
            await anyio.sleep_forever()


@pytest.mark.rule("inv-07")
@pytest.mark.parametrize("seed", range(5))
@virtual
async def test_while_one_worker_is_busy_the_other_waits_for_the_next_delay(seed: int) -> None:
    queue: WorkQueue[str] = WorkQueue()
    started: dict[str, float] = {}
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(work, queue, 100, started)
        queue.add_after("delayed", 5)
        await anyio.sleep(1)
        queue.add("now")
        await anyio.sleep(50)
        group.cancel_scope.cancel()
    assert started == {"now": 1, "delayed": 5}


async def beside_a_cancelled_worker(
    queue: WorkQueue[str], cancel: Callable[[anyio.CancelScope], Awaitable[None]]
) -> dict[str, float]:
    """When a worker starts which key that waits behind another, which `cancel` ends at second 2."""
    started: dict[str, float] = {}
    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(wait_and_be_cancelled, queue, scope)
        await anyio.sleep(1)
        group.start_soon(work, queue, 0, started)
        await anyio.sleep(1)
        await cancel(scope)
        await anyio.sleep(100)
        group.cancel_scope.cancel()
    return started


@pytest.mark.rule("queue-cancelled")
@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("same_moment", [False, True])
@virtual
async def test_a_worker_cancelled_while_waiting_passes_its_turn_to_the_next(
    queue: WorkQueue[str], delay: float, same_moment: bool
) -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        if not same_moment:
            scope.cancel()
            await anyio.sleep(1)
        queue.add_after("key", delay)
        scope.cancel()

    queue.add_after("far", 1000)
    assert await beside_a_cancelled_worker(queue, cancel) == {"key": (2 if same_moment else 3) + delay}


@pytest.mark.rule("queue-cancelled")
@virtual
async def test_a_worker_cancelled_while_timing_the_next_delay_passes_that_to_the_next() -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        scope.cancel()

    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("key", 10)
    assert await beside_a_cancelled_worker(queue, cancel) == {"key": 10}


@pytest.mark.rule("queue-cancelled")
@virtual
async def test_a_key_that_wakes_a_just_cancelled_worker_wakes_the_next_one() -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        scope.cancel()
        queue.add("key")

    queue: WorkQueue[str] = WorkQueue()
    assert await beside_a_cancelled_worker(queue, cancel) == {"key": 2}


@pytest.mark.rule("P2")
@virtual
async def test_keys_that_became_ready_during_work_precede_the_key_that_was_running() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("worked on")
    queue.add_after("delayed", 1)
    async with queue.get():
        queue.add("worked on")
        await anyio.sleep(2)
    assert await drained(queue) == ["delayed", "worked on"]


@pytest.mark.rule("P2")
@virtual
async def test_keys_due_at_the_moment_of_an_add_precede_it(queue: WorkQueue[str]) -> None:
    for key in ("first", "second"):
        queue.add_after(key, 5)
    await anyio.sleep(5)
    queue.add("added")
    queue.add("second", priority=1)
    assert await drained(queue) == ["second", "first", "added"]


@pytest.mark.rule("P2")
@virtual
async def test_a_key_due_as_its_priority_is_raised_is_queued_once(queue: WorkQueue[str]) -> None:
    for key in ("other", "raised"):
        queue.add_after(key, 5)
    await anyio.sleep(5)
    queue.add("raised", priority=1)
    assert await drained(queue) == ["raised", "other"]


def test_of_many_waiters_one_times_the_next_delay_and_the_others_stay_asleep(simulate: Simulate) -> None:
    async def scenario() -> list[tuple[int, float]]:
        waiters = Waiters()
        woken: list[tuple[int, float]] = []

        async def wait(number: int) -> None:
            await waiters.wait(due=5)
            woken.append((number, anyio.current_time()))

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(wait, number)
                await anyio.sleep(1)
            waiters.watch()
            await anyio.sleep(10)
            waiters.wake()
            await anyio.sleep(1)
            group.cancel_scope.cancel()
        return woken

    assert sorted(simulate(scenario)) == [(0, 5), (1, 13)]
