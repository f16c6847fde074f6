"""Field selectors: `metadata.name=a,spec.nodeName!=b`, with `\\` before special characters in a value."""

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

_TERM: Final = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
_PARTS: Final = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
_VALUE: Final = re.compile(r"(?:[^\\,=]|\\[\\,=])*", re.DOTALL)


@frozen
class FieldTerm:
    """A condition: the text at a dotted path is `value`, or with `equal=False` is not."""

    path: str
    value: str
    equal: bool = True

    def matches(self, text: str) -> bool:
        return (text == self.value) is self.equal


def parse_field_selector(text: str) -> tuple[FieldTerm, ...]:
    """The conditions of a selector, all of which must be met. Raises ValueError, which names the bad term."""
    return tuple(_term(term, text) for term in _TERM.findall(text))


def field_selector_text(terms: Mapping[str, str]) -> str:
    """The selector of objects whose fields, by dotted path, have exactly these values."""
    return ",".join(f"{path}={_escaped(value)}" for path, value in terms.items())


_FALSE_IF_ABSENT = frozenset({"spec.unschedulable", "spec.hostNetwork"})
"""Of Nodes and Pods, whose API servers compare them as Go's bool (`ToSelectableFields`)."""


def text_at(obj: Mapping[str, Any], path: str) -> str:
    """The scalar at a dotted path as field selectors compare it; empty if there is none."""
    value: Any = obj
    path = path.strip(".")
    for step in path.split("."):
        value = value.get(step) if type(value) is dict or isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if path in _FALSE_IF_ABSENT and obj.get("apiVersion") == "v1" else ""
    return str(value)


def _term(term: str, text: str) -> FieldTerm:
    match = _PARTS.fullmatch(term)
    if match is None:
        raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
    path, sign, value = match.groups()
    if not _VALUE.fullmatch(value):
        raise ValueError(f"invalid field selector: invalid or missing escape in value: {value}")
    return FieldTerm(path, re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL), sign != "!=")


def _escaped(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)
