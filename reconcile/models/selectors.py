"""Label selectors as objects carry them, and as text."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from attrs import frozen

from reconcile.models.fields import Schema
from reconcile.models.frozen import EMPTY


@frozen
class LabelRequirement:
    """One expression of a selector: a label, and what its value must be."""

    __sparse__: ClassVar[bool] = True

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether those labels meet it."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) == (self.operator == "In")

    def text(self) -> str:
        """As `kubectl -l` takes it."""
        if self.operator == "Exists":
            return self.key
        if self.operator == "DoesNotExist":
            return f"!{self.key}"
        word = "in" if self.operator == "In" else "notin"
        return f"{self.key} {word} ({','.join(sorted(self.values))})"


@frozen
class LabelSelector:
    """Which objects are meant, by their labels; an empty selector means all of them."""

    # A server drops what is empty from the selectors of its own kinds: what is sent is what comes back.
    __sparse__: ClassVar[bool] = True

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: Annotated[tuple[LabelRequirement, ...], Schema(list_type="atomic")] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with those labels is meant."""
        return all(labels.get(name) == value for name, value in self.match_labels.items()) and all(
            requirement.matches(labels) for requirement in self.match_expressions
        )

    def text(self) -> str:
        """As a query takes it, and as the selector in a status that autoscalers read."""
        parts = [f"{name}={value}" for name, value in sorted(self.match_labels.items())]
        return ",".join(parts + sorted(requirement.text() for requirement in self.match_expressions))
