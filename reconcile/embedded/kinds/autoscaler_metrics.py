"""The faults of the metrics of HorizontalPodAutoscalers, and of the references in them."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import label_key_faults, path_segment_faults
from informers.apimachinery.quantities import quantity_value
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.port_rules import label_name_causes
from reconcile.embedded.kinds.resource_amounts import is_extended, is_native, is_standard_of_containers
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_MEMBERS: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""Where each type has its source. If a metric has several, a real server checks the first of this order."""


def metric_causes(metric: Object, path: str, *, any_version: bool = False) -> Iterator[FieldCause]:
    """The faults of one metric; with `any_version` the described object may have any apiVersion."""
    kind = metric.get("type") or ""
    present = [member for member in _MEMBERS.values() if metric.get(member) is not None]
    expected = _MEMBERS.get(kind)
    if not kind:
        yield value_required(f"{path}.type", "must specify a metric source type")
    if present:
        yield from _source_causes(
            present[0], metric[present[0]], f"{path}.{present[0]}", any_version=any_version
        )
    if expected is None:
        # A real server says this before it looks for the source, and again when it finds none.
        yield from [value_not_supported(f"{path}.type", kind, sorted(_MEMBERS))] * 2
    elif expected not in present:
        yield value_required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) > 1:
        for member in present:
            if member != expected:
                yield value_forbidden(f"{path}.{member}", "must populate the given metric source only")


def _source_causes(member: str, source: Object, path: str, *, any_version: bool) -> Iterator[FieldCause]:
    target = source.get("target") or {}
    yield from _target_causes(target, f"{path}.target")
    share, average, value = (target.get(name) for name in ("averageUtilization", "averageValue", "value"))
    if member in ("resource", "containerResource"):
        yield from _resource_causes(source, path, in_container=member == "containerResource")
        if share is None and average is None:
            why = "must set either a target raw value or a target utilization"
            yield value_required(f"{path}.target.averageUtilization", why)
        elif share is not None and average is not None:
            why = "may not set both a target raw value and a target utilization"
            yield value_forbidden(f"{path}.target.averageValue", why)
        return
    yield from _identifier_causes(source.get("metric") or {}, f"{path}.metric")
    if member == "object":
        described, place = source.get("describedObject") or {}, f"{path}.describedObject"
        yield from reference_causes(described, place)
        if not any_version:
            yield from version_causes(described, place, needs_group=False)
    if average is None and (value is None or member == "pods"):
        yield value_required(f"{path}.target.averageValue", "must set either a target value or averageValue")
    if member == "external" and average is not None and value is not None:
        why = "may not set both a target value for metric and a per-pod target"
        yield value_forbidden(f"{path}.target.value", why)


def _target_causes(target: Object, path: str) -> Iterator[FieldCause]:
    kind, share = target.get("type") or "", target.get("averageUtilization")
    if not kind:
        yield value_required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield value_invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and quantity_value(str(amount)) <= 0:
            yield value_invalid(f"{path}.{name}", amount, "must be positive")
    if share is not None and share < 1:
        yield value_invalid(f"{path}.averageUtilization", share, "must be greater than 0")


def _resource_causes(source: Object, path: str, *, in_container: bool) -> Iterator[FieldCause]:
    name = source.get("name") or ""
    if not name:
        yield value_required(f"{path}.name", "must specify a resource name")
    elif in_container:
        yield from _resource_name_causes(name, f"{path}.name")
    if in_container and not source.get("container"):
        yield value_required(f"{path}.container", "must specify a container")
    elif in_container:
        yield from label_name_causes(f"{path}.container", source["container"])


def _resource_name_causes(name: str, path: str) -> Iterator[FieldCause]:
    for fault in label_key_faults(name):
        yield value_invalid(path, name, fault)
    if "/" not in name:
        if not is_standard_of_containers(name):
            yield value_invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield value_invalid(path, name, "doesn't follow extended resource name standard")


def _identifier_causes(identifier: Object, path: str) -> Iterator[FieldCause]:
    name = identifier.get("name") or ""
    if not name:
        yield value_required(f"{path}.name", "must specify a metric name")
    for fault in path_segment_faults(name):
        yield value_invalid(f"{path}.name", name, fault)


def reference_causes(reference: Object, path: str) -> Iterator[FieldCause]:
    """The faults of the kind and the name of what is referred to."""
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if not value:
            yield value_required(f"{path}.{name}")
        for fault in path_segment_faults(value):
            yield value_invalid(f"{path}.{name}", value, fault)


def version_causes(reference: Object, path: str, *, needs_group: bool) -> Iterator[FieldCause]:
    """An apiVersion that names no group and version, or only a version where a group is needed."""
    text = reference.get("apiVersion") or ""
    if text.count("/") > 1:
        yield value_invalid(f"{path}.apiVersion", text, f"unexpected GroupVersion string: {text}")
    elif needs_group and not text.rpartition("/")[0]:
        yield value_invalid(f"{path}.apiVersion", text, "apiVersion must specify API group")
