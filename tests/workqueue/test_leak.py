"""Keys that were worked on and forgotten leave nothing behind."""

import sys

import anyio
import pytest

from tests.workqueue.leak import ALLOWED_MEGABYTES, work_through


@pytest.mark.rule("queue-memory")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("at_once", [1000, 50_000])
def test_many_keys_leave_nothing_in_the_queue_the_limiter_and_memory(at_once: int) -> None:
    left = anyio.run(work_through, 50_000, at_once)
    assert (left.queued, left.limited) == (0, 0)
    assert left.megabytes < ALLOWED_MEGABYTES
