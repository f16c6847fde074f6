"""What the API server does before validation: it removes unknown fields and fills in defaults.

Values of the Go types of built-in kinds are also brought into the form in which Go writes them.
"""

import base64
from decimal import Decimal
from typing import Any, Final

from attrs import define, field

from informers.apimachinery.quantities import canonical_quantity
from reconcile.embedded.schema.go_structs import UNTYPED, GoStruct, written_time
from reconcile.embedded.schema.json_values import NESTED, copied
from reconcile.embedded.schema.schema_nodes import ABSENT, EMBEDDED_FIELDS, Default, SchemaNode
from reconcile.embedded.schema.steps import MAX_CAUSES, MAX_PATH, shortened

MAX_DEFAULTS: Final = 3 * 1024 * 1024
"""Bytes of defaults for one object: twice what can be stored, so an object that reaches it is refused."""


def prune(node: SchemaNode, value: Any, path: str, removed: list[str]) -> None:
    """Remove unknown fields, in place; the first of their paths are added to `removed`.

    Null in a value of a Go type is the same as absent, or, as an item of a list or map, its zero value.
    """
    if len(path) > MAX_PATH:
        path = shortened(path)
    if isinstance(value, list):
        if node.items is not None:
            _prune_items(node.items, value, path, removed)
        return
    if not isinstance(value, dict):
        return
    properties, additional = node.properties, node.additional
    if node.flat and value.keys() <= properties.keys() and None not in value.values():
        return
    unknown: list[str] = []
    nulls: list[str] = []
    for name, member in value.items():
        child = properties.get(name, additional)
        if child is not None:
            if child.bytes and isinstance(member, str | list):
                value[name] = _read_bytes(member)
            elif isinstance(member, NESTED):
                prune(child, member, f"{path}.{name}" if path else name, removed)
            elif member is None and child.zero is not UNTYPED:
                nulls.append(name)
        elif not (node.preserves_unknown or (node.embedded and name in EMBEDDED_FIELDS)):
            unknown.append(name)
    for name in unknown:
        del value[name]
        if len(removed) < MAX_CAUSES:
            removed.append(shortened(f"{path}.{name}" if path else name))
    for name in nulls:
        if additional is None or name in properties:
            del value[name]
        else:
            value[name] = _zero_item(additional)


def _prune_items(node: SchemaNode, items: list[Any], path: str, removed: list[str]) -> None:
    for index, item in enumerate(items):
        if item and isinstance(item, NESTED):  # of an empty one not even the path is worth its time
            prune(node, item, f"{path}[{index}]", removed)
        elif item is None and node.zero is not UNTYPED:
            items[index] = _zero_item(node)


def _read_bytes(value: str | list[Any]) -> Any:
    """What Go reads into a []byte: base64 without its line breaks, or a list of the bytes.

    Anything else stays, since validation reports it.
    """
    if isinstance(value, str):
        return value.replace("\r", "").replace("\n", "")
    if not all(item is None or (type(item) is int and 0 <= item <= 255) for item in value):
        return value
    return base64.b64encode(bytes(item or 0 for item in value)).decode()


def _zero_item(node: SchemaNode) -> Any:
    """What null becomes in a list or map. A list of bytes is empty once it has been stored."""
    return "" if node.type == "string" else copied(node.zero)


EmptyLists = list[tuple[dict[str, Any], str]]
"""Structs of Go with the names of their members that are empty, but written."""


@define
class _Room:
    """The bytes of defaults that an object may still get: each item of a list repeats those of its schema."""

    left: int = MAX_DEFAULTS
    empty: EmptyLists = field(factory=list)
    keep_nulls: bool = False

    def copy_of(self, default: Default) -> Any:
        """A copy, or ABSENT if there is not enough room."""
        if default.size > self.left:
            return ABSENT
        self.left -= default.size
        return copied(default.value)


def fill_defaults(node: SchemaNode, value: Any, *, keep_nulls: bool = False) -> EmptyLists:
    """Fill in defaults, in place, up to `MAX_DEFAULTS`.

    Where a field is not nullable, null is replaced by the default or removed. Whole numbers such as `2.0`
    become integers; quantities and Go's times take their canonical form. Structs of Go get the members that
    are always written, and lose those that are not written because they are empty or zero. Returns the empty
    lists and maps that remain: Go writes them, but once they have been stored they are null.
    """
    room = _Room(keep_nulls=keep_nulls)
    _fill(node, value, room)
    return room.empty


def _fill(node: SchemaNode, value: Any, room: _Room) -> None:
    if isinstance(value, dict):
        if node.go is None:
            _fill_members(node, value, room)
        else:
            _fill_struct(node, node.go, value, room)
    elif isinstance(value, list) and node.items is not None:
        _fill_items(node.items, value, room)


def _fill_members(node: SchemaNode, value: dict[str, Any], room: _Room) -> None:
    for name, default in node.defaulted:
        if name not in value or (value[name] is None and not node.properties[name].nullable):
            filled = room.copy_of(default)
            if filled is not ABSENT:
                value[name] = filled
    unset: list[str] = []
    for name, member in value.items():
        if type(member) is str and not node.holds_rewritten:
            continue
        child = node.properties.get(name) or node.additional
        if child is None:
            continue
        if member is None:
            # A place that keeps everything keeps null too.
            if not child.nullable and (child.type or not child.preserves_unknown) and not room.keep_nulls:
                unset.append(name)
        elif isinstance(member, NESTED):
            _fill(child, member, room)
        else:
            value[name] = _coerced(child, member)
    for name in unset:
        del value[name]


def _fill_struct(node: SchemaNode, struct: GoStruct, value: dict[str, Any], room: _Room) -> None:
    properties, kept, rewritten = node.properties, struct.kept, struct.rewritten
    empty: list[str] = []
    for name, member in value.items():
        if type(member) is str and member and name not in rewritten:
            continue
        child = properties.get(name)
        if child is None:
            continue
        if member is None or (not member and name not in kept):
            empty.append(name)
        elif isinstance(member, NESTED):
            if member or child.go is not None:
                _fill(child, member, room)
            elif child.type:
                room.empty.append((value, name))
        else:
            value[name] = _coerced(child, member)
    for name in empty:
        del value[name]
    for name, default in node.defaulted:
        # A default that Go does not write is that of the key of a list.
        if name not in value and (default.value or name in kept):
            filled = room.copy_of(default)
            if filled is not ABSENT:
                value[name] = filled
    for name, zero in struct.written:
        if name not in value:
            value[name] = copied(zero)


def _fill_items(node: SchemaNode, items: list[Any], room: _Room) -> None:
    for index, item in enumerate(items):
        if item is None and not node.nullable and node.default is not None:
            filled = room.copy_of(node.default)
            items[index] = None if filled is ABSENT else filled
        elif isinstance(item, NESTED):
            _fill(node, item, room)
        elif item is not None:
            items[index] = _coerced(node, item)


def _coerced(node: SchemaNode, value: Any) -> Any:
    if node.quantity:
        return _stored_quantity(value)
    if node.time:
        return written_time(value, node.time)
    if isinstance(value, float) and value.is_integer() and node.type == "integer":
        return int(value)
    return value


def _stored_quantity(value: Any) -> Any:
    # A malformed quantity is kept, since validation reports it.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return canonical_quantity(value if isinstance(value, str) else format(Decimal(str(value)), "f"))
    except ValueError:
        return value
