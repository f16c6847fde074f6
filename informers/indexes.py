"""Indexes over snapshots: those found under each value, never behind the objects."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from attrs import define, field

from informers.cancellation import FAILURES
from informers.functions import name_of
from informers.logs import get_logger
from informers.snapshot import Snapshot

_log = get_logger("informers")

FEW = 16
"""Up to so many objects of a value are a list, which takes less than half of a dict."""

IndexFunction = Callable[[Snapshot], Iterable[Any]]
"""The values under which a snapshot is found: hashable, and the same at each call. If it raises, there are
none, and the error is logged."""


def by_owner(snapshot: Snapshot) -> Iterable[str]:
    """The uids of all owners: the index `owner` of every store."""
    return [owner.uid for owner in snapshot.owners] if snapshot.owners else ()


@define(eq=False)
class StoreIndex:
    """The snapshots that `function` finds under each value."""

    function: IndexFunction
    # By size: most values, such as the uid of an owner, have one object or a few.
    _found: dict[Any, Snapshot | list[Snapshot] | dict[Snapshot, None]] = field(factory=dict, init=False)
    _is_ours: bool = field(init=False)

    @_is_ours.default
    def _compare(self) -> bool:
        return self.function is by_owner

    def snapshots(self, value: Any) -> Iterable[Snapshot]:
        """Those under a value, in any order.

        A function that says different things of one state leaves some behind that the store has no more.
        """
        found = self._found.get(value)
        if found is None:
            return ()
        return (found,) if isinstance(found, Snapshot) else found

    def values(self) -> Collection[Any]:
        return self._found.keys()

    def add(self, snapshot: Snapshot) -> None:
        for value in self._values(snapshot):
            self._put(value, snapshot)

    def remove(self, snapshot: Snapshot) -> None:
        for value in self._values(snapshot):
            self._drop(value, snapshot)

    def change(self, old: Snapshot, new: Snapshot) -> None:
        """Replace `old` by `new`, which has the same key."""
        if self._is_ours:  # every change passes here, and most change no owner
            before, after = old.owners, new.owners
            if before is after or before == after:
                for owner in before:
                    self._swap(owner.uid, old, new)
                return
        before, after = tuple(self._values(old)), tuple(self._values(new))
        if before == after:
            for value in before:
                self._swap(value, old, new)
            return
        for value in before:
            self._drop(value, old)
        for value in after:
            self._put(value, new)

    def __len__(self) -> int:
        return len(self._found)

    def _values(self, snapshot: Snapshot) -> Iterable[Any]:
        if self._is_ours:  # every object passes here, and nothing can fail
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

    def _swap(self, value: Any, old: Snapshot, new: Snapshot) -> None:
        found = self._found.get(value)
        if found is old:
            self._found[value] = new
        elif isinstance(found, list) and (at := _at(found, old)) is not None:
            found[at] = new
        else:
            self._drop(value, old)
            self._put(value, new)

    def _put(self, value: Any, snapshot: Snapshot) -> None:
        found = self._found.get(value)
        if found is None:
            self._found[value] = snapshot
        elif isinstance(found, dict):
            found[snapshot] = None
        elif not isinstance(found, list):
            if found is not snapshot:
                self._found[value] = [found, snapshot]
        elif _at(found, snapshot) is None:
            found.append(snapshot)
            if len(found) > FEW:
                self._found[value] = dict.fromkeys(found)

    def _drop(self, value: Any, snapshot: Snapshot) -> None:
        found = self._found.get(value)
        if found is snapshot:
            del self._found[value]
            return
        if isinstance(found, dict):
            found.pop(snapshot, None)
        elif isinstance(found, list) and (at := _at(found, snapshot)) is not None:
            del found[at]
        if isinstance(found, dict | list) and not found:
            del self._found[value]


def _at(found: list[Snapshot], snapshot: Snapshot) -> int | None:
    # By identity, as to compare them takes longer.
    for at, one in enumerate(found):
        if one is snapshot:
            return at
    return None
