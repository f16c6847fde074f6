"""Deleted objects for which `on_deleted` is still to be called."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog
from attrs import define, field, frozen

from informers import Delta, Key, Snapshot
from informers.cancellation import as_failure, cancel_requests
from informers.functions import name_of
from reconcile.client.client import Client, core_of
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
    """Remembers the last states of deleted objects, by key, until `on_deleted` has handled them."""

    kind: type[T]
    on_deleted: OnDeleted[T] | None
    _deleted: dict[Key, list[Snapshot]] = field(factory=dict, init=False)

    def note(self, delta: Delta) -> None:
        """Remember the last state of an object, if a change of the store is its end."""
        old, new = delta.old, delta.new
        if self.on_deleted is None or old is None or (new is not None and new.uid == old.uid):
            return
        self._deleted.setdefault(old.key, []).append(old)

    def has(self, key: Key) -> bool:
        return key in self._deleted

    async def deliver(self, request: Request, client: Client, log: structlog.stdlib.BoundLogger) -> None:
        """Call `on_deleted` for each deleted object of this key; if it fails, the next run calls it again."""
        waiting = self._deleted.get(request.key)
        while waiting and self.on_deleted is not None:
            try:
                last = decode(self.kind, waiting[0].raw)
            except DecodeError as error:
                log.warning("deleted, but its last state does not fit the model", error=str(error))
            else:
                core_of(client).note_secrets(kind_of(self.kind).resource, waiting[0])
                await self._call(self.on_deleted, Deleted(last, request, client, log))
            # Only after the call: what fails, or is cancelled, is delivered again. A namesake may be noted
            # meanwhile.
            waiting.pop(0)
        if waiting is not None and not waiting:
            self._deleted.pop(request.key, None)

    async def _call(self, on_deleted: OnDeleted[T], last: Deleted[T]) -> None:
        cancels = cancel_requests()
        try:
            await on_deleted(last)
        except BaseException as raised:
            error = as_failure(raised, name_of(on_deleted), cancels)
            if error is None or error is raised:
                raise
            raise error from raised
