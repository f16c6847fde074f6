"""What may stand in an `openAPIV3Schema`: the fields of JSONSchemaProps, which holds itself."""

from typing import Final

from reconcile.embedded.schema.schema_nodes import ANYTHING, SchemaNode
from reconcile.embedded.schema.wellformed import KEYWORDS, RULE_KEYWORDS

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
"""Prunes a schema; `check_structural` validates it."""
