"""What may stand in an `openAPIV3Schema`: the fields of JSONSchemaProps, which holds itself."""

from typing import Final

from reconcile.embedded.schema.schema_nodes import ANYTHING, SchemaNode

_VALUES: Final = (
    "$ref", "$schema", "default", "dependencies", "description", "enum", "example", "exclusiveMaximum",
    "exclusiveMinimum", "format", "id", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
    "minLength", "minProperties", "minimum", "multipleOf", "nullable", "pattern", "required", "title", "type",
    "uniqueItems", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip
_SCHEMAS: Final = ("additionalItems", "additionalProperties", "not")
_LISTS: Final = ("allOf", "anyOf", "items", "oneOf")
_MAPS: Final = ("definitions", "patternProperties", "properties")
_RULE: Final = ("fieldPath", "message", "messageExpression", "optionalOldSelf", "reason", "rule")


def _json_schema() -> SchemaNode:
    node = SchemaNode(nullable=True, atomic_map=True)
    rule = SchemaNode(nullable=True, properties=dict.fromkeys(_RULE, ANYTHING))
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
"""Prunes a schema; `check_structural` validates it."""
