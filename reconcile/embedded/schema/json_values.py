"""JSON values: equality, copies, and their text in messages."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


NESTED: Final = (dict, list)
"""The types of values that hold others."""


def type_name(value: Any) -> str:
    """What JSON Schema calls the type of a value."""
    return _NAMES.get(type(value), "")


def is_number(value: Any) -> bool:
    """Whether a value is an integer or a float, but not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(left: Any, right: Any) -> bool:
    """JSON equality: `true` does not equal 1, but 1 equals 1.0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            value is right[name] or same(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def is_deeper(value: Any, depth: int) -> bool:
    """Whether a value has more than `depth` levels of dicts and lists."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if members is None:
        return False
    if depth == 0:
        return True
    for member in members:  # noqa: SIM110 - twice as fast as any()
        if isinstance(member, NESTED) and is_deeper(member, depth - 1):
            return True
    return False


def copied(value: Any) -> Any:
    """A copy that shares no dict or list with the original."""
    if isinstance(value, dict):
        return {
            name: copied(member) if isinstance(member, NESTED) else member for name, member in value.items()
        }
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def holds_whole_floats(value: Any) -> bool:
    """Whether a value has a number such as 1.0 anywhere."""
    if isinstance(value, dict):
        return any(map(holds_whole_floats, value.values()))
    if isinstance(value, list):
        return any(map(holds_whole_floats, value))
    return isinstance(value, float) and value.is_integer()


def whole_numbers(value: Any) -> Any:
    """The value with integers for whole floats, in place: Go writes 1.0 as 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**63 else value
    if isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, dict | list | float):
                value[name] = whole_numbers(member)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list | float):
                value[index] = whole_numbers(item)
    return value


def list_key(keys: Sequence[str], item: Any) -> tuple[str, ...]:
    """The identity of an item of a keyed list, or of a set if there are no keys."""
    if not keys or not isinstance(item, dict):
        return (quoted(item),)
    return tuple(_key_text(item[name]) if name in item else "" for name in keys)


def _key_text(value: Any) -> str:
    # The mark keeps strings apart from other values.
    return f'"{value}' if type(value) is str else quoted(value)


def quoted(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return msgspec.json.encode(value).decode()
