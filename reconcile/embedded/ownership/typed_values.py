"""Objects as typed by a schema: their fields, their differences, and how they merge.

A map or list is granular if its members or items have owners of their own, and atomic if it has one owner as
a whole. The rules are those of structured-merge-diff, which the API server uses.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

from reconcile.embedded.ownership.field_sets import (
    NO_FIELDS,
    FieldSet,
    field_element,
    key_element,
    path_text,
    value_element,
)
from reconcile.embedded.schema.json_values import NESTED, same, type_name
from reconcile.embedded.schema.schema_nodes import ABSENT, ANYTHING, SchemaNode

_SCALAR_TYPES: Mapping[str, Collection[type]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
}


class SchemaMismatch(Exception):
    """An object does not match its schema; the text says where and why."""


@frozen
class Comparison:
    added: FieldSet = NO_FIELDS
    removed: FieldSet = NO_FIELDS
    modified: FieldSet = NO_FIELDS

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.modified)


_NO_DIFFERENCE = Comparison()


def is_granular_map(node: SchemaNode, value: Any) -> bool:
    return isinstance(value, dict) and node.type in ("object", "") and not node.atomic_map


def is_granular_list(node: SchemaNode, value: Any) -> bool:
    return isinstance(value, list) and node.list_type != "atomic"


def check_typed(node: SchemaNode, value: Any, path: tuple[str, ...] = (), *, unique: bool = True) -> None:
    """Check an applied configuration against its schema; without `unique`, a stored object.

    Raises SchemaMismatch: A field is unknown or has a wrong type, or an item is duplicated or lacks its key.
    """
    if value is None:
        return
    if isinstance(value, dict):
        _check_map(node, value, path, unique)
    elif isinstance(value, list):
        _check_list(node, value, path, unique)
    elif node.type in ("object", "array"):
        expected = "map" if node.type == "object" else "list"
        raise SchemaMismatch(f"{path_text(path)}: expected {expected}, got {type_name(value)}")
    elif node.type and type(value) not in _SCALAR_TYPES[node.type]:
        raise SchemaMismatch(f"{path_text(path)}: expected {node.type}, got {type_name(value)}")


def _check_map(node: SchemaNode, value: dict[str, Any], path: tuple[str, ...], unique: bool) -> None:
    if node.type not in ("object", "") or node.int_or_string or node.quantity:
        raise SchemaMismatch(f"{path_text(path)}: expected {node.type or 'scalar'}, got map")
    for name, member in value.items():
        child = node.child(name)
        if child is None:
            raise SchemaMismatch(f"{path_text((*path, field_element(name)))}: field not declared in schema")
        if type(member) not in _SCALAR_TYPES.get(child.type, ()):
            check_typed(child, member, (*path, field_element(name)), unique=unique)


def _check_list(node: SchemaNode, value: list[Any], path: tuple[str, ...], unique: bool) -> None:
    if node.type not in ("array", "") or node.int_or_string or node.quantity:
        raise SchemaMismatch(f"{path_text(path)}: expected {node.type or 'scalar'}, got list")
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}" if node.list_type == "atomic" else item_element(node, item, path)
        if unique and element in seen:
            raise SchemaMismatch(f"{path_text(path)}: duplicate entries for key {path_text([element])}")
        seen.add(element)
        check_typed(node.item(), item, (*path, element), unique=unique)


def item_element(node: SchemaNode, item: Any, path: tuple[str, ...] = ()) -> str:
    """The path element of an item of a granular list; a missing key has its default or is left out.

    Raises SchemaMismatch: The item is null or no map.
    """
    if node.list_type == "set":
        if item is None:
            raise SchemaMismatch(f"{path_text(path)}: an item of a set may not be null")
        return value_element(item)
    if not isinstance(item, dict):
        raise SchemaMismatch(f"{path_text(path)}: associative list with keys may not have non-map elements")
    keys: dict[str, Any] = {}
    for name in node.map_keys:
        value = item.get(name, ABSENT)
        if value is ABSENT and (member := node.item().child(name)) is not None and member.default:
            value = member.default.value
        if value is not ABSENT:
            keys[name] = value
    return key_element(keys)


def field_set(node: SchemaNode, value: Any) -> FieldSet:
    """The fields that an applied configuration sets."""
    if is_granular_map(node, value):
        return _map_fields(node, value)
    if is_granular_list(node, value):
        return _list_fields(node, value)
    return FieldSet.LEAF


def _map_fields(node: SchemaNode, value: dict[str, Any]) -> FieldSet:
    children: dict[str, FieldSet] = {}
    for name, member in value.items():
        if not isinstance(member, NESTED):
            children[field_element(name)] = FieldSet.LEAF
            continue
        below = field_set(node.child(name) or ANYTHING, member)
        owned = below.owned or member == {} or name not in node.properties
        if owned or below:
            children[field_element(name)] = FieldSet(owned, below.children)
    return FieldSet(children=children)


def _list_fields(node: SchemaNode, value: list[Any]) -> FieldSet:
    children: dict[str, FieldSet] = {}
    for element, items in _by_element(node, value).items():
        below = field_set(node.item(), items[0]) if len(items) == 1 else NO_FIELDS
        children[element] = below if below.owned else FieldSet(True, below.children)
    return FieldSet(children=children)


def new_fields(node: SchemaNode, zero: Mapping[str, Any], value: dict[str, Any]) -> FieldSet:
    """What `compare` finds added to `zero` or modified in it, in one walk. `zero` has no keyed lists."""
    children: dict[str, FieldSet] = {}
    for name, member in value.items():
        child, before = node.child(name) or ANYTHING, zero.get(name, ABSENT)
        if before is ABSENT:
            children[f"f:{name}"] = _all_new(child, member)
        elif isinstance(before, dict) and is_granular_map(child, member):
            if below := new_fields(child, before, member):
                children[f"f:{name}"] = below
        elif before is None and member and is_granular_list(child, member):
            children[f"f:{name}"] = FieldSet(children=_all_new(child, member).children)
        elif not same(before, member):
            children[f"f:{name}"] = FieldSet.LEAF
    return FieldSet(children=children)


def _new_members(node: SchemaNode, value: dict[str, Any]) -> dict[str, FieldSet]:
    return {
        f"f:{name}": _all_new(node.child(name) or ANYTHING, member)
        if isinstance(member, NESTED)
        else FieldSet.LEAF
        for name, member in value.items()
    }


def _all_new(node: SchemaNode, value: Any) -> FieldSet:
    if not value:
        return FieldSet.LEAF
    if is_granular_map(node, value):
        return FieldSet(True, _new_members(node, value))
    if is_granular_list(node, value):
        item_node, children = node.item(), dict[str, FieldSet]()
        for item in value:
            element = item_element(node, item)
            children[element] = FieldSet.LEAF if element in children else _all_new(item_node, item)
        return FieldSet(True, children)
    return FieldSet.LEAF


def compare(node: SchemaNode, old: Any, new: Any) -> Comparison:
    """How `new` differs from `old`; one of them may be `ABSENT`."""
    if old == new and same(old, new):
        return _NO_DIFFERENCE
    if old is ABSENT:
        return Comparison(added=_all_new(node, new))
    if not isinstance(old, NESTED) and not isinstance(new, NESTED):
        return _replaced(new)
    if _both(is_granular_map, node, old, new):
        before, after = _mapping(old), _mapping(new)
        parts: dict[str, Comparison] = {}
        for name in {**before, **after}:
            left, right = before.get(name, ABSENT), after.get(name, ABSENT)
            if left is not right:
                parts[field_element(name)] = compare(node.child(name) or ANYTHING, left, right)
        return _combined(parts, new)
    if _both(is_granular_list, node, old, new):
        before, after = _by_element(node, old), _by_element(node, new)
        parts = {
            element: _compare_items(node.item(), before.get(element, ()), after.get(element, ()))
            for element in dict.fromkeys([*before, *after])
        }
        return _combined(parts, new)
    return _replaced(new)


def _compare_items(node: SchemaNode, old: Sequence[Any], new: Sequence[Any]) -> Comparison:
    """The difference of the items with one key: those that occur twice are compared as a whole."""
    if len(old) < 2 and len(new) < 2:
        return compare(node, old[0] if old else ABSENT, new[0] if new else ABSENT)
    if len(old) > 1 and len(new) > 1:
        return _NO_DIFFERENCE if same(old, new) else Comparison(modified=FieldSet.LEAF)
    if len(new) > 1:
        gone = compare(node, old[0], ABSENT) if old else _NO_DIFFERENCE
        return Comparison(FieldSet.LEAF, gone.removed, gone.modified)
    added = compare(node, ABSENT, new[0]) if new else _NO_DIFFERENCE
    return Comparison(added.added, FieldSet.LEAF, added.modified)


def _replaced(new: Any) -> Comparison:
    return Comparison(removed=FieldSet.LEAF) if new is ABSENT else Comparison(modified=FieldSet.LEAF)


def _both(test: Callable[[SchemaNode, Any], bool], node: SchemaNode, old: Any, new: Any) -> bool:
    """Whether `test` holds for each side that has a value, and at least one of them is not empty."""
    filled = False
    for side in (old, new):
        if side is ABSENT or side is None:
            continue
        if not test(node, side):
            return False
        filled = filled or bool(side)
    return filled


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _by_element(node: SchemaNode, value: Any) -> dict[str, list[Any]]:
    """The items of a list by their keys; stored objects may have some twice, applied ones may not."""
    found: dict[str, list[Any]] = {}
    for item in value if isinstance(value, list) else ():
        found.setdefault(item_element(node, item), []).append(item)
    return found


def _combined(parts: dict[str, Comparison], new: Any) -> Comparison:
    changed = [item for item in parts.items() if item[1] is not _NO_DIFFERENCE]
    return Comparison(
        FieldSet(children={element: part.added for element, part in changed if part.added}),
        FieldSet(new is ABSENT, {element: part.removed for element, part in changed if part.removed}),
        FieldSet(children={element: part.modified for element, part in changed if part.modified}),
    )


def merge(node: SchemaNode, live: Any, intent: Any) -> Any:
    """`live` with the values of `intent`; granular maps and lists lose nothing."""
    if intent is ABSENT:
        return live
    if live is ABSENT or live is None:
        return intent
    if is_granular_map(node, live) and is_granular_map(node, intent):
        merged = dict(live)
        for name, member in intent.items():
            merged[name] = merge(node.child(name) or ANYTHING, live.get(name, ABSENT), member)
        return merged
    if is_granular_list(node, live) and is_granular_list(node, intent):
        return _merge_lists(node, live, intent)
    kept = intent is None and bool(live) and (is_granular_map(node, live) or is_granular_list(node, live))
    return live if kept else intent


def _merge_lists(node: SchemaNode, live: list[Any], intent: list[Any]) -> list[Any]:
    """Items of `intent` in its order; the other items of `live` keep their places among them."""
    mine = _by_element(node, intent)
    theirs: dict[str, Any] = {}
    for item in live:
        theirs.setdefault(item_element(node, item), item)
    merged: list[Any] = []
    shared = deque(element for element in mine if element in theirs)
    upcoming = deque(mine)

    def take_until(last: str) -> None:
        while upcoming:
            element = upcoming.popleft()
            merged.append(merge(node.item(), theirs.get(element, ABSENT), mine[element][0]))
            if element == last:
                return

    for item in live:
        element = item_element(node, item)
        if element not in mine:
            merged.append(item)
        elif shared and shared[0] == element:
            take_until(shared.popleft())
    take_until("")
    return merged


def remove(node: SchemaNode, value: Any, fields: FieldSet) -> Any:
    """`value` without these fields. A map or list that loses all its items stays, empty.

    That is the rule of structured-merge-diff 6.3.2, which kube-apiserver 1.36.0 to 1.36.2 use; other versions
    leave null in its place.
    """
    if is_granular_map(node, value):
        members: dict[str, Any] = {}
        for name, member in value.items():
            below = fields.children.get(field_element(name), NO_FIELDS)
            if below.owned:
                continue
            child = node.child(name) or ANYTHING
            members[name] = remove(child, member, below) if below else member
        return members
    if is_granular_list(node, value):
        items: list[Any] = []
        for item in value:
            below = fields.children.get(item_element(node, item), NO_FIELDS)
            if not below.owned:
                items.append(remove(node.item(), item, below) if below else item)
        return items
    return value


def with_named_fields(fields: FieldSet, node: SchemaNode) -> FieldSet:
    """The set and each declared field that has a path of the set below it."""
    children: dict[str, FieldSet] = {}
    for element, child in fields.children.items():
        below = with_named_fields(child, node_below(node, element))
        declared = bool(child.children) and element.startswith("f:") and element[2:] in node.properties
        children[element] = FieldSet(below.owned or declared, below.children)
    return FieldSet(fields.owned, children)


def reconciled(fields: FieldSet, node: SchemaNode) -> FieldSet:
    """The set under a schema that has since made maps or lists atomic; `fields` itself if unaffected."""
    if fields.children and (node.atomic_map or (node.type == "array" and node.list_type == "atomic")):
        return FieldSet.LEAF
    changed: dict[str, FieldSet] = {}
    for element, child in fields.children.items():
        below = reconciled(child, node_below(node, element)) if child.children else child
        if below is not child:
            changed[element] = below
    return FieldSet(fields.owned, {**fields.children, **changed}) if changed else fields


def node_below(node: SchemaNode, element: str) -> SchemaNode:
    if element.startswith("f:"):
        return node.child(element[2:]) or ANYTHING
    return node.item()
