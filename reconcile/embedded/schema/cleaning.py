"""What the API server does before validation: it removes unknown fields and fills in defaults."""

from decimal import Decimal
from typing import Any, Final

from attrs import define

from informers.apimachinery.quantities import canonical_quantity
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.schema.schema_nodes import ABSENT, EMBEDDED_FIELDS, Default, SchemaNode
from reconcile.embedded.schema.steps import MAX_CAUSES, MAX_PATH, shortened

MAX_DEFAULTS: Final = 3 * 1024 * 1024
"""Bytes of defaults for one object: twice what can be stored, so an object that reaches it is refused."""


def prune(node: SchemaNode, value: Any, path: str, removed: list[str]) -> None:
    """Remove unknown fields, in place; the first of their paths are added to `removed`."""
    if len(path) > MAX_PATH:
        path = shortened(path)
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list) and node.items is not None:
                prune(node.items, item, f"{path}[{index}]", removed)
        return
    if not isinstance(value, dict):
        return
    properties, additional = node.properties, node.additional
    if node.flat and value.keys() <= properties.keys():
        return
    unknown: list[str] = []
    for name, member in value.items():
        child = properties.get(name, additional)
        if child is not None:
            if isinstance(member, dict | list):
                prune(child, member, f"{path}.{name}" if path else name, removed)
        elif not (node.preserves_unknown or (node.embedded and name in EMBEDDED_FIELDS)):
            unknown.append(name)
    for name in unknown:
        del value[name]
        if len(removed) < MAX_CAUSES:
            removed.append(shortened(f"{path}.{name}" if path else name))


@define
class _Room:
    """The bytes of defaults that an object may still get: each item of a list repeats those of its schema."""

    left: int = MAX_DEFAULTS

    def copy_of(self, default: Default) -> Any:
        """A copy, or ABSENT if there is not enough room."""
        if default.size > self.left:
            return ABSENT
        self.left -= default.size
        return copied(default.value)


def fill_defaults(node: SchemaNode, value: Any) -> None:
    """Fill in defaults, in place, up to `MAX_DEFAULTS`.

    Where a field is not nullable, null is replaced by the default or removed. Whole numbers such as `2.0`
    become integers, and quantities take their canonical form.
    """
    _fill(node, value, _Room())


def _fill(node: SchemaNode, value: Any, room: _Room) -> None:
    if isinstance(value, dict):
        _fill_members(node, value, room)
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
        if type(member) is str and not node.holds_quantities:
            continue
        child = node.properties.get(name) or node.additional
        if child is None:
            continue
        if member is None:
            # A place that keeps everything keeps null too.
            if not child.nullable and (child.type or not child.preserves_unknown):
                unset.append(name)
        elif isinstance(member, dict | list):
            _fill(child, member, room)
        else:
            value[name] = _coerced(child, member)
    for name in unset:
        del value[name]


def _fill_items(node: SchemaNode, items: list[Any], room: _Room) -> None:
    for index, item in enumerate(items):
        if item is None and not node.nullable and node.default is not None:
            filled = room.copy_of(node.default)
            items[index] = None if filled is ABSENT else filled
        elif isinstance(item, dict | list):
            _fill(node, item, room)
        elif item is not None:
            items[index] = _coerced(node, item)


def _coerced(node: SchemaNode, value: Any) -> Any:
    if node.quantity:
        return _stored_quantity(value)
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
