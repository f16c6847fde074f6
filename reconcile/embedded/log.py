"""The whole store: the current objects, and an append-only log of their changes.

A list shows the current objects, perhaps with the changes after a version undone; a watch replays the changes
of one resource after a version. 410 (Expired) means that the log no longer reaches back that far.

With a journal, further writes see a change at once, and watches see it once it is on disk. A change that
cannot be written is taken back.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice, takewhile
from operator import attrgetter
from typing import Any, Protocol

import msgspec
from attrs import define, evolve, field

from informers.apimachinery.field_selectors import text_at
from informers.resource import Key
from reconcile.embedded.protocol.object_metadata import StoredOwner, owners_of
from reconcile.embedded.served import ServedResource

StorageKey = tuple[str, str]  # group and plural: all versions of a resource share one set of objects
NAMESPACES: StorageKey = ("", "namespaces")
DEFINITIONS: StorageKey = ("apiextensions.k8s.io", "customresourcedefinitions")
MAX_HISTORY_BYTES = 256 * 1024 * 1024  # default limit for the changes that are kept
# Measured: keys, two Stored and their labels, beside the bodies. An estimate is enough for a bound.
_BESIDE_BODIES = 500
# Pages of a list ask for the same state again and again; eight lists at once may go on at no cost.
_KEPT_SNAPSHOTS = 8
# Removing from the front of a list moves all of it, so dropped changes are removed a thousand at a time.
_COMPACT_FROM = 1000


@define(eq=False)
class Stored:
    """One state of one object: its JSON, and what selectors and deletion need without parsing it."""

    key: Key
    uid: str
    version: int
    body: bytes
    encoded_by: ServedResource
    labels: dict[str, str] = field(factory=dict)
    owners: tuple[StoredOwner, ...] = ()
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    fields: dict[str, str] = field(factory=dict)  # selectable fields by path, as they were written
    empty_metadata: Mapping[str, Any] | None = None
    """What an apply to a custom resource left empty, such as `labels: {}`.

    etcd holds it and no read shows it, so the next write without it raises the version (until a restart).
    """
    renditions: dict[ServedResource, bytes] = field(factory=dict, repr=False)
    """The body in other versions of the resource, or in this one under a newer schema."""

    def decode(self) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        return decoded


def state_of(resource: ServedResource, obj: Mapping[str, Any], version: int, body: bytes) -> Stored:
    """The state of `obj`, which `resource` shows so and stores as `body`."""
    metadata = obj["metadata"]
    return Stored(
        key=Key(metadata.get("namespace", ""), metadata["name"]),
        uid=metadata["uid"],
        version=version,
        body=body,
        encoded_by=resource,
        labels=metadata.get("labels") or {},
        owners=owners_of(metadata),
        finalizers=tuple(metadata.get("finalizers") or ()),
        deleting="deletionTimestamp" in metadata,
        # Those of another storage version are looked up later.
        fields={}
        if resource.storage_schema is not None
        else {path.lstrip("."): text_at(obj, path) for path in resource.selectable_fields},
    )


@define(eq=False)
class StoredChange:
    """One entry of the log. `old` is None for a creation, `new` for a removal."""

    version: int
    resource: StorageKey
    key: Key
    old: Stored | None
    new: Stored | None
    lines: dict[object, bytes] = field(factory=dict, repr=False)
    """Encoded events, shared by all watches that show objects in the same form."""

    @property
    def weight(self) -> int:
        """About the bytes in memory: a body, and the same again for the event that watches get."""
        state = self.new or self.old
        return _BESIDE_BODIES + (2 * len(state.body) if state is not None else 0)

    @cached_property
    def left(self) -> Stored:
        """The old state at the new version, which DELETED shows, also if a selector no longer matches."""
        if self.old is None:
            raise ValueError(f"{self.key} was created at {self.version}: there is no old state")
        obj = self.old.decode()
        obj["metadata"]["resourceVersion"] = str(self.version)
        return evolve(self.old, version=self.version, body=msgspec.json.encode(obj), renditions={})


@define(eq=False)
class Timeline:
    """The changes of one resource that are still in the log. Positions count from the very first change."""

    dropped: int = 0
    end: int = 0  # the position after the newest change that is shown
    _changes: list[StoredChange] = field(factory=list)
    _gone: int = 0

    def position_after(self, version: int) -> int:
        """The position of the first change later than `version`."""
        at = bisect_right(self._changes, version, lo=self._gone, key=lambda change: change.version)
        return self.dropped + at - self._gone

    def since(self, position: int) -> list[StoredChange]:
        """The changes from `position` on that are shown; it must not have been dropped."""
        first = self._gone - self.dropped
        return self._changes[first + position : first + self.end]

    def after(self, version: int) -> list[StoredChange]:
        """The changes later than `version`, also those that are not shown yet."""
        return self._changes[self.position_after(version) - self.dropped + self._gone :]

    def append(self, change: StoredChange, *, shown: bool) -> None:
        self._changes.append(change)
        self.end += shown

    def show(self) -> None:
        """Show the oldest change that is not shown yet."""
        self.end += 1

    def take_back(self) -> None:
        """Remove the newest change, which is not shown yet."""
        del self._changes[-1]

    def drop_first(self) -> StoredChange:
        """Remove the oldest change and return it."""
        oldest = self._changes[self._gone]
        self.dropped += 1
        self._gone += 1
        if self._gone > _COMPACT_FROM and self._gone * 2 > len(self._changes):
            del self._changes[: self._gone]
            self._gone = 0
        return oldest


class Journal(Protocol):
    """Writes changes to disk."""

    def keep(self, change: StoredChange) -> None:
        """Begin to write a change. Raises ApiFailure (500) while nothing can be written."""
        ...


class Log:
    """All objects, and their last `history` changes as far as `history_bytes` allow.

    `version` is that of the newest change, and `shown` that of the newest one that watches may see.
    `first_version` must be later than any version that an earlier run of the same server gave out, or the one
    that it ended with.
    """

    def __init__(self, first_version: int, history: int, history_bytes: int = MAX_HISTORY_BYTES) -> None:
        self.version = self.shown = first_version
        self.trimmed = first_version
        self._given = first_version  # no version is given out twice, even if its change is taken back
        self._pending: deque[StoredChange] = deque()
        self._journal: Journal | None = None
        self._history = history
        self._history_bytes = history_bytes
        self.kept = 0  # about the bytes of the changes that are kept
        self.stored = 0  # bytes of all current objects
        self._order: deque[StorageKey] = deque()
        self._timelines: dict[StorageKey, Timeline] = {}
        self._objects: dict[StorageKey, dict[Key, Stored]] = {}
        self._sorted: dict[StorageKey, list[Stored]] = {}
        self._snapshots: OrderedDict[tuple[StorageKey, int], list[Stored]] = OrderedDict()
        self._listeners: list[Callable[[StoredChange], None]] = []
        self._watchers: list[Callable[[StoredChange], None]] = []

    def copy(self) -> "Log":
        """A separate log of the current objects, without the changes that led to them."""
        other = Log(self.version, self._history, self._history_bytes)
        other.stored = self.stored
        other._objects = {resource: dict(objects) for resource, objects in self._objects.items()}
        return other

    def on_change(self, listener: Callable[[StoredChange], None]) -> None:
        """Call `listener` with every change, in order, once it is committed.

        A change that is taken back is followed by its reverse, at an older version.
        """
        self._listeners.append(listener)

    def on_shown(self, listener: Callable[[StoredChange], None]) -> None:
        """Call `listener` with every change, in order, once watches may see it."""
        self._watchers.append(listener)

    def forget(self, listener: Callable[[StoredChange], None]) -> None:
        self._listeners.remove(listener)

    def forget_all(self) -> None:
        self._listeners.clear()
        self._watchers.clear()

    def get(self, resource: StorageKey, key: Key) -> Stored | None:
        return self._objects.get(resource, {}).get(key)

    def count(self, resource: StorageKey) -> int:
        return len(self._objects.get(resource, ()))

    def resources(self) -> Iterator[StorageKey]:
        """All resources that have objects."""
        return (resource for resource, objects in list(self._objects.items()) if objects)

    @property
    def next_version(self) -> int:
        """The version of the next change."""
        return self._given + 1

    def append(self, resource: StorageKey, key: Key, new: Stored | None) -> StoredChange:
        """Commit that the object is now `new` (at `self.next_version`), or removed if that is None.

        Raises ApiFailure (500), and then nothing has changed, while the journal cannot write.
        """
        objects = self._objects.setdefault(resource, {})
        old = objects[key] if new is None else objects.get(key)
        change = StoredChange(self._given + 1, resource, key, old, new)
        if self._journal is None:
            self._enter(change, shown=True)
        else:
            self._journal.keep(change)
            self._pending.append(change)
            self._enter(change, shown=False)
        for listener in self._listeners:
            listener(change)
        if self._journal is None:
            for listener in self._watchers:
                listener(change)
        return change

    def _enter(self, change: StoredChange, *, shown: bool) -> None:
        self.kept += change.weight
        self._set(change.resource, change.key, change.new)
        self.version = self._given = change.version
        if shown:
            self.shown = change.version
        self.timeline(change.resource).append(change, shown=shown)
        self._order.append(change.resource)
        self._trim()

    def _set(self, resource: StorageKey, key: Key, state: Stored | None) -> None:
        objects = self._objects.setdefault(resource, {})
        self.stored += _length(state) - _length(objects.get(key))
        if state is None:
            del objects[key]
        else:
            objects[key] = state
        self._sorted.pop(resource, None)

    # --- with a journal ---

    def keep_in(self, journal: Journal) -> None:
        """Hand every further change to `journal`, and show none before `show` is called."""
        self._journal = journal

    def show(self, version: int) -> None:
        """Show the changes up to `version`, which are on disk."""
        while self._pending and self._pending[0].version <= version:
            change = self._pending.popleft()
            self._timelines[change.resource].show()
            self.shown = change.version
            for listener in self._watchers:
                listener(change)

    def take_back(self) -> None:
        """Undo all changes that are not shown, the newest first."""
        self._snapshots.clear()
        while self._pending:
            change = self._pending.pop()
            self._set(change.resource, change.key, change.old)
            self._timelines[change.resource].take_back()
            self._order.pop()
            self.kept -= change.weight
            self.version = self._pending[-1].version if self._pending else self.shown
            undone = StoredChange(self.version, change.resource, change.key, change.new, change.old)
            for listener in self._listeners:
                listener(undone)

    # --- from disk ---

    def restore(self, resource: StorageKey, state: Stored) -> None:
        """Take over an object whose history is not known."""
        self._set(resource, state.key, state)

    def replay(self, resource: StorageKey, key: Key, version: int, new: Stored | None) -> None:
        """Take over a change that an earlier run committed, without calling listeners."""
        old = self.get(resource, key)
        self._enter(StoredChange(version, resource, key, old, new), shown=True)

    def begin_anew(self, version: int) -> None:
        """Forget all history, and continue after `version`."""
        self._timelines.clear()
        self._order.clear()
        self.kept = 0
        self.version = self.shown = self.trimmed = self._given = version

    def retell(self) -> None:
        """Tell all listeners of the current objects, oldest first, as if they were being created."""
        found = [
            (state.version, resource, state)
            for resource, objects in self._objects.items()
            for state in objects.values()
        ]
        for version, resource, state in sorted(found, key=lambda one: one[0]):
            change = StoredChange(version, resource, state.key, None, state)
            for listener in self._listeners:
                listener(change)

    def timeline(self, resource: StorageKey) -> Timeline:
        timeline = self._timelines.get(resource)
        if timeline is None:
            timeline = self._timelines[resource] = Timeline()
        return timeline

    def reaches_back_to(self, version: int) -> bool:
        """Whether every change after `version` is still in the log."""
        return version >= self.trimmed

    def snapshot(self, resource: StorageKey, version: int | None = None) -> list[Stored]:
        """All objects by namespace and name, now or as of `version`; the caller must not change the list.

        `version` must not be in the future, and the log must reach back to it.
        """
        if version is None or version >= self.version:
            return self._now(resource)
        kept = self._snapshots.get((resource, version))
        if kept is None:
            kept = self._snapshots[resource, version] = self._as_of(resource, version)
            if len(self._snapshots) > _KEPT_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return kept

    def within(self, resource: StorageKey, namespace: str) -> Iterator[Stored]:
        """The objects of a namespace, by name."""
        found = self._now(resource)
        first = bisect_left(found, Key(namespace, ""), key=attrgetter("key"))
        return takewhile(lambda stored: stored.key.namespace == namespace, islice(found, first, None))

    def _now(self, resource: StorageKey) -> list[Stored]:
        found = self._sorted.get(resource)
        if found is None:
            objects = self._objects.get(resource, {})
            found = self._sorted[resource] = [objects[key] for key in sorted(objects)]
        return found

    def _as_of(self, resource: StorageKey, version: int) -> list[Stored]:
        later = self.timeline(resource).after(version)
        if not later:
            return self._now(resource)
        objects = dict(self._objects.get(resource, {}))
        for change in reversed(later):
            if change.old is None:
                del objects[change.key]
            else:
                objects[change.key] = change.old
        return [objects[key] for key in sorted(objects)]

    def _trim(self) -> None:
        while len(self._order) > self._history or (self.kept > self._history_bytes and len(self._order) > 1):
            timeline = self._timelines[self._order[0]]
            if timeline.end == timeline.dropped:
                return  # even the oldest is not on disk yet
            self._order.popleft()
            dropped = timeline.drop_first()
            self.trimmed = dropped.version
            self.kept -= dropped.weight


def _length(state: Stored | None) -> int:
    return 0 if state is None else len(state.body)
