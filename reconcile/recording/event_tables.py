"""Writes events as tables, and reads them back.

A frame holds the tags of its events in order, and for each tag a table with a column for each member of its
events. A column of equal values is written as one value. Times, runs and versions are written as distances to
those before, and bodies as edits (`body_edits`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, islice
from operator import sub
from typing import Any, Literal

import msgspec
from attrs import define, field

from reconcile.recording.body_edits import BodyColumns, BodyReader, BodyWriter, MisplacedEdit, Shape, Value
from reconcile.recording.recorded_events import (
    Answered,
    Began,
    Buckets,
    Changed,
    Ended,
    Noted,
    RecordedCause,
    Sent,
    Stored,
    TimedEvent,
    Woke,
    resource_of,
)

MOST_EVENTS = 1 << 16
"""Events of a frame. A column of one value stands for so many at most."""
LARGEST_EVENT = 256 << 20
"""Bytes of the bodies of one event: a page of a list, or the content of a cache."""
MOST_BODIES = 1 << 22
"""Bodies of a frame, and values of their edits. A byte of msgpack can become 60 in memory."""
MOST_CAUSES = 1 << 20
"""Causes of all runs that begin in a frame."""
LARGEST_TABLES = 16 << 20
"""Bytes of all members of a frame that are no bodies."""

Column = Sequence[Any]


class DamagedTables(ValueError):
    """A frame has tables that do not fit together."""


class _Tables(msgspec.Struct, array_like=True):
    """A frame, as it is written."""

    tags: bytes
    times: list[int]
    tables: dict[int, list[Column]]
    causes: Sequence[Column]
    slots: list[int]
    shapes: list[int | Shape | None]
    values: list[Value]


class _ReadTables(msgspec.Struct, array_like=True):
    """A frame, as it is read: each part is decoded once it is known to be no longer than it may be."""

    tags: bytes
    times: msgspec.Raw
    tables: msgspec.Raw
    causes: msgspec.Raw
    slots: msgspec.Raw
    shapes: msgspec.Raw
    values: msgspec.Raw


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


_uid = msgspec.json.Decoder(_Named)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_ReadTables)
_KINDS: dict[int, type[TimedEvent]] = dict(
    enumerate((Began, Sent, Answered, Changed, Woke, Ended, Noted, Stored, Buckets), start=1)
)
"""Each by its tag."""
_TAGS = {kind: tag for tag, kind in _KINDS.items()}
_OF_RUNS = frozenset(tag for tag, kind in _KINDS.items() if "run" in kind.__struct_fields__)

# The members that are written otherwise than they are, by their places.
_AT, _RUN = 0, 1
_CAUSES = Began.__struct_fields__.index("causes")
_REQUEST = Sent.__struct_fields__.index("body")
_ANSWER = Answered.__struct_fields__.index("body")
_CHANGED = Changed.__struct_fields__.index("objects")
_STORED = Stored.__struct_fields__.index("objects")
_VERSION = RecordedCause.__struct_fields__.index("version")
_SINCE = RecordedCause.__struct_fields__.index("since")
_WRITTEN: dict[type[msgspec.Struct], dict[int, Any]] = {
    Began: {_CAUSES: int},
    Sent: {_REQUEST: None},
    Answered: {_ANSWER: None},
    Changed: {_CHANGED: int},
    Stored: {_STORED: list[tuple[bytes, bytes]]},
}
"""What is written in place of members, by their places."""
_Tag = Literal[1, 2, 3, 4, 5, 6, 7, 8, 9]
_NO_TABLE = msgspec.Raw(b"\x90")


@define(eq=False)
class TableWriter:
    """The events of one file: `add` takes each, and `frame` gives those since the frame before."""

    size: int = field(default=0, init=False)
    """Bytes of the bodies that are in no frame yet."""
    _tags: bytearray = field(factory=bytearray, init=False)
    _events: dict[type[TimedEvent], list[TimedEvent]] = field(init=False)
    _times: list[int] = field(factory=list, init=False)
    _causes: list[Column] = field(factory=list, init=False)
    _bodies: BodyWriter = field(factory=BodyWriter, init=False)
    _at: int = field(default=0, init=False)
    _runs: dict[int, int] = field(factory=dict, init=False)
    """The last run of each tag."""

    def __attrs_post_init__(self) -> None:
        self._events = {kind: [] for kind in _KINDS.values()}

    @property
    def count(self) -> int:
        """Events that are in no frame yet."""
        return len(self._tags)

    def add(self, event: TimedEvent) -> None:
        """Take an event into the next frame."""
        kind = type(event)
        self._tags.append(_TAGS[kind])
        self._events[kind].append(event)
        self._times.append(event.at)
        match event:
            case Changed():
                for body in event.objects:
                    self._object(body)
            case Began():
                self._causes += map(self._cause, event.causes)
            case Sent():
                self._body(event.body, (event.cluster, event.method, event.path))
            case Answered():
                self._object(event.body)
            case Stored():
                for body, _, _ in event.objects:
                    self._object(body)

    def _cause(self, cause: RecordedCause) -> Column:
        row = list(msgspec.structs.astuple(cause))
        row[_VERSION] = cause.version - self._bodies.version
        row[_SINCE] = cause.since - cause.version
        return row

    def _object(self, body: bytes) -> None:
        try:
            uid = _uid.decode(body).metadata.uid
        except (msgspec.DecodeError, RecursionError):
            uid = ""
        self._body(body, uid or None)

    def _body(self, body: bytes | None, name: str | tuple[str, ...] | None) -> None:
        self.size += len(body or b"")
        self._bodies.write(body, name)

    def frame(self) -> bytes:
        """The events since the frame before."""
        tables = {_TAGS[kind]: self._table(kind, events) for kind, events in self._events.items() if events}
        times = [*map(sub, self._times, (self._at, *self._times[:-1]))]
        causes = [*zip(*self._causes, strict=True)]
        bodies = self._bodies.columns
        frame = _encoder.encode(
            _Tables(bytes(self._tags), times, tables, causes, bodies.slots, bodies.shapes, bodies.values)
        )
        self._at, self._bodies.columns, self.size = self._times[-1], BodyColumns(), 0
        self._tags, self._times, self._causes = bytearray(), [], []
        self._events = {kind: [] for kind in self._events}
        return frame

    def _table(self, kind: type[TimedEvent], events: Sequence[TimedEvent]) -> list[Column]:
        columns: list[Column] = [*zip(*map(msgspec.structs.astuple, events), strict=True)]
        tag = _TAGS[kind]
        if tag in _OF_RUNS:
            runs = columns[_RUN]
            columns[_RUN] = [*map(sub, runs, (self._runs.get(tag, 0), *runs[:-1]))]
            self._runs[tag] = runs[-1]
        if kind is Began:
            columns[_CAUSES] = [*map(len, columns[_CAUSES])]
        elif kind is Sent:
            columns[_REQUEST] = (None,)
        elif kind is Answered:
            columns[_ANSWER] = (None,)
        elif kind is Changed:
            columns[_CHANGED] = [*map(len, columns[_CHANGED])]
        elif kind is Stored:
            columns[_STORED] = [[rest for _, *rest in objects] for objects in columns[_STORED]]
        columns[_AT] = (None,)
        return [*map(_shortened, columns)]


def _columns(raw: msgspec.Raw, kind: type[msgspec.Struct], most: int) -> list[list[Any]]:
    """The columns of a table, none longer than `most`. Raises DamagedTables."""
    types = _types_of(kind)
    if (count := _length(raw)) != len(types) and not (count == 0 and kind is RecordedCause):
        raise DamagedTables(f"a table of {count} columns for {kind.__name__}")
    columns = msgspec.msgpack.decode(raw, type=list[msgspec.Raw])
    return [_list_of(member, column, most) for member, column in zip(types, columns, strict=False)]


def _list_of(member: Any, raw: msgspec.Raw, most: int) -> list[Any]:
    """A list of msgpack that has at most so many elements. Raises DamagedTables."""
    if (count := _length(raw)) > most:
        raise DamagedTables(f"a column of {count} values")
    return _decoder_of(member).decode(raw)


def _length(raw: msgspec.Raw) -> int:
    """How many elements a list of msgpack has, before any of them takes memory. Raises DamagedTables."""
    head = bytes(memoryview(raw)[:5])
    if head[0] >> 4 == 0x9:
        return head[0] & 0xF
    if head[0] in _LONG_LISTS:
        return int.from_bytes(head[1 : 1 + _LONG_LISTS[head[0]]])
    raise DamagedTables("a column that is not a list")


_LONG_LISTS = {0xDC: 2, 0xDD: 4}
"""The first byte of a longer list, and how many bytes of its length follow."""


@cache
def _decoder_of(member: Any) -> msgspec.msgpack.Decoder[list[Any]]:
    return msgspec.msgpack.Decoder(list[member])


@cache
def _types_of(kind: type[msgspec.Struct]) -> Sequence[Any]:
    """What the columns of a kind hold: its members, or what is written in their place."""
    types = [member.type for member in msgspec.structs.fields(kind)]
    for place, written in _WRITTEN.get(kind, {}).items():
        types[place] = written
    if kind is not RecordedCause:
        types[_AT] = None
    return types


def _shortened(column: Column) -> Column:
    return column[:1] if column.count(column[0]) == len(column) else column


@define(eq=False)
class TableReader:
    """The events of one file, frame by frame."""

    size: int = field(default=0, init=False)
    """Bytes of all bodies that were read."""
    _bodies: BodyReader = field(factory=BodyReader, init=False)
    _at: int = field(default=0, init=False)
    _runs: dict[int, int] = field(factory=dict, init=False)

    def read(self, frame: bytes) -> Iterator[TimedEvent]:
        """The events of the next frame. Raises DamagedTables."""
        try:
            tables = _decoder.decode(frame)
            count = len(tables.tags)
            if count > MOST_EVENTS:
                raise DamagedTables(f"a frame of {count} events")
            if len(memoryview(tables.tables)) + len(memoryview(tables.causes)) > LARGEST_TABLES:
                raise DamagedTables(f"tables of more than {LARGEST_TABLES} bytes")
            rows = self._rows(tables)
            causes = map(list, zip(*_columns(tables.causes, RecordedCause, MOST_CAUSES), strict=True))
            slots = _list_of(int, tables.slots, MOST_BODIES)
            shapes = _list_of(int | Shape | None, tables.shapes, MOST_BODIES)
            values = _list_of(Value, tables.values, MOST_BODIES)
            self._bodies.take(BodyColumns(slots, shapes, values))
            times = _list_of(int, tables.times, count)
            for tag, distance in zip(tables.tags, times, strict=True):
                self._at += distance
                yield self._event(tag, next(rows[tag]), causes)
        except (msgspec.MsgspecError, MisplacedEdit, RecursionError, ValueError, TypeError) as error:
            raise DamagedTables(f"an event cannot be read: {error}") from None

    def _rows(self, tables: _ReadTables) -> dict[int, Iterator[list[Any]]]:
        """The events of each tag as rows. Raises DamagedTables where a table is not that of its events."""
        found: dict[int, msgspec.Raw] = msgspec.msgpack.decode(tables.tables, type=dict[_Tag, msgspec.Raw])
        rows: dict[int, Iterator[list[Any]]] = {}
        for tag, count in Counter(tables.tags).items():
            if tag not in _KINDS:
                raise DamagedTables(f"an event with the tag {tag}")
            columns = _columns(found.get(tag, _NO_TABLE), _KINDS[tag], count)
            if any(len(column) not in (1, count) for column in columns):
                raise DamagedTables("a column that is not as long as its table")
            whole = [column if len(column) == count else [*column] * count for column in columns]
            if tag in _OF_RUNS:
                whole[_RUN] = [*accumulate(whole[_RUN], initial=self._runs.get(tag, 0))][1:]
                self._runs[tag] = whole[_RUN][-1]
            rows[tag] = map(list, zip(*whole, strict=True))
        return rows

    def _event(self, tag: int, row: list[Any], causes: Iterator[list[Any]]) -> TimedEvent:
        kind, row[_AT] = _KINDS[tag], self._at
        if kind is Began:
            row[_CAUSES] = [self._cause(cause) for cause in islice(causes, row[_CAUSES])]
        elif kind is Sent:
            row[_REQUEST] = self._body()
        elif kind is Answered:
            row[_ANSWER] = self._body()
        elif kind is Changed:
            row[_CHANGED] = self._objects(row[_CHANGED])
        elif kind is Stored:
            bodies = self._objects(len(row[_STORED]))
            row[_STORED] = [(body, *rest) for body, rest in zip(bodies, row[_STORED], strict=True)]
        event = msgspec.convert([tag, *row], kind)
        if isinstance(event, Changed | Stored):
            resource_of(event.resource)
        elif isinstance(event, Buckets) and event.op == "follow":
            resource_of(event.subject)
        return event

    def _cause(self, row: list[Any]) -> RecordedCause:
        row[_VERSION] += self._bodies.version
        row[_SINCE] += row[_VERSION]
        cause = msgspec.convert(row, RecordedCause)
        if cause.resource:
            resource_of(cause.resource)
        return cause

    def _body(self) -> bytes | None:
        body = self._bodies.read()
        self.size += len(body or b"")
        return body

    def _objects(self, count: int) -> Sequence[bytes | None]:
        bodies, most = list[bytes | None](), self.size + LARGEST_EVENT
        for _ in range(count):
            bodies.append(self._body())
            if self.size > most:
                raise DamagedTables(f"an event of more than {LARGEST_EVENT} bytes")
        return bodies
