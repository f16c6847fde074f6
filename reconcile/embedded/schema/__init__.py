"""Schemas: which objects of a resource are valid. Compiled once; they prune, default and validate."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.schema.cleaning import EmptyLists, fill_defaults, prune
from reconcile.embedded.schema.formats import UNCHECKED_FORMATS
from reconcile.embedded.schema.object_meta import OBJECT_META
from reconcile.embedded.schema.object_validation import duplicates, validate
from reconcile.embedded.schema.optional_rules import cel_for, has_rules, rule_causes
from reconcile.embedded.schema.patterns import compile_pattern
from reconcile.embedded.schema.schema_error import SchemaError
from reconcile.embedded.schema.schema_nodes import ABSENT, SchemaNode, compile_node
from reconcile.embedded.schema.steps import TOO_MANY_FAULTS, TOO_MUCH_WORK, Causes, TooManyFaults, TooMuchWork
from reconcile.embedded.schema.structural import check_structural

if TYPE_CHECKING:
    from reconcile.embedded.schema.cel import RuleNode

__all__ = [
    "EMPTY",
    "ResourceSchema",
    "SchemaError",
    "SchemaNode",
    "Steps",
    "check_structural",
    "compile_schema",
]

Steps = tuple[str, ...]
"""The path to a field; an empty step goes into the items of a list."""

_ROOT_FIELDS = ("apiVersion", "kind", "metadata")


@frozen(eq=False, slots=False)
class ResourceSchema:
    """The schema of one version of a resource.

    It checks `metadata` only where the definition restricts it: other rules for metadata are the same for all
    resources and are checked elsewhere.
    """

    _openapi: Mapping[str, Any]
    _unique_lists: bool = True
    _grafts: Mapping[Steps, SchemaNode] = field(factory=dict)

    @cached_property
    def root(self) -> SchemaNode:
        """The schema as the definition has it, compiled when it is first needed."""
        root = compile_node(self._openapi)
        for (*way, last), node in self._grafts.items():
            at = root
            for step in way:
                at = at.properties[step] if step else at.item()
            at.properties[last] = node
        return root

    @cached_property
    def whole(self) -> SchemaNode:
        """The same with apiVersion, kind and the full metadata, as patches and applies need it."""
        root = self.root
        return SchemaNode(
            type="object",
            properties=root.properties
            | {
                "apiVersion": SchemaNode(type="string"),
                "kind": SchemaNode(type="string"),
                "metadata": OBJECT_META,
            },
            additional=root.additional,
            preserves_unknown=root.preserves_unknown,
            atomic_map=root.atomic_map,
        )

    @cached_property
    def zero(self) -> Mapping[str, Any]:
        """The object that the Go type of a built-in kind is without values; empty for custom resources."""
        return {} if self.root.go is None else self.root.go.zero

    @cached_property
    def _rules(self) -> "RuleNode | None":
        cel = cel_for(self._openapi)
        return None if cel is None else cel.rule_tree(self._openapi)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Remove unknown fields in place. Returns their paths, such as `spec.items[0].x`.

        In built-in kinds null is removed too, as Go does not tell it from an absent field.
        """
        removed: list[str] = []
        held = {name: obj.pop(name) for name in _ROOT_FIELDS if name in obj}
        prune(self.root, obj, "", removed)
        body = dict(obj)
        obj.clear()
        obj.update(held | body)
        return removed

    def default(self, obj: dict[str, Any], *, keep_nulls: bool = False) -> EmptyLists:
        """Fill in defaults and remove nulls where they are not allowed, in place.

        Objects of built-in kinds take the form in which Go writes them. Returns their lists that are empty
        until they are stored, and then null. With `keep_nulls`, as for the result of an apply, nulls of
        custom resources that have no default stay.
        """
        return fill_defaults(self.root, obj, keep_nulls=keep_nulls)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldCause]:
        """The faults of an object; with `old`, only those that `old` does not have."""
        causes = Causes()
        try:
            self._check(obj, old, causes)
        except TooMuchWork:
            return [*causes, TOO_MUCH_WORK]
        except TooManyFaults:
            return [*causes, TOO_MANY_FAULTS]
        return [*causes, *(rule_causes(self._rules, obj, old, causes) if self._rules is not None else ())]

    def _check(self, obj: dict[str, Any], old: dict[str, Any] | None, causes: Causes) -> None:
        validate(self.root, obj, "", causes, ABSENT if old is None else old)
        if (
            self._unique_lists
            and self.root.has_keyed_lists
            and (old is None or not any(duplicates(self.root, old, "")))
        ):
            causes.extend(duplicates(self.root, obj, ""))

    @cached_property
    def unevaluated_rules(self) -> tuple[str, ...]:
        """Formats, patterns and rules that this server cannot evaluate; the caller has to warn of them."""
        # Where the CEL library is missing, no rule is evaluated.
        rules = has_rules(self._openapi) and cel_for(self._openapi) is None
        missing = ("any x-kubernetes-validations: the extra `embedded` is not installed",) if rules else ()
        return (*missing, *_unevaluated(self._openapi, ""))


def compile_schema(
    openapi: Mapping[str, Any] | None,
    *,
    unique_lists: bool = True,
    grafts: Mapping[Steps, SchemaNode] | None = None,
) -> ResourceSchema:
    """The schema of a structural `openAPIV3Schema`; `EMPTY` for None.

    Without `unique_lists`, lists of type set and map may have duplicates: for built-in kinds those types
    serve server-side apply only. `grafts` are nodes for places that OpenAPI cannot describe.
    """
    if openapi is None:
        return EMPTY
    return ResourceSchema(openapi, unique_lists, grafts or {})


def _unevaluated(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    if schema.get("format") in UNCHECKED_FORMATS:
        yield f"{path}: format {schema['format']}"
    if "pattern" in schema and compile_pattern(schema["pattern"]) is None:
        yield f"{path}: pattern (the extra `embedded` is not installed)"
    for name, member in schema.get("properties", {}).items():
        yield from _unevaluated(member, f"{path}.{name}" if path else name)
    yield from _unevaluated(schema.get("items"), f"{path}[*]")
    yield from _unevaluated(schema.get("additionalProperties"), f"{path}.*" if path else "*")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(schema.get(keyword, ())):
            yield from _unevaluated(part, f"{path}.{keyword}[{index}]".lstrip("."))
    yield from _unevaluated(schema.get("not"), f"{path}.not".lstrip("."))


EMPTY: Final = ResourceSchema({"nullable": True, "x-kubernetes-preserve-unknown-fields": True})
"""Accepts and keeps every value."""
