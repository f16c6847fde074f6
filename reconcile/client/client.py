"""Typed reads, through the cache where there is one, and guarded writes.

A write is a diff or an applied intent. A write that would change nothing is not sent, and every answer is
noted for the key that caused it, so that its next read sees it.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Self, TypeVar, overload

import msgspec

from informers import Cache, Clock, Key, NotFound, ReachTransport, SystemClock, Transport
from informers.discovery import Discovery
from informers.transport import HttpRequest, raise_refusal
from reconcile.client import scale_writes
from reconcile.client.client_core import ClientCore
from reconcile.client.editing import Draft, finished
from reconcile.client.field_managers import check_field_manager
from reconcile.client.manifests import ManifestObjects
from reconcile.client.object_applies import ObjectApplies
from reconcile.client.object_indexes import IndexedReads
from reconcile.client.object_reads import PAGE, ObjectReads, selector_query
from reconcile.client.object_selectors import Fields, Labels
from reconcile.client.object_writes import ObjectWrites, Propagation
from reconcile.client.own_writes import Journal, NoJournal
from reconcile.client.raw_client import RawClient
from reconcile.client.redaction import DeclaredFields
from reconcile.client.request_limiter import RequestLimiter
from reconcile.client.sender import JSON, FieldValidation, Sender
from reconcile.client.watch_events import WatchEvent, watch_events
from reconcile.models import Intent, Object, Unstructured, decode, encode, kind_of
from reconcile.runs.write_events import WriteObserver

O = TypeVar("O", bound=Object)  # noqa: E741
C = TypeVar("C", bound="Client")


class ClientView:
    """The settings of a client, whether or not its methods block."""

    _core: ClientCore

    @property
    def transport(self) -> Transport:
        """The transport that carries the requests."""
        return self._core.transport

    @property
    def cache(self) -> Cache | None:
        """The cache that declared kinds are read from, if any."""
        return self._core.cache

    @property
    def clock(self) -> Clock:
        """Wall time, chance and identity."""
        return self._core.clock

    @property
    def namespace(self) -> str:
        """The namespace of this view; empty for all."""
        return self._core.namespace

    @property
    def field_manager(self) -> str:
        """The name under which writes are recorded."""
        return self._core.field_manager

    @property
    def dry_run(self) -> bool:
        """Whether the server checks writes without carrying them out."""
        return self._core.dry_run


class Client(ClientView):
    """Reads and writes objects of one cluster.

    With a `cache`, `get` and `list` read declared kinds from it; other kinds, and reads with `live=True`,
    come from the server. Writes are recorded under `field_manager`. A client with a `namespace` reads and
    writes nothing outside of it. With `dry_run` the server checks writes without carrying them out;
    `field_validation` is its treatment of unknown fields (default: warn; an apply is always strict).
    `limiter` slows requests down. Failures are `reconcile.errors.ApiError`s. `raw` has further requests.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        cache: Cache | None = None,
        field_manager: str = "reconcile",
        clock: Clock | None = None,
        namespace: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        limiter: RequestLimiter | None = None,
    ) -> None:
        clock = clock or SystemClock()
        reach = transport.reach if isinstance(transport, ReachTransport) else None
        core = ClientCore(
            transport,
            cache,
            clock,
            Sender(transport, clock, limiter, reach if cache is None else cache.reach),
            NoJournal() if cache is None else Journal(),
            ManifestObjects(Discovery(transport)),
            namespace,
            check_field_manager(field_manager),
            dry_run,
            field_validation,
        )
        self._core = core
        self._reads = ObjectReads(core)

    # Each run has a client of its own, and many runs do not write: these parts are made when used.
    @property
    def _writes(self) -> ObjectWrites:
        return ObjectWrites(self._core, self._reads)

    @property
    def _applies(self) -> ObjectApplies:
        return ObjectApplies(self._core, self._reads, self._writes)

    @property
    def raw(self) -> RawClient:
        """Further requests: custom patches, subresources, whole objects, stored states."""
        return RawClient(self._core, self._reads, self._writes)

    def with_options(
        self,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Self:
        """A view of the same client with another namespace, field manager, validation, or for dry runs."""
        options = {
            "namespace": namespace,
            "field_manager": None if field_manager is None else check_field_manager(field_manager),
            "former_field_managers": None if field_manager is None else (),
            "dry_run": dry_run,
            "field_validation": field_validation,
        }
        changes = {name: value for name, value in options.items() if value is not None}
        return _with_core(self, self._core.changed(**changes))

    # --- reads ----------------------------------------------------------------------------------

    async def get(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O:
        """The object of that name. Raises NotFound."""
        found = await self.find(model, name, namespace, live=live)
        if found is None:
            resource = kind_of(model).resource
            raise NotFound(404, "NotFound", f'{resource} "{name}" not found')
        return found

    async def find(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O | None:
        """The object of that name, or None."""
        snapshot = await self._reads.snapshot(kind_of(model).resource, Key(namespace, name), live=live)
        return None if snapshot is None else self._core.decoded(model, snapshot, keep=not live)

    async def list(
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
        """The objects of a kind, in all namespaces or in one, that match every argument.

        `labels` is a mapping of labels that must be equal, text such as `a=b,c in (d,e),!f`, or a
        `LabelSelector`; `fields` a mapping or text, which only the server can answer. `owner` is any owner,
        by uid. `index` is the name of an index that the controller declares (`indexes=`), and a value; raises
        KeyError for an unknown one, and NotCached for one where the kind is not cached.
        """
        snapshots = await self._reads.snapshots(
            kind_of(model).resource,
            namespace,
            labels=labels,
            fields=fields,
            owner=owner,
            index=index,
            live=live,
        )
        return [self._core.decoded(model, snapshot, keep=not live) for snapshot in snapshots]

    async def pages(
        self,
        model: type[O],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        size: int = PAGE,
    ) -> AsyncIterator[Sequence[O]]:
        """Pages of live objects, all of one state. Raises Expired if read too slowly: list again then."""
        core, resource = self._core, kind_of(model).resource
        namespace = core.namespace_of(resource, namespace)
        async for page in self._reads.pages(resource, namespace, labels, fields, size):
            bodies = [bytes(item) for item in page]
            for body in bodies:
                core.secrets.add(resource, body)
            yield [decode(model, body) for body in bodies]

    @asynccontextmanager
    async def watch(
        self,
        model: type[O],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        since: str = "",
    ) -> AsyncIterator[AsyncIterator[WatchEvent[O]]]:
        """One watch as the server sends it: `async with client.watch(Pod) as events: async for ...`.

        It begins at `since` (a resourceVersion), or with the present state, and ends when the server ends it;
        an informer is what resumes watches. Raises Expired where `since` is too old.
        """
        core, resource = self._core, kind_of(model).resource
        path = resource.path(core.namespace_of(resource, namespace))
        query = {"watch": "1", "allowWatchBookmarks": "true", **selector_query(labels, fields)}
        if since:
            query["resourceVersion"] = since
        async with core.transport.stream(HttpRequest("GET", path, query, JSON)) as answer:
            await raise_refusal(answer, f"WATCH {path}")
            note = partial(core.secrets.add, resource)
            yield watch_events(model, answer.chunks, f"WATCH {path}", note)

    # --- writes ---------------------------------------------------------------------------------

    @overload
    async def apply(
        self, obj: Intent[O], *, force: bool = True, unforced: Collection[str] = (), subresource: str = ""
    ) -> O: ...
    @overload
    async def apply(
        self,
        obj: Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        subresource: str = "",
    ) -> Unstructured: ...
    async def apply(
        self,
        obj: Intent[Object] | Object | Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        subresource: str = "",
    ) -> Object:
        """Make the object match `obj` (server-side apply), leaving other fields to their owners.

        `obj` is an intent, a mapping, or a manifest in YAML (ValueError where it cannot be read); an object
        that was read raises TypeError. Nothing is sent where the object, as last seen, shows that this field
        manager applied exactly that and nothing of it has changed. With `force`, fields that others own are
        taken over, except those named in `unforced` (`.spec.replicas`, or a path above); without, and for
        those, OwnedByOther is raised.
        """
        if isinstance(obj, Mapping | str):
            obj = await self._core.manifests.object_of(obj)
        elif isinstance(obj, Intent):
            obj = obj.object
        stored = await self._applies.apply(obj, force, unforced, subresource)
        return self._core.decoded(type(obj), stored)

    @overload
    async def create(self, obj: O) -> O: ...
    @overload
    async def create(self, obj: Mapping[str, Any] | str) -> Unstructured: ...
    async def create(self, obj: Object | Mapping[str, Any] | str) -> Object:
        """Create an object: a model, a mapping, or a manifest in YAML.

        Fields that only a server sets are left out, so an object that was read may be created elsewhere.
        Raises AlreadyExists, Invalid, Forbidden. Raises StaleVersion for the first object of a kind with a
        generated name that a reconcile creates after the start: as no taken name would refuse a duplicate,
        the run is repeated once the cache is certainly up to date.
        """
        if isinstance(obj, Mapping | str):
            obj = await self._core.manifests.object_of(obj)
        return self._core.decoded(type(obj), await self._applies.create(obj))

    async def modify(
        self, model: type[O], name: str, namespace: str, change: Callable[[O], O], *, subresource: str = ""
    ) -> O:
        """Read the object live and write what `change` makes different; repeated on fresh state if stale.

        `change` gets the object and returns it changed (`obj.replace(...)`); it may run several times, and no
        update of another writer is lost in between. Raises NotFound, PreconditionFailed if the object is
        replaced by another of its name meanwhile, and StaleVersion only after 20 attempts.
        """
        return await self._writes.modify(model, Key(namespace, name), change, subresource)

    @overload
    def editing(  # type: ignore[overload-overlap]
        self, obj: Unstructured, *, subresource: str = ""
    ) -> AbstractAsyncContextManager[dict[str, Any]]: ...
    @overload
    def editing(self, obj: O, *, subresource: str = "") -> AbstractAsyncContextManager[Draft[O]]: ...
    def editing(self, obj: Object, *, subresource: str = "") -> AbstractAsyncContextManager[Any]:
        """A mutable copy of `obj`, whose changes are sent at the end: `async with ... as draft`.

        The copy of a model is a `Draft`, that of an unstructured object a dict. Nothing is sent after an
        exception, or if nothing has changed. The patch names the object by uid, and its version where it
        touches a list or the choice within a union; raises StaleVersion, PreconditionFailed. For a number
        that others count up as well, use `modify`. Where the cache does not keep whole objects, the copy is
        of a live read.
        """
        return self._editing(obj, subresource)

    @asynccontextmanager
    async def _editing(self, obj: Object, subresource: str) -> AsyncIterator[Any]:
        if not obj.uid:
            raise ValueError(f"editing takes an object that was read, and {str(obj.key)!r} has no uid")
        before = await self._writes.whole(obj)
        if isinstance(before, Unstructured):
            body = msgspec.json.decode(msgspec.json.encode(encode(before)))
            yield body
            after: Object = decode(type(before), body)
        else:
            draft = Draft(before)
            yield draft
            after = finished(draft)
        await self._writes.write_change(before, after, None, subresource)

    async def scale(self, obj: Object, decide: Callable[[int], int]) -> int:
        """Set the replicas of `obj` through /scale to what `decide` makes of them; returns them.

        Test and replace: where another writer was faster, the number is read again and `decide` runs again,
        up to five times. Raises StaleVersion after that, PreconditionFailed if the object was replaced by
        another of its name, and Invalid for a number that the server refuses.
        """
        return await scale_writes.scale(self._writes, obj, decide)

    async def delete(
        self,
        obj: Object,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        if_unchanged: bool = False,
    ) -> None:
        """Delete this very object (its uid is the precondition); no error if it is gone already.

        With `if_unchanged` its resourceVersion is a precondition too, for a deletion that depends on the
        object's content. Raises StaleVersion if the object has changed since it was read, PreconditionFailed
        if another object has taken its name, and ValueError for an object that was not read, with
        `if_unchanged`. In a reconcile, the first deletion of a kind after the start waits until its cache,
        and that of the kind of the run's object, are certainly up to date. Raises StaleVersion if the cache
        of that kind was behind, or if the run's object has changed since the run began: the decision was
        made on old state.
        """
        obj = self._core.placed(obj)
        resource = kind_of(obj).resource
        if if_unchanged and not obj.metadata.resource_version:
            raise ValueError(f"{str(obj.key)!r} was not read: it has no resourceVersion to be unchanged at")
        version = obj.metadata.resource_version if if_unchanged else ""
        await self._writes.decide_on_fresh_state(resource)
        await self._writes.delete(resource, obj.key, obj.uid, propagation, grace_seconds, version)


# --- for the runtime ------------------------------------------------------------------------------


def core_of(client: Client) -> ClientCore:
    """The part of a client that the runtime uses and authors do not see."""
    return client._core


def reads_of(client: Client) -> ObjectReads:
    return client._reads


def bound(
    client: C,
    journal: Journal,
    field_manager: str = "",
    former_field_managers: Sequence[str] | None = None,
    beside: Client | None = None,
    observers: Sequence[WriteObserver] | None = None,
    former_updaters: Sequence[str] | None = None,
) -> C:
    """The same client for one run; see `ClientCore.bound`."""
    core = None if beside is None else beside._core
    former = former_field_managers
    return _with_core(
        client, client._core.bound(journal, field_manager, former, core, observers, former_updaters)
    )


def of_controller(client: C, indexed: IndexedReads, secret_fields: DeclaredFields) -> C:
    """The same client, whose lists know these indexes by name, and whose runs hide these fields."""
    return _with_core(client, client._core.changed(indexed=indexed, secret_fields=secret_fields))


def _with_core(client: C, core: ClientCore) -> C:
    copy = object.__new__(type(client))
    copy.__dict__ = {**client.__dict__, "_core": core, "_reads": ObjectReads(core)}
    return copy
