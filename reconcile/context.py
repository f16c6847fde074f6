"""What one run of a reconciler gets: its object, a client, and a place for status and events."""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

import attrs
import structlog

from informers import Clock, Snapshot
from reconcile.client import Client, Propagation
from reconcile.diffing import merge_diff, same, touches_list
from reconcile.models import Object, ObjectMeta, OwnerReference, Unstructured, kind_of, unstructure
from reconcile.models.codec import format_time, wire_name
from reconcile.requests import Cause, Request

T = TypeVar("T", bound=Object)
O = TypeVar("O", bound=Object)  # noqa: E741
P = ParamSpec("P")
R = TypeVar("R")

RunSync = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a blocking call somewhere where it does not block the event loop."""


@attrs.frozen
class PendingEvent:
    """An event that a run wants to tell about its object."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Context(Generic[T]):
    """One run for one key.

    `object` is the object as a typed, immutable snapshot; `client` reads and writes for this key;
    `log` carries controller, key and reconcile id; `causes` say why the key runs.
    """

    def __init__(
        self,
        obj: T,
        snapshot: Snapshot,
        request: Request,
        client: Client,
        log: structlog.stdlib.BoundLogger,
        *,
        run_sync: RunSync,
        causes: Sequence[Cause] = (),
        attempt: int = 0,
    ) -> None:
        self.object: T = obj
        self.request = request
        self.client = client
        self.log = log
        self.causes = tuple(causes)
        self.attempt = attempt
        self._snapshot = snapshot
        self._run_sync = run_sync
        self._status: dict[str, Any] = {}
        self._conditions: dict[str, dict[str, Any]] = {}
        self._events: list[PendingEvent] = []

    @property
    def clock(self) -> Clock:
        """Wall time, chance and identity; a reconciler takes them from nowhere else."""
        return self.client.clock

    # --- children -------------------------------------------------------------------------------

    async def owned(self, model: type[O]) -> Sequence[O]:
        """The objects of a kind that this object owns, own writes of earlier runs included."""
        return await self.client.list(model, self.object.namespace, owner=self.object)

    @overload
    async def apply(self, obj: O, *, force: bool = True) -> O: ...
    @overload
    async def apply(self, obj: Mapping[str, Any], *, force: bool = True) -> Unstructured: ...
    async def apply(self, obj: Object | Mapping[str, Any], *, force: bool = True) -> Object:
        """Make a child have what `obj` says, owned by this object; no request when nothing would change.

        The namespace is this object's unless `obj` names one; an object of another namespace cannot
        be owned and is applied as it is.
        """
        if isinstance(obj, Mapping):
            obj = await self.client.unstructured(obj)
        return await self.client.apply(self._as_child(obj), force=force)

    @overload
    async def create(self, obj: O) -> O: ...
    @overload
    async def create(self, obj: Mapping[str, Any]) -> Unstructured: ...
    async def create(self, obj: Object | Mapping[str, Any]) -> Object:
        """Create a child, owned by this object (see `apply` for namespaces). Raises AlreadyExists."""
        if isinstance(obj, Mapping):
            obj = await self.client.unstructured(obj)
        return await self.client.create(self._as_child(obj))

    async def delete(self, obj: Object, *, propagation: Propagation | None = None) -> None:
        """Delete that very object; no error if it is gone already."""
        await self.client.delete(obj, propagation=propagation)

    # --- what the run says of its object -----------------------------------------------------------

    def status(self, **fields: Any) -> None:
        """Collect status fields; they are written once, at the end of the run, and only if changed.

        Raises TypeError for a field that the status of the model does not have.
        """
        names = self._status_fields()
        for name, value in fields.items():
            if names is not None and name not in names:
                raise TypeError(f"the status of {type(self.object).__name__} has no field {name!r}")
            self._status[names[name] if names is not None else name] = unstructure(value)

    def condition(
        self,
        name: str,
        status: bool | Literal["True", "False", "Unknown"],
        *,
        reason: str,
        message: str = "",
    ) -> None:
        """Collect the condition of type `name`; its lastTransitionTime moves only when its status does."""
        word = status if isinstance(status, str) else str(bool(status))
        self._conditions[name] = {"type": name, "status": word, "reason": reason, "message": message}

    def event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Tell people about the object: one Event, or one more of a series, after the run."""
        self._events.append(PendingEvent("Warning" if warning else "Normal", reason, message))

    # --- blocking code ------------------------------------------------------------------------------

    async def run_sync(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call blocking code in a thread of its own; inline under the test kit."""
        result: R = await self._run_sync(functools.partial(function, *args, **kwargs))
        return result

    # --- for the runtime --------------------------------------------------------------------------

    def pending_events(self) -> Sequence[PendingEvent]:
        """The events collected so far."""
        return tuple(self._events)

    async def write_status(self) -> bool:
        """Write what was collected, if it changes anything; says whether it did. Raises StaleVersion."""
        before = self._snapshot.to_dict().get("status") or {}
        after = self._wanted_status(before)
        patch = merge_diff(before, after)
        if not patch:
            return False
        guard = {"uid": self._snapshot.uid}
        if touches_list(patch):
            guard["resourceVersion"] = str(self._snapshot.version)
        await self.client.merge(self.object, {"status": patch}, guard=guard, subresource="status")
        return True

    def _wanted_status(self, before: Mapping[str, Any]) -> dict[str, Any]:
        after = {**before, **{name: value for name, value in self._status.items() if value is not None}}
        for name, value in self._status.items():
            if value is None:
                after.pop(name, None)
        if self._conditions:
            now = format_time(self.clock.now())
            generation = self._snapshot.generation
            after["conditions"] = merge_conditions(
                before.get("conditions") or (), self._conditions.values(), now, generation
            )
        return after

    def _status_fields(self) -> dict[str, str] | None:
        if isinstance(self.object, Unstructured):
            return None
        status = getattr(self.object, "status", None)
        if status is None or not attrs.has(type(status)):
            raise TypeError(f"{type(self.object).__name__} has no status")
        return {attribute.name: wire_name(attribute) for attribute in attrs.fields(type(status))}

    def _as_child(self, obj: O) -> O:
        resource = kind_of(obj).resource
        mine = kind_of(self.object).resource
        if resource.namespaced and not obj.namespace:
            obj = obj.with_metadata(namespace=self.object.namespace)
        if mine.namespaced and not (resource.namespaced and obj.namespace == self.object.namespace):
            return obj
        return obj.with_metadata(owner_references=self._owners(obj.metadata))

    def _owners(self, metadata: ObjectMeta) -> tuple[OwnerReference, ...]:
        resource = kind_of(self.object).resource
        mine = OwnerReference(
            api_version=resource.api_version,
            kind=resource.kind,
            name=self.object.name,
            uid=self.object.uid,
            controller=True,
            block_owner_deletion=True,
        )
        return (*(owner for owner in metadata.owner_references if owner.uid != mine.uid), mine)


def merge_conditions(
    before: Sequence[Mapping[str, Any]], wanted: Any, now: str, generation: int | None
) -> list[dict[str, Any]]:
    """The condition list after a run: those not `wanted` stay as they are, in their places.

    A condition's lastTransitionTime moves to `now` (RFC 3339) only when its status changes.
    """
    merged = {condition.get("type", ""): dict(condition) for condition in before}
    for condition in wanted:
        old = merged.get(condition["type"], {})
        changed = not same(old.get("status"), condition["status"])
        since = now if changed or not old.get("lastTransitionTime") else old["lastTransitionTime"]
        observed = {} if generation is None else {"observedGeneration": generation}
        merged[condition["type"]] = {**old, **condition, **observed, "lastTransitionTime": since}
    return list(merged.values())
