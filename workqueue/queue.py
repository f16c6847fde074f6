"""Which key is worked on next: one entry per key, one worker per key.

A key is *ready* (may be handed out), *delayed* (becomes ready at a time) or *in work*. A key added while it
is in work is kept aside until the work ends, so no key is ever handed to two workers. Adds of one key merge:
highest priority, earliest time, newest causes. Rules follow client-go's queue and controller-runtime's
priority queue where those are right.
"""

import math
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from itertools import chain, islice
from threading import get_ident
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

from workqueue.backoff import KeyBackoff
from workqueue.entries import Entry, Item, entry_for, merged
from workqueue.limiters import RateLimiter
from workqueue.order import AgeingOrder, Heap, ReadyOrder, StrictOrder
from workqueue.pacing import Pace, later, no_time_yet
from workqueue.queue_status import QueueMetrics, QueueStatus
from workqueue.waiters import Waiters

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_UNINTERRUPTED_SECONDS = 0.001
"""Seconds of hand-outs after which `get` lets the event loop turn: probes and Leases must not starve."""
_UNINTERRUPTED_KEYS = 1000
"""Hand-outs after which it does so in any case: in a virtual loop, time stands still between two turns."""


class QueueClosed(Exception):
    """The queue accepts no more keys and has nothing more to hand out."""


class WorkQueue(Generic[K]):
    """A deduplicating queue of keys with priorities, delays and per-key back-off.

    A queue belongs to the event loop in which it is first used, and its time is that loop's. Adds and
    `status` may also be called from other threads, where they block until the loop has taken the call.
    Everything else is for tasks of the loop.
    """

    def __init__(
        self,
        *,
        limiter: RateLimiter[K] | None = None,
        ageing: float | None = None,
        min_interval: float = 0.0,
        metrics: QueueMetrics | None = None,
    ) -> None:
        """Strict priority, no minimum interval, and a back-off per key of 5 ms to 1000 s.

        `limiter` delays what `add_rate_limited` adds. With `ageing`, each `ageing` seconds that a key is
        ready count as one step of priority, so that low priority cannot starve. No key is handed out twice
        within `min_interval` seconds, from start to start, unless an add is urgent. Raises ValueError for an
        `ageing` that is not positive or a `min_interval` below 0.
        """
        if ageing is not None and not 0 < ageing < math.inf:
            raise ValueError(f"expected a positive number of seconds for ageing, got {ageing}")
        self._limiter: RateLimiter[K] = KeyBackoff() if limiter is None else limiter
        self._metrics = metrics
        self._queued: dict[K, Entry] = {}  # what is ready or delayed
        self._ready: ReadyOrder[K] = StrictOrder() if ageing is None else AgeingOrder(ageing)
        self._delayed: Heap[K] = Heap()
        self._working: dict[K, float] = {}  # since when, oldest first
        self._again: dict[K, Entry] = {}  # what was added to keys in work
        self._pace: Pace[K] | None = Pace(min_interval) if min_interval else None
        self._waiters = Waiters()
        self._onlookers: set[anyio.Event] = set()
        self._phase: Literal["open", "draining", "closed"] = "open"
        self._before_turn = _UNINTERRUPTED_KEYS
        self._turned_at = -math.inf
        self._thread: int | None = None
        self._token: anyio.lowlevel.EventLoopToken | None = None
        self._now = no_time_yet
        self.on_add: Callable[[K], None] | None = None
        """Called with each key that is added, in the queue's event loop; it must be quick and not raise."""

    # --- adding ---------------------------------------------------------------------------------

    def add(self, key: K, *, priority: int = 0, cause: Any = None, urgent: bool = False) -> None:
        """Have `key` worked on as soon as a worker is free; a pending delay of it ends.

        `cause` is a small value that says why; equal ones are kept once. `urgent` skips the minimum interval.
        Raises TypeError for an unhashable key or a priority that is not an int. Ignored after `drain` or
        `close`.
        """
        if get_ident() != self._thread:
            return self._elsewhere(partial(self.add, key, priority=priority, cause=cause, urgent=urgent))
        now = self._now()
        self._add(key, entry_for(priority, now, cause), now, urgent)
        return None

    def add_after(
        self, key: K, delay: float, *, priority: int = 0, cause: Any = None, urgent: bool = False
    ) -> None:
        """Have `key` worked on in `delay` seconds; the shortest of several delays counts.

        Raises ValueError for a negative, NaN or infinite delay; otherwise as `add`.
        """
        if not 0 <= delay < math.inf:
            raise ValueError(f"expected a finite delay of 0 s or more, got {delay}")
        if get_ident() != self._thread:
            return self._elsewhere(
                partial(self.add_after, key, delay, priority=priority, cause=cause, urgent=urgent)
            )
        now = self._now()
        self._add(key, entry_for(priority, later(now, delay), cause), now, urgent)
        return None

    def add_rate_limited(
        self,
        key: K,
        *,
        priority: int = 0,
        cause: Any = None,
        urgent: bool = False,
        delay: float | None = None,
    ) -> float:
        """Count a failure of `key` and have it worked on after its back-off; returns that delay (s).

        With `delay` (s) that is the delay instead. Raises ValueError for one that `add_after` refuses.
        """
        if get_ident() != self._thread:
            options: dict[str, Any] = {"priority": priority, "cause": cause, "urgent": urgent, "delay": delay}
            return self._elsewhere(partial(self.add_rate_limited, key, **options))
        backoff = self._limiter.next_delay(key, self._now())
        delay = backoff if delay is None else delay
        self.add_after(key, delay, priority=priority, cause=cause, urgent=urgent)
        if self._metrics is not None:
            self._metrics.retried()
        return delay

    def forget(self, key: K) -> None:
        """Reset the failures of `key`. Does not touch the queue."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """How many failures of `key` have counted since it was last forgotten."""
        return self._limiter.retries(key)

    def discard(self, key: K) -> None:
        """Take `key` out of the queue, and reset its failures. If it is in work, that work goes on."""
        self._limiter.forget(key)
        self._again.pop(key, None)
        entry = self._queued.pop(key, None)
        if entry is None:
            return
        if key in self._delayed:
            self._delayed.remove(key)
        else:
            priority, _, _ = entry
            self._ready.remove(key, priority)
        self._after_an_end()

    def keys(self) -> list[K]:
        """All keys that are ready or delayed, or were added while in work; in any order."""
        return [*self._queued, *self._again]

    # --- working --------------------------------------------------------------------------------

    def get(self) -> "Work[K]":
        """Wait for a key and work on it: `async with queue.get() as item: ...`.

        Leaving the block ends the work; if an exception or a cancellation leaves it, the key is put back.
        Raises QueueClosed once the queue is closed and this worker can get no more keys: during a drain, when
        the last work has ended. If keys are ready this does not suspend, except once per millisecond of
        hand-outs.
        """
        return Work(self)

    async def join(self) -> None:
        """Wait until no key is ready or in work; delayed keys are not waited for."""
        while len(self) or self._working:
            await self._look_on()

    # --- ending ---------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Accept no more keys, and wait until all work that is due by now is done.

        Keys held by the minimum interval are waited for; delayed and backed-off keys are dropped. `close`
        ends the wait early; so does cancelling it, while the drain itself goes on.
        """
        if self._phase == "open":
            self._phase = "draining"
            now = self._now()
            for key in self._delayed.members():
                if self._drops(key, self._queued[key], now):
                    self._delayed.remove(key)
                    del self._queued[key]
            self._after_an_end()
        while not self._is_empty():
            await self._look_on()

    def close(self) -> None:
        """Accept no more keys and drop what is queued. Work in progress goes on; `join` waits for it."""
        self._phase = "closed"
        self._ready.clear()
        self._delayed.clear()
        self._queued.clear()
        self._again.clear()
        self._waiters.wake_all()
        self._after_an_end()

    # --- looking --------------------------------------------------------------------------------

    def status(self) -> QueueStatus:
        """How many keys are ready, delayed and in work now, and since when."""
        if self._token is not None and get_ident() != self._thread:
            return anyio.from_thread.run_sync(self.status, token=self._token)
        now = self._now()
        self._promote(now)
        return QueueStatus(
            ready=len(self._ready),
            delayed=len(self._delayed),
            working=len(self._working),
            depths=self._ready.depths(),
            unfinished_seconds=sum(now - started for started in self._working.values()),
            longest_running_seconds=now - next(iter(self._working.values()), now),
            closed=self._phase != "open",
            oldest_ready_seconds=max(
                (now - self._queued[key][1] for key in self._ready.heads()), default=0.0
            ),
        )

    def queued(self, limit: int) -> list[tuple[Item[K], float]]:
        """Up to `limit` keys that are ready or delayed, with the seconds until they may start; in any order.

        Each is given as it would be handed out now. Keys in work are included only if they were added again.
        """
        now = self._now()
        waiting = chain(self._queued.items(), self._again.items())
        return [
            (self._item(key, entry), max(0.0, ready_at - now))
            for key, entry in islice(waiting, limit)
            for _, ready_at, _ in [entry]
        ]

    def queued_key(self, key: K) -> tuple[Item[K], float] | None:
        """One key as `queued` gives it; None if it is neither ready nor delayed, nor added while in work."""
        entry = self._queued.get(key) or self._again.get(key)
        if entry is None:
            return None
        _, ready_at, _ = entry
        return self._item(key, entry), max(0.0, ready_at - self._now())

    def _item(self, key: K, entry: Entry) -> Item[K]:
        priority, _, (causes, dropped) = entry
        return Item(key, priority, causes, dropped, self._limiter.retries(key))

    @property
    def has_more(self) -> bool:
        """Whether there are keys besides those in work, ready or delayed. In the queue's event loop only."""
        return bool(self._queued)

    def __len__(self) -> int:
        """The number of keys that are ready."""
        self._promote(self._now())
        return len(self._ready)

    # --- where and when -------------------------------------------------------------------------

    def _elsewhere(self, call: Callable[[], T]) -> T:
        """Make a call in the queue's event loop; the first call of all decides which loop that is."""
        if self._token is not None:
            return anyio.from_thread.run_sync(call, token=self._token)
        self._settle_in()
        return call()

    def _settle_in(self) -> None:
        """Bind the queue to the running event loop."""
        if self._token is not None:
            raise RuntimeError("the queue belongs to the event loop of another thread: only add from here")
        token = anyio.lowlevel.current_token()
        # asyncio's token is its event loop, whose `time` costs a tenth of looking for the loop each time.
        self._now = getattr(token.native_token, "time", token.backend_class.current_time)
        self._waiters.settle_in(token.native_token)
        self._token = token
        self._thread = get_ident()

    # --- from state to state --------------------------------------------------------------------

    def _add(self, key: K, added: Entry, now: float, urgent: bool) -> None:
        priority, ready_at, causes = added
        if not isinstance(priority, int):
            raise TypeError(f"expected a priority that is an int, got {priority!r}")
        if self._phase != "open":
            hash(key)  # an unhashable key is an error of its author at any time, not only while it is open
            return
        # Delays that have passed come first: they were due before this add, and keep their turn.
        if self._delayed.first <= now:
            self._promote(now)
        if self.on_add is not None:
            self.on_add(key)
        if self._pace is not None and not urgent:
            added = priority, self._pace.held(key, ready_at), causes
        # Never two workers on one key: what comes during the work waits for its end.
        if key in self._working:
            again = self._again.get(key)
            self._again[key] = added if again is None else merged(again, added)
        elif (known := self._queued.setdefault(key, added)) is added:
            self._place(key, added, now)
        else:
            self._merge(key, known, added, now)

    def _place(self, key: K, entry: Entry, now: float) -> None:
        """Make a queued key ready or delayed."""
        priority, ready_at, _ = entry
        if ready_at <= now:
            self._make_ready(key, priority, ready_at)
            return
        sooner = ready_at < self._delayed.first
        self._delayed.push(key, ready_at)
        if sooner:  # the watcher sleeps until a later time
            self._waiters.watch_anew()

    def _merge(self, key: K, known: Entry, added: Entry, now: float) -> None:
        entry = self._queued[key] = merged(known, added)
        before, due_before, _ = known
        priority, ready_at, _ = entry
        if due_before <= now:
            if priority > before:  # a lower one is merged, so that an add never delays a key
                self._ready.raised(key, before, priority, ready_at)
        elif ready_at < due_before:
            self._delayed.remove(key)
            self._place(key, entry, now)

    def _promote(self, now: float) -> None:
        while self._delayed.first <= now:
            key = self._delayed.pop()
            priority, ready_at, _ = self._queued[key]
            self._make_ready(key, priority, ready_at)

    def _make_ready(self, key: K, priority: int, ready_at: float) -> None:
        self._ready.push(key, priority, ready_at)
        if self._waiters.waiting:
            self._waiters.wake()
        if self._metrics is not None:
            self._metrics.added(priority)

    # --- handing out ----------------------------------------------------------------------------

    async def _take(self) -> Item[K]:
        if get_ident() != self._thread:
            self._settle_in()
        now = self._now()
        # Where there is nothing to hand out, the wait for it is a turn of the loop.
        if now - self._turned_at >= _UNINTERRUPTED_SECONDS and (self._ready or self._delayed.first <= now):
            await self._pause(anyio.lowlevel.checkpoint())
        while (item := self._hand_out(self._now())) is None:
            if self._phase == "closed" or (self._phase == "draining" and self._is_empty()):
                raise QueueClosed
            await self._pause(self._waiters.wait(self._delayed.first))
        return item

    async def _pause(self, pause: Coroutine[Any, Any, None]) -> None:
        """Let the event loop turn. A worker cancelled here passes on its wake-up."""
        paused_at = self._now()
        try:
            await pause
        except BaseException:
            # The wake-up that this worker may have had would be lost with it, and a key with the wake-up.
            if self._ready:
                self._waiters.wake()
            self._keep_watch()
            raise
        # Of many workers that resume in one turn of the loop only the first starts the count anew:
        # else each of them would have a millisecond, and the loop would turn once in their sum.
        if self._turned_at < paused_at:
            self._turned_at = self._now()
            self._before_turn = _UNINTERRUPTED_KEYS

    def _hand_out(self, now: float) -> Item[K] | None:
        if not self._queued:
            return None
        if self._delayed.first <= now:
            self._promote(now)
        try:
            key = self._ready.pop()
        except IndexError:
            return None
        entry = self._queued[key]
        priority, ready_at, _ = entry
        try:
            item = self._item(key, entry)
        except BaseException:  # of the limiter, which may be anybody's
            self._ready.push(key, priority, ready_at)
            raise
        del self._queued[key]
        if not self._queued:
            self._queued.clear()  # a dict keeps the table of its largest size until then
        self._working[key] = now
        self._before_turn -= 1
        if not self._before_turn:
            self._turned_at = -math.inf
        if self._pace is not None:
            self._pace.start(key, now)
        if self._waiters.waiting:
            self._keep_watch()
        if self._metrics is not None:
            self._metrics.started(priority, now - ready_at)
        return item

    def _keep_watch(self) -> None:
        if self._delayed:
            self._waiters.watch()

    def _end(self, item: Item[K], failed: bool) -> None:
        key = item.key
        started = self._working.pop(key)
        if self._metrics is not None:
            self._metrics.ended(self._now() - started)
        again = self._again.pop(key, None)
        if failed:
            again = self._put_back(item, again)
        if again is not None:
            self._begin_again(key, again)
        if self._onlookers or self._phase != "open":
            self._after_an_end()

    def _put_back(self, item: Item[K], again: Entry | None) -> Entry:
        """The entry of a key whose work failed: what it was for, and what was added meanwhile."""
        now = self._now()
        ready_at = now if self._pace is None else self._pace.held(item.key, now)
        unfinished = item.priority, ready_at, (item.causes, item.dropped_causes)
        return unfinished if again is None else merged(unfinished, again)

    def _begin_again(self, key: K, entry: Entry) -> None:
        now = self._now()
        if self._drops(key, entry, now):
            return
        self._promote(now)
        self._queued[key] = entry
        self._place(key, entry, now)

    def _drops(self, key: K, entry: Entry, now: float) -> bool:
        """Whether a queue that is ending drops this entry."""
        if self._phase == "draining":
            _, ready_at, _ = entry
            return ready_at > now and not (self._pace is not None and self._pace.holds(key, ready_at))
        return self._phase == "closed"

    # --- looking on -----------------------------------------------------------------------------

    def _after_an_end(self) -> None:
        """Wake the tasks that wait for the end of all work, if it may have come."""
        if self._phase != "open" and self._is_empty():
            self._waiters.wake_all()
        if self._onlookers and not self._working and not self._ready:
            for event in self._onlookers:
                event.set()

    def _is_empty(self) -> bool:
        return not self._queued and not self._working

    async def _look_on(self) -> None:
        event = anyio.Event()
        self._onlookers.add(event)
        try:
            await event.wait()
        finally:
            self._onlookers.remove(event)


class Work(Generic[K]):
    """A hand-out as a context: entering waits for a key, leaving ends the work on it."""

    __slots__ = ("_item", "_queue")

    def __init__(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        self._item: Item[K] | None = None

    async def __aenter__(self) -> Item[K]:
        if self._item is not None:
            raise RuntimeError("one `get()` is one hand-out: call it again for the next")
        queue = self._queue
        now = queue._now()
        item = queue._hand_out(now) if now - queue._turned_at < _UNINTERRUPTED_SECONDS else None
        if item is None:
            item = await queue._take()
        self._item = item
        return item

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        item, self._item = self._item, None
        if item is not None:
            self._queue._end(item, failed=error is not None)
