"""How large values may be by their schema, for the cost of rules without an object (SchemaDeclType).

Where a schema has no bound, the limit is what fits into a request.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen

from reconcile.embedded.schema.cel.cel_types import OBJECT_FIELDS, escaped

MAX_REQUEST: Final = 3 * 1024 * 1024
"""Bytes of the largest request (MaxRequestSizeBytes of k8s.io/apiserver)."""

_BYTES_OF_A_CHARACTER: Final = 4
_OF_FORMATS: Final[Mapping[str, tuple[str, int, int]]] = {
    "duration": ("duration", 3, 32),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 21, 32),
}
"""The kinds of formatted texts, with the fewest and the most bytes of their JSON."""
_OF_SCALARS: Final[Mapping[str, tuple[str, int]]] = {
    "boolean": ("bool", 4),
    "number": ("double", 1),
    "integer": ("int", 1),
}


@frozen(eq=False)
class Declared:
    """The type of a place of a schema, as rules see it."""

    kind: str
    """As in CEL; `struct` for an object."""
    least: int = 2
    """The fewest bytes of its JSON."""
    most: int = 0
    """The most elements or characters; 0 for what has none."""
    inner: "Declared | None" = None
    """The type of items or values."""
    members: Mapping[str, "Declared"] = field(factory=dict)

    def at(self, path: Sequence[str]) -> "Declared | None":
        """The type at a path within; steps to items, keys and values begin with `@`."""
        found: Declared | None = self
        for step in path:
            if found is None:
                return None
            found = found._below(step)
        return found

    def _below(self, step: str) -> "Declared | None":
        if step in ("@items", "@values"):
            return self.inner
        if step == "@keys":
            return _KEY if self.kind == "map" else None
        return self.members.get(step)


_KEY: Final = Declared("string")


def declared(schema: Mapping[str, Any], *, is_object: bool = False) -> Declared | None:
    """The type of a schema; None if rules cannot read its values."""
    if schema.get("x-kubernetes-int-or-string"):
        return Declared("dyn", 1, _longest(schema))
    kind = schema.get("type", "")
    if kind == "array":
        return _list(schema)
    if kind == "object":
        return _object(schema, is_object=is_object or bool(schema.get("x-kubernetes-embedded-resource")))
    if kind == "string":
        return _text(schema)
    found = _OF_SCALARS.get(kind)
    return None if found is None else Declared(*found)


def _list(schema: Mapping[str, Any]) -> Declared | None:
    items = schema.get("items")
    inner = declared(items) if isinstance(items, Mapping) else None
    if inner is None:
        return None
    return Declared(
        "list", most=_at_most(schema, "maxItems", (MAX_REQUEST - 2) // (inner.least + 1)), inner=inner
    )


def _object(schema: Mapping[str, Any], *, is_object: bool) -> Declared | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        inner = declared(additional)
        if inner is None:
            return None
        return Declared(
            "map", most=_at_most(schema, "maxProperties", (MAX_REQUEST - 2) // (inner.least + 6)), inner=inner
        )
    least, required = 2, schema.get("required", ())
    members: dict[str, Declared] = {}
    parts = {**schema.get("properties", {}), **(OBJECT_FIELDS if is_object else {})}
    for name, member in parts.items():
        found, shown = declared(member), escaped(name)
        if found is None:
            continue
        if shown is not None:
            members[shown] = found
        if name in required and "default" not in member:
            least += len(name) + found.least + 4
    return Declared("struct", least, members=members)


def _text(schema: Mapping[str, Any]) -> Declared:
    form = schema.get("format", "")
    if form in _OF_FORMATS:
        return Declared(*_OF_FORMATS[form])
    if form == "byte":
        return Declared("bytes", 2, _at_most(schema, "maxLength", MAX_REQUEST - 2))
    if schema.get("enum") and "maxLength" not in schema:
        values = (value for value in schema["enum"] if isinstance(value, str))
        return Declared("string", 2, max((len(value.encode()) for value in values), default=0))
    return Declared("string", 2, _longest(schema))


def _longest(schema: Mapping[str, Any]) -> int:
    """The most bytes of a text."""
    if "maxLength" not in schema:
        return MAX_REQUEST - 2
    return max(0, int(schema["maxLength"])) * _BYTES_OF_A_CHARACTER


def _at_most(schema: Mapping[str, Any], keyword: str, otherwise: int) -> int:
    return max(0, int(schema[keyword])) if keyword in schema else otherwise
