"""The whole store: the current objects, and an append-only log of their changes.

A list shows the current objects, perhaps with the changes after a version undone; a watch replays the changes
of one resource after a version. 410 (Expired) means that the log no longer reaches back that far.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import msgspec
from attrs import define, evolve, field

from informers.resource import Key
from reconcile.embedded.protocol.object_metadata import StoredOwner
from reconcile.embedded.served import ServedResource

StorageKey = tuple[str, str]  # group and plural: all versions of a resource share one set of objects
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
    renditions: dict[ServedResource, bytes] = field(factory=dict, repr=False)
    """The body in other versions of the resource, or in this one under a newer schema."""

    def decode(self) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        return decoded


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
    end: int = 0  # the position after the newest change
    _changes: list[StoredChange] = field(factory=list)
    _gone: int = 0

    def position_after(self, version: int) -> int:
        """The position of the first change later than `version`."""
        at = bisect_right(self._changes, version, lo=self._gone, key=lambda change: change.version)
        return self.dropped + at - self._gone

    def since(self, position: int) -> list[StoredChange]:
        """The changes from `position` on, which must not have been dropped."""
        return self._changes[position - self.dropped + self._gone :]

    def append(self, change: StoredChange) -> None:
        self._changes.append(change)
        self.end += 1

    def drop_first(self) -> StoredChange:
        """Remove the oldest change and return it."""
        oldest = self._changes[self._gone]
        self.dropped += 1
        self._gone += 1
        if self._gone > _COMPACT_FROM and self._gone * 2 > len(self._changes):
            del self._changes[: self._gone]
            self._gone = 0
        return oldest


class Log:
    """All objects, and their last `history` changes as far as `history_bytes` allow.

    `version` is that of the newest change. `first_version` must be later than any version that an earlier run
    of the same server gave out.
    """

    def __init__(self, first_version: int, history: int, history_bytes: int = MAX_HISTORY_BYTES) -> None:
        self.version = first_version
        self.trimmed = first_version
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

    def copy(self) -> "Log":
        """A separate log of the current objects, without the changes that led to them."""
        other = Log(self.version, self._history, self._history_bytes)
        other.stored = self.stored
        other._objects = {resource: dict(objects) for resource, objects in self._objects.items()}
        return other

    def on_change(self, listener: Callable[[StoredChange], None]) -> None:
        """Call `listener` with every change, in order, once it is committed."""
        self._listeners.append(listener)

    def forget(self, listener: Callable[[StoredChange], None]) -> None:
        self._listeners.remove(listener)

    def forget_all(self) -> None:
        self._listeners.clear()

    def get(self, resource: StorageKey, key: Key) -> Stored | None:
        return self._objects.get(resource, {}).get(key)

    def count(self, resource: StorageKey) -> int:
        return len(self._objects.get(resource, ()))

    def resources(self) -> Iterator[StorageKey]:
        """All resources that have objects."""
        return (resource for resource, objects in list(self._objects.items()) if objects)

    def append(self, resource: StorageKey, key: Key, new: Stored | None) -> StoredChange:
        """Commit that the object is now `new` (at `self.version + 1`), or removed if that is None."""
        objects = self._objects.setdefault(resource, {})
        change = StoredChange(self.version + 1, resource, key, objects.get(key), new)
        self.kept += change.weight
        self.stored += _length(new) - _length(change.old)
        if new is None:
            del objects[key]
        else:
            objects[key] = new
        self._sorted.pop(resource, None)
        self.version = change.version
        self.timeline(resource).append(change)
        self._order.append(resource)
        self._trim()
        for listener in self._listeners:
            listener(change)
        return change

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

    def _now(self, resource: StorageKey) -> list[Stored]:
        found = self._sorted.get(resource)
        if found is None:
            objects = self._objects.get(resource, {})
            found = self._sorted[resource] = [objects[key] for key in sorted(objects)]
        return found

    def _as_of(self, resource: StorageKey, version: int) -> list[Stored]:
        timeline = self.timeline(resource)
        later = timeline.since(timeline.position_after(version))
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
            timeline = self._timelines[self._order.popleft()]
            dropped = timeline.drop_first()
            self.trimmed = dropped.version
            self.kept -= dropped.weight


def _length(state: Stored | None) -> int:
    return 0 if state is None else len(state.body)
