"""What is known of one key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from workqueue.causes import NO_CAUSES, Causes, joined

K = TypeVar("K", bound=Hashable)


class Item(NamedTuple, Generic[K]):
    """A key that is handed out, with what is known of why.

    `priority` is the highest of the adds since the last hand-out, `causes` their newest causes,
    oldest first, `dropped_causes` how many older ones were let go, `retries` the failures so far.
    """

    key: K
    priority: int
    causes: tuple[Any, ...]
    dropped_causes: int
    retries: int


# No class: the garbage collector soon lets go of plain tuples of plain values, and only of those, and of
# these a queue holds a million.
Wish: TypeAlias = tuple[int, float, Causes]
"""The adds of a key since it was last handed out, merged: priority, when it may be handed out, and why.

The time is the earliest over the adds, on the event loop's clock.
"""


def wish_for(priority: int, ready_at: float, cause: Any) -> Wish:
    """What one add asks for; a `cause` of None is none."""
    return priority, ready_at, NO_CAUSES if cause is None else ((cause,), 0)


def merged(earlier: Wish, later: Wish) -> Wish:
    """What two adds of one key ask for together."""
    priority, ready_at, causes = earlier
    later_priority, later_ready_at, later_causes = later
    return max(priority, later_priority), min(ready_at, later_ready_at), joined(causes, later_causes)
