"""From a change of an object to the keys that it concerns: one handler for each way a kind is named."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import structlog
from attrs import frozen

from informers import Delta, Informer, Key, Snapshot
from reconcile.controller import Watch
from reconcile.models import DoesNotFit, decode, kind_of
from reconcile.requests import Cause, Request

Enqueue: TypeAlias = Callable[[Request, Cause, bool], None]
"""Takes a key, the cause, and whether it was there at the start: such keys come last."""


def cause_of(informer: Informer, delta: Delta) -> Cause:
    """What a change of a store says as the cause of a run."""
    return Cause(_verb(delta), informer.resource, delta.last.key, delta.last.version)


def _verb(delta: Delta) -> Literal["added", "updated", "deleted", "resynced"]:
    if delta.resync:
        return "resynced"
    if delta.old is None:
        return "added"
    return "deleted" if delta.new is None else "updated"


@frozen
class Owned:
    """A change of a child wakes its controlling owner: that of the old state too, if it changed."""

    owners: type[Any]
    informer: Informer
    enqueue: Enqueue

    def __call__(self, delta: Delta) -> None:
        resource = kind_of(self.owners).resource
        cause = cause_of(self.informer, delta)
        for snapshot in (delta.old, delta.new):
            owner = None if snapshot is None else snapshot.controller
            if snapshot is None or owner is None:
                continue
            if (owner.group, owner.kind) == (resource.group, resource.kind):
                namespace = snapshot.key.namespace if resource.namespaced else ""
                self.enqueue(Request(namespace, owner.name), cause, delta.initial)


@frozen
class Used:
    """A change of a watched object wakes the objects that use it."""

    watch: Watch[Any, Any]
    informer: Informer
    users: Callable[[Key], Iterable[Snapshot]]
    enqueue: Enqueue

    def __call__(self, delta: Delta) -> None:
        if not self.watch.wakes.wakes(delta.old, delta.new):
            return
        cause = cause_of(self.informer, delta)
        for user in self.users(delta.last.key):
            self.enqueue(Request(*user.key), cause, delta.initial)


@frozen
class Mapped:
    """A change of a watched object wakes whom it says it concerns, in its old and its new state."""

    watch: Watch[Any, Any]
    informer: Informer
    enqueue: Enqueue

    def __call__(self, delta: Delta) -> None:
        assert self.watch.to is not None
        if not self.watch.wakes.wakes(delta.old, delta.new):
            return
        cause = cause_of(self.informer, delta)
        for snapshot in (delta.old, delta.new):
            if snapshot is None:
                continue
            for request in self.watch.to(decode(self.watch.kind, snapshot.raw)):
                self.enqueue(request, cause, delta.initial)


@frozen
class References:
    """The index of which objects use which: what `by` answers, as keys."""

    kind: type[Any]
    watch: Watch[Any, Any]
    log: structlog.stdlib.BoundLogger

    def __call__(self, snapshot: Snapshot) -> Iterable[Key]:
        assert self.watch.by is not None
        try:
            named = self.watch.by(decode(self.kind, snapshot.raw))
        except DoesNotFit:
            return ()
        except Exception:
            self.log.exception("by= of a watch failed", key=str(snapshot.key), kind=self.watch.kind.__name__)
            return ()
        if named is None:
            return ()
        names = [named] if isinstance(named, str | Key) else list(named)
        namespace = snapshot.key.namespace if kind_of(self.watch.kind).resource.namespaced else ""
        return [name if isinstance(name, Key) else Key(namespace, name) for name in names]
