"""Maps the change of an object to the keys that it concerns: a handler for each way to name a kind."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from attrs import define, field, frozen

from informers import Delta, Informer, Key, Snapshot, Store
from informers.cancellation import FAILURES
from reconcile.controller.declaration import Watch
from reconcile.controller.function_failures import FunctionFailures, requests_of
from reconcile.controller.waking import cause_of, wakes
from reconcile.models import DecodeError, LabelSelector, decode, kind_of
from reconcile.runs.run_request import Cause, Request

V = TypeVar("V")

Wake: TypeAlias = Callable[[Request, Cause, Delta], None]
"""Wakes a key, for a cause, with the change that it comes from."""


@frozen
class OwnedHandler:
    """Wakes the controlling owner of a changed child, before and after; `owner` gives the cached one."""

    owners: type[Any]
    informer: Informer
    owner: Callable[[Key], Snapshot | None]
    wake: Wake

    def __call__(self, delta: Delta) -> None:
        cause = cause_of(self.informer, delta)
        for snapshot in (delta.old, delta.new):
            request = None if snapshot is None else self._owner_of(snapshot, gone=delta.new is None)
            if request is not None:
                self.wake(request, cause, delta)

    def _owner_of(self, child: Snapshot, *, gone: bool) -> Request | None:
        owner, resource = child.controller, kind_of(self.owners).resource
        if owner is None or (owner.group, owner.kind) != (resource.group, resource.kind):
            return None
        request = Request(child.key.namespace if resource.namespaced else "", owner.name)
        # A namesake of the owner with another uid is woken by its own creation, and by the end of a child
        # whose name it may have waited for. An uncached owner is woken.
        known = self.owner(request.key)
        return request if gone or known is None or known.uid == owner.uid else None


@frozen
class WatchHandler:
    watch: Watch[Any, Any]
    informer: Informer
    concerned: Callable[[Delta], Iterable[Request]]
    wake: Wake
    failures: FunctionFailures

    def __call__(self, delta: Delta) -> None:
        if not wakes(self.watch.wakes, delta, self.failures, self.informer.resource, self.watch):
            return
        cause = cause_of(self.informer, delta)
        for request in self.concerned(delta):
            self.wake(request, cause, delta)


@frozen
class MappedKeys:
    """The keys that `to` returns for the old and the new state of a watched object."""

    watch: Watch[Any, Any]
    failures: FunctionFailures

    def __call__(self, delta: Delta) -> Iterator[Request]:
        for snapshot in (delta.old, delta.new):
            if snapshot is not None:
                yield from self._requests(snapshot)

    def _requests(self, snapshot: Snapshot) -> Iterable[Request]:
        watch = self.watch
        assert watch.to is not None
        try:
            return requests_of(watch.to(decode(watch.kind, snapshot.raw)))
        except FAILURES as error:
            place, instead = f"{watch}: to=", "all objects of the controller run"
            self.failures.report(place, watch.to, error, instead, kind_of(watch.kind).resource, [snapshot])
            self.failures.sweep(place)
            return ()


@define(eq=False)
class _WatchIndex(ABC, Generic[V]):
    """The objects that those of a controller use, as values of an index of their store.

    Where the author's function fails, they are unknown: every change of the watched kind concerns the object,
    which stands in `_unknown` with that version. An index must give the same values for the same state, so
    the function is not called again for it.
    """

    option: ClassVar[str]
    """The option with the author's function."""
    kind: type[Any]
    watch: Watch[Any, Any]
    failures: FunctionFailures
    _unknown: dict[Key, int] = field(factory=dict, init=False)

    def __call__(self, snapshot: Snapshot) -> Iterable[V]:
        if self._unknown and self._unknown.get(snapshot.key) == snapshot.version:
            return ()
        function = getattr(self.watch, self.option)
        try:
            values = self._values(function(decode(self.kind, snapshot.raw)), snapshot)
        except DecodeError:
            return ()  # the runs of that object fail, and say so
        except FAILURES as error:
            self._unknown[snapshot.key] = snapshot.version
            instead = f"every change of {self.watch.kind.__name__} wakes the object"
            place = f"{self.watch}: {self.option}="
            self.failures.report(place, function, error, instead, kind_of(self.kind).resource, [snapshot])
            return ()
        if self._unknown and self._unknown.get(snapshot.key, snapshot.version) < snapshot.version:
            del self._unknown[snapshot.key]
        return values

    @abstractmethod
    def _values(self, result: Any, snapshot: Snapshot) -> Sequence[V]:
        """The function's result as values of the index. Raises TypeError."""

    @abstractmethod
    def _known_users(self, store: Store, index: str, delta: Delta) -> Iterable[Snapshot]:
        """The objects that are known to use the one that changed."""

    def users(self, store: Store, index: str, delta: Delta) -> Iterator[Request]:
        """The objects that use the one that changed, or may use it."""
        for user in self._known_users(store, index, delta):
            yield Request(*user.key)
        for key in [*self._unknown]:
            if store.get(key) is None:
                del self._unknown[key]
            else:
                yield Request(*key)

    def _namespace(self, snapshot: Snapshot) -> str:
        return snapshot.key.namespace if kind_of(self.watch.kind).resource.namespaced else ""


class ReferenceIndex(_WatchIndex[Key]):
    """Objects by the keys that `by` returns."""

    option = "by"

    def _values(self, result: Any, snapshot: Snapshot) -> Sequence[Key]:
        if result is None:
            return ()
        namespace = self._namespace(snapshot)
        if isinstance(result, str | Key):
            return (_key(result, namespace),)
        if isinstance(result, Request) or not isinstance(result, Iterable):
            raise TypeError(
                f"it returned {type(result).__name__}: expected a name, a Key, or several of them"
            )
        return [_key(name, namespace) for name in result]

    def _known_users(self, store: Store, index: str, delta: Delta) -> Iterable[Snapshot]:
        return store.by_index(index, delta.last.key)


def _key(name: Any, namespace: str) -> Key:
    if isinstance(name, str):
        return Key(namespace, name)
    if not isinstance(name, Key) or not all(isinstance(part, str) for part in name):
        raise TypeError(f"it returned {type(name).__name__} among what should be names or Keys")
    return name


@frozen
class SelectorUse:
    """A selector in a namespace or in all; equal where namespace and text are."""

    namespace: str
    text: str
    selector: LabelSelector = field(eq=False)

    def concerns(self, delta: Delta) -> bool:
        """Whether the object is chosen, or was before it changed."""
        if self.namespace not in ("", delta.last.key.namespace):
            return False
        states = (delta.new, delta.old)
        return any(state is not None and self.selector.matches(state.labels) for state in states)


class SelectorIndex(_WatchIndex[SelectorUse]):
    """Objects by the selectors that `by_labels` returns."""

    option = "by_labels"

    def _values(self, result: Any, snapshot: Snapshot) -> Sequence[SelectorUse]:
        if result is None:
            return ()
        if not isinstance(result, LabelSelector):
            raise TypeError(f"it returned {type(result).__name__}: expected a LabelSelector or None")
        result.matches({})  # an invalid selector raises here, and not at each change
        return (SelectorUse(self._namespace(snapshot), result.text(), result),)

    def _known_users(self, store: Store, index: str, delta: Delta) -> Iterable[Snapshot]:
        for use in store.index_values(index):
            if use.concerns(delta):
                yield from store.by_index(index, use)
