"""What a reconciler that is a plain function gets: context and client with methods that block.

It runs in a thread. Each call that concerns the cluster is done in the event loop, as a part of the same
run, while the thread waits; so all that `Client` and `Context` promise holds here too. Asked for anything
after the run was ended, they raise `RunEnded`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Generic, Literal, TypeVar, overload

import structlog
from attrs import frozen

from informers import APIResource, Clock, Key, Snapshot
from reconcile.client.client import Client, Propagation
from reconcile.client.editing import Draft
from reconcile.client.object_selectors import Fields, Labels
from reconcile.client.reader import PAGE
from reconcile.client.sender import FieldValidation
from reconcile.controller.blocking import Ask
from reconcile.controller.context import Context
from reconcile.models import Intent, Object, Unstructured
from reconcile.runs.requests import Cause, Request

T = TypeVar("T", bound=Object)
O = TypeVar("O", bound=Object)  # noqa: E741
R = TypeVar("R")


@frozen
class SyncClient:
    """`Client` with methods that block; each does what its namesake there does.

    Functions that are handed over (`change`, `decide`) run in the event loop: they must not block.
    `waiting` is the client that does the work.
    """

    waiting: Client
    _ask: Ask

    def get(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O:
        """The object of that name. Raises NotFound."""
        return self._do(partial(self.waiting.get, model, name, namespace, live=live))

    def find(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O | None:
        """The object of that name, or None."""
        return self._do(partial(self.waiting.find, model, name, namespace, live=live))

    def snapshot(self, resource: APIResource, key: Key, *, live: bool = False) -> Snapshot | None:
        """The stored state of an object, or None."""
        return self._do(partial(self.waiting.snapshot, resource, key, live=live))

    def read_subresource(self, obj: Object, subresource: str) -> dict[str, Any]:
        """A subresource of an object as the server has it now. Raises NotFound."""
        return self._do(partial(self.waiting.read_subresource, obj, subresource))

    def list(
        self,
        model: type[O],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        owner: Object | None = None,
        index: tuple[str, Any] | None = None,
        live: bool = False,
    ) -> Sequence[O]:
        """The objects of a kind, in all namespaces or in one, that fit everything that is given."""
        chosen = partial(self.waiting.list, labels=labels, fields=fields, owner=owner, index=index, live=live)
        return self._do(lambda: chosen(model, namespace))

    def pages(
        self,
        model: type[O],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        size: int = PAGE,
    ) -> Iterator[Sequence[O]]:
        """The objects of a kind as the server has them, page by page. Raises Expired."""
        pages = self.waiting.pages(model, namespace, labels=labels, fields=fields, size=size)
        while True:
            try:
                yield self._do(lambda: anext(pages))
            except StopAsyncIteration:
                return

    def version(self, resource: APIResource, namespace: str = "") -> int:
        """The resourceVersion of a resource as of now."""
        return self._do(partial(self.waiting.version, resource, namespace))

    def managed_fields(self, resource: APIResource, key: Key) -> Sequence[Mapping[str, Any]]:
        """Who wrote which fields of an object, as the server has it now; empty where there is none."""
        return self._do(partial(self.waiting.managed_fields, resource, key))

    def with_options(
        self,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool | None = None,
        field_validation: FieldValidation | None = None,
    ) -> "SyncClient":
        """A view of the same client: of one namespace, under another name, or for dry runs."""
        view = self.waiting.with_options(
            namespace=namespace,
            field_manager=field_manager,
            dry_run=dry_run,
            field_validation=field_validation,
        )
        return SyncClient(view, self._ask)

    @overload
    def create(self, obj: O) -> O: ...
    @overload
    def create(self, obj: Mapping[str, Any] | str) -> Unstructured: ...
    def create(self, obj: Object | Mapping[str, Any] | str) -> Object:
        """Create an object. Raises AlreadyExists, Invalid, Forbidden."""
        create: Callable[..., Awaitable[Object]] = self.waiting.create
        return self._do(partial(create, obj))

    @overload
    def apply(
        self, obj: Intent[O], *, force: bool = True, unforced: Collection[str] = (), subresource: str = ""
    ) -> O: ...
    @overload
    def apply(
        self,
        obj: Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        subresource: str = "",
    ) -> Unstructured: ...
    def apply(
        self,
        obj: Intent[Object] | Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        subresource: str = "",
    ) -> Object:
        """Make the object have what `obj` says (server-side apply), whoever else writes the rest."""
        apply: Callable[..., Awaitable[Object]] = self.waiting.apply
        return self._do(partial(apply, obj, force=force, unforced=unforced, subresource=subresource))

    def unstructured(self, manifest: Mapping[str, Any] | str) -> Unstructured:
        """A manifest as an object, its resource asked of the server. Raises UnknownKind, ValueError."""
        return self._do(partial(self.waiting.unstructured, manifest))

    def update(self, obj: O, *, subresource: str = "", whole: bool = False) -> O:
        """Replace the object by `obj`, which says at which resourceVersion. Raises StaleVersion."""
        return self._do(partial(self.waiting.update, obj, subresource=subresource, whole=whole))

    def modify(
        self, model: type[O], name: str, namespace: str, change: Callable[[O], O], *, subresource: str = ""
    ) -> O:
        """Read the object live, write what `change` makes different; again on fresh state if it was stale."""
        modify = self.waiting.modify
        return self._do(partial(modify, model, name, namespace, change, subresource=subresource))

    @overload
    def editing(  # type: ignore[overload-overlap]
        self, obj: Unstructured, *, subresource: str = ""
    ) -> AbstractContextManager[dict[str, Any]]: ...
    @overload
    def editing(self, obj: O, *, subresource: str = "") -> AbstractContextManager[Draft[O]]: ...
    def editing(self, obj: Object, *, subresource: str = "") -> AbstractContextManager[Any]:
        """A mutable copy of `obj`, whose changes are sent at the end: `with ... as draft`."""
        return self._editing(obj, subresource)

    @contextmanager
    def _editing(self, obj: Object, subresource: str) -> Iterator[Any]:
        editing = self.waiting.editing(obj, subresource=subresource)
        draft = self._do(lambda: editing.__aenter__())
        try:
            yield draft
        except BaseException as error:
            raised = (type(error), error, error.__traceback__)
            self._do(lambda: editing.__aexit__(*raised))
            raise
        self._do(lambda: editing.__aexit__(None, None, None))

    def merge(
        self,
        obj: O,
        patch: Mapping[str, Any],
        *,
        guard: Mapping[str, str] | None = None,
        subresource: str = "",
    ) -> O:
        """Send a merge patch for `obj`; one that is empty is no request."""
        return self._do(partial(self.waiting.merge, obj, patch, guard=guard, subresource=subresource))

    def create_subresource(self, obj: Object, subresource: str, body: Mapping[str, Any]) -> None:
        """POST to a subresource of an object (a pod's `binding`, `eviction`); its answer is not read."""
        self._do(partial(self.waiting.create_subresource, obj, subresource, body))

    def scale(self, obj: Object, decide: Callable[[int], int]) -> int:
        """Set the replicas of `obj` through /scale to what `decide` makes of them; returns them."""
        return self._do(partial(self.waiting.scale, obj, decide))

    def apply_scale(self, obj: Object, replicas: int, *, force: bool = False) -> int:
        """Own the replicas of `obj` through /scale, by server-side apply; returns how many it has then."""
        return self._do(partial(self.waiting.apply_scale, obj, replicas, force=force))

    def set_scale(self, obj: Object, replicas: int, *, expect: int) -> None:
        """Change the replicas of `obj` through /scale from `expect` to `replicas`, in one attempt."""
        self._do(partial(self.waiting.set_scale, obj, replicas, expect=expect))

    def delete(
        self,
        obj: Object,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        if_unchanged: bool = False,
    ) -> None:
        """Delete that very object (its uid is the precondition); no error if it is gone already."""
        delete = partial(self.waiting.delete, propagation=propagation, if_unchanged=if_unchanged)
        self._do(lambda: delete(obj, grace_seconds=grace_seconds))

    def delete_snapshot(
        self, resource: APIResource, snapshot: Snapshot, *, propagation: Propagation | None = None
    ) -> None:
        """As `delete`, for the object of a stored state."""
        self._do(partial(self.waiting.delete_snapshot, resource, snapshot, propagation=propagation))

    def delete_all(
        self,
        model: type[Object],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        owner: Object | None = None,
        propagation: Propagation | None = None,
    ) -> int:
        """Delete the objects that fit and are not going yet, as the server has them; says how many."""
        chosen = partial(self.waiting.delete_all, labels=labels, fields=fields, owner=owner)
        return self._do(lambda: chosen(model, namespace, propagation=propagation))

    def _do(self, wanted: Callable[[], Awaitable[R]]) -> R:
        done: R = self._ask(wanted)
        return done


@frozen
class SyncContext(Generic[T]):
    """`Context` of one run, for a reconciler that is a plain function; `client` blocks, and so do these.

    `waiting` is the context that does the work.
    """

    waiting: Context[T]
    _ask: Ask

    @property
    def object(self) -> T:
        """The object as it was when the run began; decoded when first read. Raises DecodeError."""
        return self.waiting.object

    @property
    def client(self) -> SyncClient:
        """Reads and writes for this key."""
        return SyncClient(self.waiting.client, self._ask)

    @property
    def request(self) -> Request:
        """The key."""
        return self.waiting.request

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """Carries controller, key and reconcile id."""
        return self.waiting.log

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Why the key runs."""
        return self.waiting.causes

    @property
    def attempt(self) -> int:
        """How often the key has failed since it last did not."""
        return self.waiting.attempt

    @property
    def clock(self) -> Clock:
        """Wall time, chance and identity."""
        return self.waiting.clock

    @property
    def remaining(self) -> float:
        """Seconds until the run has taken too long. A thread is not ended then: look, and return."""
        return self.waiting.remaining

    def client_of(self, cluster: str) -> SyncClient:
        """The client of another of `Manager(clusters=)`, for this key. Raises LookupError."""
        return SyncClient(self.waiting.client_of(cluster), self._ask)

    def owned(self, model: type[O]) -> Sequence[O]:
        """The objects of a kind that this object owns, own writes of earlier runs included."""
        return self._do(partial(self.waiting.owned, model))

    @overload
    def apply(
        self, obj: Intent[O], *, force: bool = True, unforced: Collection[str] = (), adopt: bool = True
    ) -> O: ...
    @overload
    def apply(
        self,
        obj: Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        adopt: bool = True,
    ) -> Unstructured: ...
    def apply(
        self,
        obj: Intent[Object] | Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        adopt: bool = True,
    ) -> Object:
        """Make a child have what `obj` says, owned by this object; see `Context.apply`."""
        apply: Callable[..., Awaitable[Object]] = self.waiting.apply
        return self._do(partial(apply, obj, force=force, unforced=unforced, adopt=adopt))

    @overload
    def create(self, obj: O) -> O: ...
    @overload
    def create(self, obj: Mapping[str, Any] | str) -> Unstructured: ...
    def create(self, obj: Object | Mapping[str, Any] | str) -> Object:
        """Create a child, owned by this object. Raises AlreadyExists."""
        create: Callable[..., Awaitable[Object]] = self.waiting.create
        return self._do(partial(create, obj))

    def delete(
        self, obj: Object, *, propagation: Propagation | None = None, if_unchanged: bool = False
    ) -> None:
        """Delete that very object; no error if it is gone already. See `Context.delete`."""
        self._do(partial(self.waiting.delete, obj, propagation=propagation, if_unchanged=if_unchanged))

    def prune(self, *kinds: type[Object], keep: Iterable[Object] = ()) -> None:
        """At the end of this run, delete the children that it has not written; see `Context.prune`."""
        self.waiting.prune(*kinds, keep=keep)

    def status(self, **fields: Any) -> None:
        """Collect status fields; they are written once, at the end of the run, and only if changed."""
        self.waiting.status(**fields)

    def condition(
        self,
        name: str,
        status: bool | Literal["True", "False", "Unknown"],
        *,
        reason: str,
        message: str = "",
    ) -> None:
        """Collect the condition of type `name`; its lastTransitionTime moves only when its status does."""
        self.waiting.condition(name, status, reason=reason, message=message)

    def remove_condition(self, name: str) -> None:
        """Collect that there is no condition of type `name` any more."""
        self.waiting.remove_condition(name)

    def false_on_failure(self, name: str, *errors: type[Exception]) -> AbstractContextManager[None]:
        """Within it, collect a condition as False where one of `errors` is raised; see `Context`."""
        return self.waiting.false_on_failure(name, *errors)

    def event(self, reason: str, message: str, *, warning: bool = False, action: str = "Reconcile") -> None:
        """Tell people about the object: one Event, or one more of a series; see `Context.event`."""
        self.waiting.event(reason, message, warning=warning, action=action)

    def generate_once(self, name: str, make: Callable[[], str], *, secret: str | Key = "") -> str:
        """A password, a salt or a token: made once, and the same ever after; see `Context.generate_once`."""
        return self._do(partial(self.waiting.generate_once, name, make, secret=secret))

    def _do(self, wanted: Callable[[], Awaitable[R]]) -> R:
        done: R = self._ask(wanted)
        return done


__all__ = ["SyncClient", "SyncContext"]
