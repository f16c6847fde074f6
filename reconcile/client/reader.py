"""How an operator reads: typed, through the cache where there is one, and never behind its own writes."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import msgspec
from attrs import frozen

from informers import (
    ApiError,
    APIResource,
    Cache,
    Clock,
    Expired,
    Informer,
    Key,
    MalformedAnswer,
    NotCached,
    NotFound,
    ReachTransport,
    Snapshot,
    SystemClock,
    Transport,
    error_from_status,
)
from informers.apimachinery.envelopes import decode_list_page, decode_watch_line
from informers.apimachinery.label_selectors import matches_labels
from informers.applied import Appliers
from informers.errors import parsed
from informers.line_splitter import LineSplitter
from informers.transport import raise_refusal
from reconcile.client.decoded import Decoded
from reconcile.client.limits import RateLimiter
from reconcile.client.object_selectors import Fields, Labels, field_text, label_text, parse_labels
from reconcile.client.own_writes import CacheBehind, Freshness, Journal, NoJournal
from reconcile.client.redaction import SecretValues, is_sensitive
from reconcile.client.sender import JSON, Sender, json_object
from reconcile.models import Object, decode, kind_of
from reconcile.runs.run_record import RunRecord

O = TypeVar("O", bound=Object)  # noqa: E741
R = TypeVar("R")

Check: TypeAlias = Callable[[str, APIResource, str], None]
"""Told the method, resource and subresource of a write before it is sent; raises where it is not to be."""
PAGE = 500
"""Objects a page, as client-go asks for."""


EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_EVENT_TYPES: Mapping[str, EventType] = {
    "ADDED": "ADDED",
    "MODIFIED": "MODIFIED",
    "DELETED": "DELETED",
    "BOOKMARK": "BOOKMARK",
}


@frozen
class WatchEvent(Generic[O]):
    """One line of a watch, and the resourceVersion from which to go on after it.

    A bookmark has no object.
    """

    type: EventType
    version: str
    object: O | None = None


class Reader:
    """Reads objects of one cluster.

    With a `cache`, declared kinds are read from it and everything else from the server; without one,
    with `live=True` and with field selectors the server is always asked. In a view of one `namespace`
    nothing outside it is read or written. Failures are `reconcile.errors.ApiError`s.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        cache: Cache | None = None,
        clock: Clock | None = None,
        namespace: str = "",
        limiter: RateLimiter | None = None,
    ) -> None:
        self.transport = transport
        self.cache = cache
        self.clock: Clock = clock or SystemClock()
        self.namespace = namespace
        self.freshness = Freshness()
        self._for_key = False
        self._certain: frozenset[APIResource] = frozenset()
        reach = transport.reach if isinstance(transport, ReachTransport) else None
        self._sender = Sender(transport, self.clock, limiter, reach if cache is None else cache.reach)
        self._journal = NoJournal() if cache is None else Journal()
        self._secrets: SecretValues | None = None
        self._check: Check | None = None
        self.run: RunRecord | None = None
        """What the run that this client is bound to has written, and failed at."""
        self._decoded = Decoded()

    def _copied(self, **changed: Any) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__ = {**self.__dict__, **changed}
        return other

    # --- one object -----------------------------------------------------------------------------

    async def get(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O:
        """The object of that name. Raises NotFound."""
        found = await self.find(model, name, namespace, live=live)
        if found is None:
            resource = kind_of(model).resource
            raise NotFound(404, "NotFound", f'{resource} "{name}" not found')
        return found

    async def find(self, model: type[O], name: str, namespace: str = "", *, live: bool = False) -> O | None:
        """The object of that name, or None."""
        snapshot = await self.snapshot(kind_of(model).resource, Key(namespace, name), live=live)
        return None if snapshot is None else self.decoded(model, snapshot, keep=not live)

    async def snapshot(self, resource: APIResource, key: Key, *, live: bool = False) -> Snapshot | None:
        """The stored state of an object, or None."""
        if self.namespace:
            key = self._placed_key(resource, key)
        if self.run is not None:
            self.run.saw(resource, key)
        informer = None if live else self._informer(resource, key.namespace)
        if informer is None:
            return await self.read(resource, key)
        if self._journal:
            await self.settle(resource)
        found = informer.store.get(key)
        self._saw(resource, found)
        return found

    async def read(
        self, resource: APIResource, key: Key, appliers: Appliers | None = None
    ) -> Snapshot | None:
        """The state of an object as the server has it now, or None; with the marks of `appliers`."""
        try:
            path = resource.path(key.namespace, key.name)
            found = await self._ask(resource, key, path, read=partial(Snapshot.from_json, appliers=appliers))
        except NotFound:
            return None
        self._saw(resource, found)
        return found

    async def managed_fields(self, resource: APIResource, key: Key) -> Sequence[Mapping[str, Any]]:
        """Who wrote which fields of an object, as the server has it now; empty where there is none."""
        try:
            path = resource.path(key.namespace, key.name)
            return await self._sender.send("GET", path, managed_fields_of)
        except NotFound:
            return ()

    async def read_subresource(self, obj: Object, subresource: str) -> dict[str, Any]:
        """A subresource of an object, such as its Scale, as the server has it now. Raises NotFound."""
        resource = kind_of(obj).resource
        key = self._placed_key(resource, obj.key)
        path = resource.path(key.namespace, key.name, subresource)
        return await self._ask(resource, key, path, read=json_object)

    # --- many objects ---------------------------------------------------------------------------

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
        """The objects of a kind, in all namespaces or in one, that fit everything that is given.

        `labels` is a mapping of labels that must be equal, text such as `a=b,c in (d,e),!f`, or a
        `LabelSelector`; `fields` a mapping or text, which only the server can answer. `owner` is
        any owner, by uid. `index` is the name of an index of the kind's informer, and a value; raises
        NotCached if the kind is not cached, KeyError for an unknown index.
        """
        resource = kind_of(model).resource
        snapshots = await self.snapshots(
            resource, namespace, labels=labels, fields=fields, owner=owner, index=index, live=live
        )
        return [self.decoded(model, snapshot, keep=not live) for snapshot in snapshots]

    async def snapshots(
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
        """As `list`, as stored states."""
        namespace = self._placed_namespace(resource, namespace)
        if self.run is not None:
            self.run.saw(resource, None)
        informer = None if live or fields else self._informer(resource, namespace)
        if informer is not None:
            await self.settle(resource)
            found = _cached(informer, namespace, owner, index)
        elif index is not None:
            raise NotCached(f"{resource} is not read from a cache here, so it has no index {index[0]!r}")
        else:
            found = await self._read_all(resource, namespace, labels, fields)
        wanted = parse_labels(labels)
        chosen = [
            snapshot
            for snapshot in found
            if (not namespace or not resource.namespaced or snapshot.key.namespace == namespace)
            and (owner is None or any(reference.uid == owner.uid for reference in snapshot.owners))
            and (not wanted or matches_labels(wanted, snapshot.labels))
        ]
        self._saw(resource, *chosen)
        return chosen

    async def pages(
        self,
        model: type[O],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        size: int = PAGE,
    ) -> AsyncIterator[Sequence[O]]:
        """The objects of a kind as the server has them, page by page, all pages of one state.

        Raises Expired if pages are asked for too slowly; the list is to be begun anew then.
        """
        resource = kind_of(model).resource
        namespace = self._placed_namespace(resource, namespace)
        async for page in self._pages(resource, namespace, labels, fields, size):
            bodies = [bytes(item) for item in page]
            for body in bodies:
                self._saw_body(resource, body)
            yield [decode(model, body) for body in bodies]

    async def version(self, resource: APIResource, namespace: str = "") -> int:
        """The resourceVersion of a resource as of now, from a consistent list of one object."""
        return await self._sender.send("GET", resource.path(namespace), _version_of_list, {"limit": "1"})

    async def settle(self, resource: APIResource | None = None, key: Key | None = None) -> None:
        """Wait until the cache shows this key's own writes (of one resource or one object, if given)."""
        if self.cache is None or not self._journal:
            return
        try:
            await self._journal.settle(self.cache, self, resource, key)
        except CacheBehind:
            if self.run is not None:
                self.run.lost()
            raise

    # --- watching -------------------------------------------------------------------------------

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

        From `since` (a resourceVersion) on, or from what there is now. It ends when the server ends
        it, and nothing resumes it: whoever wants to know what there is uses an informer. Raises
        Expired where `since` is too old.
        """
        resource = kind_of(model).resource
        path = resource.path(self._placed_namespace(resource, namespace))
        query = {"watch": "1", "allowWatchBookmarks": "true", **_selectors(labels, fields)}
        if since:
            query["resourceVersion"] = since
        async with self.transport.stream("GET", path, query, JSON) as answer:
            await raise_refusal(answer, f"WATCH {path}")
            saw = partial(self._saw_body, resource)
            yield _events(model, answer.chunks, f"WATCH {path}", saw)

    @property
    def secrets(self) -> SecretValues | None:
        """What the Secrets hold that this key's run has seen; None for a client of no run."""
        return self._secrets

    def redacted(self, text: str) -> str:
        """A text without what the Secrets hold that this key's run has seen."""
        return text if self._secrets is None else self._secrets.redact(text)

    def _saw(self, resource: APIResource, *snapshots: Snapshot | None) -> None:
        if self._secrets is not None and is_sensitive(resource):
            for snapshot in snapshots:
                if snapshot is not None:
                    self._secrets.saw(resource, snapshot.raw)

    def _saw_body(self, resource: APIResource, body: bytes) -> None:
        if self._secrets is not None:
            self._secrets.saw(resource, body)

    # --- for the rooms that write -----------------------------------------------------------------

    def decoded(self, model: type[O], snapshot: Snapshot, *, keep: bool = True) -> O:
        """The object of a snapshot; with a cache, one that was kept for that state. Raises DecodeError."""
        if self.cache is None:
            return decode(model, snapshot.raw)
        return self._decoded.of(model, snapshot, keep=keep)

    async def _ask(
        self,
        resource: APIResource,
        key: Key | None,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        read: Callable[[bytes], R],
    ) -> R:
        """What `read` makes of the answer to a GET; a run remembers one that it did not get."""
        try:
            answer = await self._sender.send("GET", path, read, query)
        except ApiError as error:
            if self.run is not None and not isinstance(error, NotFound):
                self.run.failed(resource, key)
            raise
        if self.run is not None:
            self.run.answered(resource, key)
        return answer

    def _informer(self, resource: APIResource, namespace: str) -> Informer | None:
        """The informer that knows everything of a resource in a namespace (empty: in all that it follows)."""
        informer = None if self.cache is None else self.cache.find(resource)
        if informer is None or (namespace and not informer.covers(namespace)):
            return None
        return informer

    def _placed_namespace(self, resource: APIResource, namespace: str) -> str:
        if not self.namespace or not resource.namespaced:
            return namespace
        if namespace not in ("", self.namespace):
            raise ValueError(
                f"this client is a view of namespace {self.namespace!r}; it cannot reach {resource} in "
                f"{namespace!r}"
            )
        return self.namespace

    def _placed_key(self, resource: APIResource, key: Key) -> Key:
        return Key(self._placed_namespace(resource, key.namespace), key.name)

    async def _read_all(
        self, resource: APIResource, namespace: str, labels: Labels, fields: Fields
    ) -> Sequence[Snapshot]:
        """All objects, of one state; in one piece where the pages expire while they are read."""
        try:
            pages = [page async for page in self._pages(resource, namespace, labels, fields, PAGE)]
        except Expired:
            pages = [page async for page in self._pages(resource, namespace, labels, fields, 0)]
        request = f"GET {resource.path(namespace)}"
        return [parsed(Snapshot.from_json, bytes(item), request) for page in pages for item in page]

    async def _pages(
        self, resource: APIResource, namespace: str, labels: Labels, fields: Fields, size: int
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        query = _selectors(labels, fields)
        tokens: set[str] = set()
        if size:
            query["limit"] = str(size)
        while True:
            path = resource.path(namespace)
            page = await self._ask(resource, None, path, query, read=decode_list_page)
            yield page.items or ()
            token = page.metadata.continue_
            if not token:
                return
            if token in tokens:
                raise MalformedAnswer(f"GET {path}: the server gave the same continue token twice")
            tokens.add(token)
            query["continue"] = token


def _cached(
    informer: Informer, namespace: str, owner: Object | None, index: tuple[str, Any] | None
) -> Sequence[Snapshot]:
    if index is not None:
        return informer.store.by_index(*index)
    if owner is not None:
        return informer.store.by_index("owner", owner.uid)
    return informer.store.list(namespace)


def _selectors(labels: Labels, fields: Fields) -> dict[str, str]:
    named = {"labelSelector": label_text(labels), "fieldSelector": field_text(fields)}
    return {name: text for name, text in named.items() if text}


def _version_of(body: bytes) -> str:
    return decode_list_page(body).metadata.resource_version


def _version_of_list(body: bytes) -> int:
    return int(_version_of(body) or 0)


def managed_fields_of(body: bytes) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = json_object(body)["metadata"].get("managedFields") or ()
    return found


async def _events(
    model: type[O], chunks: AsyncIterator[bytes], request: str, saw: Callable[[bytes], None]
) -> AsyncIterator[WatchEvent[O]]:
    lines = LineSplitter()
    async for chunk in chunks:
        for raw in lines.feed(chunk):
            line = parsed(decode_watch_line, raw, request)
            body = bytes(line.object)
            if line.type == "ERROR":
                raise error_from_status(parsed(json_object, body, request), request)
            version = parsed(_version_of, body, request)
            kind = _EVENT_TYPES.get(line.type)
            if kind is None:
                raise MalformedAnswer(f"{request}: a watch event of unknown type {line.type!r}")
            if kind == "BOOKMARK":
                yield WatchEvent(kind, version)
            else:
                saw(body)
                yield WatchEvent(kind, version, decode(model, body))
