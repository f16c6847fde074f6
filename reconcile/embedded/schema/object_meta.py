"""The schema of metadata, for patches, applies and published documents."""

from typing import Any, Final

from reconcile.embedded.schema.go_structs import GO_STRUCT
from reconcile.embedded.schema.schema_nodes import SchemaNode, compile_node

_STRING: dict[str, Any] = {"type": "string"}
_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_INTEGER: dict[str, Any] = {"type": "integer", "format": "int64"}
_BOOLEAN: dict[str, Any] = {"type": "boolean"}
_STRINGS: dict[str, Any] = {"type": "object", "additionalProperties": _STRING}


def _struct(written: str, pointers: str, **members: Any) -> dict[str, Any]:
    facts = {"written": written.split(), "pointers": pointers.split()}
    return {"type": "object", "properties": members, GO_STRUCT: facts}


def _list(items: dict[str, Any], **extensions: Any) -> dict[str, Any]:
    named = {f"x-kubernetes-{name.replace('_', '-')}": value for name, value in extensions.items()}
    return {"type": "array", "items": items, **named}


_OWNER_REFERENCE: dict[str, Any] = {"type": "object", "x-kubernetes-map-type": "atomic"} | _struct(
    "apiVersion kind name uid",
    "blockOwnerDeletion controller",
    apiVersion=_STRING,
    blockOwnerDeletion=_BOOLEAN,
    controller=_BOOLEAN,
    kind=_STRING,
    name=_STRING,
    uid=_STRING,
)
_MANAGED_FIELDS_ENTRY = _struct(
    "",
    "",
    apiVersion=_STRING,
    fieldsType=_STRING,
    fieldsV1={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    manager=_STRING,
    operation=_STRING,
    subresource=_STRING,
    time=_TIME,
)

OBJECT_META_SCHEMA: Final = _struct(
    "",
    "deletionGracePeriodSeconds",
    annotations=_STRINGS,
    creationTimestamp=_TIME,
    deletionGracePeriodSeconds=_INTEGER,
    deletionTimestamp=_TIME,
    finalizers=_list(_STRING, list_type="set", patch_strategy="merge"),
    generateName=_STRING,
    generation=_INTEGER,
    labels=_STRINGS,
    managedFields=_list(_MANAGED_FIELDS_ENTRY, list_type="atomic"),
    name=_STRING,
    namespace=_STRING,
    ownerReferences=_list(
        _OWNER_REFERENCE,
        list_type="map",
        list_map_keys=["uid"],
        patch_strategy="merge",
        patch_merge_key="uid",
    ),
    resourceVersion=_STRING,
    selfLink=_STRING,
    uid=_STRING,
)
"""The OpenAPI v3 schema of ObjectMeta, without descriptions."""

OBJECT_META: Final[SchemaNode] = compile_node(OBJECT_META_SCHEMA)
"""The same, compiled."""
