"""Says which values of a chart its schema refuses, as Helm does before it renders.

The part of JSON Schema that our charts use; anything else in a schema is refused. Checked against recorded
refusals of Helm (tests/shipping/test_chart_renderer.py).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_CHECKS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "enum": lambda value, allowed: value in allowed,
    "maximum": lambda value, limit: value <= limit,
    "minimum": lambda value, limit: value >= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "minLength": lambda value, limit: len(value) >= limit,
    "pattern": lambda value, pattern: re.search(pattern.replace("$", r"\Z"), value) is not None,
    "uniqueItems": lambda value, _: len({repr(item) for item in value}) == len(value),
}
_ABOUT: Final = {"$schema", "description"}
_INSIDE: Final = {"type", "properties", "required", "additionalProperties", "items"}


def refused(schema: Mapping[str, Any], value: Any, path: str = "(root)") -> Iterator[str]:
    """The paths of what is refused."""
    unknown = set(schema) - _ABOUT - _INSIDE - set(_CHECKS)
    assert not unknown, f"{path}: the schema says {unknown}"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        yield path
        return
    if not all(_CHECKS[name](value, limit) for name, limit in schema.items() if name in _CHECKS):
        yield path
    if isinstance(value, dict):
        yield from _members(schema, value, path)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from refused(schema.get("items", {}), item, f"{path}.{number}")


def _members(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from (f"{path}.{name}" for name in schema.get("required", ()) if name not in value)
    others = schema.get("additionalProperties", {})
    for name, member in value.items():
        known = schema.get("properties", {}).get(name, others)
        if known is False:
            yield f"{path}.{name}"
        else:
            yield from refused(known, member, f"{path}.{name}")


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")
