"""Which key is worked on next: one entry per key, one worker per key.

An entry is *ready* (it may be handed out), *delayed* (it becomes ready at a time), or *in work*. A key
in work that is added again is kept aside and becomes ready, or delayed, when the work ends: it is
never handed to two workers. Adds of one key merge: the highest priority, the earliest time, the
newest causes. (client-go's queue, invariants 1-7, and controller-runtime's priority queue, P1-P9.)
"""

import math
from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from types import TracebackType
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
from attrs import define, frozen

from workqueue.backoff import Backoff, KeyBackoff

K = TypeVar("K", bound=Hashable)

MAX_CAUSES = 8
_UNINTERRUPTED = 0.001
"""Seconds of hand-outs after which `get` lets the other tasks of the event loop run."""


class QueueClosed(Exception):
    """The queue is closed and has nothing more to hand out."""


@frozen
class Item(Generic[K]):
    """A key that is handed out, with what is known of why.

    `priority` is the highest of the adds since the last hand-out, `causes` their newest causes,
    oldest first, `dropped_causes` how many older ones were let go, `retries` the failures so far.
    """

    key: K
    priority: int
    causes: tuple[Any, ...]
    dropped_causes: int
    retries: int


@frozen
class QueueStatus:
    """How many keys are ready, delayed and in work."""

    ready: int
    delayed: int
    working: int
    closed: bool


@define(eq=False)
class _Entry:
    priority: int
    ready_at: float
    causes: tuple[Any, ...] = ()
    dropped: int = 0
    place: int = -1  # the one heap item that stands for this entry; older ones are stale


class WorkQueue(Generic[K]):
    """A deduplicating queue of keys with priorities, delays and per-key back-off.

    Made for one event loop: adds are plain calls from its tasks and callbacks. Time is the event
    loop's, so a virtual loop makes it virtual.
    """

    def __init__(self, *, backoff: Backoff | None = None, chance: Callable[[], float] | None = None) -> None:
        """`backoff` delays keys added by `add_rate_limited`; `chance` draws its jitter from [0, 1)."""
        self._backoff: KeyBackoff[K] = (
            KeyBackoff(backoff or Backoff()) if chance is None else KeyBackoff(backoff or Backoff(), chance)
        )
        self._entries: dict[K, _Entry] = {}
        self._working: dict[K, _Entry | None] = {}
        self._ready: list[tuple[int, int, K]] = []  # (-priority, place, key)
        self._delayed: list[tuple[float, int, K]] = []  # (ready_at, place, key)
        self._ready_count = 0
        self._places = 0
        self._getters: deque[anyio.Event] = deque()
        self._idle: list[anyio.Event] = []
        self._closed = False
        self._yielded_at = -math.inf

    def add(self, key: K, *, priority: int = 0, cause: Any = None) -> None:
        """Have `key` worked on as soon as a worker is free; a pending delay of it ends.

        Raises TypeError for an unhashable key. After `close` an add is ignored.
        """
        self._add(key, priority, -math.inf, cause)

    def add_after(self, key: K, delay: float, *, priority: int = 0, cause: Any = None) -> None:
        """Have `key` worked on in `delay` seconds; of several delays the shortest counts.

        Raises ValueError for a negative or NaN delay.
        """
        if not delay >= 0:
            raise ValueError(f"a delay is 0 s or more, not {delay}")
        self._add(key, priority, anyio.current_time() + delay if delay else -math.inf, cause)

    def add_rate_limited(self, key: K, *, priority: int = 0, cause: Any = None) -> float:
        """Count a failure of `key` and have it worked on after its back-off, which is returned (s)."""
        delay = self._backoff.next_delay(key, anyio.current_time())
        self.add_after(key, delay, priority=priority, cause=cause)
        return delay

    def forget(self, key: K) -> None:
        """Let the next failure of `key` count as its first. Does not touch the queue."""
        self._backoff.forget(key)

    def retries(self, key: K) -> int:
        """How many failures of `key` have counted since it was last forgotten."""
        return self._backoff.retries(key)

    def get(self) -> "Work[K]":
        """Wait for a key and work on it: `async with queue.get() as item: ...`.

        Leaving the block ends the work. A block left by an exception, cancellation included, puts
        the key back, so that a dying worker loses nothing. Raises QueueClosed once the queue is
        closed and empty.
        """
        return Work(self)

    def close(self, *, drop: bool = False) -> None:
        """Take no more keys. What is ready is still handed out, unless `drop`; delays end unfired."""
        self._closed = True
        self._delayed.clear()
        for key, entry in list(self._entries.items()):
            if drop or entry.ready_at > -math.inf:
                self._forget_entry(key, entry)
        if drop:
            self._ready.clear()
        for event in self._getters:
            event.set()
        self._notify_if_idle()

    async def join(self) -> None:
        """Wait until no key is ready and none is in work; delayed keys are not waited for."""
        while self._ready_count or self._working:
            event = anyio.Event()
            self._idle.append(event)
            await event.wait()

    def status(self) -> QueueStatus:
        """How many keys are ready, delayed and in work now."""
        self._promote()
        return QueueStatus(
            self._ready_count, len(self._entries) - self._ready_count, len(self._working), self._closed
        )

    def __len__(self) -> int:
        """The number of keys that are ready."""
        self._promote()
        return self._ready_count

    # --- adding ---------------------------------------------------------------------------------

    def _add(self, key: K, priority: int, ready_at: float, cause: Any) -> None:
        if self._closed and key not in self._working:
            hash(key)
            return
        if key in self._working:
            entry = self._working[key]
            if entry is None:
                self._working[key] = entry = _Entry(priority, ready_at)
        else:
            entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(priority, ready_at)
            self._note(entry, cause)
            self._enqueue(key, entry)
            return
        self._note(entry, cause)
        raised = priority > entry.priority
        sooner = ready_at < entry.ready_at
        entry.priority = max(entry.priority, priority)
        if key in self._working:
            entry.ready_at = min(entry.ready_at, ready_at)
            return
        if sooner:
            entry.ready_at = ready_at
            self._enqueue(key, entry)
        elif raised and entry.ready_at == -math.inf:
            self._ready_count -= 1
            self._enqueue(key, entry)

    @staticmethod
    def _note(entry: _Entry, cause: Any) -> None:
        if cause is None or cause in entry.causes:
            return
        causes = (*entry.causes, cause)
        entry.dropped += max(0, len(causes) - MAX_CAUSES)
        entry.causes = causes[-MAX_CAUSES:]

    def _enqueue(self, key: K, entry: _Entry) -> None:
        self._places += 1
        entry.place = self._places
        if entry.ready_at == -math.inf:
            heappush(self._ready, (-entry.priority, entry.place, key))
            self._ready_count += 1
            self._wake()
            return
        heappush(self._delayed, (entry.ready_at, entry.place, key))
        if self._delayed[0][1] == entry.place:
            self._wake()

    def _promote(self) -> None:
        """Make ready what has waited long enough."""
        if not self._delayed:
            return
        now = anyio.current_time()
        while self._delayed:
            ready_at, place, key = self._delayed[0]
            entry = self._entries.get(key)
            if entry is None or entry.place != place:
                heappop(self._delayed)
                continue
            if ready_at > now:
                return
            heappop(self._delayed)
            entry.ready_at = -math.inf
            self._enqueue(key, entry)

    # --- handing out ----------------------------------------------------------------------------

    async def _take(self) -> Item[K]:
        await anyio.lowlevel.checkpoint_if_cancelled()
        now = anyio.current_time()
        if now - self._yielded_at >= _UNINTERRUPTED:
            await anyio.lowlevel.checkpoint()
            self._yielded_at = anyio.current_time()
        while True:
            item = self._pop()
            if item is not None:
                return item
            if self._closed:
                raise QueueClosed
            await self._wait()

    def _pop(self) -> Item[K] | None:
        self._promote()
        while self._ready:
            _, place, key = heappop(self._ready)
            entry = self._entries.get(key)
            if entry is None or entry.place != place:
                continue
            del self._entries[key]
            self._ready_count -= 1
            self._working[key] = None
            if self._ready_count or self._delayed:
                self._wake()
            return Item(key, entry.priority, entry.causes, entry.dropped, self._backoff.retries(key))
        return None

    async def _wait(self) -> None:
        """Sleep until something is added or due. Whoever leaves passes the watch to the next getter."""
        event = anyio.Event()
        self._getters.append(event)
        due = self._delayed[0][0] if self._delayed else math.inf
        try:
            with anyio.move_on_at(due) if due < math.inf else anyio.CancelScope():
                await event.wait()
        except BaseException:
            if event.is_set() and (self._ready_count or self._delayed):
                self._discard(event)
                self._wake()
            raise
        finally:
            self._discard(event)
            self._yielded_at = anyio.current_time()

    def _discard(self, event: anyio.Event) -> None:
        if event in self._getters:
            self._getters.remove(event)

    def _wake(self) -> None:
        if self._getters:
            self._getters.popleft().set()

    def _end(self, item: Item[K], failed: bool) -> None:
        entry = self._working.pop(item.key)
        if failed and entry is None:
            entry = _Entry(item.priority, -math.inf, item.causes, item.dropped_causes)
        elif failed and entry is not None:
            entry.ready_at = -math.inf
        if entry is not None and not (self._closed and entry.ready_at > -math.inf):
            self._entries[item.key] = entry
            self._enqueue(item.key, entry)
        self._notify_if_idle()

    def _forget_entry(self, key: K, entry: _Entry) -> None:
        del self._entries[key]
        if entry.ready_at == -math.inf:
            self._ready_count -= 1

    def _notify_if_idle(self) -> None:
        if self._ready_count or self._working:
            return
        for event in self._idle:
            event.set()
        self._idle.clear()


class Work(Generic[K]):
    """One hand-out, as a context: entering waits for a key, leaving ends the work on it."""

    __slots__ = ("_item", "_queue")

    def __init__(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        self._item: Item[K] | None = None

    async def __aenter__(self) -> Item[K]:
        self._item = await self._queue._take()
        return self._item

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        item, self._item = self._item, None
        if item is not None:
            self._queue._end(item, failed=error is not None)
