"""Printer columns: what `kubectl get` shows of a kind."""

from typing import Literal

from attrs import frozen


@frozen
class Column:
    """One column: `Column(".spec.image", priority=1)` is shown with `-o wide` only.

    `type` is that of the field at `path` unless given.
    """

    path: str
    type: Literal["", "integer", "number", "string", "boolean", "date"] = ""
    priority: int = 0
    description: str = ""
    format: str = ""

    @classmethod
    def of(cls, given: "str | Column") -> "Column":
        """A column from what an author writes."""
        return cls(given) if isinstance(given, str) else given
