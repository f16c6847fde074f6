"""Events have two faces, `v1` and `events.k8s.io/v1`, over the same stored objects."""

from typing import Any

NEW = "events.k8s.io/v1"

_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "reportingComponent": "reportingController",
}
_TO_CORE = {new: core for core, new in _TO_NEW.items()}


def convert_event(event: dict[str, Any], api_version: str) -> dict[str, Any]:
    """The same event in the words of the other group."""
    names = _TO_NEW if api_version == NEW else _TO_CORE
    converted = {names.get(field, field): value for field, value in event.items()}
    converted["apiVersion"] = api_version
    return converted


def event_path(path: str, api_version: str) -> str:
    """Where a field of an event is in the words of a group, whichever group's words name it."""
    names = _TO_NEW if api_version == NEW else _TO_CORE
    head, dot, rest = path.partition(".")
    return f"{names.get(head, head)}{dot}{rest}"
