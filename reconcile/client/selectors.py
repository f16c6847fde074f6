"""Label selectors, matched here so that a cache can answer them."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from attrs import frozen

from reconcile.models import LabelSelector

Operator = Literal["in", "notin", "exists", "absent", "above", "below"]
Fields = Mapping[str, str] | str | None
"""A field selector as a reader gives it: fields that must be equal, or text (`status.phase=Running`)."""
Labels = Fields | LabelSelector
"""A label selector: labels that must be equal, text (`a=b,c in (d,e),!f`), or the selector of an object."""

_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s=!<>()]+)\s*(==|=|!=|<|>)\s*([^\s=!<>()]*)")
_THERE = re.compile(r"(!?)\s*([^\s=!<>()]+)")
_INTEGER = re.compile(r"-?[0-9]+")
_COMMA = re.compile(r",(?![^()]*\))")


@frozen
class Requirement:
    """One condition on the label `key`; a label that is absent satisfies `notin` and `absent`."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy it."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == "above" else int(value) < bound


def parse_labels(labels: Labels) -> tuple[Requirement, ...]:
    """The requirements of a selector, all of which must hold. Raises ValueError for what is none."""
    if labels is None:
        return ()
    if isinstance(labels, LabelSelector):
        labels = labels.text()
    if not isinstance(labels, str):
        return tuple(Requirement(key, "in", (value,)) for key, value in labels.items())
    return tuple(_requirement(part.strip()) for part in _COMMA.split(labels) if part.strip())


def matches(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy every requirement."""
    return all(requirement.holds(labels) for requirement in requirements)


def selector_text(terms: Labels) -> str:
    """The selector as a query carries it; field selectors (`status.phase`: `Running`) are written alike."""
    if isinstance(terms, LabelSelector):
        return terms.text()
    if terms is None or isinstance(terms, str):
        return terms or ""
    return ",".join(f"{key}={value}" for key, value in terms.items())


def _requirement(text: str) -> Requirement:
    if found := _SET.fullmatch(text):
        key, operator, values = found.groups()
        parts = tuple(value.strip() for value in values.split(","))
        return Requirement(key, "in" if operator == "in" else "notin", parts)
    if found := _EQUAL.fullmatch(text):
        key, sign, value = found.groups()
        if sign in ("<", ">") and not _INTEGER.fullmatch(value):
            raise ValueError(f"{text!r} in a label selector: {value!r} is no integer")
        operators: dict[str, Operator] = {"!=": "notin", ">": "above", "<": "below"}
        return Requirement(key, operators.get(sign, "in"), (value,))
    if found := _THERE.fullmatch(text):
        negated, key = found.groups()
        return Requirement(key, "absent" if negated else "exists")
    raise ValueError(f"{text!r} is no requirement of a label selector: a=b, a!=b, a in (b,c), a, !a")
