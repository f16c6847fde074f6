"""What is read from caches while a schedule is explored, and by which run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import define, field, frozen

from informers import Informer, Snapshot
from informers.resource import Key
from informers.store import Store
from reconcile.client import own_writes
from reconcile.runs.run_request import Request
from reconcile.storms.echoes import Echoes, Origin
from reconcile.testing.exploration.schedule_gates import RunName, run_here
from workqueue import WorkQueue


@frozen
class CacheRead:
    """A read of a store: of one object, or of many with `key` None.

    `run` is None for those of a handler, and for those that decide whether a run waits for its own writes.
    """

    store: Store
    key: Key | None
    found: Sequence[Snapshot]
    run: RunName | None


@define(eq=False)
class CacheReads:
    """The reads since they were last taken."""

    queued: set[int] = field(factory=set, init=False)
    """The queues to which a key was added, by id."""
    asked: set[tuple[int, Request]] = field(factory=set, init=False)
    """Whose writes a change may be an echo of: the id of the expected echoes, and the key."""
    _reads: list[CacheRead] = field(factory=list, init=False)
    _of_runs: bool = field(default=True, init=False)

    def add(self, store: Store, key: Key | None, found: Sequence[Snapshot]) -> None:
        self._reads.append(CacheRead(store, key, found, run_here() if self._of_runs else None))

    @contextmanager
    def beside_runs(self) -> Iterator[None]:
        """What is read meanwhile does not reach the code of a run."""
        self._of_runs = False
        try:
            yield
        finally:
            self._of_runs = True

    def take(self) -> Sequence[CacheRead]:
        reads, self._reads = self._reads, []
        return reads

    def forget(self) -> None:
        """Begin anew."""
        self._reads = []
        self.queued, self.asked = set(), set()


@contextmanager
def recorded_reads(reads: CacheReads) -> Iterator[None]:
    """Record each read of any store. The methods are replaced meanwhile, so that others pay nothing."""
    get, listed, by_index = Store.get, Store.list, Store.by_index
    add, classify, discard = WorkQueue._add, Echoes.classify, Echoes.discard
    is_shown = own_writes.is_shown

    def recorded_get(store: Store, key: Key) -> Snapshot | None:
        found = get(store, key)
        reads.add(store, key, () if found is None else (found,))
        return found

    def recorded_list(store: Store, namespace: str = "") -> Sequence[Snapshot]:
        found = listed(store, namespace)
        reads.add(store, None, found)
        return found

    def recorded_by_index(store: Store, name: str, value: Any) -> Sequence[Snapshot]:
        found = by_index(store, name, value)
        reads.add(store, None, found)
        return found

    def recorded_add(queue: WorkQueue[Any], *entry: Any) -> None:
        reads.queued.add(id(queue))
        add(queue, *entry)

    def recorded_classify(echoes: Echoes, request: Request, *change: Any) -> Origin:
        reads.asked.add((id(echoes), request))
        return classify(echoes, request, *change)

    def recorded_discard(echoes: Echoes, request: Request, *change: Any) -> None:
        reads.asked.add((id(echoes), request))
        discard(echoes, request, *change)

    def recorded_is_shown(write: Any, informer: Informer) -> bool:
        with reads.beside_runs():
            return is_shown(write, informer)

    store: Any = Store
    queues: Any = WorkQueue
    own: Any = Echoes
    journals: Any = own_writes
    store.get, store.list, store.by_index = recorded_get, recorded_list, recorded_by_index
    queues._add, own.classify, own.discard = recorded_add, recorded_classify, recorded_discard
    journals.is_shown = recorded_is_shown
    try:
        yield
    finally:
        store.get, store.list, store.by_index = get, listed, by_index
        queues._add, own.classify, own.discard = add, classify, discard
        journals.is_shown = is_shown
