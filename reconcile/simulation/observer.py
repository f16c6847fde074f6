"""A second client that only reads, so that the controller under test does not count its own work."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from attrs import frozen

from informers import Cache, Clock, Delta, Informer, Key, Snapshot, Transport
from informers.broadcast import Broadcast
from reconcile.models import Object, kind_of


@frozen
class ObservedChange:
    """A change that a watch reported: `old` is None for a new object, `new` for a deleted one."""

    kind: type[Object]
    old: Snapshot | None
    new: Snapshot | None

    @property
    def key(self) -> Key:
        """Which object changed."""
        return self.last.key

    @property
    def last(self) -> Snapshot:
        """The object after the change, or its last state."""
        snapshot = self.new or self.old
        assert snapshot is not None
        return snapshot


class Observer:
    """Follows kinds by its own watches; see `observe`. `changes` are all since the first list, in order."""

    def __init__(self, cache: Cache, kinds: Sequence[type[Object]]) -> None:
        self.changes: list[ObservedChange] = []
        self._informers: dict[type[Object], Informer] = {}
        self._changed = Broadcast()
        for kind in kinds:
            informer = cache.declare(kind_of(kind).resource)
            informer.add_handler(lambda delta, kind=kind: self._note(kind, delta))  # type: ignore[misc]
            self._informers[kind] = informer

    @property
    def complete(self) -> bool:
        """Whether `changes` has every single change, because no watch has failed so far."""
        statuses = [informer.status() for informer in self._informers.values()]
        return not any(status.relists or status.failures for status in statuses)

    def objects(self, kind: type[Object]) -> Sequence[Snapshot]:
        """The objects of a kind, as of the last change."""
        return self._informers[kind].store.list()

    def ready(self, kind: type[Object]) -> Sequence[Snapshot]:
        """The objects of a kind whose condition Ready is True."""
        return [one for one in self.objects(kind) if _is_ready(one)]

    async def until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until `reached()`, which is called at each change; returns False after `seconds`."""
        with anyio.move_on_after(seconds):
            await self._changed.wait_until(reached)
        return reached()

    def _note(self, kind: type[Object], delta: Delta) -> None:
        if not delta.initial:
            self.changes.append(ObservedChange(kind, delta.old, delta.new))
        self._changed.notify()


def _is_ready(snapshot: Snapshot) -> bool:
    conditions = (snapshot.to_dict().get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@asynccontextmanager
async def observe(
    transport: Transport, *kinds: type[Object], namespace: str = "", clock: Clock | None = None
) -> AsyncIterator[Observer]:
    """Observe `kinds`, in one namespace or in all, from their first lists on. Raises CacheSyncFailed."""
    cache = Cache(transport, namespace=namespace, clock=clock)
    observer = Observer(cache, kinds)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(cache.run)
        try:
            await cache.wait_synced()
            yield observer
        except Exception as error:
            # Raised below: here the group of the watches would wrap it.
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
