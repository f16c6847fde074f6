"""What the API server does to an object before validation: pruning unknown fields and filling in defaults."""

from decimal import Decimal
from typing import Any, Final

from attrs import define

from informers.apimachinery.quantities import canonical_quantity
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.schema.schema_nodes import ABSENT, EMBEDDED_FIELDS, Default, SchemaNode
from reconcile.embedded.schema.steps import MAX_CAUSES, MAX_PATH, shortened

MAX_DEFAULTS: Final = 3 * 1024 * 1024
"""Bytes of defaults that one object may get: twice what can be stored, so that half of it is too much."""


def prune(node: SchemaNode, value: Any, path: str, removed: list[str]) -> None:
    """Take out, in place, what the schema does not know; the first paths of it are added to `removed`."""
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
    """The bytes of defaults that an object may still get: a default of an item is repeated for each."""

    left: int = MAX_DEFAULTS

    def copy_of(self, default: Default) -> Any:
        """A private copy; ABSENT where there is no room."""
        if default.size > self.left:
            return ABSENT
        self.left -= default.size
        return copied(default.value)


def fill_defaults(node: SchemaNode, value: Any) -> None:
    """Put defaults in, in place.

    A null gives way to the default where there is one, goes where the field is not nullable, and
    stays where it is. Whole numbers written as `2.0` become integers, and quantities take the one
    form in which they are stored. Once an object has got `MAX_DEFAULTS` the rest is left out: it can no
    longer be stored.
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
            made = room.copy_of(default)
            if made is not ABSENT:
                value[name] = made
    unset: list[str] = []
    for name, member in value.items():
        if type(member) is str and not node.holds_quantities:
            continue
        child = node.properties.get(name) or node.additional
        if child is None:
            continue
        if member is None:
            if not child.nullable and not _says_nothing(child):
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
            made = room.copy_of(node.default)
            items[index] = None if made is ABSENT else made
        elif isinstance(item, dict | list):
            _fill(node, item, room)
        elif item is not None:
            items[index] = _coerced(node, item)


def _says_nothing(node: SchemaNode) -> bool:
    """A place that keeps everything keeps null too."""
    return node.preserves_unknown and not node.type


def _coerced(node: SchemaNode, value: Any) -> Any:
    if node.quantity:
        return _stored_quantity(value)
    if isinstance(value, float) and value.is_integer() and node.type == "integer":
        return int(value)
    return value


def _stored_quantity(value: Any) -> Any:
    """A malformed quantity stays as it is: validation reports it."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    try:
        return canonical_quantity(value if isinstance(value, str) else format(Decimal(str(value)), "f"))
    except ValueError:
        return value
