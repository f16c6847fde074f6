"""A coarse outline of a world: which kinds of objects there are, how many, and in which condition."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.testing.recorded_requests import UNCOUNTED

ObjectOutline: TypeAlias = Sequence[Hashable]
"""Facts of an object: that it is being deleted, or held, what its status, conditions and annotations say."""
KindOutline: TypeAlias = tuple[str, str, frozenset[Hashable]]
"""The plural of a kind, how many objects there are (0, 1, 2, many), and the facts of any of them."""
WorldOutline: TypeAlias = frozenset[KindOutline]

EXISTS = "exists"

_MANY = 3
_MOST_FIELDS = 12
"""Fields of a status, or annotations, that an outline says something of."""
_WORD = re.compile(r"[A-Za-z]{1,24}")


class _Metadata(msgspec.Struct):
    generation: int = 0
    annotations: dict[str, Any] | None = None


class _Body(msgspec.Struct):
    metadata: _Metadata
    status: Any = None


_decoder = msgspec.json.Decoder(_Body)


class OutlinedWorld:
    """The outline of a world, kept up to date from change to change."""

    def __init__(self) -> None:
        self._objects: dict[tuple[StorageKey, Any], ObjectOutline] = {}
        self._facts: dict[str, Counter[Hashable]] = {}
        self._kinds: dict[str, KindOutline] = {}

    def follow(self, change: StoredChange) -> bool:
        """Take in a change; returns whether the outline may be another one now."""
        if change.resource in UNCOUNTED:
            return False
        place = change.resource, change.key
        before = self._objects.pop(place, ())
        after = () if change.new is None else outline_of(change.new)
        if after:
            self._objects[place] = after
        if before == after:
            return False
        plural = change.resource[1]
        facts = self._facts.setdefault(plural, Counter())
        facts.subtract(before)
        facts.update(after)
        present = frozenset(fact for fact, count in facts.items() if count and fact is not EXISTS)
        self._kinds[plural] = plural, amount(facts[EXISTS]), present
        return True

    def outline(self) -> WorldOutline:
        """The outline now."""
        return frozenset(self._kinds.values())


def outline_of(stored: Stored) -> ObjectOutline:
    """What matters of one object, without names, times, versions and most numbers."""
    body = _decoder.decode(stored.body)
    return (
        EXISTS,
        *(["deleting"] if stored.deleting else ()),
        *(["held"] if stored.finalizers else ()),
        *sorted(body.metadata.annotations or ())[:_MOST_FIELDS],
        *_status(body.status, body.metadata.generation),
    )


def _status(status: Any, generation: int) -> Iterator[Hashable]:
    if not isinstance(status, dict):
        return
    for name in sorted(status)[:_MOST_FIELDS]:
        value = status[name]
        if name == "observedGeneration":
            yield name, value == generation
        elif name == "conditions" and isinstance(value, list):
            given = [one for one in value if isinstance(one, dict)]
            yield from ((str(one.get("type")), str(one.get("status"))) for one in given[:_MOST_FIELDS])
        else:
            yield name, _value(value)


def _value(value: Any) -> Hashable:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return amount(int(value))
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) else bool(value)
    return amount(len(value))


def amount(count: int) -> str:
    """A number as people count: exactly while there are few."""
    if count < 0:
        return "negative"
    return str(count) if count < _MANY else "many"
