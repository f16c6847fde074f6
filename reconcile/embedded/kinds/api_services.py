"""APIServices: local ones are available, others are stored and nothing is served behind them."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from informers.apimachinery.name_rules import path_segment_faults, service_name_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill
from reconcile.embedded.kinds.webhook_clients import port_causes
from reconcile.embedded.kubectl.printing import AGE, NAMES, View, pick
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_not_supported, value_required
from reconcile.embedded.served import CellColumn

# ValidateAPIService of k8s.io/kube-aggregator.
_MAX_GROUP_PRIORITY: Final = 20_000
_MAX_VERSION_PRIORITY: Final = 1_000
_STATES: Final = ("True", "False", "Unknown")
_OWN_METADATA: Final = ("annotations", "finalizers", "labels", "ownerReferences")


def _default_service(service: Object) -> None:
    reference = (service.get("spec") or {}).get("service")
    if reference is not None:
        fill(reference, {"port": 443})


def _set_first_status(service: Object, old: Object | None) -> None:
    if old is not None or (service.get("spec") or {}).get("service") is not None:
        return
    service["status"] = {
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "lastTransitionTime": service["metadata"]["creationTimestamp"],
                "reason": "Local",
                "message": "Local APIServices are always available",
            }
        ]
    }


def _validate_service(service: Object, old: Object | None) -> Iterator[FieldCause]:
    spec, name = service.get("spec") or {}, service["metadata"].get("name") or ""
    group, version = spec.get("group") or "", spec.get("version") or ""
    if name and not path_segment_faults(name) and name != f"{version}.{group}":
        yield value_invalid(
            "metadata.name", name, f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        )
    if not group and version != "v1":
        why = "only v1 may have an empty group and it better be legacy kube"
        yield value_required("spec.group", why)
    for fault in subdomain_faults(group) if group else ():
        yield value_invalid("spec.group", group, fault)
    yield from (value_invalid("spec.version", version, fault) for fault in service_name_faults(version))
    for field, most in (
        ("groupPriorityMinimum", _MAX_GROUP_PRIORITY),
        ("versionPriority", _MAX_VERSION_PRIORITY),
    ):
        priority = spec.get(field) or 0
        if not 0 < priority <= most:
            yield value_invalid(f"spec.{field}", priority, f"must be positive and less than {most}")
    yield from _reach_causes(spec)


def _reach_causes(spec: Mapping[str, Any]) -> Iterator[FieldCause]:
    """The faults of how the server behind it is reached."""
    service, bundle, insecure = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    if service is None:
        if bundle:
            why = "local APIServices may not have a caBundle"
            yield value_invalid("spec.caBundle", f"{len(bundle)} bytes", why)
        if insecure:
            why = "local APIServices may not have insecureSkipTLSVerify"
            yield value_invalid("spec.insecureSkipTLSVerify", True, why)
        return
    for field in ("namespace", "name"):
        if not service.get(field):
            yield value_required(f"spec.service.{field}")
    yield from port_causes(service.get("port") or 0, "spec.service.port")
    if insecure and bundle:
        yield value_invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def _validate_status(service: Object, old: Object | None) -> Iterator[FieldCause]:
    for index, condition in enumerate((service.get("status") or {}).get("conditions") or ()):
        state = condition.get("status") or ""
        if state not in _STATES:
            yield value_not_supported(f"status.conditions[{index}].status", state, _STATES)


def _service(obj: View, _now: datetime.datetime) -> str:
    service = pick(obj, "spec", "service")
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"


def _available(obj: View, _now: datetime.datetime) -> str:
    conditions = pick(obj, "status", "conditions") or ()
    found = next((item for item in conditions if item.get("type") == "Available"), None)
    if found is None or found.get("status") == "True":
        return "Unknown" if found is None else "True"
    return f"{found.get('status', '')} ({found.get('reason', '')})"


KINDS: Final = (
    BuiltInKind(
        "apiregistration.k8s.io", "APIService", categories=("api-extensions",), namespaced=False,
        has_status=True, unconditional_update=False,
        defaults=_default_service,
        first_status={},
        prepare=_set_first_status,
        names_missing_fields=True,
        checks=_validate_service,
        check_name=path_segment_faults,
        status_checks=_validate_status,
        status_keeps=_OWN_METADATA,
        columns=(NAMES, CellColumn("Service", _service), CellColumn("Available", _available), AGE),
    ),
)  # fmt: skip
