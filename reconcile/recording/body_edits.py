"""Writes a body as the edits of an earlier one, and reads it back.

Most of what a recording holds are states of the same objects, in what watches bring, requests send and
answers return. Two states differ in a resource version, a time and a few fields. So each body is cut at its
commas, and only the pieces that differ are written, in three columns: which body is edited (a slot), in which
places (a shape), and the new pieces. A shape that was there before is written as its number.

The writer and the reader keep and forget the same bodies, and both need the same bounded memory.
"""

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from itertools import compress, count
from operator import ne

from attrs import define, field

MOST_KEPT = 16 << 20
"""Bytes of bodies that can be edited; the one that was used longest ago is forgotten first."""
LARGEST_KEPT = 1 << 20
"""Bytes of a body that can be edited; larger ones are written whole each time."""
MOST_SHAPES = 1_000
"""Shapes that get a number; later ones are written out each time."""
LONGEST_SHAPE = 65
"""Members of a shape that gets a number."""
NO_SLOT = -1
_OVERHEAD = 200
"""Bytes that each kept body counts for beside its own, so that small ones are bounded too."""
_GREATEST = 10**18 - 1
"""A number that 8 bytes hold, whatever its distance to another one."""
_IN_A_ROW = 4
"""So many pieces in a row differ only where what follows has moved."""

_CUT = b","
_END = b"\n"
_numbered = re.compile(rb'([^:]*:"?)(0|[1-9][0-9]{0,17})("?[]}]*)').fullmatch
"""A piece with a number: what is before it, the number, and what is behind it."""
_VERSION = b'"resourceVersion":"'

Shape = tuple[int, ...]
"""Whether the body ends with a line feed (1) or not (0); then, for each edit, how many pieces stay before it
and how many it replaces."""
Value = int | bytes | None
"""A body or a piece; a number that a piece differs by; None for no body."""
Span = tuple[int, int, int, int]
"""Pieces that differ: the first and the count of those before, and the first and the end of those now."""


class MisplacedEdit(ValueError):
    """Edits do not fit the body that they are of."""


@define(eq=False)
class BodyColumns:
    """Bodies in order: each has a slot and a shape, and a value for each edit.

    A shape is its number, or all of it the first time; None: the one value is the whole body.
    """

    slots: list[int] = field(factory=list)
    shapes: list[int | Shape | None] = field(factory=list)
    values: list[Value] = field(factory=list)


@define(eq=False)
class _Kept:
    """The bodies that can be edited, by slot."""

    bodies: OrderedDict[int, bytes] = field(factory=OrderedDict)
    size: int = 0

    def put(self, slot: int, body: bytes) -> Sequence[int]:
        """Keep a body; the slots that are forgotten for it."""
        if (before := self.bodies.pop(slot, None)) is not None:
            self.size -= len(before) + _OVERHEAD
        self.bodies[slot] = body
        self.size += len(body) + _OVERHEAD
        forgotten = []
        while self.size > MOST_KEPT:
            oldest, dropped = self.bodies.popitem(last=False)
            self.size -= len(dropped) + _OVERHEAD
            forgotten.append(oldest)
        return forgotten


@define(eq=False)
class BodyWriter:
    """Writes bodies into `columns`, which the caller takes and replaces."""

    columns: BodyColumns = field(factory=BodyColumns)
    version: int = 0
    """The last resource version that was written in an edit."""
    _kept: _Kept = field(factory=_Kept, init=False)
    _slots: dict[Hashable, int] = field(factory=dict, init=False)
    _names: dict[int, Hashable] = field(factory=dict, init=False)
    _shapes: dict[Shape, int] = field(factory=dict, init=False)
    _next: int = field(default=0, init=False)

    def write(self, body: bytes | None, name: Hashable) -> None:
        """Write a body, as edits of the last one of that name; a `name` of None: as it is."""
        if body is None or name is None or len(body) > LARGEST_KEPT:
            self._whole(NO_SLOT, body)
            return
        slot = self._slots.get(name)
        if slot is None:
            slot, self._next = self._next, self._next + 1
            self._slots[name], self._names[slot] = slot, name
            self._whole(slot, body)
        else:
            self._edit(slot, self._kept.bodies[slot], body)
        for forgotten in self._kept.put(slot, body.removesuffix(_END)):
            del self._slots[self._names.pop(forgotten)]

    def _whole(self, slot: int, body: bytes | None) -> None:
        columns = self.columns
        columns.slots.append(slot)
        columns.shapes.append(None)
        columns.values.append(body)

    def _edit(self, slot: int, old: bytes, body: bytes) -> None:
        new = body.removesuffix(_END)
        if new == old:
            self._shaped(slot, (len(body) - len(new),))
            return
        before, now = old.split(_CUT), new.split(_CUT)
        spans = _spans(before, now)
        if spans is None:
            self._whole(slot, body)
            return
        shape, done = [len(body) - len(new)], 0
        for start, length, begin, end in spans:
            shape += (start - done, length)
            done = start + length
            alone = length == end - begin == 1
            self.columns.values.append(
                self._value(before[start], now[begin]) if alone else _CUT.join(now[begin:end])
            )
        self._shaped(slot, tuple(shape))

    def _shaped(self, slot: int, shape: Shape) -> None:
        number = self._shapes.get(shape)
        self.columns.slots.append(slot)
        self.columns.shapes.append(shape if number is None else number)
        if number is None and len(shape) <= LONGEST_SHAPE and len(self._shapes) < MOST_SHAPES:
            self._shapes[shape] = len(self._shapes)

    def _value(self, before: bytes, now: bytes) -> Value:
        """A piece, or how far its number is from the earlier one; a version: from the last version."""
        new, old = _numbered(now), _numbered(before)
        if old is None or new is None or (old[1], old[3]) != (new[1], new[3]):
            return now
        number = int(new[2])
        if new[1] != _VERSION:
            return number - int(old[2])
        distance = number - self.version
        self.version = number
        return distance


@define(eq=False)
class BodyReader:
    """Reads what a BodyWriter wrote: `take` gets the columns of a frame, and `read` a body, in order."""

    version: int = 0
    _kept: _Kept = field(factory=_Kept, init=False)
    _shapes: list[Shape] = field(factory=list, init=False)
    _slot_column: Iterator[int] = field(factory=lambda: iter(()), init=False)
    _shape_column: Iterator[int | Shape | None] = field(factory=lambda: iter(()), init=False)
    _value_column: Iterator[Value] = field(factory=lambda: iter(()), init=False)

    def take(self, columns: BodyColumns) -> None:
        """Read from these columns from now on."""
        self._slot_column, self._shape_column = iter(columns.slots), iter(columns.shapes)
        self._value_column = iter(columns.values)

    def read(self) -> bytes | None:
        """The next body. Raises MisplacedEdit."""
        try:
            slot, shape = next(self._slot_column), next(self._shape_column)
            body = self._whole() if shape is None else self._edited(slot, self._shape(shape))
        except StopIteration:
            raise MisplacedEdit("a body is missing") from None
        if slot != NO_SLOT and body is not None:
            if len(body) > LARGEST_KEPT:
                raise MisplacedEdit(f"a body of {len(body)} bytes is kept")
            self._kept.put(slot, body.removesuffix(_END))
        return body

    def _whole(self) -> bytes | None:
        body = next(self._value_column)
        if isinstance(body, int):
            raise MisplacedEdit("a body is a number")
        return body

    def _shape(self, shape: int | Shape) -> Shape:
        if isinstance(shape, int):
            if not 0 <= shape < len(self._shapes):
                raise MisplacedEdit(f"there is no shape {shape}")
            return self._shapes[shape]
        if len(shape) <= LONGEST_SHAPE and len(self._shapes) < MOST_SHAPES:
            self._shapes.append(shape)
        return shape

    def _edited(self, slot: int, shape: Shape) -> bytes:
        body = self._kept.bodies.get(slot)
        if body is None or len(shape) % 2 == 0:
            raise MisplacedEdit(f"there is no body {slot} to edit, or no such edit")
        before, now, done = body.split(_CUT), list[bytes](), 0
        for stay, length in zip(shape[1::2], shape[2::2], strict=True):
            start = done + stay
            done = start + length
            if min(stay, length) < 0 or done > len(before):
                raise MisplacedEdit("an edit is not within its body")
            now += before[start - stay : start]
            now.append(self._piece(before[start:done]))
        return _CUT.join((*now, *before[done:])) + (_END if shape[0] else b"")

    def _piece(self, before: Sequence[bytes]) -> bytes:
        value = next(self._value_column)
        if isinstance(value, bytes):
            return value
        found = _numbered(before[0]) if len(before) == 1 else None
        if value is None or found is None:
            raise MisplacedEdit("a number takes the place of something else")
        is_version = found[1] == _VERSION
        number = value + (self.version if is_version else int(found[2]))
        if is_version:
            self.version = number
        if not 0 <= number <= _GREATEST:
            raise MisplacedEdit("a number is out of its range")
        return b"%s%d%s" % (found[1], number, found[3])


def _differing(before: Sequence[bytes], now: Sequence[bytes]) -> Iterator[int]:
    """The places where two lists differ, as far as both have one."""
    return compress(count(), map(ne, before, now))


def _spans(before: Sequence[bytes], now: Sequence[bytes]) -> list[Span] | None:
    """The pieces that differ; None for too many."""
    differing = [*_differing(before, now)]
    if len(before) == len(now):
        return [(at, 1, at, at + 1) for at in differing] if len(differing) * 2 <= len(now) else None
    shift = len(now) - len(before)
    front = _end_of_edits(differing, min(len(before), len(now)))
    behind = [*_differing(before[::-1], now[::-1])]
    back = min(_end_of_edits(behind, len(before)), len(before) - front, len(now) - front)
    end = len(before) - back
    # What moved takes the place of a piece at least, since b"" cannot say whether there is an empty piece.
    if end == front or end + shift == front:
        if front == 0:
            return None
        front -= 1
    spans = [(at, 1, at, at + 1) for at in differing if at < front]
    spans.append((front, end - front, front, end + shift))
    for at in reversed(behind):
        if at < back:
            place = len(before) - 1 - at
            spans.append((place, 1, place + shift, place + shift + 1))
    return spans if len(spans) * 2 <= len(now) else None


def _end_of_edits(differing: Sequence[int], length: int) -> int:
    """How far two lists of pieces are alike but for edited values; `differing` are the places where not."""
    for first, last in zip(differing, differing[_IN_A_ROW - 1 :], strict=False):
        if last - first == _IN_A_ROW - 1:
            return first
    return length
