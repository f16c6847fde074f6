"""The objects that an object owns, as the caches have them, each compared with what was last applied."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from attrs import define, field, frozen

from informers import APIResource, Informer, Snapshot
from reconcile.client.diff import projected
from reconcile.controller.write_details import AppliedIntent, Place
from reconcile.status.shown_values import ShownValues
from reconcile.status.write_differences import field_changes, shown_changes

CHILDREN_SHOWN: Final = 50
NODES_SHOWN: Final = 500
DEEPEST: Final = 8
BYTES_JUDGED: Final = 4 * 1024 * 1024
"""Of the objects of a tree, to find how they do: anybody may make a large object a child of another one, and
a megabyte takes the manager's loop a millisecond."""
BYTES_COMPARED: Final = 512 * 1024
"""Of the objects of a tree that are compared as a whole, which takes ten times as long."""

Desired: TypeAlias = Literal["same", "differs", "unknown", "missing"]
Compared: TypeAlias = tuple[Desired, Sequence[Mapping[str, str]]]

_NOT_KNOWN: Final[Compared] = ("unknown", ())
_MISSING: Final[Compared] = ("missing", ())
_NAMES: Final = ("desired", "live")


@frozen
class Family:
    """Where children are looked for: all `informers` of the cluster, and `intents` of the key at the root.

    `shown` makes the values of a kind readable, `health` judges an object by itself. Where no more bytes are
    to be read, an object has no health, or is not compared.
    """

    informers: Sequence[Informer]
    intents: Mapping[Place, AppliedIntent]
    shown: Callable[[APIResource], ShownValues]
    health: Callable[[Snapshot], str]

    def tree_of(self, resource: APIResource, root: Snapshot) -> Mapping[str, Any]:
        """The object and what it owns, as JSON has it; each object is shown once."""
        return _Tree(self).node(resource, root, _NOT_KNOWN, 0)

    def store_of(self, resource: APIResource) -> Informer | None:
        return next((informer for informer in self.informers if informer.resource == resource), None)

    def owned_by(self, uid: str) -> Iterator[tuple[Informer, Snapshot]]:
        for informer in self.informers:
            for child in informer.store.by_index("owner", uid):
                yield informer, child

    def missing(self, root: Snapshot) -> Iterator[tuple[APIResource, AppliedIntent]]:
        """What was applied as a child of `root`, and is not there although it would be in a cache."""
        for (resource, key), intent in self.intents.items():
            informer = self.store_of(resource)
            if informer is None or not informer.synced or informer.store.get(key) is not None:
                continue
            owned = any(owner.uid == root.uid for owner in intent.answer.owners)
            if owned and informer.selects(intent.answer):
                yield resource, intent

    def compared(self, informer: Informer, live: Snapshot) -> Compared:
        """What was last applied, in the form in which the server then stored it, against the live object."""
        intent = self.intents.get((informer.resource, live.key))
        # Until the cache shows the write there is nothing to compare.
        if intent is None or not live.is_same_object(intent.answer) or live.version < intent.answer.version:
            return _NOT_KNOWN
        try:
            fields = _drift(intent, informer, live, self.shown(informer.resource))
        except RecursionError:
            return _NOT_KNOWN
        return ("differs", fields) if fields else ("same", ())


def _drift(
    intent: AppliedIntent, informer: Informer, live: Snapshot, shown: ShownValues
) -> Sequence[Mapping[str, str]]:
    body = msgspec.json.decode(intent.intent)
    desired, found = (projected(state.to_dict(), body) for state in (intent.answer, live))
    return shown_changes(field_changes(desired, found), informer.store, shown, _NAMES)


@define
class _Tree:
    family: Family
    _nodes: int = field(default=1, init=False)
    _seen: set[str] = field(factory=set, init=False)
    _to_judge: int = field(default=BYTES_JUDGED, init=False)
    _to_compare: int = field(default=BYTES_COMPARED, init=False)

    def node(
        self, resource: APIResource, snapshot: Snapshot, compared: Compared, depth: int
    ) -> Mapping[str, Any]:
        self._seen.add(snapshot.uid)
        health = self._health(snapshot)
        children, more = self._children(snapshot, depth)
        missing = [_gone(*one) for one in self.family.missing(snapshot)] if depth == 0 else []
        return _shown(resource, snapshot, health, compared, [*children, *missing], more)

    def _children(self, owner: Snapshot, depth: int) -> tuple[Sequence[Mapping[str, Any]], int]:
        found = [
            (informer, child)
            for informer, child in self.family.owned_by(owner.uid)
            if child.uid not in self._seen
        ]
        found.sort(key=lambda one: (one[0].resource.kind, one[1].key))
        room = min(CHILDREN_SHOWN, NODES_SHOWN - self._nodes) if depth < DEEPEST else 0
        shown = found[: max(0, room)]
        # All of them first: an object with several owners is not shown again below one of the others.
        self._seen.update(child.uid for _, child in shown)
        self._nodes += len(shown)
        nodes = [
            self.node(informer.resource, child, self._compared(informer, child), depth + 1)
            for informer, child in shown
        ]
        return nodes, len(found) - len(shown)

    def _health(self, snapshot: Snapshot) -> str:
        if self._to_judge <= 0:
            return ""
        self._to_judge -= len(snapshot.raw)
        return self.family.health(snapshot)

    def _compared(self, informer: Informer, live: Snapshot) -> Compared:
        if (informer.resource, live.key) in self.family.intents:
            if self._to_compare <= 0:
                return _NOT_KNOWN
            self._to_compare -= 2 * len(live.raw)  # as it is, and as it was applied
        return self.family.compared(informer, live)


def _gone(resource: APIResource, intent: AppliedIntent) -> Mapping[str, Any]:
    return _shown(resource, intent.answer, "failing", _MISSING, (), 0)


def _shown(
    resource: APIResource,
    snapshot: Snapshot,
    health: str,
    compared: Compared,
    children: Sequence[Mapping[str, Any]],
    more: int,
) -> Mapping[str, Any]:
    desired, fields = compared
    return {
        "kind": resource.kind,
        "key": str(snapshot.key),
        "uid": snapshot.uid,
        "health": health,
        "desired": desired,
        "fields": list(fields),
        "children": list(children),
        "more": more,
    }
