"""The page about the queue says what the queue does."""

import doctest
from pathlib import Path

import anyio

from tests.workqueue.helpers import virtual
from workqueue import Backoff, KeyBackoff, WorkQueue

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "workqueue.md"


def test_the_examples_on_the_page_behave_as_described() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False)
    assert results.attempted >= 4
    assert results.failed == 0


@virtual
async def test_a_key_goes_through_its_states_as_in_the_timing_diagram() -> None:
    queue: WorkQueue[str] = WorkQueue(limiter=KeyBackoff(Backoff(2, 100, jitter=0)))
    seen: list[tuple[str, int, int]] = []

    async def worker() -> None:
        await anyio.sleep_until(1)
        for ends, free in ((4, 5), (7, 7), (10, 10)):
            async with queue.get():
                await anyio.sleep_until(ends)
                if ends == 7:
                    assert queue.add_rate_limited("key") == 2
            await anyio.sleep_until(free)

    async def calls() -> None:
        queue.add("key")
        await anyio.sleep_until(2)
        queue.add("key")
        await anyio.sleep_until(3)
        queue.add_after("key", 5)
        await anyio.sleep_until(8)
        queue.add("key")

    async def look() -> None:
        for second in range(12):
            await anyio.sleep_until(second + 0.5)
            status = queue.status()
            now = [name for name in ("ready", "working", "delayed") if getattr(status, name)]
            seen.extend((name, second, second + 1) for name in now)

    async with anyio.create_task_group() as group:
        for task in (worker, calls, look):
            group.start_soon(task)
    assert seen == [
        ("ready", 0, 1),
        ("working", 1, 2),
        ("working", 2, 3),
        ("working", 3, 4),
        ("ready", 4, 5),
        ("working", 5, 6),
        ("working", 6, 7),
        ("delayed", 7, 8),
        ("working", 8, 9),
        ("working", 9, 10),
    ]
