"""OpenAPI v3 schemas as documents: their keywords, the types of the keywords, and the schemas within them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.schema.json_values import is_number, quoted, type_name
from reconcile.embedded.schema.schema_nodes import ANYTHING, SchemaNode

KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("description", "format", "pattern", "title", "type"), ("string",)),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), ("string",)),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "nullable", "uniqueItems"), ("boolean",)),
    **dict.fromkeys(("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"), ("boolean",)),
    "x-kubernetes-preserve-unknown-fields": ("boolean",),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), ("integer",)),
    **dict.fromkeys(("minItems", "minLength", "minProperties"), ("integer",)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), ("number", "integer")),
    **dict.fromkeys(("allOf", "anyOf", "enum", "oneOf", "required"), ("array",)),
    **dict.fromkeys(("x-kubernetes-list-map-keys", "x-kubernetes-validations"), ("array",)),
    **dict.fromkeys(("not", "properties"), ("object",)),
    "additionalProperties": ("object", "boolean"),
    "items": ("object", "array"),
}
"""The types of the values of keywords."""
RULE_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("fieldPath", "message", "messageExpression", "reason", "rule"), ("string",)),
    "optionalOldSelf": ("boolean",),
}
"""The same for an entry of `x-kubernetes-validations`."""
_LISTS_OF_NAMES: Final = ("required", "x-kubernetes-list-map-keys")
_LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf")


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas of members and items, each with its path from here, such as `.properties[spec]`."""
    for name, member in schema.get("properties", {}).items():
        yield f".properties[{name}]", member
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield f".{keyword}", schema[keyword]


_DROPPED_IF_EMPTY: Final = frozenset(
    {
        "id", "$schema", "description", "type", "format", "title", "pattern", "exclusiveMaximum",
        "exclusiveMinimum", "uniqueItems", "nullable", "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string", "enum", "required", "allOf", "oneOf", "anyOf",
        "x-kubernetes-list-map-keys", "x-kubernetes-validations", "properties", "patternProperties",
        "dependencies", "definitions",
    }
)  # fmt: skip
"""The keywords whose empty values a real server does not keep (omitempty without a pointer)."""
_MAPS_OF_SCHEMAS: Final = ("properties", "patternProperties", "definitions")


def decoded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A well-formed schema as a real server decodes it: without nulls and empty values that say nothing."""
    return {
        keyword: _decoded(keyword, value)
        for keyword, value in schema.items()
        if value is not None and (value or keyword not in _DROPPED_IF_EMPTY)
    }


def _decoded(keyword: str, value: Any) -> Any:
    if keyword in _MAPS_OF_SCHEMAS:
        return {name: decoded(member or {}) for name, member in value.items()}
    if keyword in _LISTS_OF_SCHEMAS or (keyword == "items" and isinstance(value, list)):
        return [decoded(part or {}) for part in value]
    if keyword in ("items", "not", "additionalProperties", "additionalItems") and isinstance(value, Mapping):
        return decoded(value)
    if keyword == "x-kubernetes-validations":
        return [_decoded_rule(rule or {}) for rule in value]
    return value


def _decoded_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in rule.items() if value is not None and value != ""}
    return {"rule": "", **kept}


def malformed(schema: Any, path: str) -> Iterator[FieldCause]:
    if not isinstance(schema, Mapping):
        yield _wrong_type(schema, ("object",), path)
        return
    for keyword, value in schema.items():
        where = f"{path}.{keyword}"
        if value is None:
            continue
        if type_name(value) not in KEYWORDS.get(keyword, (type_name(value),)):
            yield _wrong_type(value, KEYWORDS[keyword], where)
        elif keyword == "multipleOf" and is_number(value) and value <= 0:
            why = f"Invalid value: {quoted(value)}: must be greater than 0"
            yield FieldCause("FieldValueInvalid", why, where)
        else:
            yield from _below(keyword, value, where)


def _below(keyword: str, value: Any, path: str) -> Iterator[FieldCause]:
    if keyword == "properties":
        for name, member in value.items():
            yield from () if member is None else malformed(member, f"{path}[{name}]")
    elif keyword in _LISTS_OF_SCHEMAS:
        for index, part in enumerate(value):
            yield from () if part is None else malformed(part, f"{path}[{index}]")
    elif keyword == "x-kubernetes-validations":
        for index, rule in enumerate(value):
            yield from _malformed_rule(rule, f"{path}[{index}]")
    elif keyword in _LISTS_OF_NAMES:
        for index, name in enumerate(value):
            if not isinstance(name, str):
                yield _wrong_type(name, ("string",), f"{path}[{index}]")
    elif keyword == "not" or (keyword in ("items", "additionalProperties") and isinstance(value, Mapping)):
        yield from malformed(value, path)


def _malformed_rule(rule: Any, path: str) -> Iterator[FieldCause]:
    if not isinstance(rule, Mapping):
        yield _wrong_type(rule, ("object",), path)
        return
    for keyword, value in rule.items():
        expected = RULE_KEYWORDS.get(keyword)
        if value is not None and expected is not None and type_name(value) not in expected:
            yield _wrong_type(value, expected, f"{path}.{keyword}")


def _wrong_type(value: Any, expected: tuple[str, ...], path: str) -> FieldCause:
    why = f'must be of type {" or ".join(expected)}: "{type_name(value)}"'
    return FieldCause("FieldValueTypeInvalid", f"Invalid value: {quoted(value)}: {why}", path)


# --- as part of an object -----------------------------------------------------------------------

_VALUES: Final = (*KEYWORDS, "$ref", "$schema", "default", "dependencies", "example", "id")
_SCHEMAS: Final = ("additionalItems", "additionalProperties", "not")
_LISTS: Final = ("allOf", "anyOf", "items", "oneOf")
_MAPS: Final = ("definitions", "patternProperties", "properties")


def _json_schema() -> SchemaNode:
    node = SchemaNode(nullable=True, atomic_map=True)
    rule = SchemaNode(nullable=True, properties=dict.fromkeys(RULE_KEYWORDS, ANYTHING))
    documents = SchemaNode(nullable=True, properties=dict.fromkeys(("description", "url"), ANYTHING))
    node.properties = {
        **dict.fromkeys(_VALUES, ANYTHING),
        **dict.fromkeys(_SCHEMAS, node),
        **dict.fromkeys(_LISTS, SchemaNode(nullable=True, items=node)),
        **dict.fromkeys(_MAPS, SchemaNode(nullable=True, additional=node)),
        "externalDocs": documents,
        "x-kubernetes-validations": SchemaNode(nullable=True, items=rule),
    }
    node.properties["items"] = SchemaNode(nullable=True, items=node, properties=node.properties)
    return node


JSON_SCHEMA: Final = _json_schema()
"""JSONSchemaProps, to prune schemas by; `check_structural` validates them."""
