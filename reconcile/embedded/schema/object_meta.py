"""The metadata that every object has, as patches and applies are typed by it."""

from typing import Any, Final

from reconcile.embedded.schema.schema_nodes import SchemaNode, compile_node

_STRING: dict[str, Any] = {"type": "string"}
_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_INTEGER: dict[str, Any] = {"type": "integer", "format": "int64"}
_BOOLEAN: dict[str, Any] = {"type": "boolean"}
_STRINGS: dict[str, Any] = {"type": "object", "additionalProperties": _STRING}
_OWNER_REFERENCE: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "properties": {
        "apiVersion": _STRING,
        "blockOwnerDeletion": _BOOLEAN,
        "controller": _BOOLEAN,
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
    },
}
_MANAGED_FIELDS_ENTRY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": _STRING,
        "fieldsType": _STRING,
        "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "manager": _STRING,
        "operation": _STRING,
        "subresource": _STRING,
        "time": _TIME,
    },
}

OBJECT_META_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "annotations": _STRINGS,
        "creationTimestamp": _TIME,
        "deletionGracePeriodSeconds": _INTEGER,
        "deletionTimestamp": _TIME,
        "finalizers": {
            "type": "array",
            "items": _STRING,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "generateName": _STRING,
        "generation": _INTEGER,
        "labels": _STRINGS,
        "managedFields": {
            "type": "array",
            "items": _MANAGED_FIELDS_ENTRY,
            "x-kubernetes-list-type": "atomic",
        },
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "items": _OWNER_REFERENCE,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}
"""The OpenAPI v3 schema of ObjectMeta, without descriptions."""

OBJECT_META: Final[SchemaNode] = compile_node(OBJECT_META_SCHEMA)
"""The same, compiled."""
