"""The adds of one key, merged, and the item that is handed out for it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_CAUSES = 8
"""Causes kept for a key: enough to explain a run, and bounded, as a storm may add thousands."""

Causes: TypeAlias = tuple[tuple[Any, ...], int]
"""The newest causes of a key, each once and oldest first, and how many older ones were dropped."""

NO_CAUSES: Causes = ((), 0)


def joined(earlier: Causes, later: Causes) -> Causes:
    """Both, newest last. A cause in both keeps its later place; beyond MAX_CAUSES the oldest are dropped."""
    if later is NO_CAUSES:
        return earlier
    kept, dropped = earlier
    later_kept, later_dropped = later
    causes = (*(cause for cause in kept if cause not in later_kept), *later_kept)
    surplus = max(0, len(causes) - MAX_CAUSES)
    return causes[surplus:], dropped + later_dropped + surplus


class Item(NamedTuple, Generic[K]):
    """A key that is handed out.

    `priority` is the highest of the adds since the last hand-out, `causes` their newest causes, oldest first,
    `dropped_causes` the number of older ones, `retries` the failures so far.
    """

    key: K
    priority: int
    causes: tuple[Any, ...]
    dropped_causes: int
    retries: int


# Not a class: a queue may hold a million of them, and the garbage collector stops looking at tuples of plain
# values, and only at those.
Entry: TypeAlias = tuple[int, float, Causes]
"""The adds of a key since its last hand-out, merged: highest priority, earliest time (loop clock), causes."""


def entry_for(priority: int, ready_at: float, cause: Any) -> Entry:
    return priority, ready_at, NO_CAUSES if cause is None else ((cause,), 0)


def merged(earlier: Entry, later: Entry) -> Entry:
    priority, ready_at, causes = earlier
    later_priority, later_ready_at, later_causes = later
    return max(priority, later_priority), min(ready_at, later_ready_at), joined(causes, later_causes)
