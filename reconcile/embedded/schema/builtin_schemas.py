"""OpenAPI schemas of the built-in kinds."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from reconcile.embedded.schema.builtin_descriptions import field_descriptions
from reconcile.embedded.schema.go_structs import GO_STRUCT
from reconcile.embedded.schema.object_meta import OBJECT_META_SCHEMA

__all__ = ["component_name", "published", "schema_for"]

Components = dict[str, dict[str, Any]]
"""Schemas by the names of their types."""

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
_TYPE_NAME = re.compile(r"(\w*?)(V\d+(?:alpha\d+|beta\d+)?)([A-Z]\w*)")
_PLAIN_EXTENSIONS = frozenset({"default"})


class _Type(msgspec.Struct, frozen=True):
    fields: dict[str, str]
    required: list[str] = []
    extensions: dict[str, dict[str, Any]] = {}
    atomic: bool = False
    written: list[str] = []
    pointers: list[str] = []


class _Document(msgspec.Struct, frozen=True):
    kinds: dict[str, str]
    types: dict[str, _Type]


def schema_for(group: str, version: str, kind: str) -> dict[str, Any]:
    """The OpenAPI v3 schema of a built-in kind, without references. Raises KeyError for other kinds.

    Kinds share parts of it: do not change it.
    """
    return _type_schema(_type_of(group, version, kind))


def published(group: str, version: str, kind: str, references: Mapping[str, str]) -> Components:
    """The schema as documents publish it: described, with each type once, under its name; the kind is first.

    `references` has the places of types that the document describes already.
    """
    types: Components = {}
    names = [_type_of(group, version, kind)]
    while names:
        name = names.pop()
        if name not in types:
            types[name] = _described(name, references, names)
    return types


def _type_of(group: str, version: str, kind: str) -> str:
    return _document().kinds[f"{group}/{version} {kind}".removeprefix("/")]


def _described(name: str, references: Mapping[str, str], waiting: list[str]) -> dict[str, Any]:
    entry, texts = _document().types[name], field_descriptions(name)
    schema = {**_type_schema(name), "properties": {}}
    del schema[GO_STRUCT]
    for member, expression in entry.fields.items():
        typed = _prefixed(_referring(expression, references, waiting), entry.extensions.get(member))
        schema["properties"][member] = typed | ({"description": texts[member]} if member in texts else {})
    return schema


def _referring(expression: str, references: Mapping[str, str], waiting: list[str]) -> dict[str, Any]:
    def leaf(name: str) -> dict[str, Any]:
        if name in references:
            return {"allOf": [{"$ref": references[name]}]}
        if name in _LEAVES:
            return _LEAVES[name]
        waiting.append(name)
        return {"allOf": [{"$ref": f"#/components/schemas/{component_name(name)}"}]}

    return _shaped(expression, leaf)


def component_name(type_name: str) -> str:
    """The component name of a type that is not a kind: `io.k8s.api.v1.PodSpec` for `V1PodSpec`."""
    found = _TYPE_NAME.fullmatch(type_name)
    parts = (part for part in (found.groups() if found else (type_name,)) if part)
    *before, last = parts
    return ".".join(("io.k8s.api", *(part.lower() for part in before), last))


@cache
def _document() -> _Document:
    data = resources.files(__package__).joinpath("builtin_types.json").read_bytes()
    return msgspec.json.decode(data, type=_Document)


@cache
def _type_schema(name: str) -> dict[str, Any]:
    entry = _document().types[name]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            field: _prefixed(_expanded(expression), entry.extensions.get(field))
            for field, expression in entry.fields.items()
        },
    }
    if entry.required:
        schema["required"] = entry.required
    if entry.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    schema[GO_STRUCT] = {"written": entry.written, "pointers": entry.pointers}
    return schema


def _prefixed(schema: dict[str, Any], extensions: dict[str, Any] | None) -> dict[str, Any]:
    if extensions is None:
        return schema
    prefixed = {
        name if name in _PLAIN_EXTENSIONS else f"x-kubernetes-{name}": value
        for name, value in extensions.items()
    }
    return {**schema, **prefixed}


@cache
def _expanded(expression: str) -> dict[str, Any]:
    return _shaped(expression, lambda name: _LEAVES.get(name) or _type_schema(name))


def _shaped(expression: str, leaf: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """A type as the data file writes it: a name, `[name]` for a list of it, `{name}` for a map to it."""
    if expression.startswith("["):
        return {"type": "array", "items": _shaped(expression[1:-1], leaf)}
    if expression.startswith("{"):
        return {"type": "object", "additionalProperties": _shaped(expression[1:-1], leaf)}
    return leaf(expression)
