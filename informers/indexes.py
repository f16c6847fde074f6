"""Indexes over snapshots: the places found under each value, never behind the objects."""

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any

from attrs import define, field

from informers.cancellation import FAILURES
from informers.functions import name_of
from informers.logs import get_logger
from informers.snapshot import CompactKey, Snapshot

_log = get_logger("informers")

IndexFunction = Callable[[Snapshot], Iterable[Any]]
"""The values under which a snapshot is found: hashable, and the same at each call. If it raises, there are
none, and the error is logged."""


def by_owner(snapshot: Snapshot) -> Iterable[str]:
    """The uids of all owners: the index `owner` of every store."""
    return [owner.uid for owner in snapshot.owners] if snapshot.owners else ()


def by_namespace(snapshot: Snapshot) -> Iterable[str]:
    """The namespace: the index `namespace` of every store."""
    return (snapshot.place.namespace,)


# What of a snapshot these functions read: where that is equal, so are the values.
_READS: tuple[tuple[IndexFunction, Callable[[Snapshot], Any]], ...] = (
    (by_owner, attrgetter("owners")),
    (by_namespace, attrgetter("place.namespace")),
)


@define(eq=False)
class StoreIndex:
    """The places of the snapshots that `function` finds under each value."""

    function: IndexFunction
    # Many values (the uid of an owner of one) have one place: it stands there without a container.
    _places: dict[Any, CompactKey | dict[CompactKey, None]] = field(factory=dict, init=False)
    _reads: Callable[[Snapshot], Any] | None = field(init=False)

    @_reads.default
    def _look_up(self) -> Callable[[Snapshot], Any] | None:
        return next((reads for function, reads in _READS if function is self.function), None)

    def places(self, value: Any) -> Sequence[CompactKey]:
        """The places under a value, in the order of their arrival."""
        found = self._places.get(value)
        if found is None:
            return ()
        return list(found) if isinstance(found, dict) else [found]

    def values(self) -> Collection[Any]:
        return self._places.keys()

    def add(self, snapshot: Snapshot) -> None:
        for value in self._values(snapshot):
            self._put(value, snapshot.place)

    def remove(self, snapshot: Snapshot) -> None:
        for value in self._values(snapshot):
            self._drop(value, snapshot.place)

    def change(self, old: Snapshot, new: Snapshot) -> None:
        """Replace `old` by `new`, which has the same key."""
        reads = self._reads
        if reads is not None and reads(old) == reads(new):
            return
        before, after = tuple(self._values(old)), tuple(self._values(new))
        if before == after:
            return
        for value in before:
            self._drop(value, old.place)
        for value in after:
            self._put(value, new.place)

    def __len__(self) -> int:
        return len(self._places)

    def _values(self, snapshot: Snapshot) -> Iterable[Any]:
        if self._reads is not None:  # one of our own: every object passes here, and nothing can fail
            return self.function(snapshot)
        try:
            values = tuple(self.function(snapshot))
            hash(values)
        except FAILURES as error:
            name = name_of(self.function)
            _log.error(
                "the function of an index failed", function=name, key=str(snapshot.key), exc_info=error
            )
            return ()
        return values

    def _put(self, value: Any, place: CompactKey) -> None:
        found = self._places.get(value)
        if found is None:
            self._places[value] = place
        elif isinstance(found, dict):
            found[place] = None
        elif found != place:
            self._places[value] = {found: None, place: None}

    def _drop(self, value: Any, place: CompactKey) -> None:
        found = self._places.get(value)
        if isinstance(found, dict):
            found.pop(place, None)
            if not found:
                del self._places[value]
        elif found == place:
            del self._places[value]
