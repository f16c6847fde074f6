"""How Go's encoding/json reads and writes the structs of the built-in kinds.

A built-in object is decoded into a struct and encoded again, which keeps less than its JSON said, and more:
null is the same as absent; a member that is no pointer and has no `omitempty` is written even if it was
absent; one with `omitempty` is not written if it is empty or zero.
"""

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

GO_STRUCT: Final = "x-go-struct"
"""The schema keyword for `written` and `pointers`: see tools/go_fields.py. It is not published."""

UNTYPED: Final[Any] = object()
"""The zero value of a place that is of no Go type, as in custom resources."""

TIMES: Final = frozenset({"date-time", "micro-time"})
"""Formats of Go's Time and MicroTime."""

_ZEROS: Final[Mapping[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_NULL_TEXTS: Final = TIMES | {"byte"}
"""Formats of text whose zero value is null."""


@frozen(eq=False)
class GoStruct:
    """How a struct writes its members, by their names in JSON."""

    written: tuple[tuple[str, Any], ...]
    """The members that are always there, with their zero values."""
    kept: frozenset[str]
    """The members that are written although they are empty or zero."""
    zero: dict[str, Any]
    """The struct without a value; not to be changed."""
    rewritten: frozenset[str]
    """The members that are quantities or times, whose text takes its canonical form."""


def zero_of(schema: Mapping[str, Any], below: GoStruct | None) -> Any:
    """The zero value of a type that is no pointer; `below` is its struct, if it is one."""
    if below is not None:
        return below.zero
    if schema.get("x-kubernetes-int-or-string"):
        return 0
    if schema.get("format") == "quantity":
        return "0"
    return None if schema.get("format") in _NULL_TEXTS else _ZEROS.get(schema.get("type", ""))


def go_struct(
    schema: Mapping[str, Any], zeros: Mapping[str, Any], rewritten: frozenset[str]
) -> GoStruct | None:
    """The struct that a schema describes, if it says so; `zeros` has the zero values of all members."""
    facts = schema.get(GO_STRUCT)
    if facts is None:
        return None
    pointers = frozenset(facts["pointers"])
    written = tuple((name, None if name in pointers else zeros[name]) for name in facts["written"])
    kept = {*facts["written"], *pointers, *_referred(schema["properties"])}
    return GoStruct(written, frozenset(kept), dict(written), rewritten)


def _referred(properties: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The members that are pointers wherever they are optional: structs, and types that write themselves."""
    for name, member in properties.items():
        plain = member.get("type") in (*_ZEROS, "array") or "additionalProperties" in member
        if not plain or member.get("format") in TIMES:
            yield name


def written_time(value: Any, form: str) -> Any:
    """A time as Go writes it: in UTC, a date-time without fractions of a second.

    What is no time is returned as it is, since validation reports it.
    """
    if not isinstance(value, str) or (len(value) == _WRITTEN_LENGTHS[form] and value[-1] == "Z"):
        return value
    try:
        moment = datetime.datetime.fromisoformat(value).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return value
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ" if form == "date-time" else "%Y-%m-%dT%H:%M:%S.%fZ")


_WRITTEN_LENGTHS: Final = {
    "date-time": len("2006-01-02T15:04:05Z"),
    "micro-time": len("2006-01-02T15:04:05.000000Z"),
}
