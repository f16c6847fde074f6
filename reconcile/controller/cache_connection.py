"""Connects a controller to a cache: informers, indexes, and the handlers that turn changes into keys."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Set
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import structlog
from anyio.abc import TaskGroup
from attrs import define, field

from informers import APIResource, Cache, Delta, Handler, Informer, Registration, Snapshot, Store
from informers.cancellation import FAILURES
from reconcile.client.object_indexes import Index
from reconcile.controller.background_tasks import BackgroundTasks
from reconcile.controller.declaration import Controller, Watch
from reconcile.controller.function_failures import FunctionFailures
from reconcile.controller.held_buckets import HeldBuckets
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.triggers import INITIAL_PRIORITY, EnqueueKey
from reconcile.controller.waking import cause_of, wakes
from reconcile.models import DecodeError, Object, kind_of
from reconcile.runs.run_request import Cause, Request
from reconcile.storms import Origin
from reconcile.storms.guard import StormGuard

if TYPE_CHECKING:
    from reconcile.controller.service_levels import ServiceLevels

T = TypeVar("T", bound=Object)
Keeps = Callable[[Snapshot], bool]


@define(eq=False, slots=False)
class CacheConnection(Generic[T]):
    """A controller in one cache, from `open` to `close`; `primary`, its kind's informer, is declared."""

    cache: Cache
    primary: Informer
    executor: RunExecutor[T]
    guard: StormGuard
    enqueue: EnqueueKey
    cluster: str = ""
    levels: "ServiceLevels | None" = None
    controller: Controller[T] = field(init=False)
    backgrounds: BackgroundTasks[T] = field(init=False)
    failures: FunctionFailures = field(init=False)
    _narrows: bool = field(init=False)
    """Whether it leaves objects of its kind alone: some by its selector, or those of other replicas."""
    _keeps: Keeps = field(init=False)
    _declared: list[APIResource] = field(factory=list, init=False)
    _indexes: list[tuple[Store, str]] = field(factory=list, init=False)
    _registrations: list[Registration] = field(factory=list, init=False)
    _followed: dict[Informer, Callable[[], None]] = field(factory=dict, init=False)
    """What looks for lost writes when an informer has listed, of each whose changes wake."""

    def __attrs_post_init__(self) -> None:
        controller = self.controller = self.executor.controller
        log: structlog.stdlib.BoundLogger = self.executor.log
        clock, store = self.executor.client.clock, self.primary.store
        held = self.executor.held
        self._narrows = bool(controller.selector) or held is not None
        self._keeps = controller.keeps if held is None else held.holds
        if held is not None and controller.selector:
            self._keeps = lambda snapshot: held.holds(snapshot) and controller.keeps(snapshot)
        self._declared.append(self.primary.resource)
        self.failures = FunctionFailures(log, self.requests, self.enqueue, self.executor.secret_fields)
        self.backgrounds = BackgroundTasks(
            controller.kind,
            controller.background,
            store,
            self.enqueue,
            clock,
            log,
            self.cluster,
            self._keeps,
            self.executor.secret_fields,
        )

    def open(self) -> None:
        """Declare all informers and queue their objects. Raises what the cache raises, and undoes all."""
        try:
            self._declare_all()
        except BaseException:
            self.close()
            raise

    def mute(self) -> None:
        """Follow no more changes. The informers stay, for runs under way."""
        for registration in self._registrations:
            registration.remove()
        self._registrations.clear()
        for informer, look in self._followed.items():
            informer.on_listed.remove(look)
        self._followed.clear()

    def close(self) -> None:
        """Undo `open`, and release `primary`. No run may be under way any more."""
        self.mute()
        for store, index in self._indexes:
            store.remove_index(index)
        self._indexes.clear()
        for resource in self._declared:
            self.cache.release(resource)
        self._declared.clear()

    async def start_sources(self, group: TaskGroup) -> None:
        """Follow the sources in `group`; returns when those with `initial` have delivered what they know."""
        if not self.controller.sources:
            return
        from reconcile.controller.sources import SourceTasks

        executor = self.executor
        clock, log = executor.client.clock, executor.log
        await SourceTasks(self.controller.sources, self.requests, self.enqueue, clock, log).start(group)

    def object_of(self, request: Request) -> Snapshot | None:
        """The cached object of a key, whether or not the controller keeps it."""
        return self.primary.store.get(request.key)

    def keeps(self, request: Request) -> bool:
        """Whether the controller keeps the cached object of that key, if any."""
        snapshot = self.object_of(request)
        return snapshot is not None and self._keeps(snapshot)

    def leaves_alone(self, request: Request) -> bool:
        """Whether nothing is to be done for a key: its object is excluded by the selector, or not held.

        A key without an object is worked on, unless replicas share the objects: it may be of any of them.
        """
        snapshot = self.object_of(request)
        left = self.executor.held is not None if snapshot is None else not self._keeps(snapshot)
        return left and not self.executor.tombstones.has(request.key)

    def is_held(self, request: Request) -> bool:
        """Whether the bucket of the key's object, or of a deleted one of that name, is held."""
        held = self.executor.held
        assert held is not None
        snapshot = self.object_of(request)
        return (snapshot is not None and held.holds(snapshot)) or self.executor.tombstones.has(request.key)

    def known_in(self, buckets: Collection[int]) -> Set[Request]:
        """The keys of which something is known in these buckets: a cached or deleted object, or writes."""
        executor, store = self.executor, self.primary.store
        cached = (store.by_index(self._by_bucket, bucket) for bucket in buckets)
        known = {self._request_of(snapshot) for snapshots in cached for snapshot in snapshots}
        known |= {Request(*key, self.cluster) for key in executor.tombstones.keys_in(buckets)}
        return known | executor.written_in(buckets)

    def requests(self) -> Iterator[Request]:
        return (self._request_of(snapshot) for snapshot in self.primary.store if self._keeps(snapshot))

    def requests_in(self, buckets: Collection[int]) -> Iterator[tuple[int, Request]]:
        """The keys of the objects in some buckets that the controller keeps, each with its bucket."""
        for bucket in buckets:
            for snapshot in self.primary.store.by_index(self._by_bucket, bucket):
                if self._keeps(snapshot):
                    yield bucket, self._request_of(snapshot)

    def _request_of(self, snapshot: Snapshot) -> Request:
        return Request(*snapshot.key, self.cluster)

    # --- informers ----------------------------------------------------------------------------------

    def _declare_all(self) -> None:
        controller = self.controller
        self.executor.mark_applies(self.primary)
        if self.executor.held is not None:
            self._index_buckets(self.executor.held)
        # The own kind first: the other handlers look owners up in its store.
        self._listen(self.primary, self._on_primary, controller.resync)
        for kind in controller.owns:
            self._declare_owned(kind)
        for number, watch in enumerate(controller.watches):
            self._declare_watch(watch, f"{controller.name}/{number}")
        for kind in controller.reads:
            self._declare(kind)
        for name, index in controller.indexes.items():
            self._declare_index(name, index)

    def _index_buckets(self, held: HeldBuckets) -> None:
        """Find the objects of a bucket at once: the hashes of 100,000 uids would hold the loop for 0.6 s."""
        store = self.primary.store
        store.add_index(self._by_bucket, lambda snapshot: (held.bucket_of(snapshot),))
        self._indexes.append((store, self._by_bucket))

    @property
    def _by_bucket(self) -> str:
        return f"{self.controller.name}/bucket"

    def _declare(self, kind: type[Object], everywhere: bool = False) -> Informer:
        informer = self.cache.declare(kind_of(kind).resource, everywhere=everywhere)
        self._declared.append(informer.resource)
        self.executor.mark_applies(informer)
        return informer

    def _declare_owned(self, kind: type[Object]) -> None:
        from reconcile.controller.key_mapping import OwnedHandler

        informer = self._declare(kind)
        self._listen(
            informer, OwnedHandler(self.controller.kind, informer, self.primary.store.get, self._wake)
        )

    def _declare_watch(self, watch: Watch[Any, Any], index: str) -> None:
        from reconcile.controller.key_mapping import MappedKeys, ReferenceIndex, SelectorIndex, WatchHandler

        informer = self._declare(watch.kind, watch.everywhere)
        if watch.to is not None:
            keys = MappedKeys(watch, self.failures)
            self._listen(informer, WatchHandler(watch, informer, keys, self._wake, self.failures))
            return
        index_of = ReferenceIndex if watch.by is not None else SelectorIndex
        store, function = self.primary.store, index_of(self.controller.kind, watch, self.failures)
        # By the selector alone: an index may not depend on what is held at the time.
        chosen = of_chosen(function, self.controller.keeps) if self.controller.selector else function
        store.add_index(index, chosen)
        self._indexes.append((store, index))
        users = partial(function.users, store, index)
        self._listen(informer, WatchHandler(watch, informer, users, self._wake, self.failures))

    def _declare_index(self, name: str, index: Index[Any]) -> None:
        store = self.cache.informer(kind_of(index.kind).resource).store
        stored = self.executor.indexed.store_name(name)
        store.add_index(stored, _ObjectIndex(name, index, self.failures))
        self._indexes.append((store, stored))

    def _listen(self, informer: Informer, handler: Handler, resync: float | None = None) -> None:
        self._registrations.append(informer.add_handler(handler, resync=resync))
        if informer not in self._followed:
            look = self._followed[informer] = partial(self._wake_all_lost, informer)
            informer.on_listed.append(look)

    # --- deletions that no change tells of ------------------------------------------------------------

    def wake_if_lost(self, request: Request) -> None:
        """Wake a key that has run if an object which it wrote was deleted before the cache had it."""
        journal = self.executor.journals.get(request)
        for informer in self._followed if journal else ():
            self._wake_lost(request, informer)

    def _wake_all_lost(self, informer: Informer) -> None:
        for request in [*self.executor.journals]:
            self._wake_lost(request, informer)

    def _wake_lost(self, request: Request, informer: Informer) -> None:
        for key in self.executor.journals[request].lost(informer):
            if informer is not self.primary or key != request.key:
                self.enqueue(request, Cause("deleted", informer.resource, key, informer.store.version), 0)

    # --- changes --------------------------------------------------------------------------------------

    # Plain synchronous code: it runs for each line of a watch.
    def _on_primary(self, delta: Delta) -> None:
        key = delta.last.key
        request = Request(*key, self.cluster)
        seen = narrowed(delta, self._keeps) if self._narrows else delta
        self.backgrounds.follow(delta)  # also of an object that others have taken: its task ends
        if seen is not None:
            if self.levels is not None:
                self.levels.changed(request, seen)
            tombstones = self.executor.tombstones
            wanted = wakes(self.controller.wakes, seen, self.failures, self.primary.resource)
            # A namespace that is not followed any more takes its objects out of the store: none was deleted.
            ended = (
                seen.old is not None
                and (wanted or tombstones.held is not None)
                and self.primary.covers(key.namespace)
                and tombstones.note(delta)
            )
            if seen.new is None:
                self.guard.forget(request)
            # Where objects are shared, each end has a run: with it all that is remembered of the key goes.
            if (wanted and not is_left_alone(seen, delta)) or (ended and tombstones.held is not None):
                self._wake(request, cause_of(self.primary, delta, key), delta)
                return
        self.executor.echoes.discard(request, self.primary.resource, delta)

    def _wake(self, request: Request, cause: Cause, delta: Delta) -> None:
        """Queue a key for a change, unless a run that has begun has seen it."""
        if not request.cluster and self.cluster:
            request = request._replace(cluster=self.cluster)
        resource = cause.resource
        assert resource is not None
        origin = self.executor.echoes.classify(request, resource, delta)
        if origin is Origin.SEEN:
            return
        if origin is Origin.OWN:
            cause = msgspec.structs.replace(cause, echo=True)
        elif self.guard.tracking:
            self.guard.note_trigger(request, resource, delta)
        self.enqueue(request, cause, INITIAL_PRIORITY if delta.initial or delta.resync else 0)


@define(eq=False)
class _ObjectIndex:
    """The index values of one object; none where the author's function fails, which is logged."""

    name: str
    index: Index[Any]
    failures: FunctionFailures

    def __call__(self, snapshot: Snapshot) -> Iterable[Hashable]:
        try:
            return self.index.values(snapshot)
        except DecodeError:
            return ()  # a list of the kind fails for that object, and says so
        except FAILURES as error:
            place, instead = f"indexes= {self.name!r}: {self.index}", "the index leaves the object out"
            resource = kind_of(self.index.kind).resource
            self.failures.report(place, self.index.by, error, instead, resource, [snapshot])
            return ()


# --- the part of a store that a controller sees which does not keep all objects ----------------------


def narrowed(delta: Delta, keeps: Keeps) -> Delta | None:
    """A change as if only chosen objects existed: perhaps a creation or a deletion; None: no change."""
    old = delta.old if delta.old is not None and keeps(delta.old) else None
    new = delta.new if delta.new is not None and keeps(delta.new) else None
    if old is delta.old and new is delta.new:
        return delta
    return None if old is None and new is None else msgspec.structs.replace(delta, old=old, new=new)


def is_left_alone(seen: Delta, delta: Delta) -> bool:
    """Whether an object still exists and is only no longer chosen; `seen` is the result of `narrowed`."""
    old, new = seen.old, delta.new
    return seen.new is None and old is not None and new is not None and old.is_same_object(new)


def of_chosen(
    function: Callable[[Snapshot], Iterable[Any]], keeps: Keeps
) -> Callable[[Snapshot], Iterable[Any]]:
    return lambda snapshot: function(snapshot) if keeps(snapshot) else ()
