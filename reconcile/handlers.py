"""From a change of an object to the keys that it concerns: one handler for each way a kind is named."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias, TypeVar

import structlog
from attrs import field, frozen

from informers import Delta, Informer, Key, Snapshot, Store
from reconcile.controller import Watch
from reconcile.models import DoesNotFit, LabelSelector, decode, kind_of
from reconcile.predicates import Predicate
from reconcile.requests import Cause, Request

R = TypeVar("R")

Enqueue: TypeAlias = Callable[[Request, Cause, Delta], None]
"""Takes a key, the cause, and the change that it comes from."""


def cause_of(informer: Informer, delta: Delta, key: Key | None = None) -> Cause:
    """What a change of a store says as the cause of a run; `key` is that of its object, if at hand."""
    last = delta.last
    since = 0 if delta.old is None else delta.old.version
    return Cause(_verb(delta), informer.resource, key or last.key, last.version, since=since)


def _verb(delta: Delta) -> Literal["added", "updated", "deleted", "resynced"]:
    if delta.resync:
        return "resynced"
    if delta.old is None:
        return "added"
    return "deleted" if delta.new is None else "updated"


def wakes(predicate: Predicate, delta: Delta) -> bool:
    """Whether a change wakes; a resync does. Another object of the same name is an end and a beginning."""
    old, new = delta.old, delta.new
    if delta.resync:
        return True
    if old is not None and new is not None and not old.is_same_object(new):
        return predicate.wakes(old, None) or predicate.wakes(None, new)
    return predicate.wakes(old, new)


@frozen
class Owned:
    """A change of a child wakes its controlling owner: that of the old state too, if it changed.

    `owner` is the object of that name as it is cached. One of another uid is not the owner, whatever its
    name: it is not woken, and has its own beginning to wake it. One that is not cached yet is woken.
    """

    owners: type[Any]
    informer: Informer
    owner: Callable[[Key], Snapshot | None]
    enqueue: Enqueue

    def __call__(self, delta: Delta) -> None:
        cause = cause_of(self.informer, delta)
        for snapshot in (delta.old, delta.new):
            request = None if snapshot is None else self._owner_of(snapshot)
            if request is not None:
                self.enqueue(request, cause, delta)

    def _owner_of(self, child: Snapshot) -> Request | None:
        owner, resource = child.controller, kind_of(self.owners).resource
        if owner is None or (owner.group, owner.kind) != (resource.group, resource.kind):
            return None
        request = Request(child.key.namespace if resource.namespaced else "", owner.name)
        known = self.owner(request.key)
        return request if known is None or known.uid == owner.uid else None


@frozen
class Used:
    """A change of a watched object wakes the objects that use it."""

    watch: Watch[Any, Any]
    informer: Informer
    users: Callable[[Delta], Iterable[Snapshot]]
    enqueue: Enqueue

    def __call__(self, delta: Delta) -> None:
        if not wakes(self.watch.wakes, delta):
            return
        cause = cause_of(self.informer, delta)
        for user in self.users(delta):
            self.enqueue(Request(*user.key), cause, delta)


@frozen
class Mapped:
    """A change of a watched object wakes whom it says it concerns, in its old and its new state."""

    watch: Watch[Any, Any]
    informer: Informer
    enqueue: Enqueue

    def __call__(self, delta: Delta) -> None:
        assert self.watch.to is not None
        if not wakes(self.watch.wakes, delta):
            return
        cause = cause_of(self.informer, delta)
        for snapshot in (delta.old, delta.new):
            if snapshot is None:
                continue
            for request in self.watch.to(decode(self.watch.kind, snapshot.raw)):
                self.enqueue(request, cause, delta)


@frozen
class References:
    """The index of which objects use which: what `by` answers, as keys."""

    kind: type[Any]
    watch: Watch[Any, Any]
    log: structlog.stdlib.BoundLogger

    def __call__(self, snapshot: Snapshot) -> Iterable[Key]:
        assert self.watch.by is not None
        named = _asked(self.watch.by, "by", self, snapshot)
        if named is None:
            return ()
        names = [named] if isinstance(named, str | Key) else list(named)
        namespace = _namespace_of(self.watch, snapshot)
        return [name if isinstance(name, Key) else Key(namespace, name) for name in names]

    def users(self, store: Store, index: str, delta: Delta) -> Iterable[Snapshot]:
        """The objects that name the one that changed, by this index of theirs."""
        return store.by_index(index, delta.last.key)


@frozen
class Chosen:
    """What a selector chooses, in a namespace or in all; an index knows it by its text."""

    namespace: str
    text: str
    selector: LabelSelector = field(eq=False)

    def concerns(self, delta: Delta) -> bool:
        """Whether the object is chosen, or was before it changed."""
        if self.namespace not in ("", delta.last.key.namespace):
            return False
        states = (delta.new, delta.old)
        return any(state is not None and self.selector.matches(state.labels) for state in states)


@frozen
class Selections:
    """The index of which objects use what their selectors choose: what `by_labels` answers."""

    kind: type[Any]
    watch: Watch[Any, Any]
    log: structlog.stdlib.BoundLogger

    def __call__(self, snapshot: Snapshot) -> Iterable[Chosen]:
        assert self.watch.by_labels is not None
        selector = _asked(self.watch.by_labels, "by_labels", self, snapshot)
        if selector is None:
            return ()
        return (Chosen(_namespace_of(self.watch, snapshot), selector.text(), selector),)

    def users(self, store: Store, index: str, delta: Delta) -> Iterable[Snapshot]:
        """The objects whose selector concerns the one that changed, by this index of theirs."""
        for chosen in store.index_values(index):
            if chosen.concerns(delta):
                yield from store.by_index(index, chosen)


def _asked(
    question: Callable[[Any], R], name: str, index: References | Selections, snapshot: Snapshot
) -> R | None:
    """What an object answers; nothing where it does not fit its model, or the question fails."""
    try:
        return question(decode(index.kind, snapshot.raw))
    except DoesNotFit:
        return None
    except Exception:
        kind = index.watch.kind.__name__
        index.log.exception(f"{name}= of a watch failed", key=str(snapshot.key), kind=kind)
        return None


def _namespace_of(watch: Watch[Any, Any], snapshot: Snapshot) -> str:
    return snapshot.key.namespace if kind_of(watch.kind).resource.namespaced else ""
