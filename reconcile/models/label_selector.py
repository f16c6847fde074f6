"""Label selectors as objects carry them, and as text."""

import functools
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from attrs import frozen

from informers.apimachinery.label_selectors import OPERATORS, Requirement, matches_labels, requirement
from reconcile.models.fields import Schema
from reconcile.models.frozen import EMPTY

# A controller matches the same few selectors against thousands of objects.
_checked = functools.lru_cache(maxsize=1024)(requirement)


@frozen
class LabelRequirement:
    """One expression of a selector: a label, and a condition on its value."""

    __sparse__: ClassVar[bool] = True

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def requirement(self) -> Requirement:
        """The requirement for lists and caches. Raises ValueError if an API server would refuse it."""
        return _checked(self.key, OPERATORS[self.operator], self.values)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether those labels meet it. Raises ValueError if an API server would refuse it."""
        return self.requirement().matches(labels)

    def text(self) -> str:
        """The text for `kubectl -l`. Raises ValueError if an API server would refuse it."""
        return str(self.requirement())


@frozen
class LabelSelector:
    """Selects objects by their labels; an empty selector selects all.

    Its methods raise ValueError for a label or expression that an API server would refuse.
    """

    # A server drops what is empty from the selectors of its own kinds: what is sent is what comes back.
    __sparse__: ClassVar[bool] = True

    match_labels: Mapping[str, str] = EMPTY
    match_expressions: Annotated[tuple[LabelRequirement, ...], Schema(list_type="atomic")] = ()

    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements for lists and caches, all of which must be met."""
        equal = [_checked(name, "in", (value,)) for name, value in sorted(self.match_labels.items())]
        return (*equal, *(one.requirement() for one in self.match_expressions))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with those labels is selected."""
        return matches_labels(self.requirements(), labels)

    def text(self) -> str:
        """The text for queries, and for the selector in a status that autoscalers read."""
        equal = [f"{one.key}={one.values[0]}" for one in self.requirements()[: len(self.match_labels)]]
        return ",".join(equal + sorted(one.text() for one in self.match_expressions))
