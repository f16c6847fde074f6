"""Which Events to write for what controllers have to say: decisions only, no requests.

The same news of the same object counts up one Event; too many different notes of one reason become
one Event that says so; and one object gets no more than so many writes. The numbers are those of
client-go's correlator and of its recorder for events.k8s.io.
"""

import datetime
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

from attrs import define, field, frozen

_LOOKED_AT = 2
"""So many older entries are looked at when one is added: enough to forget more than is added."""

SERIES_ENDS_AFTER = 360.0
"""Seconds without news after which the next of a kind begins an Event of its own."""

SIMILAR_NOTES = 10
SIMILAR_SECONDS = 600.0
"""So many different notes of one reason within so many seconds; the others are combined."""

BURST = 25
REFILL_SECONDS = 300.0
"""Writes about one object: so many at once, and then one in so many seconds."""

NOTE_BYTES = 1024
REASON_LENGTH = 128
COMBINED = "(combined from similar events): "

K = TypeVar("K")
V = TypeVar("V")


@frozen
class Subject:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


def _word(text: str) -> str:
    return text[:REASON_LENGTH]


def _note(text: str) -> str:
    """No more bytes than a server takes; what is no character of UTF-8 becomes a question mark."""
    return text.encode(errors="replace")[:NOTE_BYTES].decode(errors="ignore")


@frozen
class News:
    """What is to be told of an object. Texts that are too long for an API server are cut."""

    subject: Subject
    type: Literal["Normal", "Warning"]
    reason: str = field(converter=_word)
    note: str = field(converter=_note)
    action: str = field(default="Reconcile", converter=_word)


@define(eq=False)
class Series:
    """The same news, `count` times; `name` is its Event, empty before there is one.

    `written` is the count that the server was told.
    """

    news: News
    first: datetime.datetime
    last: datetime.datetime
    heard: float
    count: int = 0
    written: int = 0
    name: str = ""


@define
class _Bucket:
    spent: float = 0.0
    at: float = 0.0


@define
class _Notes:
    since: float
    seen: set[str] = field(factory=set)


@define(eq=False)
class EventLedger:
    """What was told of which object. Times of the event loop are in seconds.

    It is remembered until it makes no difference any more, of however many objects. Were the
    number of objects limited, more than that many in turn would be forgotten before their next news: each
    would begin an Event of its own, and no burst would be held back.
    """

    _series: "_Current[tuple[Subject, str, str, str, str], Series]" = field(
        factory=lambda: _Current(_series_is_over)
    )
    _notes: "_Current[tuple[Subject, str, str], _Notes]" = field(factory=lambda: _Current(_notes_are_over))
    _buckets: "_Current[Subject, _Bucket]" = field(factory=lambda: _Current(_bucket_is_full))

    def hear(self, news: News, at: datetime.datetime, now: float) -> Series:
        """Count news in; answers the series that it belongs to."""
        news = self._combined(news, now)
        place = (news.subject, news.type, news.reason, news.action, self._note_key(news))
        series = self._series.get(place)
        if series is None or _series_is_over(series, now):
            series = self._series.put(place, Series(news, at, at, now), now)
        series.count += 1
        series.last, series.heard = at, now
        if series.written == 0:
            series.news = news
        return series

    def may_write(self, subject: Subject, now: float) -> bool:
        """Whether one more write about this object is allowed now; if so, it is booked."""
        bucket = self._buckets.get(subject)
        if bucket is None:
            bucket = self._buckets.put(subject, _Bucket(at=now), now)
        bucket.spent = max(0.0, bucket.spent - (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.spent + 1 > BURST:
            return False
        bucket.spent += 1
        return True

    def _combined(self, news: News, now: float) -> News:
        place = (news.subject, news.type, news.reason)
        notes = self._notes.get(place)
        if notes is None or _notes_are_over(notes, now):
            notes = self._notes.put(place, _Notes(now), now)
        if news.note in notes.seen or len(notes.seen) < SIMILAR_NOTES:
            notes.seen.add(news.note)
            return news
        return News(news.subject, news.type, news.reason, COMBINED + news.note, news.action)

    @staticmethod
    def _note_key(news: News) -> str:
        return COMBINED if news.note.startswith(COMBINED) else news.note


def _series_is_over(series: Series, now: float) -> bool:
    return now - series.heard > SERIES_ENDS_AFTER


def _notes_are_over(notes: _Notes, now: float) -> bool:
    return now - notes.since > SIMILAR_SECONDS


def _bucket_is_full(bucket: _Bucket, now: float) -> bool:
    return bucket.spent * REFILL_SECONDS <= now - bucket.at


class _Current(Generic[K, V]):
    """A mapping that forgets the entries that are `over`, a few whenever one is added."""

    def __init__(self, over: Callable[[V, float], bool]) -> None:
        self._over = over
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, value: V, now: float) -> V:
        for _ in range(min(_LOOKED_AT, len(self._entries))):
            oldest, held = self._entries.popitem(last=False)
            if not self._over(held, now):
                self._entries[oldest] = held
        self._entries[key] = value
        return value

    def __len__(self) -> int:
        return len(self._entries)
