"""What a queue tells of itself."""

import anyio
import pytest

from tests.workqueue.helpers import Recorded, drained, starts, virtual
from workqueue import Backoff, KeyBackoff, WorkQueue


@pytest.mark.rule("inv-06")
@virtual
async def test_status_shows_how_long_keys_have_been_running(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("b")
    async with queue.get():
        await anyio.sleep(3)
        async with queue.get():
            await anyio.sleep(4)
            status = queue.status()
            assert (status.working, status.unfinished_seconds) == (2, 11)
            assert status.longest_running_seconds == 7
        assert queue.status().unfinished_seconds == 7
    status = queue.status()
    assert (status.working, status.unfinished_seconds, status.longest_running_seconds) == (0, 0, 0)


@pytest.mark.parametrize("ageing", [None, 60.0])
@virtual
async def test_status_shows_how_long_the_oldest_ready_key_has_waited(ageing: float | None) -> None:
    queue: WorkQueue[str] = WorkQueue(ageing=ageing)
    assert queue.status().oldest_ready_seconds == 0
    queue.add("a", priority=3)
    await anyio.sleep(2)
    queue.add("b")
    queue.add_after("c", 100)
    await anyio.sleep(3)
    assert queue.status().oldest_ready_seconds == 5
    async with queue.get() as item:
        assert item.key == "a"
        assert queue.status().oldest_ready_seconds == 3
    queue.discard("b")
    assert queue.status().oldest_ready_seconds == 0
    await anyio.sleep(100)
    assert queue.status().oldest_ready_seconds == 3


@virtual
async def test_a_raised_key_does_not_hide_an_older_one_of_its_former_priority(queue: WorkQueue[str]) -> None:
    for key in "ab":
        queue.add(key)
        await anyio.sleep(1)
    queue.add("a", priority=1)
    assert queue.status().oldest_ready_seconds == 2
    queue.add("b", priority=1)
    assert queue.status().oldest_ready_seconds == 2


@pytest.mark.rule("inv-06")
@virtual
async def test_latency_counts_from_the_first_add_or_the_end_of_the_delay() -> None:
    metrics = Recorded()
    queue: WorkQueue[str] = WorkQueue(metrics=metrics)
    queue.add("a")
    await anyio.sleep(2)
    queue.add("a")
    queue.add_after("b", 1)
    await anyio.sleep(4)
    async with queue.get():
        queue.add("a")
        await anyio.sleep(5)
    await drained(queue)
    assert metrics.waits == [6, 8, 5]
    assert metrics.runs == [5, 0, 0]


@pytest.mark.rule("queue-metrics")
@virtual
async def test_adds_count_once_for_each_time_a_key_becomes_ready() -> None:
    metrics = Recorded()
    queue: WorkQueue[str] = WorkQueue(metrics=metrics)
    queue.add("a", priority=4)
    queue.add("a", priority=5)
    queue.add_after("b", 9)
    assert metrics.added_priorities == [4]
    async with queue.get():
        queue.add("a", priority=1)
        queue.add("a", priority=2)
        assert metrics.added_priorities == [4]
    assert metrics.added_priorities == [4, 2]
    await starts(queue, 20)
    assert metrics.added_priorities == [4, 2, 0]
    assert len(metrics.waits) == len(metrics.runs) == 3


@pytest.mark.rule("inv-10")
@virtual
async def test_retries_count_only_rate_limited_adds() -> None:
    metrics = Recorded()
    queue: WorkQueue[str] = WorkQueue(limiter=KeyBackoff(Backoff(1, 1)), metrics=metrics)
    queue.add_after("a", 1)
    queue.add_rate_limited("a")
    queue.add_rate_limited("a")
    assert metrics.retries == 2


async def test_waiting_keys_are_listed_with_causes_and_running_ones_only_if_added_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("busy", cause="before")
    async with queue.get():
        queue.add("ready", priority=3, cause="change")
        queue.add_after("later", 60, cause="schedule")
        assert {item.key for item, _ in queue.queued(10)} == {"ready", "later"}
        queue.add("busy", cause="again")
        waiting = {item.key: (item.priority, item.causes, round(due)) for item, due in queue.queued(10)}
        for key in ("ready", "later", "busy"):
            single = queue.queued_key(key)
            assert single is not None
            assert (single[0].priority, single[0].causes, round(single[1])) == waiting[key]
        assert queue.queued_key("other") is None
    assert waiting == {
        "ready": (3, ("change",), 0),
        "later": (0, ("schedule",), 60),
        "busy": (0, ("again",), 0),
    }
    assert len(queue.queued(2)) == 2
