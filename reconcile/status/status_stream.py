"""One viewer's stream of server-sent events: hello, overviews, and the rows of the objects.

A viewer has the ids of the rows that it has yet to be sent, never their texts: one that reads slowly gets the
newest state, and costs no more than a number for each object.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import anyio
import anyio.lowlevel
import msgspec
from attrs import define, field

from informers.loop_slices import LoopSlice
from reconcile.status.overview import without_times
from reconcile.status.status_board import StatusBoard

BATCH: Final = 500
"""Rows of one event."""
BATCHES: Final = 4
"""Events that are sent together where more rows than one event takes have changed."""
TICK_SECONDS: Final = 0.05
"""Between two looks at what has no event of its own."""
GATHER_SECONDS: Final = 0.01
"""From a change to its batch: a run that begins and ends in that time is one change."""
OVERVIEW_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 5.0
"""After which an overview is sent in which nothing has changed but times."""


@define
class BatchPace:
    """Five batches a second: two at once when it was calm, then three a second."""

    left: float = 2.0
    most: float = 2.0
    rate: float = 3.0
    _at: float = field(default=float("-inf"), init=False)

    def wait(self, now: float) -> float:
        """Seconds until the next batch may be sent."""
        self.left = min(self.most, self.left + (now - self._at) * self.rate)
        self._at = now
        return max(0.0, (1 - self.left) / self.rate)

    def sent(self) -> None:
        self.left -= 1


@define(eq=False)
class Viewer:
    """The stream of one viewer, in the manager's event loop; `actions`: it may trigger, pause and resume.

    It joins the board with the first `next`; after `leave` it stays away.
    """

    board: StatusBoard
    actions: bool
    _epoch: int = field(default=0, init=False)
    _pending: dict[int, None] = field(factory=dict, init=False)
    _first: int = field(default=0, init=False)
    """How many rows of the full set are still to come."""
    _begun: bool = field(default=False, init=False)
    _full: bool = field(default=False, init=False)
    """Whether the full set has begun."""
    _left: bool = field(default=False, init=False)
    _event: asyncio.Event = field(factory=asyncio.Event, init=False)
    _pace: BatchPace = field(factory=BatchPace, init=False)
    _overview_at: float = field(default=float("-inf"), init=False)
    _overview: Any = field(default=None, init=False)
    _overview_sent: float = field(default=float("-inf"), init=False)

    def stirred(self) -> None:
        self._event.set()

    def changed(self, rows: Collection[int]) -> None:
        if self._full:
            self._pending.update(dict.fromkeys(rows))

    def leave(self) -> None:
        self._left = True
        self._pending.clear()
        self.board.leave(self)

    async def next(self) -> bytes:
        """The next events; waits for them, QUIET_SECONDS at most. What it returns is not returned again."""
        if self._left:
            return b""
        self.board.join(self)
        self.board.look()
        if self._epoch != self.board.epoch:
            return self._hello()
        if not self._full:
            return await self._begin()
        if self._first:
            return await self._batch()
        return await self._change()

    def _hello(self) -> bytes:
        self._epoch = self.board.epoch
        self._pending.clear()
        self._full = False
        return event("hello", {**self.board.hello(), "actions": self.actions})

    async def _begin(self) -> bytes:
        """The full set begins: it is known now how all objects do, and in which order they are sent."""
        await self.board.refresh()
        await anyio.lowlevel.checkpoint()  # to order all rows takes a slice of its own
        if self._left or self._epoch != self.board.epoch:
            return await self.next()
        self._pending = self.board.order()
        self._first, self._full, self._begun = len(self._pending), True, False
        return self._overview_text(anyio.current_time()) + (b"" if self._first else await self._batch())

    async def _change(self) -> bytes:
        while True:
            if not self._pending:
                with anyio.move_on_after(TICK_SECONDS):
                    await self._event.wait()
                self.board.look()
            if self._event.is_set() or self._pending:
                await anyio.sleep(max(GATHER_SECONDS, self._pace.wait(anyio.current_time())))
                self._event.clear()
                await self.board.refresh()
            if self._left or self._epoch != self.board.epoch:
                return await self.next()
            overview = self._due_overview(anyio.current_time())
            if self._pending:
                self._pace.sent()
                return overview + await self._batches()
            if overview:
                return overview

    # --- overviews --------------------------------------------------------------------------------

    def _due_overview(self, now: float) -> bytes:
        """The overview, if it is time for one and there is something new in it; else nothing."""
        if now - self._overview_at < OVERVIEW_SECONDS:
            return b""
        self._overview_at = now
        overview = self.board.overview()
        if now - self._overview_sent < QUIET_SECONDS and without_times(overview) == self._overview:
            return b""
        return self._noted(overview, now)

    def _overview_text(self, now: float) -> bytes:
        self._overview_at = now
        return self._noted(self.board.overview(), now)

    def _noted(self, overview: Mapping[str, Any], now: float) -> bytes:
        self._overview, self._overview_sent = without_times(overview), now
        return event("overview", overview)

    # --- rows -------------------------------------------------------------------------------------

    async def _batches(self) -> bytes:
        events = [await self._batch()]
        while self._pending and len(events) < BATCHES:
            events.append(await self._batch())
        return b"".join(events)

    async def _batch(self) -> bytes:
        """The next rows; those of objects that are gone meanwhile as such."""
        board, pace = self.board, LoopSlice()
        first, self._begun = not self._begun, True
        numbers = list(islice(self._pending, BATCH))
        for number in numbers:
            del self._pending[number]
        texts: list[bytes] = []
        gone: list[int] = []
        pace.start()
        for number in numbers:
            row = board.rows.get(number)
            text = None if row is None else board.text_of(row)
            if text is None:
                gone.append(number)
            else:
                texts.append(text)
            if pace.due():
                await pace.pause()
                board.look()
        last = self._first <= len(numbers)
        self._first = max(0, self._first - len(numbers))
        return _rows(first, last, texts, gone)


def event(name: str, value: Mapping[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(value))


def _rows(first: bool, last: bool, texts: Sequence[bytes], gone: Sequence[int]) -> bytes:
    flags = b'"first":%b,"last":%b' % tuple(b"true" if flag else b"false" for flag in (first, last))
    parts = (flags, b",".join(texts), msgspec.json.encode(gone))
    return b'event: rows\ndata: {%b,"rows":[%b],"gone":%b}\n\n' % parts
