"""Why a key is in the queue."""

from typing import Any, TypeAlias

MAX_CAUSES = 8
"""Causes kept for a key: enough to explain a run, and bounded, as a storm may add thousands."""

Causes: TypeAlias = tuple[tuple[Any, ...], int]
"""The newest causes of a key, each once and oldest first, and how many older ones were dropped."""

NO_CAUSES: Causes = ((), 0)


def joined(earlier: Causes, later: Causes) -> Causes:
    """Both: of a cause that is in both the later place counts, and of too many the oldest are dropped."""
    if later is NO_CAUSES:
        return earlier
    kept, dropped = earlier
    later_kept, later_dropped = later
    causes = (*(cause for cause in kept if cause not in later_kept), *later_kept)
    surplus = max(0, len(causes) - MAX_CAUSES)
    return causes[surplus:], dropped + later_dropped + surplus
