"""The fields that a schema has below the root of an object, and their values in manifests."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from reconcile.testing.spec_transitions.sample_values import DEEPEST, JsonSchema, key_of, least_of
from reconcile.testing.spec_transitions.value_classes import ABSENT

SlotPath: TypeAlias = tuple[str | int, ...]

LABELS: Final[SlotPath] = ("metadata", "labels")
_LABELS_SCHEMA: Final[JsonSchema] = {
    "type": "object",
    "maxProperties": 1,
    "additionalProperties": {"type": "string"},
}
_NOT_OF_USERS: Final = ("apiVersion", "kind", "metadata", "status")


@frozen
class SpecSlot:
    """A field of the objects of a kind: in a list that of its first item, in a map that of one key."""

    path: SlotPath
    schema: JsonSchema = field(eq=False, repr=False)
    required: bool = field(default=False, eq=False)

    @property
    def name(self) -> str:
        """As in messages of a server: `spec.pages[0].title`."""
        return name_of(self.path)

    def is_below(self, other: "SpecSlot") -> bool:
        """Whether it is a part of another field."""
        return len(self.path) > len(other.path) and self.path[: len(other.path)] == other.path


def name_of(path: SlotPath) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).lstrip(".")


def slots_of(schema: JsonSchema, manifest: Mapping[str, Any]) -> Sequence[SpecSlot]:
    """The fields that users set, those further up first; `manifest` says which keys its maps have."""
    found = [SpecSlot(LABELS, _LABELS_SCHEMA)]
    below: deque[tuple[SlotPath, JsonSchema, Any]] = deque([((), schema, manifest)])
    while below:
        path, outer, value = below.popleft()
        for slot in _fields_at(path, outer):
            if len(path) == 0 and slot.path[0] in _NOT_OF_USERS:
                continue
            found.append(slot)
            inner = value.get(slot.path[-1]) if isinstance(value, Mapping) else None
            if len(slot.path) < DEEPEST:
                below.append(_into(slot.path, slot.schema, inner))
    return found


def _fields_at(path: SlotPath, schema: JsonSchema) -> Iterator[SpecSlot]:
    required = schema.get("required") or ()
    for name, part in (schema.get("properties") or {}).items():
        yield SpecSlot((*path, name), part, name in required)


def _into(path: SlotPath, schema: JsonSchema, value: Any) -> tuple[SlotPath, JsonSchema, Any]:
    """Where the fields of a value are: in its first item, in one of its keys, or in itself."""
    item, inner = schema.get("items"), schema.get("additionalProperties")
    if isinstance(item, Mapping):
        first = value[0] if isinstance(value, Sequence) and value and not isinstance(value, str) else None
        return _into((*path, 0), item, first)
    if isinstance(inner, Mapping) and not schema.get("properties"):
        key = next(iter(value), key_of(0)) if isinstance(value, Mapping) else key_of(0)
        return _into((*path, key), inner, value.get(key) if isinstance(value, Mapping) else None)
    return path, schema, value


# --- values ---------------------------------------------------------------------------------------


def value_at(manifest: Any, path: SlotPath) -> Any:
    """The value at a path, or ABSENT."""
    value = manifest
    for part in path:
        if isinstance(part, int):
            if not isinstance(value, Sequence) or isinstance(value, str) or len(value) <= part:
                return ABSENT
        elif not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return value


def with_value(manifest: Mapping[str, Any], schema: JsonSchema, path: SlotPath, value: Any) -> dict[str, Any]:
    """The manifest with another value at a path; what is missing above it is made as small as it may be."""
    made: dict[str, Any] = _put(manifest, schema, path, value)
    return made


def _put(outer: Any, schema: JsonSchema, path: SlotPath, value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    if isinstance(first, int):
        items = list(outer) if isinstance(outer, Sequence) and not isinstance(outer, str) else []
        item = schema.get("items") or {}
        if not items:
            items = [least_of(item)]
        items[first] = _put(items[first], item, tuple(rest), value)
        return items
    fields = dict(outer) if isinstance(outer, Mapping) else {}
    inner = _schema_below(schema, first)
    if not rest and value is ABSENT:
        fields.pop(first, None)
        return fields
    if rest and not fields.get(first):
        fields[first] = least_of(inner)
    fields[first] = _put(fields.get(first), inner, tuple(rest), value)
    return fields


def _schema_below(schema: JsonSchema, name: str) -> JsonSchema:
    part = (schema.get("properties") or {}).get(name)
    if part is None:
        rest = schema.get("additionalProperties")
        part = rest if isinstance(rest, Mapping) else {}
    found: JsonSchema = part
    return found
