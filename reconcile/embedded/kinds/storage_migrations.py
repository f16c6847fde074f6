"""StorageVersionMigrations, as 1.36 (v1beta1) and 1.37 (v1) serve them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, same
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_required
from reconcile.embedded.schema.object_meta import OBJECT_META_SCHEMA

GROUP: Final = "storagemigration.k8s.io"
_STRING: Final = {"type": "string"}
_CONDITION: Final = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": _STRING,
        "status": _STRING,
        "observedGeneration": {"type": "integer", "format": "int64"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reason": _STRING,
        "message": _STRING,
    },
}
_OPENAPI: Final = {
    "type": "object",
    "description": "A migration of stored objects of a resource to its latest storage version.",
    "properties": {
        "apiVersion": _STRING,
        "kind": _STRING,
        "metadata": OBJECT_META_SCHEMA,
        "spec": {
            "type": "object",
            "properties": {
                "resource": {"type": "object", "properties": {"group": _STRING, "resource": _STRING}}
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "resourceVersion": _STRING,
                "conditions": {
                    "type": "array",
                    "items": _CONDITION,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
            },
        },
    },
}


def is_true(migration: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition of a migration is True."""
    conditions = (migration.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def _causes(migration: Object, old: Object | None) -> Iterator[FieldCause]:
    resource = (migration.get("spec") or {}).get("resource") or {}
    if not resource.get("resource"):
        yield value_required("spec.resource.resource", "resource is required")
    if old is not None and not same(migration.get("spec"), old.get("spec")):
        text = json.dumps({"Resource": resource}, separators=(",", ":"))
        yield FieldCause("FieldValueInvalid", f"Invalid value: {text}: field is immutable", "spec")


def _status_causes(migration: Object, old: Object | None) -> Iterator[FieldCause]:
    version = (migration.get("status") or {}).get("resourceVersion") or ""
    before = ((old or {}).get("status") or {}).get("resourceVersion") or ""
    if before and version != before:
        yield value_invalid("status.resourceVersion", version, "field is immutable")
    true = {kind for kind in ("Running", "Succeeded", "Failed") if is_true(migration, kind)}
    conditions = (migration.get("status") or {}).get("conditions")
    if {"Succeeded", "Failed"} <= true:
        why = "Both success and failed conditions cannot be true at the same time"
        yield value_invalid("status.conditions", conditions, why)
    if "Running" in true and true & {"Succeeded", "Failed"}:
        why = "Running condition cannot be true when success or failed conditions are true"
        yield value_invalid("status.conditions", conditions, why)
    for kind in ("Succeeded", "Failed"):
        if old is not None and is_true(old, kind) and kind not in true:
            why = f"{kind} condition cannot be set to false once it is true"
            yield value_invalid("status.conditions", conditions, why)


def _in_version(migration: Object, api_version: str) -> Object:
    return {**migration, "apiVersion": api_version}


KINDS: Final = (
    BuiltInKind(
        GROUP, "StorageVersionMigration", versions=("v1", "v1beta1"), namespaced=False, has_status=True,
        unconditional_update=False,
        openapi=_OPENAPI,
        convert=_in_version,
        first_status={},
        checks=_causes,
        status_checks=_status_causes,
        names_missing_fields=True,
    ),
)  # fmt: skip
