"""The context of one run: its object, a client, and its status and events."""

import functools
import math
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

import structlog
from attrs import field, frozen

from informers import AlreadyExists, Clock, Key
from informers.functions import is_async, name_of
from reconcile.client.client import Client, core_of
from reconcile.client.object_writes import Propagation
from reconcile.conditions import checked_condition, reason_for
from reconcile.controller.blocking import Blocking
from reconcile.controller.run_output import PendingEvent, RunOutput
from reconcile.models import Intent, Object, Unstructured, kind_of
from reconcile.owners import can_own, with_owner
from reconcile.runs.run_failures import error_text
from reconcile.runs.run_request import Cause, Request

T = TypeVar("T", bound=Object)
O = TypeVar("O", bound=Object)  # noqa: E741
P = ParamSpec("P")
R = TypeVar("R")


@frozen(eq=False, repr=False, slots=False)
class RunContext(Generic[T]):
    """The context of a run, whether or not its code may block."""

    _output: RunOutput[T]
    request: Request
    """The key."""
    _bind_log: Callable[[], structlog.stdlib.BoundLogger]
    _blocking: Blocking = field(kw_only=True)
    causes: tuple[Cause, ...] = field(default=(), kw_only=True)
    """Why the key runs."""
    attempt: int = field(default=0, kw_only=True)
    """How often the key has failed in a row."""
    deadline: float = field(default=math.inf, kw_only=True)
    """When the run is ended for taking too long, in the event loop's seconds (`anyio.current_time`)."""
    epoch: int = field(default=0, kw_only=True)
    """Grows each time that another replica takes over the work on this object: by a change of the leader, or
    of the bucket's holder where replicas share the objects; 0 where there is neither. Pass it to systems
    outside that refuse a smaller one than they have seen: a former holder, which does not know yet that it is
    one, can then change nothing there. A Lease that is deleted by hand begins anew."""
    _owns: Sequence[type[Object]] = field(default=(), kw_only=True)
    _client_of: Callable[[str], Client] | None = field(default=None, kw_only=True)
    _now: Callable[[], float] = field(kw_only=True)

    @property
    def object(self) -> T:
        """The object as it was when the run began; decoded when first read. Raises DecodeError."""
        return self._output.object

    @functools.cached_property
    def log(self) -> structlog.stdlib.BoundLogger:
        """A logger that adds controller, key and reconcile id to each line."""
        return self._bind_log()

    @property
    def clock(self) -> Clock:
        """Wall time, chance and identity; a reconciler takes them from nowhere else."""
        return self._output.client.clock

    @property
    def remaining(self) -> float:
        """Seconds until `deadline`, from any thread; code in a thread is not ended and must return itself."""
        return self.deadline - self._now()

    def prune(self, *kinds: type[Object], keep: Iterable[Object] = ()) -> None:
        """At the end of this run, delete the children that it has neither applied nor otherwise written.

        Of `kinds`, which the controller `owns`; without any, of all that it owns. Objects in `keep` are
        spared. Nothing is deleted where the run, or any of its requests or blocking calls, fails, even if the
        reconciler goes on: the desired children are unknown then. It happens before the status is written:
        keep a child that alone proves the new status. Raises ValueError for a kind that the controller does
        not own.
        """
        for kind in kinds:
            if kind not in self._owns:
                raise ValueError(f"prune: {kind.__name__} is not among the kinds that the controller owns")
        if not (kinds or self._owns):
            raise ValueError("prune: the controller owns no kinds; say which it does by owns=")
        self._output.prune(kinds or self._owns, keep)

    def status(self, **fields: Any) -> None:
        """Collect status fields; they are written once, at the end of the run, and only if changed.

        A `LabelSelector` for the selector of the kind's `scale=` becomes the text that autoscalers read.
        Raises TypeError for a field that the status of the model does not have.
        """
        self._output.set_status(fields)

    def condition(
        self,
        name: str,
        status: bool | Literal["True", "False", "Unknown"],
        *,
        reason: str,
        message: str = "",
    ) -> None:
        """Collect the condition of type `name`; its lastTransitionTime moves only when its status does.

        `reason` is one CamelCase word. A `message` of over 32,768 characters is cut. Raises ValueError for a
        type, status or reason that metav1.Condition does not allow, since no status would be written.
        """
        word = status if isinstance(status, str) else str(bool(status))
        self._output.set_condition(name, checked_condition(name, word, reason, message))

    def remove_condition(self, name: str) -> None:
        """Remove the condition of type `name` at the end of the run."""
        self._output.remove_condition(name)

    @contextmanager
    def false_on_failure(self, name: str, *errors: type[Exception]) -> Generator[None]:
        """While inside, set the condition of type `name` to False if one of `errors` is raised.

        Its reason is the name of the error's class, its message the error's text, without the values of
        Secrets. The error goes on: the run fails, is tried again with back-off, and its condition is written.
        """
        try:
            yield
        except errors as error:
            message = core_of(self._output.client).redacted(error_text(error))
            self.condition(name, False, reason=reason_for(error), message=message)
            raise

    def event(self, reason: str, message: str, *, warning: bool = False, action: str = "Reconcile") -> None:
        """Record an Event about the object, written beside the runs; equal ones are counted up in a series.

        `reason` is one CamelCase word, as is `action`, the operation that was under way. The run never waits
        for an Event, nor fails with it.
        """
        event = PendingEvent("Warning" if warning else "Normal", reason, message, action)
        self._output.events.append(event)


class Context(RunContext[T]):
    """One run for one key: its object, a client, and what to write at its end."""

    @property
    def client(self) -> Client:
        """Reads and writes for this key."""
        return self._output.client

    def client_of(self, cluster: str) -> Client:
        """The client of another of `Manager(clusters=)`, for this key. LookupError for an unknown one.

        It sees own writes and needs leadership as `client` does; nothing there can be owned by an object
        here.
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
        """Make a child match `obj`, owned by this object; no request when nothing would change.

        `obj` is an intent, a mapping, or a manifest in YAML. The namespace is this object's unless `obj`
        names one; an object of another namespace cannot be owned and is applied as it is. `force` and
        `unforced` are those of `Client.apply`. A child that another object controls is refused: by
        AlreadyOwned where `obj` has its owner references, else by the server, as Invalid. But one of this
        controller's other objects gives it up: have its name follow from that of the object. Without
        `adopt`, raises AlreadyExists for an existing object that this one does not control, as far as can be
        seen before the write.
        """
        if isinstance(obj, Mapping | str):
            obj = await self.client.raw.unstructured(obj)
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
            obj = await self.client.raw.unstructured(obj)
        return await self.client.create(self._as_child(obj))

    async def delete(
        self, obj: Object, *, propagation: Propagation | None = None, if_unchanged: bool = False
    ) -> None:
        """Delete this very object; no error if it is gone already.

        Without `propagation` its own children go too, unless it is a Job: use `"Background"` for those. With
        `if_unchanged`, raises StaleVersion where it has changed since it was read, and the key runs again at
        once.
        """
        await self.client.delete(obj, propagation=propagation, if_unchanged=if_unchanged)

    async def generate_once(self, name: str, make: Callable[[], str], *, secret: str | Key = "") -> str:
        """A password, a salt or a token: created by `make()` where there is none yet, and kept for good.

        It is kept as `name` in a Secret that this object owns: `secret`, by default `<name>-generated` in its
        namespace; the controller declares it: `writes=[Secret]`. `make` takes chance from `clock`. An object
        without a namespace needs a `Key`. Raises ValueError without one.
        """
        key = secret if isinstance(secret, Key) else Key(self.object.namespace, secret)
        if not key.name:
            key = key._replace(name=f"{self.object.name}-generated")
        if not key.namespace:
            raise ValueError("generate_once: say in which namespace the Secret is to be, by secret=Key(...)")
        from reconcile.controller.generated_values import generate_once

        return await generate_once(self.client, self.object, name, make, key, self._output.generated)

    # --- blocking code ------------------------------------------------------------------------------

    async def run_sync(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call blocking code in one of the manager's threads; inline under the test kit.

        A thread cannot be ended: where the run has taken too long, or must stop, this returns only after
        `function`, and then ends the run. Raises TypeError for an `async def`, and any error of `function`.
        """
        if is_async(function):
            raise TypeError(f"run_sync: {name_of(function)} is an `async def`: await it as it is")
        try:
            return await self._blocking.call(functools.partial(function, *args, **kwargs), self.log)
        except Exception:
            core_of(self.client).run.note_failure()
            raise

    async def _refuse_foreign(self, child: Object) -> None:
        """Raise AlreadyExists for a foreign object; one created after this read is adopted."""
        if not can_own(self.object, child):
            raise ValueError(
                f"adopt=False: {str(child.key)!r} cannot be owned, so nobody can say whose it is"
            )
        found = await self.client.raw.snapshot(kind_of(child).resource, child.key)
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


def output_of(context: Context[T]) -> RunOutput[T]:
    """The part of a context that the runtime uses and authors do not see."""
    return context._output
