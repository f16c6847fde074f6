"""Indexes over snapshots: which keys are found under which value, never behind the objects."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, field

from informers.resource import Key
from informers.snapshot import Snapshot

IndexFunction = Callable[[Snapshot], Iterable[Any]]
"""The values under which a snapshot is found; hashable, and the same at each call; must not raise."""


def by_owner(snapshot: Snapshot) -> Iterable[str]:
    """The uids of all owners: the index that every store has, under `owner`."""
    return [owner.uid for owner in snapshot.owners] if snapshot.owners else ()


def by_namespace(snapshot: Snapshot) -> Iterable[str]:
    """The namespace: the index that every store has, under `namespace`."""
    return (snapshot.key.namespace,)


@define(eq=False)
class Index:
    """The keys of the snapshots that `function` finds under each value."""

    function: IndexFunction
    # Many values (the uid of an owner of one) have one key: it stands there without a container.
    _keys: dict[Any, Key | dict[Key, None]] = field(factory=dict, init=False)

    def keys(self, value: Any) -> Sequence[Key]:
        """The keys under a value, in the order in which they came."""
        found = self._keys.get(value)
        if found is None:
            return ()
        return list(found) if isinstance(found, dict) else [found]

    def add(self, snapshot: Snapshot) -> None:
        """Have a snapshot found."""
        for value in self.function(snapshot):
            self._put(value, snapshot.key)

    def remove(self, snapshot: Snapshot) -> None:
        """Have a snapshot not found any more."""
        for value in self.function(snapshot):
            self._drop(value, snapshot.key)

    def change(self, old: Snapshot, new: Snapshot) -> None:
        """Have `new` found in the place of `old`, which has the same key."""
        before, after = tuple(self.function(old)), tuple(self.function(new))
        if before == after:
            return
        for value in before:
            self._drop(value, old.key)
        for value in after:
            self._put(value, new.key)

    def __len__(self) -> int:
        return len(self._keys)

    def _put(self, value: Any, key: Key) -> None:
        found = self._keys.get(value)
        if found is None:
            self._keys[value] = key
        elif isinstance(found, dict):
            found[key] = None
        elif found != key:
            self._keys[value] = {found: None, key: None}

    def _drop(self, value: Any, key: Key) -> None:
        found = self._keys.get(value)
        if isinstance(found, dict):
            found.pop(key, None)
            if not found:
                del self._keys[value]
        elif found == key:
            del self._keys[value]
