"""The rules for the keywords of `openAPIV3Schema`, whatever their structure.

As ValidateCustomResourceDefinitionOpenAPISchema of apiextensions. Schemas are as `wellformed.decoded` leaves
them: without keywords that say nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_required
from reconcile.embedded.schema.checks import invalid, listed, not_supported
from reconcile.embedded.schema.field_paths import PathFault, field_at
from reconcile.embedded.schema.schema_nodes import EMBEDDED_FIELDS

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NEVER: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_LIST_TYPES: Final = ("atomic", "map", "set")
_MAP_TYPES: Final = ("atomic", "granular")
_LINE_BREAK: Final = re.compile(r"[\n\r]")
_RULES: Final = "x-kubernetes-validations"
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"


@frozen
class _Place:
    """What is around a schema."""

    no_default: str = ""
    """Why it may have no default; empty if it may."""
    in_metadata: bool = False
    """Whether it is about apiVersion, kind or metadata of an object."""


def openapi_causes(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """The faults of a whole schema, of which `path` is the place."""
    yield from _causes(schema, path, _Place(), is_root=True)


def _causes(
    schema: Mapping[str, Any], path: str, place: _Place, *, is_root: bool = False
) -> Iterator[FieldCause]:
    yield from _keywords(schema, path, place)
    additional = schema.get("additionalProperties")
    if additional is not None:
        if schema.get("properties") and additional is not True:
            why = "additionalProperties and properties are mutual exclusive"
            yield value_forbidden(f"{path}.additionalProperties", why)
        if isinstance(additional, Mapping):
            why = "inside additionalProperties applying to object metadata"
            inner = evolve(place, no_default=why) if place.in_metadata else place
            yield from _causes(additional, f"{path}.additionalProperties", inner)
    embedded = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    for name, member in schema.get("properties", {}).items():
        inner = place
        if embedded and name in EMBEDDED_FIELDS:
            why = f"in top-level {name}" if is_root else place.no_default
            inner = _Place(why, in_metadata=True)
        yield from _causes(member, f"{path}.properties[{name}]", inner)
    for where, member in _others(schema, path):
        yield from _causes(member, where, place)
    yield from _extensions(schema, path)
    yield from _list_type(schema, path)
    for index, rule in enumerate(schema.get(_RULES, ())):
        yield from _rule(schema, rule, f"{path}.{_RULES}[{index}]")


def _others(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schemas below other than properties and additionalProperties."""
    if "not" in schema:
        yield f"{path}.not", schema["not"]
    for keyword in ("allOf", "oneOf", "anyOf"):
        yield from (
            (f"{path}.{keyword}[{index}]", part) for index, part in enumerate(schema.get(keyword, ()))
        )
    for keyword in ("definitions", "dependencies"):
        for name, member in schema.get(keyword, {}).items():
            if isinstance(member, Mapping):
                yield f"{path}.{keyword}[{name}]", member
    items = schema.get("items")
    if isinstance(items, Mapping):
        yield f"{path}.items", items
    elif isinstance(items, list):
        yield from ((f"{path}.items[{index}]", item) for index, item in enumerate(items))


def _keywords(schema: Mapping[str, Any], path: str, place: _Place) -> Iterator[FieldCause]:
    kind = schema.get("type", "")
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, listed(TYPES))
    if kind == "null":
        yield value_forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if "default" in schema and place.no_default:
        yield value_forbidden(f"{path}.default", f"must not be set {place.no_default}")
    for keyword in _NEVER:
        if keyword in schema:
            yield value_forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("items") and isinstance(schema["items"], list):
        yield value_forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and schema.get("x-kubernetes-embedded-resource"):
        why = "must not be used inside of resource meta"
        yield value_forbidden(f"{path}.x-kubernetes-embedded-resource", why)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield value_forbidden(f"{path}.uniqueItems", why)


def _extensions(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    if schema.get(_PRESERVES) is False:
        yield invalid(f"{path}.{_PRESERVES}", False, "must be true or undefined")
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    if schema.get("type") != "object":
        yield _wrong_type(schema, path, "must be object if x-kubernetes-map-type is specified")
    if map_type not in _MAP_TYPES:
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, listed(_MAP_TYPES))


def _wrong_type(schema: Mapping[str, Any], path: str, why: str) -> FieldCause:
    kind = schema.get("type", "")
    return invalid(f"{path}.type", kind, why) if kind else value_required(f"{path}.type", why)


# --- lists --------------------------------------------------------------------------------------


def _list_type(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    list_type, items = schema.get("x-kubernetes-list-type"), schema.get("items")
    keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys", ())
    where = f"{path}.x-kubernetes-list-type"
    if list_type is not None and schema.get("type") != "array":
        yield _wrong_type(schema, path, "must be array if x-kubernetes-list-type is specified")
    elif list_type == "set" and isinstance(items, Mapping):
        yield from _set_items(items, path)
    if list_type is not None and list_type not in _LIST_TYPES:
        yield not_supported(where, list_type, listed(_LIST_TYPES))
    if keys and list_type is None:
        yield value_required(where, "must be map if x-kubernetes-list-map-keys is non-empty")
    elif keys and list_type != "map":
        yield invalid(where, list_type, "must be map if x-kubernetes-list-map-keys is non-empty")
    if list_type == "map":
        yield from _map_list(items, keys, path)
    if list_type in ("map", "set") and isinstance(items, Mapping) and items.get("nullable"):
        why = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield value_forbidden(f"{path}.items.nullable", why)


def _set_items(items: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    for kind, keyword, otherwise in (
        ("array", "x-kubernetes-list-type", "atomic"),
        ("object", "x-kubernetes-map-type", ""),
    ):
        value = items.get(keyword, otherwise)
        if items.get("type") == kind and value != "atomic":
            why = "must be atomic as item of a list with x-kubernetes-list-type=set"
            yield invalid(f"{path}.items.{keyword}", value, why)


def _map_list(items: Any, keys: Sequence[str], path: str) -> Iterator[FieldCause]:
    where = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield value_required(where, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield value_required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if not isinstance(items, Mapping):
        why = "must only have a single schema if x-kubernetes-list-type is map"
        yield invalid(f"{path}.items", items, why)
        return
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), why)
    members = items.get("properties", {})
    for index, key in enumerate(keys if items.get("type") == "object" else ()):
        if key not in members:
            yield invalid(where, keys, "entries must all be names of item properties")
        elif members[key].get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items["type"], why)
        if key in keys[:index]:
            yield invalid(where, keys, "must not contain duplicate entries")
    for key in keys:
        if key in members:
            yield from _map_key(members[key], key, items, f"{path}.items.properties[{key}]")


def _map_key(
    member: Mapping[str, Any], key: str, items: Mapping[str, Any], path: str
) -> Iterator[FieldCause]:
    if key not in items.get("required", ()) and "default" not in member:
        why = "a property in x-kubernetes-list-map-keys must have a default or be a required property"
        yield value_required(f"{path}.default", why)
    if member.get("nullable"):
        why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        yield value_forbidden(f"{path}.nullable", why)


# --- rules, without their expressions -----------------------------------------------------------


def _rule(schema: Mapping[str, Any], rule: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    text, message = rule.get("rule", ""), rule.get("message", "")
    if not text.strip():
        yield value_required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _LINE_BREAK.search(text.strip()) and not message.strip():
        why = "message must be specified if rule contains line breaks"
        yield value_required(f"{path}.message", why)
    made = rule.get("messageExpression", "")
    if made and not made.strip():
        why = "messageExpression must be non-empty if specified"
        yield value_required(f"{path}.messageExpression", why)
    if rule.get("reason") is not None and rule["reason"] not in REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], listed(REASONS))
    field = rule.get("fieldPath", "")
    if field and not field.strip():
        yield invalid(f"{path}.fieldPath", field, "must be non-empty if specified")
    if _LINE_BREAK.search(field):
        yield invalid(f"{path}.fieldPath", field, "must not contain line breaks")
    if field:
        try:
            field_at(field, schema)
        except PathFault as fault:
            yield invalid(f"{path}.fieldPath", field, f"must be a valid path: {fault}")
