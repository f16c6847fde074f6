"""Ten producers, a hundred workers, and cancellation at every await, in the order that a seed decides.

`python -m tests.workqueue.fuzz --seeds 10000` runs many; `--first 1234 --seeds 1` runs one again.
"""

import argparse
import random
import sys
import traceback
from collections import Counter
from collections.abc import Coroutine, Generator
from typing import Any

import anyio
from attrs import define, field

from reconcile.testing.virtual_time import simulate
from tests.workqueue.helpers import simulate_trio
from workqueue import Backoff, Item, KeyBackoff, QueueClosed, WorkQueue

PRODUCERS = 10
WORKERS = 100
ADDS = 12
KEYS = 25


class CancelledAt:
    """Awaits a coroutine, and cancels `scope` at the moment when it suspends for the `nth` time."""

    def __init__(self, work: Coroutine[Any, Any, None], scope: anyio.CancelScope, nth: int) -> None:
        self._work, self._scope, self._left = work, scope, nth

    def __await__(self) -> Generator[Any, Any, None]:
        step, value = self._work.send, None
        while True:
            try:
                suspension = step(value)  # type: ignore[arg-type]
            except StopIteration:
                return
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()
            try:
                value, step = (yield suspension), self._work.send
            except BaseException as error:
                value, step = error, self._work.throw  # type: ignore[assignment]


@define
class Fuzz:
    """One queue, and beside it what was asked for and what came out."""

    chance: random.Random
    queue: WorkQueue[int]
    strict: bool
    wanted: dict[int, int] = field(factory=dict)
    served: dict[int, int] = field(factory=dict)
    at_work: set[int] = field(factory=set)
    waiting: dict[int, anyio.CancelScope] = field(factory=dict)
    asked: Counter[int] = field(factory=Counter)
    handed_out: Counter[int] = field(factory=Counter)
    cancelled: int = 0

    async def produce(self) -> None:
        for number in range(ADDS):
            key = self.chance.randrange(KEYS)
            self.wanted[key] = self.wanted.get(key, 0) + 1
            self.asked[key] += 1
            delay = self.chance.choice([0, 0, 0, 0.5, 2, 5e-324])
            priority, urgent = self.chance.randrange(-1, 3), self.chance.random() < 0.1
            self.queue.add_after(key, delay, priority=priority, cause=number, urgent=urgent)
            if self.waiting and self.chance.random() < 0.2:
                self.chance.choice(list(self.waiting.values())).cancel()  # perhaps just after it was woken
            if self.chance.random() < 0.7:
                await anyio.sleep(self.chance.choice([0, 0.1, 1]))

    async def work(self, name: int) -> None:
        """Work until the queue ends. Each hand-out may be cancelled anywhere; then the worker starts anew."""
        ended = False

        async def work_once() -> None:
            nonlocal ended
            try:
                async with self.queue.get() as item:
                    self.waiting.pop(name, None)
                    await self.handle(item)
            except QueueClosed:
                ended = True

        while not ended:
            with anyio.CancelScope() as scope:
                self.waiting[name] = scope
                nth = self.chance.choice([0, 0, 1, 2, 3, 4])
                await CancelledAt(work_once(), scope, nth)
            self.waiting.pop(name, None)
            self.cancelled += scope.cancelled_caught

    async def handle(self, item: Item[int]) -> None:
        key = item.key
        assert key not in self.at_work, f"two workers at once on {key}"
        self.handed_out[key] += 1
        assert self.handed_out[key] <= self.asked[key], f"{key} came out more often than it was asked for"
        if self.strict:
            better = [priority for priority in self.queue.status().depths if priority > item.priority]
            assert not better, f"{key} came out at {item.priority} before {better}"
        self.at_work.add(key)
        finished = False
        try:
            seen = self.wanted[key]
            for _ in range(self.chance.randrange(3)):
                await anyio.sleep(self.chance.choice([0, 0.01, 1]))
            finished = True
            if self.chance.random() < 0.1:
                self.asked[key] += 1
                self.queue.add_rate_limited(key)
            else:
                self.served[key] = seen
                self.queue.forget(key)
        finally:
            self.at_work.discard(key)
            if not finished:
                self.asked[key] += 1  # by dying


async def scenario(seed: int) -> int:
    """Play one seed; how often something was cancelled. Raises AssertionError for a broken promise."""
    chance = random.Random(seed)
    ageing = chance.choice([None, None, 3.0])
    limiter: KeyBackoff[int] = KeyBackoff(Backoff(0.01, 5), chance.random)
    queue: WorkQueue[int] = WorkQueue(limiter=limiter, ageing=ageing, min_interval=chance.choice([0, 0, 1.5]))
    fuzz = Fuzz(chance, queue, strict=ageing is None)
    async with anyio.create_task_group() as workers:
        for name in range(WORKERS):
            workers.start_soon(fuzz.work, name)
        async with anyio.create_task_group() as producers:
            for _ in range(PRODUCERS):
                producers.start_soon(fuzz.produce)
        if chance.random() < 0.7:
            await anyio.sleep(600)
            assert fuzz.served == fuzz.wanted, "a key was lost"
            assert queue.status().delayed == len(limiter) == 0
        with anyio.fail_after(600):
            await queue.drain()
        status = queue.status()
        assert (status.ready, status.delayed, status.working, fuzz.at_work) == (0, 0, 0, set())
    return fuzz.cancelled


def play(seed: int, backend: str = "asyncio") -> int:
    """Play one seed under virtual time; how often something was cancelled."""
    if backend == "asyncio":
        return simulate(scenario, seed, seed=seed)
    return simulate_trio(scenario, seed)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000, help="how many to run (1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    chosen = parser.parse_args(arguments)
    failed: list[int] = []
    cancelled = run = 0
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        try:
            cancelled += play(seed)
        except Exception:
            failed.append(seed)
            print(f"seed {seed}\n{traceback.format_exc()}", file=sys.stderr)
        run += 1
    print(f"fuzz: {run} of {chosen.seeds} seeds run, from {chosen.first}; {cancelled} cancellations")
    print(f"fuzz: {len(failed)} failed{':' if failed else ''} {' '.join(map(str, failed))}".rstrip())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
