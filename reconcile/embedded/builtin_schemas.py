"""OpenAPI schemas of the built-in kinds."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from reconcile.embedded.schema.object_meta import OBJECT_META_SCHEMA

__all__ = ["schema_for"]

_STRING: dict[str, Any] = {"type": "string"}
_LEAVES: dict[str, dict[str, Any]] = {
    "V1ObjectMeta": OBJECT_META_SCHEMA,
    "any": {
        "nullable": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-map-type": "atomic",
    },
    "boolean": {"type": "boolean"},
    "byte": {"type": "string", "format": "byte"},
    "date-time": {"type": "string", "format": "date-time"},
    "int-or-string": {"x-kubernetes-int-or-string": True, "format": "int-or-string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "micro-time": {"type": "string", "format": "micro-time"},
    "number": {"type": "number", "format": "double"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}], "format": "quantity"},
    "string": _STRING,
}
_PLAIN_EXTENSIONS = frozenset({"default"})


class _Type(msgspec.Struct, frozen=True):
    fields: dict[str, str]
    required: list[str] = []
    extensions: dict[str, dict[str, Any]] = {}
    atomic: bool = False


class _Document(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    types: dict[str, _Type]


def schema_for(group: str, version: str, kind: str) -> dict[str, Any]:
    """The OpenAPI v3 schema of a built-in kind, without references to others.

    Parts are shared between kinds: do not change it.

    Raises:
        KeyError: There is no such built-in kind.
    """
    api_version = f"{group}/{version}" if group else version
    return _type_schema(_document().kinds[f"{api_version} {kind}"])


@cache
def _document() -> _Document:
    data = Path(__file__).with_name("builtin_types.json").read_bytes()
    return msgspec.json.decode(data, type=_Document)


@cache
def _type_schema(name: str) -> dict[str, Any]:
    entry = _document().types[name]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            field: _field_schema(expression, entry.extensions.get(field))
            for field, expression in entry.fields.items()
        },
    }
    if entry.required:
        schema["required"] = entry.required
    if entry.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _field_schema(expression: str, extensions: dict[str, Any] | None) -> dict[str, Any]:
    schema = _expanded(expression)
    if extensions is None:
        return schema
    prefixed = {
        name if name in _PLAIN_EXTENSIONS else f"x-kubernetes-{name}": value
        for name, value in extensions.items()
    }
    return {**schema, **prefixed}


@cache
def _expanded(expression: str) -> dict[str, Any]:
    """A type as the data file writes it: a name, `[name]` for a list of it, `{name}` for a map to it."""
    if expression.startswith("["):
        return {"type": "array", "items": _expanded(expression[1:-1])}
    if expression.startswith("{"):
        return {"type": "object", "additionalProperties": _expanded(expression[1:-1])}
    return _LEAVES.get(expression) or _type_schema(expression)
