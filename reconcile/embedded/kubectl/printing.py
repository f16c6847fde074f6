"""Parts of the columns of `kubectl get`, and the columns that many kinds share."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reconcile.embedded.kubectl.ages import UNKNOWN, age
from reconcile.embedded.served import CellColumn

View = Mapping[str, Any]
"""An object that is only read."""
Cell = Callable[[View, datetime.datetime], Any]

NONE = "<none>"
UNSET = "<unset>"


def pick(document: Any, *path: str) -> Any:
    """The value at `path`, or None if any part of the path is missing."""
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def at(*path: str, default: Any = "") -> Cell:
    """The value at a path, or `default` if it is missing or empty."""

    def cell(obj: View, _now: datetime.datetime) -> Any:
        value = pick(obj, *path)
        return default if value in (None, "") else value

    return cell


def count(*path: str) -> Cell:
    return lambda obj, _now: len(pick(obj, *path) or ())


def labels(*path: str) -> Cell:
    """The labels at a path, sorted by key."""

    def cell(obj: View, _now: datetime.datetime) -> str:
        pairs = pick(obj, *path) or {}
        return joined(f"{key}={pairs[key]}" for key in sorted(pairs))

    return cell


def truth(*path: str) -> Cell:
    """`true` or `false`, as Go prints the value at a path."""
    return lambda obj, _now: "true" if pick(obj, *path) else "false"


def met_conditions(obj: View) -> set[str]:
    conditions = pick(obj, "status", "conditions") or ()
    return {condition.get("type", "") for condition in conditions if condition.get("status") == "True"}


def joined(values: Iterable[Any]) -> str:
    """The values that are not empty, separated by commas."""
    return ",".join(str(value) for value in values if value not in (None, "")) or NONE


def first_three(values: Sequence[str], nothing: str) -> str:
    """Three values and the number of others, as formatEndpoints in Kubernetes' printers shows them."""
    text = ",".join(values[:3]) if values else nothing
    return f"{text} + {len(values) - 3} more..." if len(values) > 3 else text


NAMES = CellColumn("Name", at("metadata", "name"))
AGE = CellColumn("Age", lambda obj, now: age(pick(obj, "metadata", "creationTimestamp"), now))
CREATED = CellColumn("Created At", at("metadata", "creationTimestamp", default=UNKNOWN), "date")
