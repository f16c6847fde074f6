"""The rules for structural schemas: every value has a type outside of compositions.

As ValidateStructural of apiextensions. Schemas are as `wellformed.decoded` leaves them: without keywords that
say nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_required
from reconcile.embedded.schema.checks import invalid
from reconcile.embedded.schema.patterns import PatternError, compile_pattern
from reconcile.embedded.schema.wellformed import subschemas

Level = Literal["root", "items", "field"]

_UNSUPPORTED: Final = (
    "id",
    "$schema",
    "$ref",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
)
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_COMPOSITIONS: Final = ("anyOf", "allOf", "oneOf")
_NOT_IN_COMPOSITIONS: Final = (
    "type", "additionalProperties", "default", "title", "description", "nullable",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-validations",
)  # fmt: skip
_NAMES_OF_METADATA: Final = frozenset({"name", "generateName"})
_UNTYPED: Final[Mapping[Level, str]] = {
    "root": "must not be empty at the root",
    "items": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def unconvertible(schema: Any) -> str:
    """Why a schema cannot be made structural; empty if it can (NewStructural)."""
    if not isinstance(schema, Mapping):
        return ""
    for keyword in _UNSUPPORTED:
        if schema.get(keyword) is not None and schema[keyword] != "":
            return f"OpenAPIV3Schema '{keyword}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return next((why for member in _all_below(schema) if (why := unconvertible(member))), "")


def _all_below(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from (member for _, member in subschemas(schema))
    yield schema.get("not")
    for keyword in _COMPOSITIONS:
        yield from schema.get(keyword, ())


def structure_causes(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """Why a convertible schema is not structural."""
    yield from _invariants(schema, "root", path)
    yield from _completeness(schema, schema, path)


# --- every place outside of compositions --------------------------------------------------------


def _invariants(schema: Mapping[str, Any], level: Level, path: str) -> Iterator[FieldCause]:
    kind, members = schema.get("type", ""), schema.get("properties", {})
    if kind == "array" and "items" not in schema:
        yield value_required(f"{path}.items", "must be specified")
    if level == "root" and "additionalProperties" in schema:
        yield value_forbidden(f"{path}.additionalProperties", "must not be used at the root")
    for step, member in subschemas(schema):
        yield from _invariants(member, "items" if step == ".items" else "field", path + step)
    yield from _exclusive_extensions(schema, path)
    yield from _validations(
        schema, path, any_of=not _is_any_of(schema), all_of_any_of=not _is_all_of_any_of(schema)
    )
    yield from _type(schema, kind, level, path)
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        for name in ("kind", "apiVersion"):
            if name in members and members[name].get("type") != "string":
                yield invalid(
                    f"{path}.properties[{name}].type", members[name].get("type", ""), "must be string"
                )
        if "metadata" in members and members["metadata"].get("type") != "object":
            why = "must be object"
            yield invalid(f"{path}.properties[metadata].type", members["metadata"].get("type", ""), why)
    if level == "root" and "metadata" in members and _restricts_more(members["metadata"]):
        why = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield value_forbidden(f"{path}.properties[metadata]", why)


def _type(schema: Mapping[str, Any], kind: str, level: Level, path: str) -> Iterator[FieldCause]:
    preserves = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-embedded-resource"):
        if kind != "object":
            why = "must be object if x-kubernetes-embedded-resource is true"
            yield invalid(f"{path}.type", kind, why) if kind else value_required(f"{path}.type", why)
        if "additionalProperties" in schema:
            why = "must not be used if x-kubernetes-embedded-resource is set"
            yield value_forbidden(f"{path}.additionalProperties", why)
        if not preserves and not schema.get("properties"):
            why = (
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            )
            yield value_required(f"{path}.properties", why)
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not preserves:
        yield value_required(f"{path}.type", _UNTYPED[level])
    if level == "root" and kind not in ("", "object"):
        yield invalid(f"{path}.type", kind, "must be object at the root")


def _restricts_more(metadata: Mapping[str, Any]) -> bool:
    """Whether the schema of metadata says more than which names are valid."""
    kept = metadata.keys() - {"type", "default"}
    if metadata.get("properties", {}).keys() <= _NAMES_OF_METADATA:
        kept -= {"properties"}
    return bool(kept)


def _exclusive_extensions(schema: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    if not schema.get("x-kubernetes-int-or-string"):
        return
    for keyword in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
        if schema.get(keyword):
            yield invalid(f"{path}.{keyword}", True, "must be false if x-kubernetes-int-or-string is true")


# --- within compositions ------------------------------------------------------------------------


def _is_any_of(schema: Mapping[str, Any]) -> bool:
    """Whether `anyOf` repeats `x-kubernetes-int-or-string`, which is allowed."""
    return bool(schema.get("anyOf") == _INT_OR_STRING)


def _is_all_of_any_of(schema: Mapping[str, Any]) -> bool:
    """The same of the first part of `allOf`."""
    return bool(schema.get("allOf")) and _is_any_of(schema["allOf"][0])


def _validations(
    schema: Mapping[str, Any], path: str, *, any_of: bool = True, all_of_any_of: bool = True
) -> Iterator[FieldCause]:
    """The faults of compositions and the pattern; False for what repeats `x-kubernetes-int-or-string`."""
    for index, part in enumerate(schema.get("anyOf", ()) if any_of else ()):
        yield from _nested(part, f"{path}.anyOf[{index}]")
    for index, part in enumerate(schema.get("allOf", ())):
        yield from _nested(part, f"{path}.allOf[{index}]", any_of=all_of_any_of or index > 0)
    for index, part in enumerate(schema.get("oneOf", ())):
        yield from _nested(part, f"{path}.oneOf[{index}]")
    if "not" in schema:
        yield from _nested(schema["not"], f"{path}.not")
    if "pattern" in schema:
        try:
            compile_pattern(schema["pattern"])
        except PatternError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], why)


def _nested(part: Mapping[str, Any], path: str, *, any_of: bool = True) -> Iterator[FieldCause]:
    yield from _validations(part, path, any_of=any_of)
    if isinstance(part.get("items"), Mapping):
        yield from _nested(part["items"], f"{path}.items")
    for name, member in part.get("properties", {}).items():
        yield from _nested(member, f"{path}.properties[{name}]")
    for keyword in _NOT_IN_COMPOSITIONS:
        # `additionalProperties: false` says nothing in a composition.
        if keyword in part and (keyword, part[keyword]) != ("additionalProperties", False):
            yield value_forbidden(f"{path}.{keyword}", "must be undefined to be structural")
    if "metadata" in part.get("properties", {}):
        yield value_forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(part: Mapping[str, Any], outer: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """What compositions speak of and the schema around them does not; `path` is the place of `outer`."""
    compositions = [nested for keyword in _COMPOSITIONS for nested in part.get(keyword, ())]
    if "not" in part:
        compositions.append(part["not"])
    for nested in compositions:
        yield from _completeness(nested, outer, path)
        yield from _known(nested.get("items"), outer.get("items"), f"{path}.items")
        for name, member in nested.get("properties", {}).items():
            yield from _known(member, outer.get("properties", {}).get(name), f"{path}.properties[{name}]")


def _known(part: Any, outer: Any, path: str) -> Iterator[FieldCause]:
    if not isinstance(part, Mapping):
        return
    if not isinstance(outer, Mapping):
        yield value_required(path, "because it is defined in a composition")
        return
    # The part itself stands for a composition of what is there.
    yield from _completeness({"allOf": [part]}, outer, path)
