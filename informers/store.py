"""What an informer knows: one snapshot per key, and indexes that are never behind."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from attrs import define, field

from informers.applied import with_marks
from informers.functions import check_function
from informers.indexes import IndexFunction, StoreIndex, by_owner
from informers.places import ByPlace
from informers.resource import Key
from informers.snapshot import Snapshot
from informers.stored_shape import EVERYTHING_BUT_MANAGED_FIELDS, StoredShape

ALL = ""
"""The part of a store with every namespace, and with objects that have none."""

_OWNER = "owner"
_NAMESPACE = "namespace"
"""The name of an index of every store; objects are kept by namespace, so it takes nothing."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One change of a store: `old` is None for an addition, `new` is None for a deletion.

    `initial`: from a first list, or the first one of what a share has gained. `missed`: a deletion noticed
    only by an absence (from a later list, or because resource, namespace or object is no longer followed).
    `left`: a missed deletion of an object that may well exist, but is not in the share any more. `resync`: a
    replay of what the store holds, with old and new equal. An object deleted and recreated between two
    observations is one delta, with two uids.
    """

    old: Snapshot | None
    new: Snapshot | None
    initial: bool = False
    missed: bool = False
    resync: bool = False
    left: bool = False

    @property
    def last(self) -> Snapshot:
        """The newest state: `new`, or the deleted one."""
        snapshot = self.new or self.old
        assert snapshot is not None
        return snapshot


@define(eq=False)
class _Table:
    """Objects listed together, at one version, with their indexes."""

    indexes: dict[str, StoreIndex]
    version: int = 0
    newest: int = 0
    """The highest version of a change that it shows."""
    filled: bool = False
    size: int = 0
    objects: ByPlace[Snapshot] = field(factory=ByPlace)
    notes: ByPlace[bytes] = field(factory=ByPlace)
    left: set[Key] = field(factory=set)
    """Of a staged list: the keys of objects that exist, but are not followed any more."""
    ahead: dict[Key, int] = field(factory=dict)
    """Of objects that were removed in a state that the table, as a whole, has yet to reach: its version."""
    ahead_until: int = 0

    @classmethod
    def empty(cls, functions: Mapping[str, IndexFunction]) -> "_Table":
        return cls({name: StoreIndex(function) for name, function in functions.items()})

    def set(self, snapshot: Snapshot) -> None:
        old = self.objects.set(snapshot.namespace, snapshot.name, snapshot)
        self.size += snapshot.size
        if old is None:
            for index in self.indexes.values():
                index.add(snapshot)
            return
        self.size -= old.size
        for index in self.indexes.values():
            index.change(old, snapshot)

    def unset(self, namespace: str, name: str) -> Snapshot | None:
        old = self.objects.pop(namespace, name)
        self.notes.pop(namespace, name)
        if old is not None:
            self.size -= old.size
            for index in self.indexes.values():
                index.remove(old)
        return old

    def held(self, snapshot: Snapshot) -> Snapshot | None:
        """The object of the same key."""
        return self.objects.get(snapshot.namespace, snapshot.name)

    def note_change(self, version: int) -> None:
        self.version = max(self.version, version)
        self.newest = max(self.newest, version)

    def note_ahead(self, removed: Snapshot) -> None:
        if removed.version > self.version:
            self.ahead[removed.key] = removed.version
            self.ahead_until = max(self.ahead_until, removed.version)

    def is_past(self, snapshot: Snapshot) -> bool:
        """Whether it is older than a state that the table has had and has no more."""
        if snapshot.version > self.ahead_until:
            self.ahead.clear()
        return snapshot.version <= self.ahead.get(snapshot.key, 0)

    def add_index(self, name: str, function: IndexFunction) -> None:
        index = self.indexes[name] = StoreIndex(function)
        for snapshot in self.objects.values():
            index.add(snapshot)


class Store:
    """The objects of one resource, in one part for all namespaces or one for each that is followed.

    Handlers get a change after the objects and all indexes. A list is staged beside the content and replaces
    it in one step, sharing what did not change. `shape` says what of each object is kept.
    """

    def __init__(
        self, parts: Iterable[str] = (ALL,), shape: StoredShape = EVERYTHING_BUT_MANAGED_FIELDS
    ) -> None:
        self.shape = shape
        self._functions: dict[str, IndexFunction] = {_OWNER: by_owner}
        self._tables: dict[str, _Table] = {part: _Table.empty(self._functions) for part in parts}
        self._staged: dict[str, _Table] = {}

    # --- reading --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The resourceVersion reached: the store has every change of the resource up to it."""
        return min((table.version for table in self._tables.values()), default=0)

    @property
    def newest(self) -> int:
        """The highest version of a change that the store shows, also of parts read ahead of `version`.

        A quiet resource reaches later versions by bookmarks.
        """
        return max((table.newest for table in self._tables.values()), default=0)

    @property
    def parts(self) -> Sequence[str]:
        """The namespaces that are followed each by itself; an empty one stands for all."""
        return tuple(self._tables)

    @property
    def size(self) -> int:
        """How many bytes the bodies of all objects take."""
        return sum(table.size for table in self._tables.values())

    def lacks(self, pointer: str) -> bool:
        """Whether what is stored may differ from the server's at, above or below a JSON pointer.

        A write that touches it is computed from the object as it is read live.
        """
        return self.shape.lacks(pointer)

    def get(self, key: Key) -> Snapshot | None:
        """The object of that key, or None."""
        table = self._table(key.namespace)
        return None if table is None else table.objects.get(key.namespace, key.name)

    def list(self, namespace: str = "") -> Sequence[Snapshot]:
        """All objects, or those of a namespace: one consistent snapshot, in any order."""
        if namespace:
            return self.by_index("namespace", namespace)
        return list(chain.from_iterable(table.objects.values() for table in self._tables.values()))

    def held(self, part: str = ALL) -> Sequence[Snapshot]:
        """All objects of a part, in any order."""
        table = self._tables.get(part)
        return [] if table is None else list(table.objects.values())

    def by_index(self, name: str, value: Any) -> Sequence[Snapshot]:
        """The objects that the index `name` has under `value`. Raises KeyError for an unknown index."""
        found: list[Snapshot] = []
        if name == _NAMESPACE:
            for table in self._tables.values():
                found += table.objects.of(value)
            return found
        if name not in self._functions:
            raise KeyError(name)
        for table in self._tables.values():
            snapshots = table.indexes[name].snapshots(value)
            if name == _OWNER:
                found += snapshots
            else:  # an author's function may not say the same of one state each time
                found += [one for one in snapshots if table.held(one) is one]
        return found

    def index_values(self, name: str) -> Collection[Any]:
        """The values for which the index `name` has objects. Raises KeyError for an unknown index."""
        if name == _NAMESPACE:
            return dict.fromkeys(
                chain.from_iterable(table.objects.namespaces() for table in self._tables.values())
            )
        if name not in self._functions:
            raise KeyError(name)
        return dict.fromkeys(
            chain.from_iterable(table.indexes[name].values() for table in self._tables.values())
        )

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index all present and future objects.

        Raises ValueError if the name is taken, and TypeError for a function that cannot take a snapshot.
        """
        check_function(function, f"the index {name!r}:", "snapshot", "many")
        if name == _NAMESPACE or name in self._functions:
            raise ValueError(f"there is an index {name!r} already")
        self._functions[name] = function
        for table in (*self._tables.values(), *self._staged.values()):
            table.add_index(name, function)

    def remove_index(self, name: str) -> None:
        """Undo `add_index`. Raises KeyError."""
        del self._functions[name]
        for table in (*self._tables.values(), *self._staged.values()):
            del table.indexes[name]

    def __len__(self) -> int:
        return sum(len(table.objects) for table in self._tables.values())

    def __iter__(self) -> Iterator[Snapshot]:
        return iter(self.list())

    # --- what is known of single objects ------------------------------------------------------------

    def reached(self, part: str = ALL) -> int:
        """The version that a part has reached."""
        table = self._tables.get(part)
        return 0 if table is None else table.version

    def note(self, key: Key, text: bytes) -> None:
        """Keep `text` beside the object of that key until it leaves the store; empty text removes the note.

        The object may be still to come.
        """
        table = self._table(key.namespace)
        if table is None:
            return
        if text:
            known = table.objects.get(key.namespace, key.name)
            # The strings of the object, which are kept anyway.
            namespace, name = (key.namespace, key.name) if known is None else (known.namespace, known.name)
            table.notes.set(namespace, name, text)
        else:
            table.notes.pop(key.namespace, key.name)

    def noted(self, key: Key) -> bytes:
        """The note beside the object of that key."""
        table = self._table(key.namespace)
        if table is None or not table.notes:
            return b""
        return table.notes.get(key.namespace, key.name) or b""

    def mark(self, seen: Snapshot) -> None:
        """Take over the marks of `seen`, an answer of the server, if the store holds that state."""
        table = self._table(seen.namespace)
        held = None if table is None else table.held(seen)
        if table is None or held is None or held != seen:
            return
        marks = with_marks(held.applied, seen.applied)
        if marks != held.applied:
            table.set(held.with_marks(marks))

    def compress(self, held: Snapshot) -> int:
        """Compress the body of an object that the store holds in this state; returns the bytes saved.

        It stays the same snapshot, so this is no change: nothing else is to be seen of it.
        """
        part = ALL if ALL in self._tables else held.namespace
        tables = [table for table in (self._tables.get(part), self._staged.get(part)) if table is not None]
        sharing = [table for table in tables if table.held(held) is held]
        if not sharing:
            return 0
        saved = held.compress()
        for table in sharing:
            table.size -= saved
        return saved

    # --- changing -------------------------------------------------------------------------------

    def put(self, snapshot: Snapshot) -> Delta | None:
        """Add or update an object; None if its namespace is not followed.

        A state that is already known, or older than the one that is, changes nothing (None).
        """
        table = self._table(snapshot.namespace)
        if table is None:
            return None
        old, version = table.held(snapshot), snapshot.version
        if version > table.version:
            table.version = version
        if version > table.newest:
            table.newest = version
        if old is not None and (old.version > version or old.same_as(snapshot)):
            return None
        if table.ahead and table.is_past(snapshot):
            return None
        table.set(snapshot)
        return Delta(old, snapshot)

    def is_past(self, snapshot: Snapshot) -> bool:
        """Whether a state is older than one that was dropped ahead of the version reached."""
        table = self._table(snapshot.namespace)
        return table is not None and bool(table.ahead) and table.is_past(snapshot)

    def remove(self, snapshot: Snapshot) -> Delta | None:
        """Remove an object; None if it is unknown. The delta has its last state as `old`.

        A late deletion of an object known in a newer state changes nothing.
        """
        return None if self._end(snapshot) is None else Delta(snapshot, None)

    def leave(self, snapshot: Snapshot) -> Delta | None:
        """Remove an object that is not followed in this state; None if it is unknown or known in a newer one.

        The delta has the last state that was followed as `old`.
        """
        old = self._end(snapshot)
        return None if old is None else Delta(old, None, missed=True, left=True)

    def _end(self, snapshot: Snapshot) -> Snapshot | None:
        """Remove what was known of an object before that state, and return it."""
        table = self._table(snapshot.namespace)
        if table is None:
            return None
        table.note_change(snapshot.version)
        old = table.held(snapshot)
        if old is None or old.version > snapshot.version:
            return None
        return table.unset(snapshot.namespace, snapshot.name)

    def merge(self, snapshots: Iterable[Snapshot], *, initial: bool) -> Sequence[Delta]:
        """Add or update objects from a list of some of them, which says nothing of the version reached.

        States that are known, or older than known ones, change nothing. `initial` marks additions.
        """
        deltas: list[Delta] = []
        for snapshot in snapshots:
            table = self._table(snapshot.namespace)
            if table is None:
                continue
            old = table.held(snapshot)
            if old is None or not (old.version > snapshot.version or old.same_as(snapshot)):
                table.set(snapshot)
                table.newest = max(table.newest, snapshot.version)
                deltas.append(Delta(old, snapshot, initial and old is None))
        return deltas

    def drop(self, snapshot: Snapshot, missing_at: int | None = None) -> Delta | None:
        """Remove an object that a list at a version did not have, or else one that is not followed any more.

        None if it has changed.
        """
        table = self._table(snapshot.namespace)
        if table is None or table.held(snapshot) is not snapshot:
            return None
        table.unset(snapshot.namespace, snapshot.name)
        table.note_ahead(snapshot)
        if missing_at is not None:
            table.newest = max(table.newest, missing_at)
        return Delta(snapshot, None, missed=True, left=missing_at is None)

    def reach(self, version: int, part: str = ALL) -> None:
        """Note that nothing of that part is missing up to `version`."""
        table = self._tables.get(part)
        if table is not None:
            table.version = max(table.version, version)

    def stage(self, snapshots: Iterable[Snapshot], part: str = ALL) -> None:
        """Keep objects of an incomplete list aside, sharing those that the store holds in the same state."""
        table = self._tables.get(part)
        if table is None:  # its namespace was removed while these were on their way
            return
        staged = self._staged.get(part)
        if staged is None:
            staged = self._staged[part] = _Table.empty(self._functions)
        known = table.objects
        for snapshot in snapshots:
            old = known.get(snapshot.namespace, snapshot.name)
            staged.set(old if old is not None and old.same_as(snapshot) else snapshot)
            if staged.left:
                staged.left.discard(snapshot.key)

    def stage_left(self, snapshots: Iterable[Snapshot], part: str = ALL) -> None:
        """Note objects of an incomplete list that are not followed, or not any more."""
        self.stage((), part)
        staged, table = self._staged.get(part), self._tables.get(part)
        if staged is None or table is None:
            return
        known = table.objects
        for snapshot in snapshots:
            staged.unset(snapshot.namespace, snapshot.name)
            if known.get(snapshot.namespace, snapshot.name) is not None:
                staged.left.add(snapshot.key)

    def unstage(self, key: Key, part: str = ALL) -> None:
        """Remove a staged object."""
        staged = self._staged.get(part)
        if staged is not None:
            staged.unset(key.namespace, key.name)
            staged.left.discard(key)

    def drop_stage(self, part: str = ALL) -> None:
        """Forget what was staged, as the list cannot be completed."""
        self._staged.pop(part, None)

    def commit(self, version: int, part: str = ALL) -> Sequence[Delta]:
        """Make the staged objects the content, at `version`, in one step for readers.

        Returns deletions first, then additions and updates in the order of the list.
        """
        before = self._tables.get(part)
        if before is None:
            return []
        after = self._staged.pop(part, None) or _Table.empty(self._functions)
        after.version, after.newest, after.filled = version, version, True
        notes = before.notes.items()
        after.notes = ByPlace(note for note in notes if after.objects.get(note[0], note[1]) is not None)
        self._tables[part] = after
        initial = not before.filled
        old, new = before.objects, after.objects
        if not old:
            return [Delta(None, snapshot, initial) for snapshot in new.values()]
        left, after.left = after.left, set()
        deltas = [
            Delta(gone, None, missed=True, left=bool(left) and gone.key in left)
            for gone in old.values()
            if new.get(gone.namespace, gone.name) is None
        ]
        for snapshot in new.values():
            previous = old.get(snapshot.namespace, snapshot.name)
            if previous is not snapshot:
                deltas.append(Delta(previous, snapshot, initial))
        return deltas

    def replace(self, snapshots: Iterable[Snapshot], version: int, part: str = ALL) -> Sequence[Delta]:
        """Stage and commit a whole list."""
        self.drop_stage(part)
        self.stage(snapshots, part)
        return self.commit(version, part)

    def clear(self, part: str = ALL) -> Sequence[Delta]:
        """Remove all objects of a part, at the version that it has reached."""
        self.drop_stage(part)
        table = self._tables.get(part)
        if table is None or not table.filled:
            return []
        return self.commit(table.version, part)

    def add_part(self, namespace: str) -> None:
        """Follow a further namespace. Raises ValueError if all are followed."""
        if ALL in self._tables:
            raise ValueError("all namespaces are followed already")
        self._tables.setdefault(namespace, _Table.empty(self._functions))

    def remove_part(self, namespace: str) -> Sequence[Delta]:
        """Stop following a namespace: its objects leave the store."""
        self._staged.pop(namespace, None)
        table = self._tables.pop(namespace, None)
        return [] if table is None else [Delta(old, None, missed=True) for old in table.objects.values()]

    def _table(self, namespace: str) -> _Table | None:
        return self._tables.get(ALL) or self._tables.get(namespace)
