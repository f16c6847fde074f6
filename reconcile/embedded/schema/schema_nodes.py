"""A schema as a tree of nodes, compiled once for each version of a resource."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from attrs import define, field, frozen

from reconcile.embedded.schema.checks import Check, enum_check, go_range, is_quantity, value_checks
from reconcile.embedded.schema.go_structs import GO_STRUCT, TIMES, UNTYPED, GoStruct, go_struct, zero_of

ABSENT: Final[Any] = object()
"""Stands for a missing value, which differs from null."""

EMBEDDED_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
"""The fields that every embedded resource may have."""


@frozen
class Default:
    value: Any
    size: int
    """Bytes of its JSON."""


@define(eq=False)
class SchemaNode:
    """The schema of one place in an object."""

    type: str = ""
    """object, array, string, integer, number or boolean; empty for any."""
    nullable: bool = False
    properties: dict[str, "SchemaNode"] = field(factory=dict)
    additional: "SchemaNode | None" = None
    """The schema of members that are not in `properties`; None if they are not allowed."""
    items: "SchemaNode | None" = None
    required: tuple[str, ...] = ()
    default: "Default | None" = None
    defaulted: tuple[tuple[str, "Default"], ...] = ()
    """The members that have a default, with their defaults."""
    preserves_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False
    quantity: bool = False
    """Whether this is a Quantity of a built-in kind; those of custom resources are plain strings."""
    time: str = ""
    """date-time or micro-time if this is a time of a built-in kind; those of custom resources are strings."""
    holds_rewritten: bool = False
    """Whether any members or items are quantities or times, which take their canonical form."""
    go: GoStruct | None = None
    """The Go struct of a built-in kind that is decoded here."""
    bytes: bool = False  # whether it is a []byte of Go
    zero: Any = UNTYPED
    """The zero value of the Go type of a place in a built-in kind; not to be changed."""
    list_type: str = "atomic"
    """atomic, set or map, for server-side apply."""
    map_keys: tuple[str, ...] = ()
    atomic_map: bool = False
    patch_strategies: frozenset[str] = frozenset()
    """For strategic merge patches: merge, replace, retainKeys."""
    patch_merge_key: str = ""
    plain: Any = None
    """The Python type of which every value is valid, as of most strings, booleans and integers."""
    flat: bool = False
    """Whether this is an object of scalars, in which pruning has only its own fields to check."""
    checks: tuple[Check, ...] = ()
    check_enum: Check | None = None
    compositions: "Compositions | None" = None
    has_keyed_lists: bool = False
    """Whether a list of type set or map is here or below."""

    def child(self, name: str) -> "SchemaNode | None":
        """The schema of the member `name`; None if it is unknown."""
        known = self.properties.get(name) or self.additional
        if known is None and (self.preserves_unknown or (self.embedded and name in EMBEDDED_FIELDS)):
            return ANYTHING
        return known

    def item(self) -> "SchemaNode":
        """The schema of the items of a list."""
        return self.items or ANYTHING


_SCALARS: Final = frozenset({"string", "boolean", "integer", "number"})
_PLAIN: Final[Mapping[str, type]] = {"string": str, "boolean": bool, "integer": int}


@define(eq=False)
class Compositions:
    all_of: tuple[SchemaNode, ...] = ()
    any_of: tuple[SchemaNode, ...] = ()
    one_of: tuple[SchemaNode, ...] = ()
    negated: SchemaNode | None = None


ANYTHING: Final = SchemaNode(nullable=True, preserves_unknown=True)
"""Accepts and keeps every value."""


_EXTENSIONS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "x-kubernetes-preserve-unknown-fields": ("preserves_unknown", bool),
    "x-kubernetes-embedded-resource": ("embedded", bool),
    "x-kubernetes-int-or-string": ("int_or_string", bool),
    "x-kubernetes-list-type": ("list_type", str),
    "x-kubernetes-list-map-keys": ("map_keys", tuple),
    "x-kubernetes-map-type": ("atomic_map", lambda value: value == "atomic"),
    "x-kubernetes-patch-strategy": ("patch_strategies", lambda value: frozenset(value.split(","))),
    "x-kubernetes-patch-merge-key": ("patch_merge_key", str),
}


def compile_node(schema: Mapping[str, Any]) -> SchemaNode:
    """The node of a structural OpenAPI v3 schema."""
    node = SchemaNode()
    for keyword, value in schema.items():
        match keyword:
            case "type":
                node.type = value
            case "properties":
                node.properties = {name: compile_node(member) for name, member in value.items()}
            case "items":
                node.items = compile_node(value)
            case "additionalProperties" if isinstance(value, Mapping):
                node.additional = compile_node(value)
            case "additionalProperties" if value:
                node.additional = ANYTHING
            case "required":
                node.required = tuple(value)
            case "default":
                node.default = Default(value, len(msgspec.json.encode(value)))
            case "nullable":
                node.nullable = value
            case _ if keyword in _EXTENSIONS:
                name, read = _EXTENSIONS[keyword]
                setattr(node, name, read(value))
    node.quantity = is_quantity(schema)
    node.checks = value_checks(schema)
    node.check_enum = enum_check(schema) if "enum" in schema else None
    node.compositions = _compositions(schema)
    if not node.checks and node.compositions is None and not node.int_or_string:
        node.plain = _PLAIN.get(node.type)
    node.defaulted = tuple(
        (name, member.default) for name, member in node.properties.items() if member.default is not None
    )
    node.flat = bool(node.properties) and all(member.type in _SCALARS for member in node.properties.values())
    node.go = _typed_struct(node, schema)
    node.holds_rewritten = any(child.quantity or child.time for child in _children(node))
    node.has_keyed_lists = node.list_type != "atomic" or any(
        child.has_keyed_lists for child in _children(node)
    )
    return node


def _typed_struct(node: SchemaNode, schema: Mapping[str, Any]) -> GoStruct | None:
    """The Go struct that the schema names, after its members have got their zero values."""
    if GO_STRUCT not in schema:
        return None
    for name, member in node.properties.items():
        _set_zeros(member, schema["properties"][name])
    node.flat = node.flat and not any(member.bytes for member in node.properties.values())
    zeros = {name: member.zero for name, member in node.properties.items()}
    rewritten = (name for name, member in node.properties.items() if member.quantity or member.time)
    return go_struct(schema, zeros, frozenset(rewritten))


def _set_zeros(node: SchemaNode, schema: Mapping[str, Any]) -> None:
    node.zero = zero_of(schema, node.go)
    if (in_range := go_range(schema)) is not None:
        node.checks = (in_range,)  # instead of that of custom resources, which names no field
    node.bytes = schema.get("format") == "byte"
    node.time = found if (found := schema.get("format", "")) in TIMES else ""
    for keyword, below in (("items", node.items), ("additionalProperties", node.additional)):
        if below is not None and keyword in schema:
            _set_zeros(below, schema[keyword])
            node.holds_rewritten = below.quantity or bool(below.time)


def _children(node: SchemaNode) -> list[SchemaNode]:
    children = list(node.properties.values())
    children.extend(child for child in (node.additional, node.items) if child is not None)
    return children


def _compositions(schema: Mapping[str, Any]) -> Compositions | None:
    if not schema.keys() & {"allOf", "anyOf", "oneOf", "not"}:
        return None
    negated = schema.get("not")
    return Compositions(
        all_of=tuple(compile_node(part) for part in schema.get("allOf", ())),
        any_of=tuple(compile_node(part) for part in schema.get("anyOf", ())),
        one_of=tuple(compile_node(part) for part in schema.get("oneOf", ())),
        negated=None if negated is None else compile_node(negated),
    )
