"""What an informer knows: one snapshot per key, and indexes over them that are never behind."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

from informers.resource import Key
from informers.snapshot import Snapshot

IndexFunction = Callable[[Snapshot], Iterable[Any]]
"""The values under which a snapshot is found; must not raise."""


@frozen
class Delta:
    """One change of a store: `old` is None for an addition, `new` is None for a deletion.

    `initial` is true for what a first list brought. A deletion that was noticed only by its absence
    from a later list carries the last state that was known. An object that was deleted and made
    anew between two observations is one delta, with two uids.
    """

    old: Snapshot | None
    new: Snapshot | None
    initial: bool = False

    @property
    def last(self) -> Snapshot:
        """The newest state there is: `new`, or what was deleted."""
        snapshot = self.new or self.old
        assert snapshot is not None
        return snapshot


def by_owner(snapshot: Snapshot) -> Iterable[str]:
    """The uids of all owners: the index that every store has, under `owner`."""
    return [owner.uid for owner in snapshot.owners]


def by_namespace(snapshot: Snapshot) -> Iterable[str]:
    """The namespace: the index that every store has, under `namespace`."""
    return (snapshot.key.namespace,)


class Store:
    """The objects of one resource, consistent with one version of it.

    Every change is applied to the map and to all indexes before anybody hears of it. `version` is
    the resourceVersion that the store has reached: each change of the resource up to it is in.
    """

    def __init__(self) -> None:
        self.version = 0
        self._objects: dict[Key, Snapshot] = {}
        self._functions: dict[str, IndexFunction] = {"owner": by_owner, "namespace": by_namespace}
        self._indexes: dict[str, dict[Any, dict[Key, None]]] = {name: {} for name in self._functions}

    def get(self, key: Key) -> Snapshot | None:
        """The object of that key, or None."""
        return self._objects.get(key)

    def list(self, namespace: str = "") -> Sequence[Snapshot]:
        """All objects, or those of a namespace: one consistent snapshot, in no order."""
        return self.by_index("namespace", namespace) if namespace else list(self._objects.values())

    def by_index(self, name: str, value: Any) -> Sequence[Snapshot]:
        """The objects that the index `name` has under `value`. Raises KeyError for an unknown index."""
        return [self._objects[key] for key in self._indexes[name].get(value, ())]

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index all objects, present and future. Raises ValueError if the name is taken."""
        if name in self._functions:
            raise ValueError(f"there is an index {name!r} already")
        self._functions[name] = function
        self._indexes[name] = {}
        for snapshot in self._objects.values():
            self._index(name, function, snapshot)

    def put(self, snapshot: Snapshot) -> Delta | None:
        """Add or update an object; None if that very state is known already."""
        old = self._objects.get(snapshot.key)
        self.version = max(self.version, snapshot.version)
        if old == snapshot:
            return None
        self._set(old, snapshot)
        return Delta(old, snapshot)

    def remove(self, snapshot: Snapshot) -> Delta | None:
        """Forget an object; None if it is not known. The delta carries the last state, as `old`."""
        old = self._objects.get(snapshot.key)
        self.version = max(self.version, snapshot.version)
        if old is None:
            return None
        self._unset(old)
        return Delta(snapshot, None)

    def replace(self, snapshots: Iterable[Snapshot], version: int) -> Sequence[Delta]:
        """Make these the objects, and `version` the version reached, in one step for every reader.

        The deltas come deletions first, then additions and updates in the order given.
        """
        new = {snapshot.key: snapshot for snapshot in snapshots}
        gone = [old for key, old in self._objects.items() if key not in new]
        deltas = [Delta(old, None) for old in gone]
        for old in gone:
            self._unset(old)
        for key, snapshot in new.items():
            previous = self._objects.get(key)
            if previous == snapshot:
                continue
            self._set(previous, snapshot)
            deltas.append(Delta(previous, snapshot))
        self.version = version
        return deltas

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(list(self._objects.values()))

    def _set(self, old: Snapshot | None, new: Snapshot) -> None:
        if old is not None:
            self._unindex(old)
        self._objects[new.key] = new
        for name, function in self._functions.items():
            self._index(name, function, new)

    def _unset(self, old: Snapshot) -> None:
        self._unindex(old)
        del self._objects[old.key]

    def _index(self, name: str, function: IndexFunction, snapshot: Snapshot) -> None:
        index = self._indexes[name]
        for value in function(snapshot):
            index.setdefault(value, {})[snapshot.key] = None

    def _unindex(self, snapshot: Snapshot) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(snapshot):
                keys = index.get(value)
                if keys is None:
                    continue
                keys.pop(snapshot.key, None)
                if not keys:
                    del index[value]
