"""What the queue costs a key: add, get, done, beside put, get, task_done of `asyncio.Queue`.

One task adds all keys and then takes all. For the cost by size the same million keys go through one
queue, all at once or a thousand at a time. Rounds of what is compared alternate, so that both see the
same machine, and the best round counts, because what else the machine does only ever adds. The garbage
collector is on.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import repeat

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
    for _ in range(4):
        few.append(await _timed(partial(_work_queue, at_once=FEW), MANY))
        many.append(await _timed(_work_queue, MANY))
    return {
        "workqueue.ns_per_key": min(ours),
        "workqueue.asyncio_queue_ns_per_key": min(plain),
        "workqueue.ratio_to_asyncio_queue": min(ours) / min(plain),
        "workqueue.ns_per_key_of_1000": min(few),
        "workqueue.ns_per_key_of_1000000": min(many),
        "workqueue.ratio_of_1000000_to_1000": min(many) / min(few),
    }


async def _timed(work: Callable[[list[str]], Awaitable[None]], number: int) -> float:
    keys = [f"namespace-{key % 100}/name-{key}" for key in range(number)]
    gc.collect()
    began = time.process_time_ns()
    await work(keys)
    return (time.process_time_ns() - began) / number


async def _work_queue(keys: list[str], at_once: int = MANY) -> None:
    queue: WorkQueue[str] = WorkQueue()
    for first in range(0, len(keys), at_once):
        batch = keys[first : first + at_once]
        for number, key in enumerate(batch):
            queue.add(key, priority=PRIORITIES[number % 3])
        for _ in repeat(None, len(batch)):
            async with queue.get():
                pass


async def _asyncio_queue(keys: list[str]) -> None:
    queue: asyncio.Queue[str] = asyncio.Queue()
    for key in keys:
        await queue.put(key)
    for _ in repeat(None, len(keys)):
        await queue.get()
        queue.task_done()
