"""What a CustomResourceDefinition's schema must be: structural, with valid defaults and rules that compile.

As validateCustomResourceDefinitionValidation of apiextensions.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import evolve

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden
from reconcile.embedded.schema.checks import invalid
from reconcile.embedded.schema.cleaning import prune
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.schema.object_validation import validate
from reconcile.embedded.schema.openapi_rules import openapi_causes
from reconcile.embedded.schema.optional_rules import cel_for
from reconcile.embedded.schema.schema_nodes import ABSENT, EMBEDDED_FIELDS, compile_node
from reconcile.embedded.schema.steps import TOO_MUCH_WORK, Causes, TooManyFaults, TooMuchWork
from reconcile.embedded.schema.structure import structure_causes, unconvertible
from reconcile.embedded.schema.wellformed import decoded, malformed

_KEYWORDS: Final = (
    "id", "$schema", "$ref", "description", "type", "nullable", "format", "title", "default", "maximum",
    "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems",
    "minItems", "uniqueItems", "multipleOf", "enum", "maxProperties", "minProperties", "required", "items",
    "allOf", "oneOf", "anyOf", "not", "properties", "additionalProperties", "patternProperties",
    "dependencies", "additionalItems", "definitions", "externalDocs", "example",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-validations",
)  # fmt: skip
"""In the order of the Go type: a root that is not allowed beside a status is named by its first fault."""
_BESIDE_A_STATUS: Final = frozenset(
    {
        "description", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
        "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required",
        "items", "properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)  # fmt: skip
"""What a root may have beside its type if there is a status, whose schema is taken out of it."""


def check_structural(
    openapi: Mapping[str, Any], path: str, *, status: bool = False, costs: bool = True
) -> list[FieldCause]:
    """Why a real server would refuse an `openAPIV3Schema`; `path` is its place, with which the causes begin.

    `status` if the version has a status of its own. Without `costs`, no single rule is too costly, as in
    updates that leave the schema alone.
    """
    if causes := list(malformed(openapi, path)):
        return causes
    schema = decoded(openapi)
    causes = [*(_beside_status(schema, path) if status else ())]
    if schema.get("nullable"):
        causes.append(value_forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    unconverted = unconvertible(schema)
    structure = [] if unconverted else list(structure_causes(schema, path))
    if not unconverted and not structure:
        structure = list(_defaults(schema, path, embedded=True))
    keywords = list(openapi_causes(schema, path))
    causes += [*structure, *keywords]
    if not unconverted and not structure:
        causes += _rule_causes(schema, path, keywords, costs=costs)
    return causes or ([invalid(path, "", unconverted)] if unconverted else [])


def _rule_causes(
    schema: Mapping[str, Any], path: str, faults: list[FieldCause], *, costs: bool
) -> Iterator[FieldCause]:
    """The faults of rules, except where the schema around or below them has some already."""
    cel = cel_for(schema)
    if cel is not None:
        yield from cel.check_rules(schema, path, [fault.field for fault in faults], costs=costs)


def _beside_status(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    for keyword in (keyword for keyword in _KEYWORDS if keyword in schema):
        if keyword == "type" and schema["type"] != "object":
            why = 'only "object" is allowed as the type at the root of the schema if there is a status'
            yield invalid(f"{path}.type", schema["type"], why)
            return
        if keyword != "type" and keyword not in _BESIDE_A_STATUS:
            why = f"{keyword} is not allowed at the root of the schema if there is a status"
            yield invalid(path, schema, why)
            return


# --- defaults -----------------------------------------------------------------------------------


def _defaults(
    schema: Mapping[str, Any], path: str, *, embedded: bool = False, in_metadata: bool = False
) -> Iterator[FieldCause]:
    """Defaults must be valid, without unknown fields, and keep the rules about them (ValidateDefaults)."""
    embedded = embedded or bool(schema.get("x-kubernetes-embedded-resource"))
    if "default" in schema:
        yield from _default(schema, f"{path}.default", pruned=not in_metadata)
    if isinstance(schema.get("items"), Mapping):
        yield from _defaults(schema["items"], f"{path}.items", in_metadata=in_metadata and not embedded)
    for name, member in schema.get("properties", {}).items():
        inside = (in_metadata and not embedded) or (embedded and name in EMBEDDED_FIELDS)
        yield from _defaults(member, f"{path}.properties[{name}]", in_metadata=inside)


def _default(schema: Mapping[str, Any], path: str, *, pruned: bool) -> Iterator[FieldCause]:
    node = compile_node(schema)
    default = copied(schema["default"])
    removed: list[str] = []
    prune(node, default, "", removed)
    if removed and pruned:
        yield invalid(path, schema["default"], f"must not have unknown fields: {', '.join(removed)}")
    causes = Causes()
    try:
        validate(node, default, path, causes)
    except TooMuchWork:
        causes.append(evolve(TOO_MUCH_WORK, field=path))
    except TooManyFaults:
        pass  # the first ones are enough to refuse the definition
    yield from causes or _broken_rules(schema, path)


def _broken_rules(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """The rules that a default breaks, as a new value and as one that stays."""
    cel = cel_for(schema)
    tree = None if cel is None else cel.tree_of(schema)
    if cel is None or tree is None:
        return
    default = schema["default"]
    for cause in dict.fromkeys([*cel.evaluate(tree, default, default), *cel.evaluate(tree, default, ABSENT)]):
        below = "" if cause.field == "<nil>" else cause.field
        yield evolve(
            cause, field=f"{path}{below}" if below.startswith("[") or not below else f"{path}.{below}"
        )
