"""The queue beside a plain list that says what it must do, under any order of calls."""

import asyncio
import functools
import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio
import pytest
import trio.testing
from anyio.from_thread import start_blocking_portal
from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reconcile.testing.virtual_time import VirtualTimeLoop
from tests.workqueue.helpers import Recorded, end, take
from workqueue import Backoff, KeyBackoff, QueueClosed, Work, WorkQueue

KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
PRIORITIES = st.integers(-2, 2)
DELAYS = st.sampled_from([0, 1, 2.5, 5e-324, 4])


@define(eq=False)
class Entry:
    """What is asked for one key since it was last handed out."""

    key: str
    priority: int
    ready_at: float
    causes: list[int]
    dropped: int = 0
    place: float = math.inf
    """In the order in which keys became ready, or were raised; infinite while the key is delayed."""

    def add(self, other: "Entry") -> None:
        self.priority = max(self.priority, other.priority)
        self.ready_at = min(self.ready_at, other.ready_at)
        self.dropped += other.dropped
        for cause in other.causes:
            if cause in self.causes:
                self.causes.remove(cause)
            self.causes.append(cause)
        self.dropped += max(0, len(self.causes) - 8)
        self.causes = self.causes[-8:]


@define
class Oracle:
    """Everything in lists that are searched through, and nothing clever."""

    ageing: float | None
    interval: float
    now: float = 0.0
    queued: list[Entry] = field(factory=list)  # in the order of their last move among the delayed
    working: dict[str, tuple[Entry, float, Entry | None]] = field(factory=dict)
    started: dict[str, float] = field(factory=dict)
    places: int = 0
    phase: str = "open"

    def find(self, key: str) -> Entry | None:
        return next((entry for entry in self.queued if entry.key == key), None)

    def ripen(self) -> None:
        due = [entry for entry in self.queued if entry.place == math.inf and entry.ready_at <= self.now]
        for entry in sorted(due, key=lambda entry: entry.ready_at):
            entry.place = self.next_place()

    def next_place(self) -> int:
        self.places += 1
        return self.places

    def paced(self, key: str, ready_at: float) -> float:
        return max(ready_at, self.started.get(key, -math.inf) + self.interval) if self.interval else ready_at

    def add(self, key: str, delay: float, priority: int, cause: int, urgent: bool) -> None:
        if self.phase != "open":
            return
        ready_at = self.now if not delay else max(self.now + delay, math.nextafter(self.now, math.inf))
        entry = Entry(key, priority, ready_at if urgent else self.paced(key, ready_at), [cause])
        if key in self.working:
            handed_out, since, again = self.working[key]
            if again is not None:
                again.add(entry)
            self.working[key] = (handed_out, since, again or entry)
        elif (known := self.find(key)) is None:
            self.queued.append(entry)
            self.ripen()
        else:
            self.merge(known, entry)

    def merge(self, known: Entry, entry: Entry) -> None:
        priority, ready_at = known.priority, known.ready_at
        known.add(entry)
        if known.place < math.inf and known.priority > priority:
            known.place = self.next_place()
        if known.place == math.inf and known.ready_at < ready_at:
            self.queued.remove(known)
            self.queued.append(known)
            self.ripen()

    def ready(self) -> list[Entry]:
        return [entry for entry in self.queued if entry.place < math.inf]

    def first(self) -> Entry:
        return min(self.ready(), key=self.rank)

    def rank(self, entry: Entry) -> tuple[float, float]:
        if self.ageing is None:
            return -entry.priority, entry.place
        return entry.ready_at - entry.priority * self.ageing, entry.place

    def take(self) -> Entry:
        entry = self.first()
        self.queued.remove(entry)
        self.working[entry.key] = (entry, self.now, None)
        self.started[entry.key] = self.now
        return entry

    def discard(self, key: str) -> int:
        """Returns how many ready keys that were."""
        gone = [entry for entry in self.queued if entry.key == key]
        self.queued = [entry for entry in self.queued if entry.key != key]
        if key in self.working:
            entry, since, _ = self.working[key]
            self.working[key] = (entry, since, None)
        return sum(entry.place < math.inf for entry in gone)

    def finish(self, key: str, failed: bool) -> None:
        entry, _, again = self.working.pop(key)
        if failed:
            back = Entry(key, entry.priority, self.paced(key, self.now), entry.causes, entry.dropped)
            if again is not None:
                back.add(again)
            again = back
        if again is not None and not self.drops(again):
            self.queued.append(again)
            self.ripen()

    def drops(self, entry: Entry) -> bool:
        held = self.interval and entry.ready_at == self.started.get(entry.key, -math.inf) + self.interval
        return self.phase == "closed" or (self.phase == "draining" and entry.ready_at > self.now and not held)

    def leave(self, phase: str) -> None:
        self.phase = phase
        self.queued = [entry for entry in self.queued if not self.drops(entry)]
        if phase == "closed":
            self.working = {key: (entry, since, None) for key, (entry, since, _) in self.working.items()}


class Runner(Protocol):
    """An event loop in virtual time that stands still between the calls."""

    def call(self, fn: Callable[[], Awaitable[Any]]) -> Any: ...

    def close(self) -> None: ...


class OnAsyncio:
    def __init__(self) -> None:
        self.runner = asyncio.Runner(loop_factory=functools.partial(VirtualTimeLoop, seed=0))

    def call(self, fn: Callable[[], Awaitable[Any]]) -> Any:
        async def coroutine() -> Any:
            return await fn()

        return self.runner.run(coroutine())

    def close(self) -> None:
        self.runner.close()


class OnTrio:
    """trio has no runner for several calls: its loop is in a thread, and idle while this one goes on."""

    def __init__(self) -> None:
        self.clock = trio.testing.MockClock()
        self.context = start_blocking_portal(backend="trio", backend_options={"clock": self.clock})
        self.portal = self.context.__enter__()

    def call(self, fn: Callable[[], Awaitable[Any]]) -> Any:
        return self.portal.call(self.simulated, fn)

    async def simulated(self, fn: Callable[[], Awaitable[Any]]) -> Any:
        """For as long as the call: between calls a clock that jumps has the loop turn without end."""
        self.clock.autojump_threshold = 0
        try:
            return await fn()
        finally:
            self.clock.autojump_threshold = math.inf

    def close(self) -> None:
        self.context.__exit__(None, None, None)


class AgainstAnOracle(RuleBasedStateMachine):
    runner_factory: Callable[[], Runner] = OnAsyncio

    def __init__(self) -> None:
        super().__init__()
        self.runner = type(self).runner_factory()
        self.works: dict[str, Work[str]] = {}
        self.failures: dict[str, tuple[int, float]] = {}
        self.cause = 0
        self.discarded = 0

    def teardown(self) -> None:
        self.runner.close()

    def run(self, fn: Any, *args: Any) -> Any:
        async def call() -> Any:
            self.oracle.now = anyio.current_time()
            self.oracle.ripen()
            result = fn(*args)
            return await result if inspect.isawaitable(result) else result

        return self.runner.call(call)

    @initialize(ageing=st.sampled_from([None, None, 2.0]), interval=st.sampled_from([0, 0, 3.0]))
    def start(self, ageing: float | None, interval: float) -> None:
        self.metrics = Recorded()
        self.queue: WorkQueue[str] = WorkQueue(
            limiter=KeyBackoff(Backoff(1, 4, jitter=0)),
            ageing=ageing,
            min_interval=interval,
            metrics=self.metrics,
        )
        self.oracle = Oracle(ageing, interval)

    def next_cause(self) -> int:
        self.cause += 1
        return self.cause % 12

    @rule(key=KEYS, delay=DELAYS, priority=PRIORITIES, urgent=st.booleans())
    def add(self, key: str, delay: float, priority: int, urgent: bool) -> None:
        cause = self.next_cause()
        add = functools.partial(
            self.queue.add_after, key, delay, priority=priority, cause=cause, urgent=urgent
        )
        self.run(add)
        self.oracle.add(key, delay, priority, cause, urgent)

    @rule(key=KEYS, priority=PRIORITIES)
    def add_now(self, key: str, priority: int) -> None:
        cause = self.next_cause()
        self.run(functools.partial(self.queue.add, key, priority=priority, cause=cause))
        self.oracle.add(key, 0, priority, cause, urgent=False)

    @rule(key=KEYS)
    def add_rate_limited(self, key: str) -> None:
        cause = self.next_cause()
        delay = self.run(functools.partial(self.queue.add_rate_limited, key, cause=cause))
        count, until = self.failures.get(key, (0, -math.inf))
        if self.oracle.now >= until:
            count, until = count + 1, self.oracle.now + min(2.0**count, 4)
        self.failures[key] = (count, until)
        assert delay == until - self.oracle.now
        assert self.queue.retries(key) == count
        self.oracle.add(key, delay, 0, cause, urgent=False)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)
        assert self.queue.retries(key) == 0

    @rule(key=KEYS)
    def discard(self, key: str) -> None:
        self.run(self.queue.discard, key)
        self.discarded += self.oracle.discard(key)
        self.failures.pop(key, None)
        assert self.queue.retries(key) == 0

    @precondition(lambda self: self.oracle.ready())
    @rule()
    def take(self) -> None:
        work, item = self.run(take, self.queue)
        entry = self.oracle.take()
        assert (item.key, item.priority) == (entry.key, entry.priority)
        assert (item.causes, item.dropped_causes) == (tuple(entry.causes), entry.dropped)
        assert item.retries == self.failures.get(item.key, (0, 0))[0]
        assert item.key not in self.works
        self.works[item.key] = work

    @precondition(lambda self: not self.oracle.ready())
    @rule()
    def take_in_vain(self) -> None:
        over = self.oracle.phase == "closed" or (
            self.oracle.phase == "draining" and not self.oracle.queued and not self.oracle.working
        )
        assert self.run(self.try_to_take) == ("closed" if over else "nothing")

    async def try_to_take(self) -> str:
        with anyio.move_on_after(0):
            try:
                await take(self.queue)
            except QueueClosed:
                return "closed"
            return "a key"
        return "nothing"

    @precondition(lambda self: self.works)
    @rule(data=st.data(), failed=st.booleans())
    def finish(self, data: st.DataObject, failed: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.works)))
        self.run(end, self.works.pop(key), RuntimeError() if failed else None)
        self.oracle.finish(key, failed)

    @rule(seconds=st.sampled_from([0.5, 1, 2.5, 10]))
    def wait(self, seconds: float) -> None:
        self.runner.call(functools.partial(anyio.sleep, seconds))

    @precondition(lambda self: self.oracle.phase == "open" and self.oracle.places > 15)
    @rule()
    def drain(self) -> None:
        self.run(self.begin_to_drain)
        self.oracle.leave("draining")

    async def begin_to_drain(self) -> None:
        with anyio.move_on_after(0):
            await self.queue.drain()

    @precondition(lambda self: self.oracle.places > 25)
    @rule()
    def close(self) -> None:
        self.run(self.queue.close)
        self.oracle.leave("closed")

    @invariant()
    def they_agree(self) -> None:
        status = self.run(self.queue.status)
        ready = self.oracle.ready()
        assert (status.ready, status.delayed) == (len(ready), len(self.oracle.queued) - len(ready))
        assert status.depths == Counter(entry.priority for entry in ready)
        since = [began for _, began, _ in self.oracle.working.values()]
        assert status.working == len(since)
        assert status.unfinished_seconds == pytest.approx(sum(self.oracle.now - began for began in since))
        assert status.longest_running_seconds == max((self.oracle.now - began for began in since), default=0)
        ages = [self.oracle.now - entry.ready_at for entry in ready]
        assert min(ages, default=0) <= status.oldest_ready_seconds <= max(ages, default=0)
        assert status.closed == (self.oracle.phase != "open")
        if self.oracle.phase != "closed":
            left = status.ready + self.discarded
            assert len(self.metrics.added_priorities) == len(self.metrics.waits) + left
        again = [key for key, (_, _, again) in self.oracle.working.items() if again is not None]
        assert sorted(self.queue.keys()) == sorted([entry.key for entry in self.oracle.queued] + again)


class AgainstAnOracleOnTrio(AgainstAnOracle):
    runner_factory = OnTrio


AgainstAnOracle.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
AgainstAnOracleOnTrio.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


@pytest.mark.rule("inv-02", "inv-04", "inv-06", "inv-07", "inv-08", "P1", "P2", "P3", "P5", "P8")
@pytest.mark.rule("queue-ageing", "queue-backoff", "queue-causes", "queue-interval")
class TestTheQueueAgainstAnOracle(AgainstAnOracle.TestCase):
    """Any order of adds, hand-outs, ends and waiting."""


class TestTheQueueAgainstAnOracleOnTrio(AgainstAnOracleOnTrio.TestCase):
    """The same on trio."""
