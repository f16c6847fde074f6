"""Deleted objects for which `on_deleted` is still to be called."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from typing import Generic, TypeVar

import structlog
from attrs import define, field, frozen

from informers import Delta, Key, Snapshot
from informers.cancellation import as_failure, cancel_requests
from informers.functions import name_of
from reconcile.client.client import Client, core_of
from reconcile.controller.held_buckets import HeldBuckets, HeldRun
from reconcile.models import DecodeError, Object, decode, kind_of
from reconcile.runs.run_request import Request

T = TypeVar("T", bound=Object)


@frozen
class Deleted(Generic[T]):
    """A deleted object; `object` is its last known state.

    `client` and `log` are those of a run for its key. Another object may have its name by now.
    """

    object: T
    request: Request
    client: Client
    log: structlog.stdlib.BoundLogger


OnDeleted = Callable[[Deleted[T]], Awaitable[None]]


@define
class Tombstones(Generic[T]):
    """Remembers the last states of deleted objects, by key, until `on_deleted` has handled them.

    With `held` it remembers them also without `on_deleted`, until the next run of the key: they alone tell to
    which bucket a key belongs whose object is gone.
    """

    kind: type[T]
    on_deleted: OnDeleted[T] | None
    held: HeldBuckets | None = None
    _deleted: dict[Key, list[Snapshot]] = field(factory=dict, init=False)

    @property
    def wanted(self) -> bool:
        return self.on_deleted is not None or self.held is not None

    def note(self, delta: Delta) -> bool:
        """Remember the last state of an object, if a change of the store is its end; whether it is."""
        old, new = delta.old, delta.new
        if not self.wanted or old is None or (new is not None and new.uid == old.uid):
            return False
        self._deleted.setdefault(old.key, []).append(old)
        return True

    def has(self, key: Key) -> bool:
        """Whether a deleted object of that key waits; with `held`, one of a bucket that is held."""
        if self.held is None:
            return key in self._deleted
        return any(map(self.held.holds, self._deleted.get(key, ())))

    def waiting(self, key: Key) -> Sequence[Snapshot]:
        """The deleted objects of that key, oldest first."""
        return self._deleted.get(key, ())

    def keys_in(self, buckets: Collection[int]) -> Iterator[Key]:
        """The keys of the deleted objects in some buckets; only with `held`."""
        held = self.held
        assert held is not None
        for key, states in self._deleted.items():
            if any(held.bucket_of(state) in buckets for state in states):
                yield key

    def forget_where(self, is_gone: Callable[[Key], bool]) -> None:
        """Forget the deleted objects of some keys."""
        for key in [key for key in self._deleted if is_gone(key)]:
            del self._deleted[key]

    async def deliver(
        self,
        request: Request,
        client: Client,
        log: structlog.stdlib.BoundLogger,
        run: HeldRun | None = None,
    ) -> None:
        """Call `on_deleted` for each deleted object of this key; if it fails, the next run calls it again.

        With `run`, objects of buckets that are not held are forgotten.
        """
        waiting = self._deleted.get(request.key)
        while waiting:
            with nullcontext(True) if run is None else run.on(waiting[0]) as may_run:
                if may_run and self.on_deleted is not None:
                    await self._deliver(self.on_deleted, waiting[0], request, client, log)
            # Only after the call: what fails, or is cancelled, is delivered again. A namesake may be noted
            # meanwhile.
            waiting.pop(0)
        if waiting is not None and self._deleted.get(request.key) is waiting:
            del self._deleted[request.key]

    async def _deliver(
        self,
        on_deleted: OnDeleted[T],
        snapshot: Snapshot,
        request: Request,
        client: Client,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        try:
            last = decode(self.kind, snapshot.raw)
        except DecodeError as error:
            log.warning("deleted, but its last state does not fit the model", error=str(error))
            return
        core_of(client).note_secrets(kind_of(self.kind).resource, snapshot)
        await self._call(on_deleted, Deleted(last, request, client, log))

    async def _call(self, on_deleted: OnDeleted[T], last: Deleted[T]) -> None:
        cancels = cancel_requests()
        try:
            await on_deleted(last)
        except BaseException as raised:
            error = as_failure(raised, name_of(on_deleted), cancels)
            if error is None or error is raised:
                raise
            raise error from raised
