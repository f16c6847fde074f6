"""What is left of keys that were added, worked on and forgotten.

`python -m tests.workqueue.leak` prints it for a million keys, one thousand or all of them at a time.
"""

import argparse
import ctypes
import gc
import os
import sys

import anyio
from attrs import frozen

from workqueue import Backoff, KeyBackoff, MaxOf, TokenBucket, WorkQueue

ALLOWED_MEGABYTES = 5.0
WARM_UP = 50_000
"""Python keeps a few megabytes after a first peak, whatever is freed; a leak grows with each key after it."""


@frozen
class Left:
    """What a queue holds after its work, and by how much the process grew."""

    queued: int
    limited: int
    megabytes: float


async def work_through(keys: int, at_once: int) -> Left:
    """Add, fail, run and forget `keys` distinct keys, `at_once` of them at a time."""
    backoff: KeyBackoff[str] = KeyBackoff(Backoff(1e-9, 1e-9))
    queue: WorkQueue[str] = WorkQueue(limiter=MaxOf(backoff, TokenBucket(1e9)), min_interval=1e-9, ageing=60)
    await work(queue, range(WARM_UP), WARM_UP)
    before = resident_megabytes()
    await work(queue, range(keys), at_once)
    await anyio.sleep(0.001)
    grown = resident_megabytes() - before
    status = queue.status()
    return Left(status.ready + status.delayed + status.working, len(backoff), grown)


async def work(queue: WorkQueue[str], keys: range, at_once: int) -> None:
    for first in range(keys.start, keys.stop, at_once):
        batch = range(first, min(first + at_once, keys.stop))
        for number in batch:
            queue.add_rate_limited(f"namespace/name-{number}", priority=number % 3, cause=number)
        for _ in batch:
            async with queue.get() as item:
                queue.forget(item.key)


def resident_megabytes() -> float:
    """The memory of this process that is in RAM, without what is only kept to be used again."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000, help="how many keys (1000000)")
    keys = parser.parse_args(arguments).keys
    leaks = False
    for at_once in (1000, keys):
        left = anyio.run(work_through, keys, at_once)
        leaks |= bool(left.queued or left.limited) or left.megabytes > ALLOWED_MEGABYTES
        print(
            f"leak: {keys} keys, {at_once} at a time: {left.queued} left in the queue, {left.limited} "
            f"in the limiter, {left.megabytes:+.1f} MB ({ALLOWED_MEGABYTES:g} MB are allowed)"
        )
    return int(leaks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
