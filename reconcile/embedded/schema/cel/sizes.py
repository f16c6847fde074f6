"""Sizes of values in expressions, and how to count with them without an end."""

import math
from typing import Any, Final

from attrs import frozen

from reconcile.embedded.schema.cel.checked_tree import CelKind

ENDLESS: Final = 2**64 - 1
"""What costs and sizes cannot exceed."""

# StringTraversalCostFactor and RegexStringLengthCostFactor of cel-go.
TEXT_FACTOR: Final = 0.1
PATTERN_FACTOR: Final = 0.25


@frozen
class Size:
    """Characters, items or entries: the fewest and the most."""

    least: int
    most: int

    def plus(self, other: "Size") -> "Size":
        return Size(added(self.least, other.least), added(self.most, other.most))

    def times(self, other: "Size") -> "Size":
        return Size(multiplied(self.least, other.least), multiplied(self.most, other.most))

    def union(self, other: "Size") -> "Size":
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN: Final = Size(0, ENDLESS)


def added(*parts: int) -> int:
    return min(ENDLESS, sum(parts))


def multiplied(*parts: int) -> int:
    return min(ENDLESS, math.prod(parts))


def scaled(size: int, factor: float) -> int:
    """A size times the cost of one, rounded up."""
    return ENDLESS if size >= ENDLESS else min(ENDLESS, math.ceil(float(size) * factor))


@frozen
class Node:
    """A value in an expression: its type, and where in the object it is from."""

    kind: CelKind
    path: tuple[str, ...]
    size: Size | None
    value: Any = None

    @property
    def known_size(self) -> Size:
        return self.size or UNKNOWN
