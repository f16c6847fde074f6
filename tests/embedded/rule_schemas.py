"""Schemas with one rule in CEL, about members of many types."""

from typing import Any

from reconcile.embedded.schema import ResourceSchema, check_structural, compile_schema

PATH = "spec.validation.openAPIV3Schema"
RULE = f"{PATH}.properties[spec].x-kubernetes-validations[0]"
MEMBERS: dict[str, Any] = {
    "size": {"type": "integer"},
    "most": {"type": "integer"},
    "ratio": {"type": "number"},
    "name": {"type": "string"},
    "note": {"type": "string", "nullable": True},
    "port": {"x-kubernetes-int-or-string": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "when": {"type": "string", "format": "date-time"},
    "wait": {"type": "string", "format": "duration"},
    "data": {"type": "string", "format": "byte"},
    "dash-ed": {"type": "string"},
    "namespace": {"type": "string"},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "words": {"type": "array", "items": {"type": "string"}},
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
        "items": {
            "type": "object",
            "required": ["port"],
            "properties": {"port": {"type": "integer"}, "name": {"type": "string"}},
        },
    },
}


COSTLY = "FieldValueForbidden"


def schema(rule: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec(rule, **more)}}


def spec(rule: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": MEMBERS, "x-kubernetes-validations": [{"rule": rule, **more}]}


def ruled(rule: str, **more: Any) -> ResourceSchema:
    openapi = schema(rule, **more)
    # What rules cost by their schema alone is another matter.
    assert [cause for cause in check_structural(openapi, PATH) if cause.reason != COSTLY] == []
    return compile_schema(openapi)


def holds(rule: str, **members: Any) -> bool:
    return ruled(rule).validate({"spec": members}) == []
