"""The grammar of field selectors: `metadata.name=a,spec.nodeName!=b`, with `\\` before a sign of its own."""

import re
from collections.abc import Mapping
from typing import Any

_TERM = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
_PARTS = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)


def field_terms(text: str) -> list[tuple[str, str, bool]]:
    """Path, value, and whether it must be equal (or else must not), of each term.

    Raises:
        ValueError: A term is not a comparison, or its value is escaped wrongly; the text says which.
    """
    return [_parsed(term, text) for term in _TERM.findall(text)]


def _parsed(term: str, text: str) -> tuple[str, str, bool]:
    match = _PARTS.fullmatch(term)
    if match is None:
        raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
    return match[1], _unescaped(match[3]), match[2] != "!="


def _unescaped(value: str) -> str:
    if not re.fullmatch(r"(?:[^\\,=]|\\[\\,=])*", value, re.DOTALL):
        raise ValueError(f"invalid field selector: invalid or missing escape in value: {value}")
    return re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)


def value_at(obj: Mapping[str, Any], path: str) -> str:
    """The scalar at a dotted path, as field selectors compare it."""
    value: Any = obj
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
