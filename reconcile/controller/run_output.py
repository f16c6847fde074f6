"""The output of a run, written at its end: status, conditions, Events, children to delete."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, get_origin

import attrs

from informers import APIResource, Key, NotFound, PreconditionFailed, Snapshot, StaleVersion
from reconcile.client.client import Client, core_of, reads_of
from reconcile.client.diff import merge_diff, pointers
from reconcile.conditions import merge_conditions
from reconcile.models import LabelSelector, Object, Unstructured, kind_of, unstructure
from reconcile.models.fields import fields_by_wire, fields_of
from reconcile.models.objects import status_part
from reconcile.models.values import format_time

T = TypeVar("T", bound=Object)

_ATTEMPTS = 20
"""Of a write that others keep overtaking, as for `Client.modify`."""


@attrs.frozen
class PendingEvent:
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    action: str = "Reconcile"


class RunOutput(Generic[T]):
    """Collects the output of one run, and writes it; a rehearsal hands its `generated` values on."""

    def __init__(
        self, model: type[T], snapshot: Snapshot, client: Client, generated: dict[str, str] | None = None
    ) -> None:
        self.client = client
        self.generated: dict[str, str] = {} if generated is None else generated
        self.reported = False
        self.is_partial = False
        """Whether the run has done only a part, so that what a predecessor left is still needed."""
        self.events: list[PendingEvent] = []
        self._model = model
        self._resource = kind_of(model).resource
        self._snapshot = snapshot
        self._status: dict[str, Any] = {}
        self._conditions: dict[str, dict[str, Any]] = {}
        self._removed: set[str] = set()
        self._times: set[str] = set()
        self._pruned: dict[type[Object], None] = {}
        self._spared: set[tuple[APIResource, Key]] = set()

    @cached_property
    def object(self) -> T:
        """The object as it was when the run began; decoded when first read. Raises DecodeError."""
        # Not kept: to keep an object of each state that comes costs more than to decode one twice at times.
        return core_of(self.client).decoded(self._model, self._snapshot, keep=False)

    # --- collecting -----------------------------------------------------------------------------

    def set_status(self, fields: Mapping[str, Any]) -> None:
        """Collect status fields by their Python names. Raises TypeError for an unknown one."""
        names = self._status_fields()
        for name, value in fields.items():
            if names is not None and name not in names:
                raise TypeError(f"the status of {type(self.object).__name__} has no field {name!r}")
            wire = names[name] if names is not None else name
            self._status[wire] = unstructure(self._selector_text(wire, value))

    def collected_status(self, wire: str) -> Any:
        """The JSON that was collected for a status field, by its name in JSON; None where none was."""
        return self._status.get(wire)

    def set_condition(self, name: str, condition: dict[str, Any]) -> None:
        self._removed.discard(name)
        self._conditions[name] = condition

    def remove_condition(self, name: str) -> None:
        self._conditions.pop(name, None)
        self._removed.add(name)

    def prune(self, kinds: Iterable[type[Object]], keep: Iterable[Object]) -> None:
        self._pruned.update(dict.fromkeys(kinds))
        self._spared.update((kind_of(obj).resource, obj.key) for obj in keep)

    def note_desired(self) -> None:
        """Note the collected status in the run's record, without the times of conditions and `note_time`."""
        if self._status or self._conditions:
            said = {"status": _without(self._status, self._times), "conditions": self._conditions}
            core_of(self.client).run.note_desired(self._resource, self.object.key, "status", said)

    def note_time(self, now: datetime) -> None:
        """A status with this time says when something began, not what is desired."""
        self._times.add(format_time(now))

    # --- writing --------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not (self._status or self._conditions or self._removed or self.events)

    async def carry_out_prune(self) -> int:
        """Delete what `prune` collected; returns how many. Raises StaleVersion, and errors of requests."""
        if not self._pruned:
            return 0
        return await _prune(self.client, self.object, tuple(self._pruned), self._spared)

    async def write_status(self) -> bool:
        """Write the collected status if it changes anything; returns whether it did. Raises StaleVersion.

        The difference is to the object of this run as it is after the run's own writes to it, or to a live
        read where the cache drops fields that would be written. It is meant for that very version: for a
        status an API server may ignore the uid.
        """
        if not (self._status or self._conditions or self._removed):
            return False
        before = self._latest()
        patch = self._status_patch(before)
        core = core_of(self.client)
        if any(core.lacks(self._resource, pointer) for pointer in pointers({"status": patch})):
            live = await reads_of(self.client).read(self._resource, self._snapshot.key)
            if live is None or live.uid != before.uid:
                return False
            before, patch = live, self._status_patch(live)
        return await self._send_status(before, patch)

    async def write_status_onto(self, still: Callable[[T], bool]) -> bool:
        """As `write_status`, but onto a newer state of the object too, if `still` is true of that state.

        For what must not be lost because another writer was faster. Returns False where the object is gone,
        or `still` is false. Raises StaleVersion after 20 attempts, and errors of requests.
        """
        try:
            return await self._write_status_onto(still)
        except (NotFound, PreconditionFailed):
            return False

    async def _write_status_onto(self, still: Callable[[T], bool]) -> bool:
        try:
            return await self.write_status() or True
        except StaleVersion:
            pass
        for attempts_left in reversed(range(_ATTEMPTS)):
            live = await self.live()
            if live is None or not still(live[1]):
                return False
            try:
                return await self._send_status(live[0], self._status_patch(live[0])) or True
            except StaleVersion:
                if not attempts_left:
                    raise
        return False

    async def live(self) -> tuple[Snapshot, T] | None:
        """This very object as the server has it now, or None. Raises DecodeError, and errors of requests."""
        live = await reads_of(self.client).read(self._resource, self._snapshot.key)
        if live is None or live.uid != self._snapshot.uid:
            return None
        return live, core_of(self.client).decoded(self._model, live, keep=False)

    async def _send_status(self, before: Snapshot, patch: Mapping[str, Any]) -> bool:
        if not patch:
            return False
        guard = {"uid": before.uid, "resourceVersion": str(before.version)}
        part = status_part(self._model)
        await self.client.raw.merge(self.object, {"status": patch}, guard=guard, subresource=part)
        return True

    def _latest(self) -> Snapshot:
        """The object as read, or as this run itself wrote it since."""
        written = core_of(self.client).run.state_of(self._resource, self._snapshot.key)
        if written is None or written.uid != self._snapshot.uid:
            return self._snapshot
        return written

    def _status_patch(self, snapshot: Snapshot) -> dict[str, Any]:
        """From the stored to the collected status; conditions name the generation that the run saw."""
        stored: dict[str, Any] = snapshot.to_dict().get("status") or {}
        core = core_of(self.client)
        obj = self.object if snapshot is self._snapshot else core.decoded(self._model, snapshot)
        seen = {**stored, **_seen_status(obj)}
        before = {name: value for name, value in seen.items() if name in stored}
        after = {**before, **{name: value for name, value in self._status.items() if value is not None}}
        if _is_built_in(self._resource.group):
            # Go writes no zero in most places: one that is not stored would be sent in every run.
            after = {name: value for name, value in after.items() if value or name in stored}
        for name in [name for name, value in self._status.items() if value is None]:
            after.pop(name, None)
        if self._conditions or self._removed:
            now = format_time(self.client.clock.now())
            # A server adds null times to conditions of Deployments and drops empty messages.
            before["conditions"] = [
                {"message": "", **{name: value for name, value in one.items() if value is not None}}
                for one in stored.get("conditions") or ()
            ]
            after["conditions"] = merge_conditions(
                before["conditions"], self._conditions.values(), now, self._observed, self._removed
            )
        return merge_diff(before, after, stored)

    @property
    def _observed(self) -> int | None:
        """The generation for conditions; None in the oldest groups, and where a status write changes it."""
        # Conditions of Nodes, Deployments and Jobs have no place for it: a server drops it, so that every run
        # would write it again. Where status is no subresource, each write of it makes another generation.
        if not status_part(self._model):
            return None
        return self._snapshot.generation if "." in self._resource.group else None

    def _status_fields(self) -> dict[str, str] | None:
        if isinstance(self.object, Unstructured):
            return None
        declared = fields_by_wire(self._model).get("status")
        if declared is None:
            raise TypeError(f"{self._model.__name__} has no status")
        # By its type, since an object may have no status yet.
        if get_origin(declared.type) is Mapping:
            return None
        if not attrs.has(declared.type):
            raise TypeError(f"the status of {self._model.__name__} has no fields: it is {declared.type}")
        return {field.name: field.wire for field in fields_of(declared.type)}

    def _selector_text(self, wire: str, value: Any) -> Any:
        scale = kind_of(self._model).scale
        if scale is None or scale.selector != f".status.{wire}" or not isinstance(value, LabelSelector):
            return value
        return value.text()


def _without(value: Any, texts: Set[str]) -> Any:
    """JSON with a name in place of some of its texts."""
    if isinstance(value, Mapping):
        return {name: _without(part, texts) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without(part, texts) for part in value]
    return "<now>" if isinstance(value, str) and value in texts else value


def _is_built_in(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def _seen_status(obj: Object) -> dict[str, Any]:
    """The status as the model shows it: the stored one may have more, also within lists."""
    status = getattr(obj, "status", None)
    if isinstance(obj, Unstructured) or status is None:
        return {}
    seen: dict[str, Any] = unstructure(status)
    return seen


async def _prune(
    client: Client,
    owner: Object,
    kinds: Sequence[type[Object]],
    spared: Collection[tuple[APIResource, Key]],
) -> int:
    """Delete the children of `kinds` that the run of `client` has not written; returns how many.

    Children are controlled by `owner`, by uid; terminating and `spared` ones are left alone. Deletes nothing
    where a request of the run has failed: the desired children are unknown then.
    """
    run = core_of(client).run
    if not run.flawless:
        return 0
    deleted = 0
    for kind in kinds:
        resource = kind_of(kind).resource
        for child in await reads_of(client).snapshots(resource, owner.namespace, owner=owner):
            kept = run.keeps(resource, child.key) or (resource, child.key) in spared
            controlled = any(
                reference.controller and reference.uid == owner.uid for reference in child.owners
            )
            if kept or child.terminating or not controlled:
                continue
            deleted += await _delete(client, resource, child)
    return deleted


async def _delete(client: Client, resource: APIResource, child: Snapshot) -> bool:
    try:
        # With its own children: of a Job the API server would leave them.
        await client.raw.delete_snapshot(resource, child, propagation="Background")
    except PreconditionFailed:
        return False
    return True
