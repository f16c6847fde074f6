"""The rules for structural schemas, which a CustomResourceDefinition must have."""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_required
from reconcile.embedded.schema.checks import invalid, listed, not_supported
from reconcile.embedded.schema.cleaning import prune
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.schema.object_validation import validate
from reconcile.embedded.schema.optional_rules import cel_for
from reconcile.embedded.schema.patterns import PatternError, compile_pattern
from reconcile.embedded.schema.schema_nodes import EMBEDDED_FIELDS, compile_node
from reconcile.embedded.schema.steps import TOO_MUCH_WORK, Causes, TooManyFaults, TooMuchWork
from reconcile.embedded.schema.wellformed import malformed, subschemas

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_SCALARS = frozenset({"boolean", "integer", "number", "string"})
_NEVER = ("$ref", "$schema", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_NOT_IN_COMPOSITIONS = (
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)
_ATOMIC_KINDS = (("object", "x-kubernetes-map-type", ""), ("array", "x-kubernetes-list-type", "atomic"))
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_METADATA_MEMBERS = frozenset({"name", "generateName"})


def check_structural(openapi: Mapping[str, Any], path: str) -> list[FieldCause]:
    """Why an `openAPIV3Schema` is not structural; `path` is its place, with which the causes begin."""
    if causes := list(malformed(openapi, path)):
        return causes
    if causes := [*_root(openapi, path), *_schema(openapi, path)]:
        return causes
    cel = cel_for(openapi)
    return [*_root_defaults(openapi, path), *(cel.check_rules(openapi, path) if cel is not None else ())]


def _root(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    kind = schema.get("type")
    if kind in _TYPES and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if schema.get("nullable"):
        yield value_forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    properties = schema.get("properties", {})
    for name in ("apiVersion", "kind"):
        if properties.get(name, {}).get("type", "string") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name]["type"], "must be string")
    metadata = properties.get("metadata", {})
    if metadata.get("type", "object") != "object":
        yield invalid(f"{path}.properties[metadata].type", metadata["type"], "must be object")
    if not metadata.get("properties", {}).keys() <= _METADATA_MEMBERS:
        why = "must not specify anything other than name and generateName: metadata is implicitly specified"
        yield value_forbidden(f"{path}.properties[metadata]", why)


def _schema(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    yield from _keywords(schema, path)
    yield from _type(schema, path)
    yield from _extensions(schema, path)
    yield from _list_type(schema, path)
    for step, member in subschemas(schema):
        yield from _schema(member, path + step)
    yield from _compositions(schema, schema, path)


def _keywords(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    for keyword in _NEVER:
        if keyword in schema:
            yield value_forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield value_forbidden(f"{path}.uniqueItems", why)
    where = f"{path}.additionalProperties"
    if schema.get("additionalProperties") is False:
        yield value_forbidden(where, "additionalProperties cannot be set to false")
    if "additionalProperties" in schema and schema.get("properties"):
        yield value_forbidden(where, "additionalProperties and properties are mutually exclusive")
    if isinstance(schema.get("items"), list):
        yield value_forbidden(f"{path}.items", "items must be a schema object and not an array")
    if "pattern" in schema:
        yield from _pattern(schema["pattern"], f"{path}.pattern")


def _pattern(pattern: str, path: str) -> Iterator[FieldCause]:
    try:
        compile_pattern(pattern)
    except PatternError as error:
        yield invalid(path, pattern, f"must be a valid regular expression, but isn't: {error}")


def _type(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    kind = schema.get("type", "")
    open_ended = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if not kind:
        if not any(schema.get(keyword) for keyword in open_ended):
            yield value_required(f"{path}.type", "must not be empty for specified object fields")
        return
    if kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, listed(_TYPES))
        return
    if kind == "array" and "items" not in schema:
        yield value_required(f"{path}.items", "must be specified")
    if kind != "array" and "items" in schema:
        yield value_forbidden(f"{path}.items", 'may only be set if type is "array"')
    if kind != "object" and (schema.get("properties") or "additionalProperties" in schema):
        yield value_forbidden(f"{path}.properties", 'may only be set if type is "object"')


def _extensions(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if schema.get("x-kubernetes-int-or-string") and kind:
        yield value_forbidden(f"{path}.type", "must be empty if x-kubernetes-int-or-string is true")
    if schema.get("x-kubernetes-embedded-resource"):
        if kind != "object":
            yield invalid(f"{path}.type", kind, "must be object if x-kubernetes-embedded-resource is true")
        if not (schema.get("properties") or schema.get("x-kubernetes-preserve-unknown-fields")):
            yield value_required(
                f"{path}.properties",
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
            )
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, listed(("atomic", "granular")))
    if map_type is not None and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object if x-kubernetes-map-type is specified")


def _list_type(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if list_type is not None and schema.get("type") != "array":
        why = "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{path}.type", schema.get("type", ""), why)
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.x-kubernetes-list-type", list_type, listed(("atomic", "map", "set")))
    if keys and list_type != "map":
        where = f"{path}.x-kubernetes-list-type"
        yield invalid(where, list_type or "", "must be map if x-kubernetes-list-map-keys is non-empty")
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return
    if list_type == "map":
        yield from _map_list(items, keys, path)
    elif list_type == "set":
        yield from _set_list(items, path)


def _map_list(items: Mapping[str, Any], keys: list[str], path: str) -> Iterator[FieldCause]:
    if not keys:
        where = f"{path}.x-kubernetes-list-map-keys"
        yield value_required(where, "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), why)
    if items.get("nullable"):
        yield value_forbidden(
            f"{path}.items.nullable", "cannot be nullable when x-kubernetes-list-type is map"
        )
    for index, key in enumerate(keys):
        where, member = f"{path}.items.properties[{key}]", items.get("properties", {}).get(key)
        if member is None:
            why = "must be the name of a property of the items"
            yield invalid(f"{path}.x-kubernetes-list-map-keys[{index}]", key, why)
        elif member.get("type") not in _SCALARS:
            yield invalid(f"{where}.type", member.get("type", ""), "must be a scalar type")
        elif key not in items.get("required", ()) and "default" not in member:
            why = "it is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield value_required(f"{where}.default", why)
    if len(set(keys)) < len(keys):
        yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not have duplicate entries")


def _set_list(items: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    if items.get("nullable"):
        yield value_forbidden(
            f"{path}.items.nullable", "cannot be nullable when x-kubernetes-list-type is set"
        )
    for kind, keyword, otherwise in _ATOMIC_KINDS:
        value = items.get(keyword, otherwise)
        if items.get("type") == kind and value != "atomic":
            yield invalid(f"{path}.items.{keyword}", value, "must be atomic as item of a list of type set")


def _compositions(schema: Mapping[str, Any], outer: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(schema.get(keyword, ())):
            allowed = bool(outer.get("x-kubernetes-int-or-string")) and _is_int_or_string(schema, keyword)
            yield from _composed(part, outer, f"{path}.{keyword}[{index}]", may_have_type=allowed)
    if isinstance(schema.get("not"), Mapping):
        yield from _composed(schema["not"], outer, f"{path}.not")


def _is_int_or_string(schema: Mapping[str, Any], keyword: str) -> bool:
    """Whether a composition is one of the two that repeat `x-kubernetes-int-or-string`."""
    if keyword == "anyOf":
        return bool(schema["anyOf"] == _INT_OR_STRING)
    return keyword == "allOf" and schema["allOf"][0].get("anyOf") == _INT_OR_STRING


def _composed(
    part: Mapping[str, Any], outer: Mapping[str, Any], path: str, *, may_have_type: bool = False
) -> Iterator[FieldCause]:
    for keyword in _NOT_IN_COMPOSITIONS:
        if keyword in part and not (keyword == "type" and may_have_type):
            yield value_forbidden(f"{path}.{keyword}", "must be undefined to be structural")
    for keyword in _NEVER:
        if keyword in part:
            yield value_forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if "pattern" in part:
        yield from _pattern(part["pattern"], f"{path}.pattern")
    members = outer.get("properties", {})
    for name, member in part.get("properties", {}).items():
        where = f"{path}.properties[{name}]"
        known = members.get(name) or outer.get("additionalProperties")
        if isinstance(known, Mapping):
            yield from _composed(member, known, where)
        else:
            yield value_required(where, f"because it is defined in {where}")
    if isinstance(part.get("items"), Mapping):
        if isinstance(outer.get("items"), Mapping):
            yield from _composed(part["items"], outer["items"], f"{path}.items")
        else:
            yield value_required(f"{path}.items", "because it is defined in a composition")
    yield from _compositions(part, outer, path)


def _root_defaults(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    for name, member in schema.get("properties", {}).items():
        where = f"{path}.properties[{name}]"
        if name not in EMBEDDED_FIELDS:
            yield from _defaults(member, where)
        elif "default" in member:
            yield value_forbidden(f"{where}.default", "must not be set")


def _defaults(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """A default must be valid and have no unknown fields."""
    if "default" in schema:
        yield from _default(schema, f"{path}.default")
    for step, member in subschemas(schema):
        yield from _defaults(member, path + step)


def _default(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    node = compile_node(schema)
    default = copied(schema["default"])
    removed: list[str] = []
    prune(node, default, "", removed)
    if removed:
        yield invalid(path, schema["default"], f"must not have unknown fields: {', '.join(removed)}")
    causes = Causes()
    try:
        validate(node, default, path, causes)
    except TooMuchWork:
        causes.append(evolve(TOO_MUCH_WORK, field=path))
    except TooManyFaults:
        pass  # the first ones are enough to refuse the definition
    yield from causes
