"""Adding from another thread."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from reconcile.testing import RealWorldError, simulate
from tests.workqueue.helpers import drained, take
from workqueue import Backoff, KeyBackoff, QueueStatus, WorkQueue

pytestmark = [pytest.mark.anyio, pytest.mark.rule("queue-threads")]


async def in_a_thread(call: Callable[[], None]) -> None:
    """Run `call` in a thread that no event loop knows of, and wait for its end; raise its error."""
    errors: list[BaseException] = []
    ended = anyio.Event()
    token = anyio.lowlevel.current_token()

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)
        anyio.from_thread.run_sync(ended.set, token=token)

    thread = threading.Thread(target=run)
    thread.start()
    await ended.wait()
    await anyio.to_thread.run_sync(thread.join)
    if errors:
        raise errors[0]


async def test_adds_from_several_threads_wake_workers_and_none_is_lost() -> None:
    queue: WorkQueue[tuple[int, int]] = WorkQueue()
    seen: set[tuple[int, int]] = set()

    async def worker() -> None:
        while len(seen) < 400:
            async with queue.get() as item:
                seen.add(item.key)

    def producer(name: int) -> None:
        for number in range(100):
            queue.add((name, number))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(worker)
            await anyio.wait_all_tasks_blocked()
            for name in range(2):
                group.start_soon(in_a_thread, lambda name=name: producer(name))
                group.start_soon(anyio.to_thread.run_sync, producer, name + 2)
    assert len(seen) == 400


async def test_every_add_and_status_works_in_a_thread_and_raises_its_errors_in_that_thread() -> None:
    queue: WorkQueue[Any] = WorkQueue(limiter=KeyBackoff(Backoff(3600, 3600)))
    assert len(queue) == 0
    queue.add("here", priority=9)
    delays: list[float] = []
    statuses: list[QueueStatus] = []

    def elsewhere() -> None:
        queue.add("now", priority=1, cause="why")
        queue.add_after("soon", 3600)
        delays.append(queue.add_rate_limited("failed"))
        statuses.append(queue.status())

    await in_a_thread(elsewhere)
    assert delays[0] > 0
    assert statuses[0].depths == {9: 1, 1: 1}
    assert statuses[0].delayed == 2
    _, _ = await take(queue)
    _, item = await take(queue)
    assert (item.key, item.priority, item.causes) == ("now", 1, ("why",))
    with pytest.raises(TypeError, match="unhashable"):
        await in_a_thread(lambda: queue.add([]))
    with pytest.raises(ValueError, match="expected a finite delay of 0 s or more"):
        await in_a_thread(lambda: queue.add_after("a", -1))


async def test_work_is_not_handed_out_in_the_event_loop_of_another_thread(queue: WorkQueue[str]) -> None:
    queue.add("a")
    with pytest.raises(
        RuntimeError, match=r"^the queue belongs to the event loop of another thread: only add from here"
    ):
        await anyio.to_thread.run_sync(anyio.run, drained_elsewhere, queue)
    assert await drained(queue) == ["a"]


async def drained_elsewhere(queue: WorkQueue[str]) -> None:
    await take(queue)


async def test_a_queue_must_be_used_in_an_event_loop_before_a_thread_can_use_it(
    queue: WorkQueue[str],
) -> None:
    with pytest.raises(anyio.NoEventLoopError):
        await in_a_thread(lambda: queue.add("a"))


def test_under_virtual_time_an_add_from_a_thread_is_refused(queue: WorkQueue[str]) -> None:
    bound, tried = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def intrude() -> None:
        bound.wait(5)
        try:
            queue.add("b")
        except RealWorldError as error:
            errors.append(error)
        tried.set()

    async def scenario() -> None:
        queue.add("a")
        bound.set()
        tried.wait(5)

    thread = threading.Thread(target=intrude)
    thread.start()
    with pytest.raises(RealWorldError):
        simulate(scenario)
    thread.join()
    assert len(errors) == 1
