"""What events must satisfy (pkg/apis/core/validation/events.go).

`v1` keeps to the first rules; `events.k8s.io/v1` has stricter ones. Both name fields as `v1` does, but for
the reporting controller.
"""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import label_key_faults
from reconcile.embedded.kinds.built_in_kind import Object, immutable, required
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_required

_LONGEST: Final = {"reportingInstance": 128, "action": 128, "reason": 128}
_LONGEST_MESSAGE: Final = 1024
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
"""What new events leave to the old ones."""
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason",
    "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
"""The reason is compared twice there."""


def event_causes(event: Object, controller: str) -> Iterator[FieldCause]:
    """The faults of an event in the fields of `v1`; `controller` is the field that has its controller."""
    namespace = event["metadata"].get("namespace") or ""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    if not event.get("eventTime"):
        if (involved or "default") != namespace:
            yield value_invalid("involvedObject.namespace", involved, "does not match event.namespace")
        return
    if not involved and namespace not in ("default", "kube-system"):
        yield value_invalid("involvedObject.namespace", involved, "does not match event.namespace")
    reporter = event.get("reportingComponent") or ""
    if not reporter:
        yield value_required(controller)
    yield from (value_invalid(controller, reporter, fault) for fault in label_key_faults(reporter))
    for field, longest in _LONGEST.items():
        yield from required(event, "", field)
        yield from _length_causes(event, field, longest)
    yield from _length_causes(event, "message", _LONGEST_MESSAGE)


def _length_causes(event: Object, field: str, longest: int) -> Iterator[FieldCause]:
    if len((event.get(field) or "").encode()) > longest:
        yield value_invalid(field, "", f"can have at most {longest} characters")


def new_event_causes(event: Object) -> Iterator[FieldCause]:
    """Further faults of an event that is created in the new group, in the fields of `v1`."""
    yield from _series_causes(event)
    if not event.get("eventTime"):
        yield value_required("eventTime")
    if event.get("type") not in ("Normal", "Warning"):
        yield value_invalid("type", "", f"has invalid value: {event.get('type') or ''}")
    for field in _UNSET:
        value = event.get(field)
        if any(value.values()) if isinstance(value, dict) else value:
            yield value_invalid(field, "", "needs to be unset")


def event_change_causes(event: Object, old: Object) -> Iterator[FieldCause]:
    """Further faults of an event that is updated in the new group, in the fields of `v1`."""
    if event.get("series") != old.get("series"):
        yield from _series_causes(event)
    for field in _FIXED:
        shown = "reportingController" if field == "reportingComponent" else field
        yield from immutable(event.get(field) or None, old.get(field) or None, shown)


def _series_causes(event: Object) -> Iterator[FieldCause]:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield value_invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield value_required("series.lastObservedTime")
