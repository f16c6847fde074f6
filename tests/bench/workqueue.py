"""What the queue costs a key: add, get, done, beside put, get, task_done of `asyncio.Queue`.

All keys are added, then all are taken, by one task. Each figure is the median of several rounds, and
the rounds of what is compared alternate, so that both see the same machine. The garbage collector is on.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from statistics import median

import anyio

from workqueue import WorkQueue

KEYS = 200_000
MANY = 1_000_000
FEW = 1_000
PRIORITIES = (0, -100, 10)


def figures() -> dict[str, float]:
    """Nanoseconds a key of CPU time, and how they compare."""
    return anyio.run(_measure)


async def _measure() -> dict[str, float]:
    await _timed(_work_queue, FEW)
    ours, plain, few, many = [], [], [], []
    for _ in range(5):
        ours.append(await _timed(_work_queue, KEYS))
        plain.append(await _timed(_asyncio_queue, KEYS))
    for _ in range(3):
        few.append(median([await _timed(_work_queue, FEW) for _ in range(101)]))
        many.append(await _timed(_work_queue, MANY))
    return {
        "workqueue.ns_per_key": median(ours),
        "workqueue.asyncio_queue_ns_per_key": median(plain),
        "workqueue.ratio_to_asyncio_queue": median(ours) / median(plain),
        "workqueue.ns_per_key_of_1000": median(few),
        "workqueue.ns_per_key_of_1000000": median(many),
        "workqueue.ratio_of_1000000_to_1000": median(many) / median(few),
    }


async def _timed(work: Callable[[list[str]], Awaitable[None]], number: int) -> float:
    keys = [f"namespace-{key % 100}/name-{key}" for key in range(number)]
    gc.collect()
    began = time.process_time_ns()
    await work(keys)
    return (time.process_time_ns() - began) / number


async def _work_queue(keys: list[str]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    for number, key in enumerate(keys):
        queue.add(key, priority=PRIORITIES[number % 3])
    for _ in keys:
        async with queue.get():
            pass


async def _asyncio_queue(keys: list[str]) -> None:
    queue: asyncio.Queue[str] = asyncio.Queue()
    for key in keys:
        await queue.put(key)
    for _ in keys:
        await queue.get()
        queue.task_done()
