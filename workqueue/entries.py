"""What is known of one key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from attrs import define

from workqueue.causes import Causes

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


# A queue holds a million of these, and the garbage collector walks over every field: few fields.
@define(eq=False, weakref_slot=False)
class Entry(Generic[K]):
    """The adds of one key since it was last handed out, merged; or what was handed out.

    `ready_at` is when it may be handed out: the earliest time over its adds, on the event loop's clock.
    """

    key: K
    priority: int
    ready_at: float
    causes: Causes

    def merge(self, later: Entry[K]) -> None:
        """Be what two adds of the key ask for together."""
        self.priority = max(self.priority, later.priority)
        self.ready_at = min(self.ready_at, later.ready_at)
        self.causes = self.causes.followed_by(later.causes)
