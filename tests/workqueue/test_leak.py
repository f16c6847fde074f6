"""Keys that were worked on and forgotten leave nothing behind."""

import gc
import sys
import tracemalloc

import anyio
import pytest

from tests.workqueue.leak import ALLOWED_MEGABYTES, work, work_through
from workqueue import Backoff, KeyBackoff, WorkQueue


@pytest.mark.rule("queue-memory")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("at_once", [1000, 50_000])
def test_many_keys_leave_nothing_in_the_queue_the_limiter_and_memory(at_once: int) -> None:
    left = anyio.run(work_through, 50_000, at_once)
    assert (left.queued, left.limited) == (0, 0)
    assert left.megabytes < ALLOWED_MEGABYTES


@pytest.mark.rule("queue-memory")
@pytest.mark.parametrize("ageing", [None, 60.0])
def test_a_queue_that_has_held_many_keys_shrinks_to_its_former_size(ageing: float | None) -> None:
    async def grown() -> int:
        backoff: KeyBackoff[str] = KeyBackoff(Backoff(1e-9, 1e-9))
        queue: WorkQueue[str] = WorkQueue(limiter=backoff, ageing=ageing, min_interval=1e-9)
        await work(queue, range(10), 10)
        before = traced()
        await work(queue, range(10_000), 10_000)
        await work(queue, range(10), 10)
        return traced() - before

    tracemalloc.start()
    try:
        assert anyio.run(grown) < 50_000  # a dict keeps 300,000 bytes of so many keys
    finally:
        tracemalloc.stop()


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
