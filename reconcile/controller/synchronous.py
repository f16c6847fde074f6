"""What a reconciler that is a plain function gets: context and client with methods that block.

It runs in a thread. Each call that concerns the cluster is done in the event loop, as a part of the same
run, while the thread waits; so all that `Client` and `Context` promise holds here too. After the run has
ended, each call raises `RunEnded`.

Written by tools/sync_faces.py: change the classes there, not this file.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, Generic, Literal, TypeVar, overload

import structlog
from attrs import frozen

from informers import APIResource, Cache, Clock, Key, Snapshot, Transport
from reconcile.client.client import Client
from reconcile.client.editing import Draft
from reconcile.client.object_reads import PAGE
from reconcile.client.object_selectors import Fields, Labels
from reconcile.client.object_writes import Propagation
from reconcile.client.patch_types import PatchName
from reconcile.client.raw_client import RawClient
from reconcile.client.sender import FieldValidation
from reconcile.controller.blocking import Ask
from reconcile.controller.context import Context
from reconcile.models import Intent, Object, Unstructured
from reconcile.runs.run_request import Cause, Request

T = TypeVar("T", bound=Object)
O = TypeVar("O", bound=Object)  # noqa: E741

__all__ = ["SyncClient", "SyncContext", "SyncRawClient"]


@frozen
class SyncRawClient:
    """`RawClient` with methods that block; each does what its namesake there does.

    `waiting` is the one that does the work.
    """

    waiting: RawClient
    _ask: Ask

    def snapshot(self, resource: APIResource, key: Key, *, live: bool = False) -> Snapshot | None:
        """The stored state of an object, or None."""
        return self._ask(lambda: self.waiting.snapshot(resource, key, live=live))

    def snapshots(
        self,
        resource: APIResource,
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        owner: Object | None = None,
        index: tuple[str, Any] | None = None,
        live: bool = False,
    ) -> Sequence[Snapshot]:
        """The stored states of the objects that fit everything that is given; see `Client.list`."""
        return self._ask(
            lambda: self.waiting.snapshots(
                resource, namespace, labels=labels, fields=fields, owner=owner, index=index, live=live
            )
        )

    def read_subresource(self, obj: Object, subresource: str) -> dict[str, Any]:
        """A subresource of an object, such as its Scale, as the server has it now. Raises NotFound."""
        return self._ask(lambda: self.waiting.read_subresource(obj, subresource))

    def managed_fields(self, resource: APIResource, key: Key) -> Sequence[Mapping[str, Any]]:
        """Who wrote which fields of an object, as the server has it now; empty where there is no object."""
        return self._ask(lambda: self.waiting.managed_fields(resource, key))

    def version(self, resource: APIResource, namespace: str = "") -> int:
        """The resourceVersion of a resource as of now, from a consistent list of one object."""
        return self._ask(lambda: self.waiting.version(resource, namespace))

    def unstructured(self, manifest: Mapping[str, Any] | str) -> Unstructured:
        """A manifest as an object, its resource asked of the server. Raises UnknownKind, ValueError."""
        return self._ask(lambda: self.waiting.unstructured(manifest))

    def patch(
        self,
        resource: APIResource,
        key: Key,
        patch: Any,
        *,
        guard: Mapping[str, str],
        patch_type: PatchName = "merge",
        subresource: str = "",
    ) -> Snapshot:
        """Send a patch as it is; `guard` (uid, resourceVersion) says for which state it is meant."""
        return self._ask(
            lambda: self.waiting.patch(
                resource, key, patch, guard=guard, patch_type=patch_type, subresource=subresource
            )
        )

    def merge(
        self,
        obj: O,
        patch: Mapping[str, Any],
        *,
        guard: Mapping[str, str] | None = None,
        subresource: str = "",
    ) -> O:
        """Send a merge patch for `obj`; one that is empty is no request."""
        return self._ask(lambda: self.waiting.merge(obj, patch, guard=guard, subresource=subresource))

    def update(self, obj: O, *, subresource: str = "", whole: bool = False) -> O:
        """Replace the object by `obj`, which says at which resourceVersion. Raises StaleVersion."""
        return self._ask(lambda: self.waiting.update(obj, subresource=subresource, whole=whole))

    def create_subresource(self, obj: Object, subresource: str, body: Mapping[str, Any]) -> None:
        """POST to a subresource of an object (a pod's `binding`, `eviction`); its answer is not read."""
        self._ask(lambda: self.waiting.create_subresource(obj, subresource, body))

    def apply_scale(self, obj: Object, replicas: int, *, force: bool = False) -> int:
        """Own the replicas of `obj` through /scale, by server-side apply; returns how many it has then."""
        return self._ask(lambda: self.waiting.apply_scale(obj, replicas, force=force))

    def set_scale(self, obj: Object, replicas: int, *, expect: int) -> None:
        """Change the replicas of `obj` through /scale from `expect` to `replicas`, in one attempt."""
        self._ask(lambda: self.waiting.set_scale(obj, replicas, expect=expect))

    def delete_snapshot(
        self, resource: APIResource, snapshot: Snapshot, *, propagation: Propagation | None = None
    ) -> None:
        """As `Client.delete`, for the object of a stored state."""
        self._ask(lambda: self.waiting.delete_snapshot(resource, snapshot, propagation=propagation))

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
        """Delete the objects that fit and are not terminating, as the server has them now; says how many."""
        return self._ask(
            lambda: self.waiting.delete_all(
                model, namespace, labels=labels, fields=fields, owner=owner, propagation=propagation
            )
        )


@frozen
class SyncClient:
    """`Client` with methods that block; each does what its namesake there does.

    Functions that are passed (`change`, `decide`) run in the event loop: they must not block.
    `waiting` is the client that does the work.
    """

    waiting: Client
    _ask: Ask

    @property
    def transport(self) -> Transport:
        """What carries the requests."""
        return self.waiting.transport

    @property
    def cache(self) -> Cache | None:
        """What kinds are read from, if they are declared there."""
        return self.waiting.cache

    @property
    def clock(self) -> Clock:
        """Wall time, chance and identity."""
        return self.waiting.clock

    @property
    def namespace(self) -> str:
        """The namespace of this view; empty for all."""
        return self.waiting.namespace

    @property
    def field_manager(self) -> str:
        """The name under which writes are recorded."""
        return self.waiting.field_manager

    @property
    def dry_run(self) -> bool:
        """Whether the server only checks what is written."""
        return self.waiting.dry_run

    @property
    def raw(self) -> SyncRawClient:
        """Further requests: patches of your own, subresources, whole objects, stored states."""
        return SyncRawClient(self.waiting.raw, self._ask)

    def with_options(
        self,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool | None = None,
        field_validation: FieldValidation | None = None,
    ) -> "SyncClient":
        """A view of the same client: of one namespace, under another name, or for dry runs."""
        return SyncClient(
            self.waiting.with_options(
                namespace=namespace,
                field_manager=field_manager,
                dry_run=dry_run,
                field_validation=field_validation,
            ),
            self._ask,
        )

    def get(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O:
        """The object of that name. Raises NotFound."""
        return self._ask(lambda: self.waiting.get(model, name, namespace, live=live))

    def find(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O | None:
        """The object of that name, or None."""
        return self._ask(lambda: self.waiting.find(model, name, namespace, live=live))

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
        return self._ask(
            lambda: self.waiting.list(
                model, namespace, labels=labels, fields=fields, owner=owner, index=index, live=live
            )
        )

    def pages(
        self,
        model: type[O],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        size: int = PAGE,
    ) -> Iterator[Sequence[O]]:
        """The objects of a kind as the server has them, page by page, all pages of one state."""

        pages = self.waiting.pages(model, namespace, labels=labels, fields=fields, size=size)
        while True:
            try:
                yield self._ask(lambda: anext(pages))
            except StopAsyncIteration:
                return

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
        obj: Intent[Object] | Object | Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        subresource: str = "",
    ) -> Object:
        """Make the object have what `obj` says (server-side apply), whatever others write beside it."""
        apply: Callable[..., Awaitable[Object]] = self.waiting.apply
        return self._ask(lambda: apply(obj, force=force, unforced=unforced, subresource=subresource))

    @overload
    def create(self, obj: O) -> O: ...
    @overload
    def create(self, obj: Mapping[str, Any] | str) -> Unstructured: ...
    def create(self, obj: Object | Mapping[str, Any] | str) -> Object:
        """Create an object: a model, a mapping, or a manifest in YAML."""
        create: Callable[..., Awaitable[Object]] = self.waiting.create
        return self._ask(lambda: create(obj))

    def modify(
        self, model: type[O], name: str, namespace: str, change: Callable[[O], O], *, subresource: str = ""
    ) -> O:
        """Read the object live, write what `change` makes different; again on fresh state if it was stale."""
        return self._ask(lambda: self.waiting.modify(model, name, namespace, change, subresource=subresource))

    @overload
    def editing(  # type: ignore[overload-overlap]
        self, obj: Unstructured, *, subresource: str = ""
    ) -> AbstractContextManager[dict[str, Any]]: ...
    @overload
    def editing(self, obj: O, *, subresource: str = "") -> AbstractContextManager[Draft[O]]: ...
    def editing(self, obj: Object, *, subresource: str = "") -> AbstractContextManager[Any]:
        """A mutable copy of `obj`, whose changes are sent at the end: `async with ... as draft`."""

        return self._editing(self.waiting.editing(obj, subresource=subresource))

    @contextmanager
    def _editing(self, editing: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        draft = self._ask(lambda: editing.__aenter__())
        try:
            yield draft
        except BaseException as error:
            raised = (type(error), error, error.__traceback__)
            self._ask(lambda: editing.__aexit__(*raised))
            raise
        self._ask(lambda: editing.__aexit__(None, None, None))

    def scale(self, obj: Object, decide: Callable[[int], int]) -> int:
        """Set the replicas of `obj` through /scale to what `decide` makes of them; returns them."""
        return self._ask(lambda: self.waiting.scale(obj, decide))

    def delete(
        self,
        obj: Object,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        if_unchanged: bool = False,
    ) -> None:
        """Delete that very object (its uid is the precondition); no error if it is gone already."""
        self._ask(
            lambda: self.waiting.delete(
                obj, propagation=propagation, grace_seconds=grace_seconds, if_unchanged=if_unchanged
            )
        )


@frozen
class SyncContext(Generic[T]):
    """`Context` of one run, for a reconciler that is a plain function; its methods and `client` block.

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
        """A logger that has controller, key and reconcile id in each line."""
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
        """Wall time, chance and identity; a reconciler takes them from nowhere else."""
        return self.waiting.clock

    @property
    def deadline(self) -> float:
        """When the run has taken too long, in the event loop's seconds (`anyio.current_time`)."""
        return self.waiting.deadline

    @property
    def remaining(self) -> float:
        """Seconds until `deadline`; from any thread. A thread is not ended then: look, and return."""
        return self.waiting.remaining

    def client_of(self, cluster: str) -> SyncClient:
        """The client of another of `Manager(clusters=)`, for this key. LookupError for an unknown one."""
        return SyncClient(self.waiting.client_of(cluster), self._ask)

    def owned(self, model: type[O]) -> Sequence[O]:
        """The objects of a kind that this object owns, own writes of earlier runs included."""
        return self._ask(lambda: self.waiting.owned(model))

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
        obj: Intent[Object] | Object | Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        adopt: bool = True,
    ) -> Object:
        """Make a child have what `obj` says, owned by this object; no request when nothing would change."""
        apply: Callable[..., Awaitable[Object]] = self.waiting.apply
        return self._ask(lambda: apply(obj, force=force, unforced=unforced, adopt=adopt))

    @overload
    def create(self, obj: O) -> O: ...
    @overload
    def create(self, obj: Mapping[str, Any] | str) -> Unstructured: ...
    def create(self, obj: Object | Mapping[str, Any] | str) -> Object:
        """Create a child, owned by this object (see `apply` for namespaces). Raises AlreadyExists."""
        create: Callable[..., Awaitable[Object]] = self.waiting.create
        return self._ask(lambda: create(obj))

    def delete(
        self, obj: Object, *, propagation: Propagation | None = None, if_unchanged: bool = False
    ) -> None:
        """Delete that very object; no error if it is gone already."""
        self._ask(lambda: self.waiting.delete(obj, propagation=propagation, if_unchanged=if_unchanged))

    def prune(self, *kinds: type[Object], keep: Iterable[Object] = ()) -> None:
        """At the end of this run, delete the children that it has neither applied nor written otherwise."""
        self.waiting.prune(*kinds, keep=keep)

    def status(self, **fields: Any) -> None:
        """Collect status fields; they are written once, at the end of the run, and only if changed."""
        self.waiting.status(**fields)

    def condition(
        self, name: str, status: bool | Literal["True", "False", "Unknown"], *, reason: str, message: str = ""
    ) -> None:
        """Collect the condition of type `name`; its lastTransitionTime moves only when its status does."""
        self.waiting.condition(name, status, reason=reason, message=message)

    def remove_condition(self, name: str) -> None:
        """Collect that there is no condition of type `name` any more."""
        self.waiting.remove_condition(name)

    def false_on_failure(self, name: str, *errors: type[Exception]) -> AbstractContextManager[None]:
        """Within it, collect the condition of type `name` as False where one of `errors` is raised."""
        return self.waiting.false_on_failure(name, *errors)

    def event(self, reason: str, message: str, *, warning: bool = False, action: str = "Reconcile") -> None:
        """Tell people about the object: one Event, or one more of a series, written beside the runs."""
        self.waiting.event(reason, message, warning=warning, action=action)

    def generate_once(self, name: str, make: Callable[[], str], *, secret: str | Key = "") -> str:
        """A password, a salt or a token: made by `make()` where there is none yet, and kept for good."""
        return self._ask(lambda: self.waiting.generate_once(name, make, secret=secret))
