"""Validation of objects by their schema."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_required
from reconcile.embedded.schema.checks import invalid
from reconcile.embedded.schema.go_structs import UNTYPED
from reconcile.embedded.schema.json_values import copied, list_key, quoted, same, type_name
from reconcile.embedded.schema.schema_nodes import ABSENT, Compositions, SchemaNode
from reconcile.embedded.schema.steps import MAX_PATH, Causes, TooManyFaults, shortened

_A_BRANCH: Final = 5
_EMBEDDED_REQUIRED = ("apiVersion", "kind")
_TYPES: Final[Mapping[str, type]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": float,
}


def validate(node: SchemaNode, value: Any, path: str, causes: Causes, old: Any = ABSENT) -> None:
    """Add a cause for each fault of `value`. Raises TooMuchWork and TooManyFaults, as `Causes` does."""
    # As in the API server, invalid values that do not change are accepted: otherwise a schema that became
    # stricter would prevent all updates.
    if old is not ABSENT and (value is old or (value == old and same(value, old))):
        return
    causes.spend(1)
    if value is None and (node.nullable or node.zero is not UNTYPED):
        return  # Go reads null into anything
    if type(value) is not _TYPES.get(node.type) and not _passes_for(node, value):
        causes.append(_wrong_type(node, value, path))
    if value is None:
        if node.check_enum is not None:  # the only other check of null (SchemaValidator.Validate)
            node.check_enum(value, path, causes)
        return
    for check in node.checks:
        check(value, path, causes)
    if isinstance(value, dict):
        _validate_members(node, value, path, causes, old if isinstance(old, dict) else {})
    elif isinstance(value, list) and node.items is not None:
        _validate_items(node, node.items, value, path, causes, old)
    if node.compositions is not None:
        _validate_compositions(node.compositions, value, path, causes)


def _passes_for(node: SchemaNode, value: Any) -> bool:
    """Whether a value is allowed although it does not have the Python type of the node."""
    if node.int_or_string and not node.type:
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    if not node.type:
        return value is not None or node.preserves_unknown
    if node.type == "number":
        return type(value) is int
    whole = node.type == "integer" and isinstance(value, float) and value.is_integer()
    return whole and node.zero is UNTYPED  # Go reads no 1.0 into an integer


def _wrong_type(node: SchemaNode, value: Any, path: str) -> FieldCause:
    expected = node.type or ("integer,string" if node.int_or_string else "any value but null")
    found = quoted(type_name(value))
    fault = f"{path} in body must be of type {expected}: {found}"
    return FieldCause("FieldValueTypeInvalid", f"Invalid value: {found}: {fault}", path or "<nil>")


def _validate_members(
    node: SchemaNode, value: dict[str, Any], path: str, causes: Causes, old: dict[str, Any]
) -> None:
    for name in node.required:
        if name not in value:
            causes.append(value_required(f"{path}.{name}" if path else name))
    if node.embedded:
        for name in _EMBEDDED_REQUIRED:
            if not value.get(name):
                causes.append(value_required(f"{path}.{name}", "must not be empty"))
    if len(path) > MAX_PATH:
        path = shortened(path)
    properties, additional = node.properties, node.additional
    for name, member in value.items():
        child = properties.get(name, additional)
        if child is not None and type(member) is not child.plain:
            validate(child, member, f"{path}.{name}" if path else name, causes, old.get(name, ABSENT))


def _validate_items(
    node: SchemaNode, item_node: SchemaNode, items: list[Any], path: str, causes: Causes, old: Any
) -> None:
    keys = node.map_keys if node.list_type == "map" else ()
    earlier = {list_key(keys, item): item for item in old} if keys and isinstance(old, list) else {}
    if len(path) > MAX_PATH:
        path = shortened(path)
    for index, item in enumerate(items):
        if type(item) is item_node.plain:
            continue
        former = earlier.get(list_key(keys, item), ABSENT) if earlier else ABSENT
        validate(item_node, item, f"{path}[{index}]", causes, former)


def _validate_compositions(parts: Compositions, value: Any, path: str, causes: Causes) -> None:
    for part in parts.all_of:
        validate(part, value, path, causes)
    if parts.any_of:
        faults = [_faults(part, value, path, causes) for part in parts.any_of]
        if all(faults):
            causes.append(_composition_fault(path, "must validate at least one schema (anyOf)"))
            nearest = min(faults, key=len)
            causes.extend(nearest)
    if parts.one_of:
        _validate_one_of(parts.one_of, value, path, causes)
    if parts.negated is not None and not _faults(parts.negated, value, path, causes):
        causes.append(_composition_fault(path, "must not validate the schema (not)"))


def _validate_one_of(options: tuple[SchemaNode, ...], value: Any, path: str, causes: Causes) -> None:
    faults = [_faults(option, value, path, causes) for option in options]
    valid = sum(not found for found in faults)
    if valid == 1:
        return
    found = "Found none valid" if valid == 0 else f"Found {valid} valid alternatives"
    causes.append(_composition_fault(path, f"must validate one and only one schema (oneOf). {found}"))
    if valid == 0:
        nearest = min(faults, key=len)
        causes.extend(nearest)


def _faults(node: SchemaNode, value: Any, path: str, causes: Causes) -> Causes:
    """The faults of one branch, whose work counts for the whole."""
    found = Causes(causes.left - _A_BRANCH)
    try:
        validate(node, value, path, found)
    except TooManyFaults:
        found.pop()  # one fault is enough here
    causes.left = found.left
    return found


def _composition_fault(path: str, rule: str) -> FieldCause:
    # The API server reports these faults without a path.
    return invalid("", "", f'"{path}" {rule}')


def duplicates(node: SchemaNode, value: Any, path: str) -> Iterator[FieldCause]:
    """The items that occur twice in lists of type set and map."""
    if len(path) > MAX_PATH:
        path = shortened(path)
    if isinstance(value, dict):
        for name, member in value.items():
            child = node.properties.get(name) or node.additional
            if child is not None and child.has_keyed_lists:
                yield from duplicates(child, member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        if node.list_type != "atomic":
            yield from _duplicate_items(node, value, path)
        if node.items is not None and node.items.has_keyed_lists:
            for index, item in enumerate(value):
                yield from duplicates(node.items, item, f"{path}[{index}]")


def _duplicate_items(node: SchemaNode, items: list[Any], path: str) -> Iterator[FieldCause]:
    keys = node.map_keys if node.list_type == "map" else ()
    seen: set[tuple[str, ...]] = set()
    for index, item in enumerate(items):
        key = list_key(keys, item)
        if key in seen:
            why = f"Duplicate value: {_shown_key(node, item)}"
            yield FieldCause("FieldValueDuplicate", why, f"{path}[{index}]")
        seen.add(key)


def _shown_key(node: SchemaNode, item: Any) -> str:
    if node.list_type == "map" and isinstance(item, dict):
        return quoted({name: copied(item[name]) for name in node.map_keys if name in item})
    return quoted(item)
