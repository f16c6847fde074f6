"""A column of `kubectl get`, and the columns that many kinds share."""

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import frozen

from reconcile.embedded.kubectl.ages import UNKNOWN, age

Object = Mapping[str, Any]
Cell = Callable[[Object, datetime.datetime], Any]

NONE = "<none>"


@frozen
class Printer:
    """One column of a built-in kind; `wide` ones appear with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    wide: bool = False


def pick(document: Any, *path: str) -> Any:
    """The value at `path`, or None where any of it is missing."""
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def at(*path: str, default: Any = "") -> Cell:
    """The value at a path, or `default` for nothing."""

    def cell(obj: Object, _now: datetime.datetime) -> Any:
        value = pick(obj, *path)
        return default if value in (None, "") else value

    return cell


def count(*path: str) -> Cell:
    """How many there are at a path."""
    return lambda obj, _now: len(pick(obj, *path) or ())


def age_of(obj: Object, now: datetime.datetime) -> str:
    """How long ago an object was made."""
    return age(pick(obj, "metadata", "creationTimestamp"), now)


def joined(values: Iterable[Any]) -> str:
    """The values that say something, with commas between."""
    return ",".join(str(value) for value in values if value not in (None, "")) or NONE


NAMES = Printer("Name", at("metadata", "name"))
AGE = Printer("Age", age_of)
CREATED = Printer("Created At", at("metadata", "creationTimestamp", default=UNKNOWN), "date")
