"""How a queue ends: what is finished, what is dropped, who is told."""

import gc

import anyio
import pytest

from tests.helpers.tasks import beside
from tests.workqueue.helpers import drained, end, starts, take, virtual
from workqueue import QueueClosed, WorkQueue

pytestmark = pytest.mark.anyio


@pytest.mark.rule("inv-04")
@pytest.mark.parametrize("ageing", [None, 2])
async def test_a_closed_queue_drops_its_keys_and_accepts_no_more(ageing: float | None) -> None:
    queue: WorkQueue[str] = WorkQueue(ageing=ageing)
    queue.add("a")
    queue.add_after("later", 1)
    queue.close()
    queue.add("b")
    queue.add_after("c", 1)
    status = queue.status()
    assert (status.ready, status.delayed, status.closed) == (0, 0, True)
    with pytest.raises(QueueClosed):
        await take(queue)


@pytest.mark.rule("P6")
async def test_closing_wakes_every_worker(queue: WorkQueue[str]) -> None:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(idle, queue)
            await anyio.wait_all_tasks_blocked()
            queue.close()


@pytest.mark.rule("P6")
@pytest.mark.parametrize("failed", [False, True])
async def test_after_a_close_work_ends_and_its_key_does_not_return(failed: bool) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    work, _ = await take(queue)
    queue.add("a")
    queue.close()
    queue.add("a")
    assert (queue.status().working, queue.queued(9)) == (1, [])
    await end(work, RuntimeError() if failed else None)
    status = queue.status()
    assert (status.ready, status.delayed, status.working) == (0, 0, 0)
    with pytest.raises(QueueClosed):
        await take(queue)


@pytest.mark.rule("inv-04", "inv-05")
async def test_a_drain_hands_out_ready_keys_and_returns_when_the_last_work_has_ended() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abc":
        queue.add(key)
    done: list[str] = []

    async def worker() -> None:
        with pytest.raises(QueueClosed):
            while True:
                async with queue.get() as item:
                    queue.add("too late")
                    await anyio.sleep(0.01)
                    done.append(item.key)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(worker)
            group.start_soon(worker)
            await queue.drain()
            assert sorted(done) == ["a", "b", "c"]


@pytest.mark.rule("inv-04")
async def test_a_key_that_was_added_during_work_still_runs_in_a_drain(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            async with queue.get():
                queue.add("a")
                group.start_soon(queue.drain)
                await anyio.wait_all_tasks_blocked()
            assert await drained(queue) == ["a"]


@pytest.mark.rule("inv-05")
async def test_a_close_ends_a_drain_that_waits_for_missing_workers(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(queue.drain)
            await anyio.wait_all_tasks_blocked()
            queue.close()


@pytest.mark.rule("inv-05")
async def test_a_drain_of_an_idle_queue_returns_at_once_and_ends_its_workers(queue: WorkQueue[str]) -> None:
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(idle, queue)
            await anyio.wait_all_tasks_blocked()
            await queue.drain()


async def idle(queue: WorkQueue[str]) -> None:
    with pytest.raises(QueueClosed):
        await take(queue)


@pytest.mark.rule("P6")
async def test_a_close_releases_idle_workers_before_running_work_ends(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with anyio.fail_after(5):
        async with queue.get(), anyio.create_task_group() as group:
            group.start_soon(idle, queue)
            await anyio.wait_all_tasks_blocked()
            queue.close()


@pytest.mark.rule("inv-05")
async def test_a_drain_whose_caller_was_cancelled_continues_until_the_last_work_has_ended() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    ended: list[str] = []

    async def worker() -> None:
        with pytest.raises(QueueClosed):
            await take(queue)
        ended.append("worker")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group, queue.get():
            with anyio.move_on_after(0.01):
                await queue.drain()
            group.start_soon(worker)
            await anyio.wait_all_tasks_blocked()
            assert ended == []
    assert ended == ["worker"]


@pytest.mark.rule("inv-05")
async def test_in_a_drain_the_key_of_a_cancelled_worker_is_finished_by_another(queue: WorkQueue[str]) -> None:
    queue.add("a")
    done = []

    async def worker() -> None:
        with pytest.raises(QueueClosed):
            while True:
                async with queue.get() as item:
                    done.append(item.key)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            work, _ = await take(queue)
            group.start_soon(worker)
            group.start_soon(queue.drain)
            await anyio.wait_all_tasks_blocked()
            await end(work, RuntimeError())
    assert done == ["a"]


@pytest.mark.rule("inv-05")
@virtual
async def test_a_drain_drops_delays_and_waits_for_keys_held_by_the_minimum_interval() -> None:
    queue: WorkQueue[str] = WorkQueue(min_interval=10)
    queue.add("held")
    await drained(queue)
    queue.add("held")
    queue.add_after("delayed", 5)
    queue.add_rate_limited("failed")
    async with anyio.create_task_group() as group:
        group.start_soon(queue.drain)
        await anyio.sleep(1)
        assert queue.status().delayed == 1
        with pytest.raises(QueueClosed):
            while True:
                async with queue.get() as item:
                    assert (item.key, anyio.current_time()) == ("held", 10)


@pytest.mark.rule("inv-05")
@virtual
async def test_a_drain_drops_a_delay_longer_than_the_minimum_interval() -> None:
    queue: WorkQueue[str] = WorkQueue(min_interval=10)
    queue.add("a")
    await drained(queue)
    queue.add_after("a", 40)
    await queue.drain()
    assert (anyio.current_time(), queue.status().delayed) == (0, 0)


@pytest.mark.rule("inv-05")
@virtual
async def test_a_drain_hands_out_keys_due_at_that_moment_and_keys_that_fail_during_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("due", 5)
    queue.add_after("later", 5.1)
    await anyio.sleep(5)
    done: list[tuple[str, float]] = []

    async def worker() -> None:
        with pytest.raises(QueueClosed):
            while True:
                work, item = await take(queue)
                done.append((item.key, anyio.current_time()))
                await end(work, RuntimeError() if len(done) < 3 else None)

    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        await queue.drain()
    assert done == [("due", 5)] * 3


@pytest.mark.rule("inv-04")
@virtual
async def test_a_delay_dropped_by_a_close_never_ends(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 5)
    queue.close()
    await anyio.sleep(10)
    assert (len(queue), queue.status().delayed) == (0, 0)


@pytest.mark.rule("inv-05")
@virtual
async def test_a_delayed_add_during_work_is_dropped_by_a_drain(queue: WorkQueue[str]) -> None:
    queue.add("a")
    async with anyio.create_task_group() as group, queue.get():
        queue.add_after("a", 5)
        group.start_soon(queue.drain)
        await anyio.sleep(1)
    assert anyio.current_time() == 1
    assert await starts_or_closed(queue) == []


async def starts_or_closed(queue: WorkQueue[str]) -> list[tuple[str, float]]:
    try:
        return await starts(queue, 60)
    except QueueClosed:
        return []


@pytest.mark.rule("inv-05")
async def test_join_waits_for_ready_and_running_keys_and_closes_nothing(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b")
    queue.add_after("later", 3600)
    done: list[str] = []

    async def worker() -> None:
        while True:
            async with queue.get() as item:
                await anyio.sleep(0.01)
                done.append(item.key)

    with anyio.fail_after(5):
        async with beside(worker):
            await queue.join()
    assert done == ["a", "b"]
    assert not queue.status().closed


@pytest.mark.rule("inv-05")
async def test_join_waits_for_running_work_even_if_nothing_else_is_queued(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with anyio.fail_after(5):
        async with queue.get():
            with anyio.move_on_after(0.01) as in_work:
                await queue.join()
        with anyio.move_on_after(1) as at_rest:
            await queue.join()
    assert (in_work.cancelled_caught, at_rest.cancelled_caught) == (True, False)


async def test_cancelled_joins_leave_nothing_behind() -> None:
    def events() -> int:
        gc.collect()
        return sum("Event" in type(thing).__name__ for thing in gc.get_objects())

    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    before = events()
    for _ in range(50):
        with anyio.move_on_after(0):
            await queue.join()
    assert events() < before + 10
