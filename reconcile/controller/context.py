"""What one run of a reconciler gets: its object, a client, and a place for status and events."""

import asyncio
import functools
import math
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, overload

import attrs
import structlog

from informers import AlreadyExists, APIResource, Clock, Key, Snapshot
from informers.functions import is_async, name_of
from reconcile.client.client import Client, Propagation
from reconcile.client.diff import merge_diff, pointers
from reconcile.client.own_writes import NoJournal
from reconcile.conditions import checked_condition, merge_conditions, reason_for
from reconcile.controller.blocking import Blocking
from reconcile.controller.generated_values import generate_once
from reconcile.controller.pruning import prune
from reconcile.models import (
    Intent,
    LabelSelector,
    Object,
    Unstructured,
    kind_of,
    unstructure,
)
from reconcile.models.codec import format_time
from reconcile.models.fields import fields_of
from reconcile.owners import can_own, with_owner
from reconcile.runs.failures import text_of
from reconcile.runs.requests import Cause, Request

T = TypeVar("T", bound=Object)
O = TypeVar("O", bound=Object)  # noqa: E741
P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen
class PendingEvent:
    """An event that a run wants to tell about its object."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    action: str = "Reconcile"


class Context(Generic[T]):
    """One run for one key.

    `object` is the object as a typed, immutable snapshot, decoded when first read; `client` reads and
    writes for this key; `log` carries controller, key and reconcile id; `causes` say why the key runs;
    `attempt` counts its failures since it last did not fail. `deadline` is when the run has taken too long,
    in the event loop's seconds (`anyio.current_time`).
    """

    def __init__(
        self,
        model: type[T],
        snapshot: Snapshot,
        request: Request,
        client: Client,
        bind_log: Callable[[], structlog.stdlib.BoundLogger],
        *,
        blocking: Blocking,
        causes: Sequence[Cause] = (),
        attempt: int = 0,
        deadline: float = math.inf,
        owns: Sequence[type[Object]] = (),
        client_of: Callable[[str], Client] | None = None,
    ) -> None:
        self.request = request
        self.client = client
        self.causes = tuple(causes)
        self.attempt = attempt
        self.reported = False
        self._model = model
        self._snapshot = snapshot
        self._bind_log = bind_log
        self.deadline = deadline
        self._client_of = client_of
        self._blocking = blocking
        self._time = asyncio.get_running_loop().time
        self._status: dict[str, Any] = {}
        self._conditions: dict[str, dict[str, Any]] = {}
        self._removed: set[str] = set()
        self._events: list[PendingEvent] = []
        self._owns = tuple(owns)
        self._pruned: dict[type[Object], None] = {}
        self._spared: set[tuple[APIResource, Key]] = set()
        self._made: dict[str, str] = {}

    @functools.cached_property
    def object(self) -> T:
        """The object as it was when the run began; decoded when first read. Raises DecodeError."""
        # Not kept: to keep an object of each state that comes costs more than to decode one twice at times.
        return self.client.decoded(self._model, self._snapshot, keep=False)

    @functools.cached_property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A logger that says controller, key and reconcile id with each line."""
        return self._bind_log()

    @property
    def clock(self) -> Clock:
        """Wall time, chance and identity; a reconciler takes them from nowhere else."""
        return self.client.clock

    @property
    def remaining(self) -> float:
        """Seconds until `deadline`; from any thread."""
        return self.deadline - self._time()

    def client_of(self, cluster: str) -> Client:
        """The client of another of `Manager(clusters=)`, for this key. Raises LookupError for an unknown one.

        It reads and writes as `client` does, own writes seen and leadership held; nothing there can be
        owned by an object here.
        """
        if cluster == self.request.cluster:
            return self.client
        if self._client_of is None:
            raise LookupError(f"there is no cluster {cluster!r}")
        return self._client_of(cluster)

    # --- children -------------------------------------------------------------------------------

    async def owned(self, model: type[O]) -> Sequence[O]:
        """The objects of a kind that this object owns, own writes of earlier runs included."""
        return await self.client.list(model, self.object.namespace, owner=self.object)

    @overload
    async def apply(
        self, obj: Intent[O], *, force: bool = True, unforced: Collection[str] = (), adopt: bool = True
    ) -> O: ...
    @overload
    async def apply(
        self,
        obj: Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        adopt: bool = True,
    ) -> Unstructured: ...
    async def apply(
        self,
        obj: Intent[Object] | Object | Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        adopt: bool = True,
    ) -> Object:
        """Make a child have what `obj` says, owned by this object; no request when nothing would change.

        `obj` is an intent, a mapping, or a manifest in YAML. The namespace is this object's unless `obj`
        names one; an object of another namespace cannot be owned and is applied as it is. `force` and
        `unforced` are those of `Client.apply`. Raises AlreadyOwned for a child of another controller. Without
        `adopt`, an object that is there and is not controlled by this one is left as it is: raises
        AlreadyExists, as far as can be seen before the write.
        """
        if isinstance(obj, Mapping | str):
            obj = await self.client.unstructured(obj)
        child = Intent(self._as_child, obj.object if isinstance(obj, Intent) else obj)
        if not adopt:
            await self._refuse_foreign(child.object)
        return await self.client.apply(child, force=force, unforced=unforced)

    @overload
    async def create(self, obj: O) -> O: ...
    @overload
    async def create(self, obj: Mapping[str, Any] | str) -> Unstructured: ...
    async def create(self, obj: Object | Mapping[str, Any] | str) -> Object:
        """Create a child, owned by this object (see `apply` for namespaces). Raises AlreadyExists."""
        if isinstance(obj, Mapping | str):
            obj = await self.client.unstructured(obj)
        return await self.client.create(self._as_child(obj))

    async def delete(
        self, obj: Object, *, propagation: Propagation | None = None, if_unchanged: bool = False
    ) -> None:
        """Delete that very object; no error if it is gone already.

        Without `propagation` its own children go too, unless it is a Job: say `"Background"` for those.
        With `if_unchanged` it goes only as it was read: raises StaleVersion where somebody has changed it
        meanwhile, and the key runs again at once.
        """
        await self.client.delete(obj, propagation=propagation, if_unchanged=if_unchanged)

    def prune(self, *kinds: type[Object], keep: Iterable[Object] = ()) -> None:
        """At the end of this run, delete the children that it has neither applied nor written otherwise.

        Of `kinds`, which the controller `owns`; without any, of all that it owns. Objects of `keep` are
        spared. Nothing is deleted where the run fails, or where any of its requests or blocking calls
        did, whether or not the reconciler went on: what should be there is not known then. It happens
        before the status is written: keep a child that alone proves what the status is to say. Raises
        ValueError for a kind that the controller does not own.
        """
        for kind in kinds:
            if kind not in self._owns:
                raise ValueError(f"prune: {kind.__name__} is not among the kinds that the controller owns")
        if not (kinds or self._owns):
            raise ValueError("prune: the controller owns no kinds; say which it does by owns=")
        self._pruned.update(dict.fromkeys(kinds or self._owns))
        self._spared.update((kind_of(obj).resource, obj.key) for obj in keep)

    # --- what the run says of its object -----------------------------------------------------------

    def status(self, **fields: Any) -> None:
        """Collect status fields; they are written once, at the end of the run, and only if changed.

        A `LabelSelector` for the selector of the kind's `scale=` becomes the text that autoscalers read.
        Raises TypeError for a field that the status of the model does not have.
        """
        names = self._status_fields()
        for name, value in fields.items():
            if names is not None and name not in names:
                raise TypeError(f"the status of {type(self.object).__name__} has no field {name!r}")
            wire = names[name] if names is not None else name
            self._status[wire] = unstructure(self._selector_text(wire, value))

    def condition(
        self,
        name: str,
        status: bool | Literal["True", "False", "Unknown"],
        *,
        reason: str,
        message: str = "",
    ) -> None:
        """Collect the condition of type `name`; its lastTransitionTime moves only when its status does.

        `reason` is one CamelCase word. A `message` of over 32,768 characters is cut. Raises ValueError for
        a type, status or reason that metav1.Condition does not allow, since no status would be written.
        """
        word = status if isinstance(status, str) else str(bool(status))
        made = checked_condition(name, word, reason, message)
        self._removed.discard(name)
        self._conditions[name] = made

    def remove_condition(self, name: str) -> None:
        """Collect that there is no condition of type `name` any more."""
        self._conditions.pop(name, None)
        self._removed.add(name)

    @contextmanager
    def false_on_failure(self, name: str, *errors: type[Exception]) -> Generator[None]:
        """Within it, collect the condition of type `name` as False where one of `errors` is raised.

        Its reason is the name of the error's class, its message what the error says, without what Secrets
        hold. The error goes on: the run fails, is tried again with back-off, and its condition is written.
        """
        try:
            yield
        except errors as error:
            message = self.client.redacted(text_of(error))
            self.condition(name, False, reason=reason_for(error), message=message)
            raise

    def event(self, reason: str, message: str, *, warning: bool = False, action: str = "Reconcile") -> None:
        """Tell people about the object: one Event, or one more of a series, written beside the runs.

        `reason` is one CamelCase word, as is `action`, which says what was being done. The run never
        waits for an Event, nor fails with it.
        """
        self._events.append(PendingEvent("Warning" if warning else "Normal", reason, message, action))

    async def generate_once(self, name: str, make: Callable[[], str], *, secret: str | Key = "") -> str:
        """A password, a salt or a token: made by `make()` where there is none yet, and the same ever after.

        It is kept as `name` in a Secret that this object owns: `secret`, by default `<name>-generated` in
        its namespace; the controller declares it: `writes=[Secret]`. `make` takes chance from `clock`. An
        object without a namespace says which by a `Key`. Raises ValueError if it does not.
        """
        key = secret if isinstance(secret, Key) else Key(self.object.namespace, secret)
        if not key.name:
            key = key._replace(name=f"{self.object.name}-generated")
        if not key.namespace:
            raise ValueError("generate_once: say in which namespace the Secret is to be, by secret=Key(...)")
        return await generate_once(self.client, self.object, name, make, key, self._made)

    # --- blocking code ------------------------------------------------------------------------------

    async def run_sync(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call blocking code in one of the manager's threads; inline under the test kit.

        A thread cannot be ended: where the run has taken too long, or is to stop, this returns only when
        `function` has, and then ends the run. Raises TypeError for an `async def`, and what `function` does.
        """
        if is_async(function):
            raise TypeError(f"run_sync: {name_of(function)} is an `async def`: await it as it is")
        try:
            return await self._blocking.call(functools.partial(function, *args, **kwargs), self.log)
        except Exception:
            if self.client.run is not None:
                self.client.run.lost()
            raise

    # --- for the runtime --------------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether the run has said anything that is to be written or told."""
        return bool(self._status or self._conditions or self._removed or self._events)

    def rehearse(self) -> dict[str, str]:
        """Carry nothing out from here on. Returns what `generate_once` makes: the run proper takes that."""
        self.reported = True
        self.client = self.client.bound(NoJournal(), beside=None).with_options(dry_run=True)
        if self._client_of is not None:
            client_of = self._client_of
            self._client_of = lambda cluster: client_of(cluster).bound(NoJournal()).with_options(dry_run=True)
        return self._made

    def taking(self, made: dict[str, str]) -> Self:
        """The same context; `generate_once` takes what a rehearsal made, where it would make anew."""
        self._made = made
        return self

    def note_wanted(self) -> None:
        """Note in the run's record what was said of the object, the times of conditions aside."""
        if self.client.run is not None and (self._status or self._conditions):
            said = {"status": self._status, "conditions": self._conditions}
            self.client.run.wants(self._resource, self.object.key, "status", said)

    def pending_events(self) -> Sequence[PendingEvent]:
        """The events collected so far."""
        return tuple(self._events)

    @property
    def prunes(self) -> bool:
        """Whether the run has asked for children to be deleted at its end."""
        return bool(self._pruned)

    async def carry_out_prune(self) -> int:
        """Delete what `prune` asked for; says how many. Raises StaleVersion, and the errors of requests."""
        deleted = await prune(self.client, self.object, tuple(self._pruned), self._spared)
        if deleted:
            self.log.info("pruned children that are wanted no more", deleted=deleted)
        return deleted

    async def write_status(self) -> bool:
        """Write what was collected, if it changes anything; says whether it did. Raises StaleVersion.

        The difference is to the object of this run as it is after the run's own writes to it, or to a
        live read where the cache does not keep what would be written. It is meant for that very version:
        of a status an API server does not look at the uid alone.
        """
        if not (self._status or self._conditions or self._removed):
            return False
        before = self._latest()
        patch = self._status_patch(before)
        if any(self.client.lacks(self._resource, pointer) for pointer in pointers({"status": patch})):
            live = await self.client.read(self._resource, self._snapshot.key)
            if live is None or live.uid != before.uid:
                return False
            before, patch = live, self._status_patch(live)
        if not patch:
            return False
        guard = {"uid": before.uid, "resourceVersion": str(before.version)}
        await self.client.merge(self.object, {"status": patch}, guard=guard, subresource="status")
        return True

    def _latest(self) -> Snapshot:
        """The object as this run knows it: as it was read, or as the run itself wrote it since."""
        run, key = self.client.run, self._snapshot.key
        written = None if run is None else run.state_of(self._resource, key)
        if written is None or written.uid != self._snapshot.uid:
            return self._snapshot
        return written

    @property
    def _resource(self) -> APIResource:
        return kind_of(self._model).resource

    def _status_patch(self, snapshot: Snapshot) -> dict[str, Any]:
        """From what is stored to what was collected; conditions speak of the generation that the run saw."""
        stored = _status_of(snapshot)
        obj = self.object if snapshot is self._snapshot else self.client.decoded(self._model, snapshot)
        seen = {**stored, **_seen_status(obj)}
        before = {name: value for name, value in seen.items() if name in stored}
        after = {**before, **{name: value for name, value in self._status.items() if value is not None}}
        for name in [name for name, value in self._status.items() if value is None]:
            after.pop(name, None)
        if self._conditions or self._removed:
            now = format_time(self.clock.now())
            before["conditions"] = stored.get("conditions") or []
            after["conditions"] = merge_conditions(
                before["conditions"], self._conditions.values(), now, self._observed, self._removed
            )
        return merge_diff(before, after, stored)

    @property
    def _observed(self) -> int | None:
        """The generation that conditions are to name; None in the oldest groups of Kubernetes.

        Conditions of Nodes, Deployments and Jobs have no place for it: a server drops it, so that every run
        would write it anew.
        """
        return self._snapshot.generation if "." in self._resource.group else None

    def _status_fields(self) -> dict[str, str] | None:
        if isinstance(self.object, Unstructured):
            return None
        status = getattr(self.object, "status", None)
        if status is None or not attrs.has(type(status)):
            raise TypeError(f"{type(self.object).__name__} has no status")
        return {one.name: one.wire for one in fields_of(type(status))}

    def _selector_text(self, wire: str, value: Any) -> Any:
        scale = kind_of(self._model).scale
        if scale is None or scale.selector != f".status.{wire}" or not isinstance(value, LabelSelector):
            return value
        return value.text()

    async def _refuse_foreign(self, child: Object) -> None:
        """Look before an apply. No apply can be made to create only: who comes in between is adopted."""
        if not can_own(self.object, child):
            raise ValueError(
                f"adopt=False: {str(child.key)!r} cannot be owned, so nobody can say whose it is"
            )
        found = await self.client.snapshot(kind_of(child).resource, child.key)
        if found is None or (found.controller is not None and found.controller.uid == self.object.uid):
            return
        raise AlreadyExists(
            409,
            "AlreadyExists",
            f"{type(child).__name__} {str(child.key)!r} is there, and is not controlled by "
            f"{type(self.object).__name__} {str(self.object.key)!r}",
        )

    def _as_child(self, obj: O) -> O:
        if kind_of(obj).resource.namespaced and not obj.namespace:
            obj = obj.with_metadata(namespace=self.object.namespace)
        return with_owner(obj, self.object, controller=True) if can_own(self.object, obj) else obj


def _seen_status(obj: Object) -> dict[str, Any]:
    """The status as the model shows it: what is stored may have more, also within lists."""
    status = getattr(obj, "status", None)
    if isinstance(obj, Unstructured) or status is None:
        return {}
    seen: dict[str, Any] = unstructure(status)
    return seen


def _status_of(snapshot: Snapshot) -> dict[str, Any]:
    return snapshot.to_dict().get("status") or {}
