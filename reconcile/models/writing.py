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

Writer = Callable[[Any], Any]

MICRO: Final = "micro"
MicroTime = Annotated[datetime.datetime, MICRO]
"""A time written with microseconds (`coordination.k8s.io` and `events.k8s.io`)."""

CANONICAL: Final = "canonical"
ResourceAmounts = Annotated[Mapping[str, Quantity], CANONICAL]
"""Amounts by resource, written as a server stores them in its own kinds: `Quantity("1000m")` as `1`."""

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_writers: dict[type[Any], Writer] = {}


def to_json(value: Any) -> Any:
    """The JSON of any value, in new dicts and lists. Raises TypeError."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is FrozenMapping:
        return thaw(value)
    writer = _writers.get(kind)
    if writer is None:
        writer = _writers[kind] = _writer(kind)
    return writer(value)


def _writer(kind: type[Any]) -> Writer:
    if attrs.has(kind) and kind is not Quantity:
        return _object_writer(kind)
    if issubclass(kind, enum.Enum):
        return lambda value: value.value
    if issubclass(kind, Mapping):
        return lambda value: {name: to_json(one) for name, one in value.items()}
    if issubclass(kind, list | tuple | FrozenList | FrozenRecords):
        return lambda value: [to_json(one) for one in value]
    for known, writer in _WRITERS.items():
        if issubclass(kind, known):
            return writer
    if issubclass(kind, str | int | float):
        return lambda value: value
    raise TypeError(f"a {kind.__name__} has no form in JSON")


_WRITERS: Final[dict[type[Any], Writer]] = {
    datetime.datetime: format_time,
    datetime.timedelta: format_duration,
    Quantity: lambda quantity: quantity.text,
}


def _object_writer(cls: type[Any]) -> Writer:
    sparse = bool(getattr(cls, "__sparse__", False))
    plan = [(f.name, f.wire, _omitted(f, sparse), _field_writer(f)) for f in fields_of(cls)]
    further = extra_of(cls)
    own = heading_of(cls).union(f.wire for f in fields_of(cls))

    def write(value: Any) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for name, wire, omitted, write_one in plan:
            found = getattr(value, name)
            if found is UNSET or (omitted is not UNSET and found == omitted):
                continue
            body[wire] = found if type(found) in _PLAIN else write_one(found)
        if further is not None and (more := getattr(value, further)):
            if clash := own & more.keys():
                raise TypeError(f"{cls.__name__}.{further} has {min(clash)!r}, which has a field of its own")
            body |= to_json(more)
        return body

    return write


def _omitted(field: ModelField, sparse: bool) -> Any:
    """The value that is left out: a default of None, and in metadata and selectors any default."""
    if field.default is None or (sparse and not field.needed):
        return field.default
    return UNSET


def _field_writer(field: ModelField) -> Writer:
    if MICRO in split_annotated(field.type)[1]:
        return lambda value: None if value is None else format_micro_time(value)
    if CANONICAL in split_annotated(field.type)[1]:
        return _canonical_amounts
    return to_json


def _canonical_amounts(amounts: Mapping[str, Quantity] | None) -> dict[str, str] | None:
    return None if amounts is None else {name: amount.canonical for name, amount in amounts.items()}
