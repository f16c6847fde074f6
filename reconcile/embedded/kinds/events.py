"""Events: `v1` and `events.k8s.io/v1` show the same stored objects under different field names."""

import datetime
from collections.abc import Callable, Iterator
from typing import Any, Final

from informers.apimachinery.name_rules import path_segment_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object
from reconcile.embedded.kinds.event_rules import (
    event_causes,
    event_change_causes,
    new_event_causes,
)
from reconcile.embedded.kubectl.ages import age
from reconcile.embedded.kubectl.printing import View, at, pick
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.served import CellColumn

CORE = "v1"
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
_EVENT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def convert_event(event: dict[str, Any], api_version: str) -> dict[str, Any]:
    """The same event with the field names of the other group."""
    names = _TO_NEW if api_version == NEW else _TO_CORE
    return {**{names.get(field, field): value for field, value in event.items()}, "apiVersion": api_version}


def event_path(path: str, api_version: str) -> str:
    """The path of a field in an apiVersion, from its path in either."""
    names = _TO_NEW if api_version == NEW else _TO_CORE
    head, dot, rest = path.partition(".")
    return f"{names.get(head, head)}{dot}{rest}"


def _core_causes(event: Object, _old: Object | None) -> Iterator[FieldCause]:
    return event_causes(event, "reportingComponent")


def _new_causes(event: Object, old: Object | None) -> Iterator[FieldCause]:
    event = convert_event(event, CORE)
    yield from event_causes(event, "reportingController")
    if old is None:
        yield from new_event_causes(event)
    else:
        yield from event_change_causes(event, convert_event(old, CORE))


def _first(*paths: tuple[str, ...]) -> Callable[[View], Any]:
    return lambda obj: next((found for path in paths if (found := pick(obj, *path))), None)


_event_last = _first(
    ("series", "lastObservedTime"), ("lastTimestamp",), ("deprecatedLastTimestamp",), ("eventTime",),
    ("firstTimestamp",),
)  # fmt: skip
_event_first = _first(("firstTimestamp",), ("deprecatedFirstTimestamp",), ("eventTime",))
_event_object = _first(("involvedObject",), ("regarding",))
_event_count = _first(("series", "count"), ("count",), ("deprecatedCount",))
_event_message = _first(("message",), ("note",))
_event_source = _first(("reportingComponent",), ("reportingController",), ("source", "component"))


def _event_target(obj: View, _now: datetime.datetime) -> str:
    target = _event_object(obj) or {}
    return f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}"


_EVENTS = (
    CellColumn("Last Seen", lambda obj, now: age(_event_last(obj), now)),
    CellColumn("Type", at("type")),
    CellColumn("Reason", at("reason")),
    CellColumn("Object", _event_target),
    CellColumn("Subobject", lambda obj, _now: (_event_object(obj) or {}).get("fieldPath", ""), wide=True),
    CellColumn("Source", lambda obj, _now: _event_source(obj) or "", wide=True),
    CellColumn("Message", lambda obj, _now: str(_event_message(obj) or "").strip()),
    CellColumn("First Seen", lambda obj, now: age(_event_first(obj), now), wide=True),
    CellColumn("Count", lambda obj, _now: _event_count(obj) or 1, "integer", wide=True),
    CellColumn("Name", at("metadata", "name"), wide=True),
)


KINDS: Final = (
    BuiltInKind(
        "", "Event", short_names=("ev",), create_on_update=True,
        selectable_fields=(
            *(f".involvedObject.{field}" for field in _EVENT_FIELDS), ".reason", ".type", ".source",
            ".reportingComponent",
        ),
        convert=convert_event,
        convert_path=event_path,
        checks=_core_causes,
        names_missing_fields=True,
        check_name=path_segment_faults,
        metadata_fault_copies=2,
        change_fault_copies=1,
        columns=_EVENTS,
        viewed=("",),
        edited=("",),
    ),
    BuiltInKind(
        "events.k8s.io", "Event", short_names=("ev",), create_on_update=True, stored_as=("", "events"),
        selectable_fields=(*(f".regarding.{field}" for field in _EVENT_FIELDS), ".reason", ".type"),
        convert=convert_event,
        convert_path=event_path,
        checks=_new_causes,
        names_missing_fields=True,
        columns=_EVENTS,
    ),
)  # fmt: skip
