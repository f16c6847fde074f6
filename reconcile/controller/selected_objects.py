"""The part of a store that a controller with a selector sees."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from informers import Delta, Snapshot

Keeps = Callable[[Snapshot], bool]


def narrowed(delta: Delta, keeps: Keeps) -> Delta | None:
    """A change as if only chosen objects existed: perhaps a creation or a deletion; None: no change."""
    old = delta.old if delta.old is not None and keeps(delta.old) else None
    new = delta.new if delta.new is not None and keeps(delta.new) else None
    if old is delta.old and new is delta.new:
        return delta
    return None if old is None and new is None else msgspec.structs.replace(delta, old=old, new=new)


def is_left_alone(seen: Delta, delta: Delta) -> bool:
    """Whether an object still exists and is only no longer chosen; `seen` is the result of `narrowed`."""
    old, new = seen.old, delta.new
    return seen.new is None and old is not None and new is not None and old.is_same_object(new)


def of_chosen(
    function: Callable[[Snapshot], Iterable[Any]], keeps: Keeps
) -> Callable[[Snapshot], Iterable[Any]]:
    """An index function for chosen objects alone."""
    return lambda snapshot: function(snapshot) if keeps(snapshot) else ()
