"""What the tests of apply and of managedFields share: two schemas, short calls, readable owners."""

from copy import deepcopy
from typing import Any

import pytest

from reconcile.embedded.ownership.server_side_apply import apply, track_update
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.schema import ResourceSchema, compile_schema
from reconcile.embedded.schema.builtin_schemas import schema_for

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WIDGET = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "note": {"type": "string"},
                    "color": {"type": "string"},
                    "settings": {"type": "object", "additionalProperties": {"type": "string"}},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "args": {"type": "array", "items": {"type": "string"}},
                    "blob": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "name": {"type": "string"},
                            },
                        },
                    },
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)
DEPLOYMENT = compile_schema(schema_for("apps", "v1", "Deployment"), unique_lists=False)


def moment(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def intent(metadata: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", **(metadata or {})},
        **members,
    }


def applied(
    live: dict[str, Any] | None,
    manager: str,
    wanted: dict[str, Any],
    *,
    second: int = 0,
    force: bool = False,
    schema: ResourceSchema = WIDGET,
    **more: Any,
) -> dict[str, Any]:
    options: dict[str, Any] = {"subresource": "", "api_version": "example.com/v1", **more}
    result = apply(live, wanted, schema=schema, manager=manager, force=force, time=moment(second), **options)
    result["metadata"]["uid"] = "u"
    schema.default(result)
    return result


def updated(
    old: dict[str, Any] | None, new: dict[str, Any], manager: str, *, second: int = 0, subresource: str = ""
) -> dict[str, Any]:
    new = deepcopy(new)
    new["metadata"]["uid"] = "u"
    track_update(
        old,
        new,
        schema=WIDGET,
        manager=manager,
        subresource=subresource,
        api_version="example.com/v1",
        time=moment(second),
    )
    return new


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def conflicts(live: dict[str, Any], manager: str, wanted: dict[str, Any], **more: Any) -> ApiFailure:
    with pytest.raises(ApiFailure) as caught:
        applied(live, manager, wanted, **more)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert {cause.reason for cause in caught.value.causes} == {"FieldManagerConflict"}
    return caught.value


def fields_of(failure: ApiFailure) -> list[str]:
    return [cause.field for cause in failure.causes]
