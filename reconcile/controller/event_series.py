"""Decides which Events to write.

The same event of the same object counts up one Event; too many different notes of one reason become one
combined Event; and the writes about one object are limited. The numbers are those of client-go's correlator
and of its recorder for events.k8s.io.
"""

import datetime
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, TypeVar

from attrs import define, evolve, field, frozen

_LOOKED_AT = 2
"""Old entries checked when one is added: two, so that more are forgotten than added."""

SERIES_ENDS_AFTER = 360.0
"""Seconds after the last event of a series; a later one begins a new Event."""

SIMILAR_NOTES = 10
SIMILAR_SECONDS = 600.0
"""How many different notes of one reason are kept apart within `SIMILAR_SECONDS`; others are combined."""

BURST = 25
REFILL_SECONDS = 300.0
"""Writes about one object: `BURST` at once, and then one every `REFILL_SECONDS`."""

NOTE_BYTES = 1024
REASON_LENGTH = 128
COMBINED = "(combined from similar events): "

K = TypeVar("K")
V = TypeVar("V")


@frozen
class EventSubject:
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def _word(text: str) -> str:
    return text[:REASON_LENGTH]


def _note(text: str) -> str:
    """At most the bytes that a server takes; characters that UTF-8 cannot encode become question marks."""
    return text.encode(errors="replace")[:NOTE_BYTES].decode(errors="ignore")


@frozen
class EventContent:
    """The text of an Event about an object; cut to the lengths that an API server takes."""

    subject: EventSubject
    type: Literal["Normal", "Warning"]
    reason: str = field(converter=_word)
    note: str = field(converter=_note)
    action: str = field(default="Reconcile", converter=_word)


@define(eq=False)
class EventSeries:
    """The same event `count` times; `name` is that of its Event, empty before there is one.

    `written` is the count that the server has; `seen` is the time of the last one (event loop's seconds).
    """

    content: EventContent
    first: datetime.datetime
    last: datetime.datetime
    seen: float
    count: int = 0
    written: int = 0
    name: str = ""


@define
class _WriteBudget:
    spent: float = 0.0
    at: float = 0.0


@define
class _Notes:
    since: float
    seen: set[str] = field(factory=set)


@define(eq=False)
class EventLedger:
    """The recorded events by object; an entry is kept until it makes no difference. Times are in seconds."""

    # Any number of objects: with a limit, more objects than that in turn would each be forgotten before their
    # next event, begin a new Event every time, and no burst would be held back.
    _series: "_Entries[tuple[EventSubject, str, str, str, str], EventSeries]" = field(
        factory=lambda: _Entries(_series_is_over)
    )
    _notes: "_Entries[tuple[EventSubject, str, str], _Notes]" = field(
        factory=lambda: _Entries(_notes_are_over)
    )
    _buckets: "_Entries[EventSubject, _WriteBudget]" = field(factory=lambda: _Entries(_bucket_is_full))

    def count(self, content: EventContent, at: datetime.datetime, now: float) -> EventSeries:
        content = self._combined(content, now)
        note = COMBINED if content.note.startswith(COMBINED) else content.note
        place = (content.subject, content.type, content.reason, content.action, note)
        series = self._series.get(place)
        if series is None or _series_is_over(series, now):
            series = self._series.put(place, EventSeries(content, at, at, now), now)
        series.count += 1
        series.last, series.seen = at, now
        if series.written == 0:
            series.content = content
        return series

    def may_write(self, subject: EventSubject, now: float) -> bool:
        """Whether another write about this object is allowed now; if so, it is counted."""
        bucket = self._buckets.get(subject)
        if bucket is None:
            bucket = self._buckets.put(subject, _WriteBudget(at=now), now)
        bucket.spent = max(0.0, bucket.spent - (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.spent + 1 > BURST:
            return False
        bucket.spent += 1
        return True

    def _combined(self, content: EventContent, now: float) -> EventContent:
        place = (content.subject, content.type, content.reason)
        notes = self._notes.get(place)
        if notes is None or _notes_are_over(notes, now):
            notes = self._notes.put(place, _Notes(now), now)
        if content.note in notes.seen or len(notes.seen) < SIMILAR_NOTES:
            notes.seen.add(content.note)
            return content
        return evolve(content, note=COMBINED + content.note)


def _series_is_over(series: EventSeries, now: float) -> bool:
    return now - series.seen > SERIES_ENDS_AFTER


def _notes_are_over(notes: _Notes, now: float) -> bool:
    return now - notes.since > SIMILAR_SECONDS


def _bucket_is_full(bucket: _WriteBudget, now: float) -> bool:
    return bucket.spent * REFILL_SECONDS <= now - bucket.at


class _Entries(OrderedDict[K, V]):
    """A mapping that forgets the entries that are `over`, a few whenever one is added."""

    def __init__(self, over: Callable[[V, float], bool]) -> None:
        super().__init__()
        self._over = over

    def put(self, key: K, value: V, now: float) -> V:
        for _ in range(min(_LOOKED_AT, len(self))):
            oldest, held = self.popitem(last=False)
            if not self._over(held, now):
                self[oldest] = held
        self[key] = value
        return value
