"""From values to JSON: one writer per class, created once and chosen by the value's own class."""

import datetime
import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import attrs

from informers.apimachinery.go_durations import format_duration
from reconcile.models.extra_fields import extra_of, heading_of
from reconcile.models.fields import UNSET, ModelField, fields_of, split_annotated
from reconcile.models.frozen import FrozenList, FrozenMapping, FrozenRecords, thaw
from reconcile.models.values import Quantity, format_micro_time, format_time

Write = Callable[[Any], Any]
Writer = Callable[[Any, Write], Any]
"""Writes the values of one class, and what is in them with the function that it gets."""

MICRO: Final = "micro"
MicroTime = Annotated[datetime.datetime, MICRO]
"""A time written with microseconds (`coordination.k8s.io` and `events.k8s.io`)."""

CANONICAL: Final = "canonical"
ResourceAmounts = Annotated[Mapping[str, Quantity], CANONICAL]
"""Amounts by resource, written as a server stores them in its own kinds: `Quantity("1000m")` as `1`."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def to_json(value: Any) -> Any:
    """The JSON of any value, in new dicts and lists. Raises TypeError."""
    kind = type(value)
    return value if kind in _PLAIN else _writers[kind](value, to_json)


class SharedJson:
    """Writes as `to_json` does, but each value once: what objects have in common, their JSON has."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[Any, Any]] = {}
        """By identity, which no other value can get while the first is here too."""

    def __call__(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        written = self._written.get(id(value))
        if written is None:
            written = self._written[id(value)] = value, _writers[kind](value, self)
        return written[1]


class _Writers(dict[type[Any], Writer]):
    def __missing__(self, kind: type[Any]) -> Writer:
        writer = self[kind] = _writer(kind)
        return writer


_writers: Final = _Writers()


def _writer(kind: type[Any]) -> Writer:
    if attrs.has(kind) and kind is not Quantity:
        return _object_writer(kind)
    if kind is FrozenMapping:
        return lambda value, _: thaw(value)
    if issubclass(kind, enum.Enum):
        return lambda value, _: value.value
    if issubclass(kind, Mapping):
        return lambda value, write: {name: write(one) for name, one in value.items()}
    if issubclass(kind, list | tuple | FrozenList | FrozenRecords):
        return lambda value, write: list(map(write, value))
    for known, text in _TEXTS.items():
        if issubclass(kind, known):
            return lambda value, _: text(value)
    if issubclass(kind, str | int | float):
        return lambda value, _: value
    raise TypeError(f"a {kind.__name__} has no form in JSON")


_TEXTS: Final[dict[type[Any], Callable[[Any], str]]] = {
    datetime.datetime: format_time,
    datetime.timedelta: format_duration,
    Quantity: lambda quantity: quantity.text,
}


def _object_writer(cls: type[Any]) -> Writer:
    sparse = bool(getattr(cls, "__sparse__", False))
    plan = [(f.name, f.wire, _omitted(f, sparse), _special(f)) for f in fields_of(cls)]
    further = extra_of(cls)
    own = heading_of(cls).union(f.wire for f in fields_of(cls))

    def write_object(value: Any, write: Write) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for name, wire, omitted, special in plan:
            found = getattr(value, name)
            if found is UNSET or (omitted is not UNSET and found == omitted):
                continue
            body[wire] = found if type(found) in _PLAIN else (special or write)(found)
        if further is not None and (more := getattr(value, further)):
            if clash := own & more.keys():
                raise TypeError(f"{cls.__name__}.{further} has {min(clash)!r}, which has a field of its own")
            body |= to_json(more)
        return body

    return write_object


def _omitted(field: ModelField, sparse: bool) -> Any:
    """The value that is left out: a default of None, and in metadata and selectors any default."""
    if field.default is None or (sparse and not field.needed):
        return field.default
    return UNSET


def _special(field: ModelField) -> Write | None:
    """What writes the field in another way than its value alone would be."""
    if MICRO in split_annotated(field.type)[1]:
        return lambda value: None if value is None else format_micro_time(value)
    if CANONICAL in split_annotated(field.type)[1]:
        return _canonical_amounts
    return None


def _canonical_amounts(amounts: Mapping[str, Quantity] | None) -> dict[str, str] | None:
    return None if amounts is None else {name: amount.canonical for name, amount in amounts.items()}
