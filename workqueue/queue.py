"""Which key is worked on next: one entry per key, one worker per key.

An entry is *ready* (it may be handed out), *delayed* (it becomes ready at a time) or *in work*. A key
in work that is added again is kept aside and becomes ready, or delayed, when the work ends: it is
never handed to two workers. Adds of one key merge: the highest priority, the earliest time, the
newest causes. (client-go's queue and controller-runtime's priority queue, where theirs is right.)
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
from workqueue.causes import NO_CAUSES, Causes
from workqueue.entries import Entry, Item
from workqueue.limiters import RateLimiter
from workqueue.order import AgeingOrder, Heap, ReadyOrder, StrictOrder
from workqueue.pacing import Pace
from workqueue.status import QueueMetrics, QueueStatus
from workqueue.waiters import Waiters

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_UNINTERRUPTED_SECONDS = 0.001
_UNINTERRUPTED_KEYS = 1000
"""Hand-outs after which `get` lets the event loop turn; the count is for loops whose time stands still."""


class QueueClosed(Exception):
    """The queue takes no more keys and has nothing more to hand out."""


class WorkQueue(Generic[K]):
    """A deduplicating queue of keys with priorities, delays and per-key back-off.

    A queue belongs to the event loop in which it is first used, and its time is that loop's, so a
    virtual loop makes it virtual. Adds and `status` may also be called from other threads: they
    then block until the loop has taken the call. Everything else is for the loop's own tasks.
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

        `limiter` delays what `add_rate_limited` adds. With `ageing`, every so many seconds that a key
        is ready count as one step of priority, so that low priority cannot starve. No key is handed
        out twice within `min_interval` seconds, counted from start to start, unless an add is urgent.
        Raises ValueError for an `ageing` that is not positive or a `min_interval` below 0.
        """
        if ageing is not None and not 0 < ageing < math.inf:
            raise ValueError(f"ageing is a positive number of seconds for one step of priority, not {ageing}")
        self._limiter: RateLimiter[K] = KeyBackoff() if limiter is None else limiter
        self._metrics = metrics
        self._entries: dict[K, Entry[K]] = {}
        self._ready: ReadyOrder[K] = StrictOrder() if ageing is None else AgeingOrder(ageing)
        self._delayed: Heap[K] = Heap()
        self._working: dict[Entry[K], float] = {}  # since when, oldest first
        self._again: dict[Entry[K], Entry[K]] = {}  # what was added during work, by what is in work
        self._pace: Pace[K] | None = Pace(min_interval) if min_interval else None
        self._waiters = Waiters()
        self._onlookers: list[anyio.Event] = []
        self._phase: Literal["open", "draining", "closed"] = "open"
        self._before_turn = _UNINTERRUPTED_KEYS
        self._turned_at = -math.inf
        self._thread = 0
        self._token: anyio.lowlevel.EventLoopToken | None = None
        self._now: Callable[[], float] = float

    # --- adding ---------------------------------------------------------------------------------

    def add(self, key: K, *, priority: int = 0, cause: Any = None, urgent: bool = False) -> None:
        """Have `key` worked on as soon as a worker is free; a pending delay of it ends.

        `cause` is a small value that says why; equal ones are kept once. `urgent` passes the minimum
        interval. Raises TypeError for an unhashable key or a priority that is no int. After `drain`
        or `close` an add is ignored.
        """
        if get_ident() != self._thread:
            return self._elsewhere(partial(self.add, key, priority=priority, cause=cause, urgent=urgent))
        now = self._now()
        self._add(Entry(key, priority, now, NO_CAUSES if cause is None else Causes((cause,))), now, urgent)
        return None

    def add_after(
        self, key: K, delay: float, *, priority: int = 0, cause: Any = None, urgent: bool = False
    ) -> None:
        """Have `key` worked on in `delay` seconds; of several delays the shortest counts.

        Raises ValueError for a negative, NaN or infinite delay; else as `add`.
        """
        if not 0 <= delay < math.inf:
            raise ValueError(f"a delay is 0 s or more, and finite, not {delay}")
        if get_ident() != self._thread:
            return self._elsewhere(
                partial(self.add_after, key, delay, priority=priority, cause=cause, urgent=urgent)
            )
        now = self._now()
        then = _later(now, delay)
        self._add(Entry(key, priority, then, NO_CAUSES if cause is None else Causes((cause,))), now, urgent)
        return None

    def add_rate_limited(
        self, key: K, *, priority: int = 0, cause: Any = None, urgent: bool = False
    ) -> float:
        """Count a failure of `key` and have it worked on after its back-off, which is returned (s)."""
        if get_ident() != self._thread:
            return self._elsewhere(
                partial(self.add_rate_limited, key, priority=priority, cause=cause, urgent=urgent)
            )
        delay = self._limiter.next_delay(key, self._now())
        self.add_after(key, delay, priority=priority, cause=cause, urgent=urgent)
        if self._metrics is not None:
            self._metrics.retried()
        return delay

    def forget(self, key: K) -> None:
        """Let the next failure of `key` count as its first. Does not touch the queue."""
        self._limiter.forget(key)

    def retries(self, key: K) -> int:
        """How many failures of `key` have counted since it was last forgotten."""
        return self._limiter.retries(key)

    # --- working --------------------------------------------------------------------------------

    def get(self) -> "Work[K]":
        """Wait for a key and work on it: `async with queue.get() as item: ...`.

        Leaving the block ends the work. A block left by an exception, cancellation included, puts
        the key back, so that a dying worker loses nothing. Raises QueueClosed once the queue is
        closed and nothing is left that this worker could get; in a drain that is when the last key
        in work has ended, because until then it may come back.

        Where keys are ready this does not suspend, except that the event loop turns after each
        millisecond of hand-outs without a pause.
        """
        return Work(self)

    async def join(self) -> None:
        """Wait until no key is ready and none is in work; delayed keys are not waited for."""
        while len(self) or self._working:
            await self._look_on()

    # --- ending ---------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Take no more keys, and wait until all that is wanted by now has been worked on.

        A key that the minimum interval holds is waited for; what a delay or a back-off holds is
        dropped. `close` ends the wait early; so does cancelling it, and the drain itself goes on.
        """
        if self._phase == "open":
            self._phase = "draining"
            now = self._now()
            self._promote(now)
            for entry in self._delayed.entries():
                if self._drops(entry, now):
                    self._delayed.remove(entry)
                    del self._entries[entry.key]
            self._after_an_end()
        while self._entries:
            await self._look_on()

    def close(self) -> None:
        """Take no more keys and drop what is queued. What is in work goes on; `join` waits for it."""
        self._phase = "closed"
        self._ready.clear()
        self._delayed.clear()
        self._entries = {entry.key: entry for entry in self._working}
        self._waiters.wake_all()
        self._after_an_end()

    # --- looking --------------------------------------------------------------------------------

    def status(self) -> QueueStatus:
        """What holds now: how many keys are ready, delayed and in work, and since when."""
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
        )

    def queued(self, limit: int) -> list[tuple[Item[K], float]]:
        """Up to `limit` keys that are ready or delayed, in no order that means anything.

        Each as it would be handed out now, with the seconds until it may be. Keys in work are among
        them only if they were added again.
        """
        now = self._now()
        waiting = (entry for entry in self._entries.values() if entry not in self._working)
        return [
            (self._item(entry), max(0.0, entry.ready_at - now))
            for entry in islice(chain(waiting, self._again.values()), limit)
        ]

    def _item(self, entry: Entry[K]) -> Item[K]:
        causes = entry.causes
        retries = self._limiter.retries(entry.key)
        return Item(entry.key, entry.priority, causes.kept, causes.dropped, retries)

    def __len__(self) -> int:
        """The number of keys that are ready."""
        self._promote(self._now())
        return len(self._ready)

    # --- where and when -------------------------------------------------------------------------

    def _elsewhere(self, call: Callable[[], T]) -> T:
        """What was called outside the queue's event loop: in it. The first call says which loop that is."""
        if self._token is not None:
            return anyio.from_thread.run_sync(call, token=self._token)
        self._settle_in()
        return call()

    def _settle_in(self) -> None:
        """Belong to the running event loop."""
        if self._token is not None:
            raise RuntimeError("the queue belongs to the event loop of another thread: only add from here")
        token = anyio.lowlevel.current_token()
        # asyncio's token is its event loop, whose `time` costs a tenth of looking for the loop each time.
        self._now = getattr(token.native_token, "time", token.backend_class.current_time)
        self._token = token
        self._thread = get_ident()

    # --- from state to state --------------------------------------------------------------------

    def _add(self, added: Entry[K], now: float, urgent: bool) -> None:
        if not isinstance(added.priority, int):
            raise TypeError(f"a priority is an int, not {added.priority!r}")
        if self._phase != "open":
            hash(added.key)
            return
        if self._delayed.first <= now:
            self._promote(now)
        if self._pace is not None and not urgent:
            self._pace.hold(added)
        entry = self._entries.setdefault(added.key, added)
        if entry is added:
            if added.ready_at <= now:
                self._make_ready(added)
            else:
                self._delay(added)
        elif entry not in self._working:
            self._merge(entry, added, now)
        elif (again := self._again.setdefault(entry, added)) is not added:
            again.merge(added)

    def _place(self, entry: Entry[K], now: float) -> None:
        if entry.ready_at <= now:
            self._make_ready(entry)
        else:
            self._delay(entry)

    def _delay(self, entry: Entry[K]) -> None:
        sooner = entry.ready_at < self._delayed.first
        self._delayed.push(entry, entry.ready_at)
        if sooner:
            self._waiters.watch_anew()

    def _merge(self, entry: Entry[K], added: Entry[K], now: float) -> None:
        priority, ready_at = entry.priority, entry.ready_at
        entry.merge(added)
        if ready_at <= now:
            if entry.priority > priority:
                self._ready.raised(entry, priority)
        elif entry.ready_at < ready_at:
            self._delayed.remove(entry)
            self._place(entry, now)

    def _promote(self, now: float) -> None:
        """Make ready what has waited long enough."""
        while self._delayed.first <= now:
            self._make_ready(self._delayed.pop())

    def _make_ready(self, entry: Entry[K]) -> None:
        self._ready.push(entry)
        if self._waiters.waiting:
            self._waiters.wake()
        if self._metrics is not None:
            self._metrics.added(entry.priority)

    # --- handing out ----------------------------------------------------------------------------

    async def _take(self) -> Entry[K]:
        if get_ident() != self._thread:
            self._settle_in()
        if self._now() - self._turned_at >= _UNINTERRUPTED_SECONDS:
            await self._pause(anyio.lowlevel.checkpoint())
        while (entry := self._hand_out(self._now())) is None:
            if self._phase == "closed" or (self._phase == "draining" and not self._entries):
                raise QueueClosed
            await self._pause(self._waiters.wait(self._delayed.first))
        return entry

    async def _pause(self, pause: Coroutine[Any, Any, None]) -> None:
        """Let the event loop turn. A worker that is cancelled here passes on what it was woken for."""
        paused_at = self._now()
        try:
            await pause
        except BaseException:
            if self._ready:
                self._waiters.wake()
            self._keep_watch()
            raise
        # Of many workers that resume in one turn of the loop only the first starts the count anew:
        # else each of them would have a millisecond, and the loop would turn once in their sum.
        if self._turned_at < paused_at:
            self._turned_at = self._now()
            self._before_turn = _UNINTERRUPTED_KEYS

    def _hand_out(self, now: float) -> Entry[K] | None:
        if self._delayed.first <= now:
            self._promote(now)
        entry = self._ready.pop()
        if entry is None:
            return None
        self._working[entry] = now
        self._before_turn -= 1
        if not self._before_turn:
            self._turned_at = -math.inf
        if self._pace is not None:
            self._pace.start(entry.key, now)
        if self._waiters.waiting:
            self._keep_watch()
        if self._metrics is not None:
            self._metrics.started(entry.priority, now - entry.ready_at)
        return entry

    def _keep_watch(self) -> None:
        if self._delayed:
            self._waiters.watch()

    def _end(self, entry: Entry[K], failed: bool) -> None:
        started = self._working.pop(entry)
        if self._metrics is not None:
            self._metrics.ended(self._now() - started)
        again = self._again.pop(entry, None) if self._again else None
        if failed:
            again = self._put_back(entry, again)
        if again is None or self._drops(again, self._now()):
            del self._entries[entry.key]
            if not self._entries:
                self._entries.clear()  # a dict keeps the table of its largest size until then
        else:
            self._begin_again(again)
        if self._onlookers or self._phase != "open":
            self._after_an_end()

    def _put_back(self, entry: Entry[K], again: Entry[K] | None) -> Entry[K]:
        """What is to be done where the work failed: what it was for, and what was added meanwhile."""
        unfinished = Entry(entry.key, entry.priority, self._now(), entry.causes)
        if self._pace is not None:
            self._pace.hold(unfinished)
        if again is not None:
            unfinished.merge(again)
        return unfinished

    def _begin_again(self, entry: Entry[K]) -> None:
        now = self._now()
        self._promote(now)
        self._entries[entry.key] = entry
        self._place(entry, now)

    def _drops(self, entry: Entry[K], now: float) -> bool:
        """Whether the end of the queue is the end of an entry too."""
        if self._phase == "draining":
            return entry.ready_at > now and not (self._pace is not None and self._pace.holds(entry))
        return self._phase == "closed"

    # --- looking on -----------------------------------------------------------------------------

    def _after_an_end(self) -> None:
        """Tell those who wait for the end of all work, where that may have come."""
        if self._phase != "open" and not self._entries:
            self._waiters.wake_all()
        if self._onlookers and not self._working and not self._ready:
            for event in self._onlookers:
                event.set()
            self._onlookers.clear()

    async def _look_on(self) -> None:
        event = anyio.Event()
        self._onlookers.append(event)
        await event.wait()


class Work(Generic[K]):
    """One hand-out, as a context: entering waits for a key, leaving ends the work on it."""

    __slots__ = ("_entry", "_queue")

    def __init__(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        self._entry: Entry[K] | None = None

    async def __aenter__(self) -> Item[K]:
        if self._entry is not None:
            raise RuntimeError("one `get()` is one hand-out: call it again for the next")
        queue = self._queue
        now = queue._now()
        entry = queue._hand_out(now) if now - queue._turned_at < _UNINTERRUPTED_SECONDS else None
        if entry is None:
            entry = await queue._take()
        self._entry = entry
        key, causes = entry.key, entry.causes
        return Item(key, entry.priority, causes.kept, causes.dropped, queue._limiter.retries(key))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            self._queue._end(entry, failed=error is not None)


def _later(now: float, delay: float) -> float:
    """`delay` seconds after `now`, and for any delay at all later than `now`.

    Where time is a float, a tiny delay can vanish in a large one: a key that is retried "in a while"
    would come back in the same moment, for ever where time stands still until nobody is busy.
    """
    return max(now + delay, math.nextafter(now, math.inf)) if delay else now
