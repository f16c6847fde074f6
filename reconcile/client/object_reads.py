"""The reads of a client: from the cache where it has the kind, else live; never behind its own writes."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from attrs import frozen

from informers import (
    ApiError,
    APIResource,
    Expired,
    Informer,
    Key,
    MalformedAnswer,
    NotCached,
    NotFound,
    Snapshot,
)
from informers.api_errors import parsed
from informers.apimachinery.envelopes import decode_list_page
from informers.apimachinery.label_selectors import matches_labels
from informers.applied import Appliers
from reconcile.client.client_core import ClientCore
from reconcile.client.object_selectors import Fields, Labels, field_text, label_text, parse_labels
from reconcile.client.own_writes import CacheBehind
from reconcile.client.sender import json_object
from reconcile.models import Object

R = TypeVar("R")

PAGE = 500
"""Objects a page, as client-go asks for."""


@frozen(eq=False)
class ObjectReads:
    """Reads stored states. A run with a failed read does not prune at its end."""

    core: ClientCore

    async def snapshot(self, resource: APIResource, key: Key, *, live: bool = False) -> Snapshot | None:
        core = self.core
        if core.namespace:
            key = core.key_of(resource, key)
        core.run.note_read(resource, key)
        informer = None if live else core.informer(resource, key.namespace)
        if informer is None:
            # Not `read`: aggregated APIs (such as metrics) serve objects without a uid.
            return await self._live(resource, key, Snapshot.from_json)
        if core.journal:
            await self.settle(resource)
        if informer.tapped:
            await informer.look()
        stored = informer.store.get(key)
        # `note_secrets` asks again; most reads need not call it.
        if resource.kind == "Secret" or core.secret_fields:
            core.note_secrets(resource, stored)
        return stored

    async def read(
        self, resource: APIResource, key: Key, appliers: Appliers | None = None
    ) -> Snapshot | None:
        """The live state that a write is based on, or None. Raises MalformedAnswer if it cannot guard one."""
        return await self._live(resource, key, partial(stored_object, appliers=appliers))

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
        core = self.core
        namespace = core.namespace_of(resource, namespace)
        core.run.note_read(resource, None)
        # Only the server can answer a field selector: an informer keeps no index of arbitrary fields.
        informer = None if live or fields else core.informer(resource, namespace)
        if informer is not None:
            await self.settle(resource)
            if informer.tapped:
                await informer.look()
            candidates = self._cached(informer, namespace, owner, index)
        elif index is not None and index[0] in core.indexed.indexes:
            everything = await self._all_pages(resource, namespace, labels, fields)
            candidates = core.indexed.listed(everything, *index)
        elif index is not None:
            raise NotCached(f"{resource} is not read from a cache here, so it has no index {index[0]!r}")
        else:
            candidates = await self._all_pages(resource, namespace, labels, fields)
        requirements = parse_labels(labels)
        snapshots = [
            snapshot
            for snapshot in candidates
            if (not namespace or not resource.namespaced or snapshot.key.namespace == namespace)
            and (owner is None or any(reference.uid == owner.uid for reference in snapshot.owners))
            and (not requirements or matches_labels(requirements, snapshot.labels))
        ]
        core.note_secrets(resource, *snapshots)
        return snapshots

    def _cached(
        self, informer: Informer, namespace: str, owner: Object | None, index: tuple[str, Any] | None
    ) -> Sequence[Snapshot]:
        if index is not None:
            return self.core.indexed.cached(informer, *index)
        if owner is not None:
            return informer.store.by_index("owner", owner.uid)
        return informer.store.list(namespace)

    async def pages(
        self, resource: APIResource, namespace: str, labels: Labels, fields: Fields, size: int
    ) -> AsyncIterator[Sequence[msgspec.Raw]]:
        """The objects from the server; with a `size` of 0, all of them in one page."""
        query = selector_query(labels, fields)
        tokens: set[str] = set()
        if size:
            query["limit"] = str(size)
        path = resource.path(namespace)
        while True:
            page = await self.ask(resource, None, path, query, read=decode_list_page)
            yield page.items or ()
            token = page.metadata.continue_
            if not token:
                return
            # A proxy that drops the query would have us read the first page for ever.
            if token in tokens:
                raise MalformedAnswer(f"GET {path}: the server gave the same continue token twice")
            tokens.add(token)
            query["continue"] = token

    async def version(self, resource: APIResource, namespace: str = "") -> int:
        # Without a resourceVersion in the query a list is consistent, and `limit` makes it cheap.
        path, query = resource.path(namespace), {"limit": "1"}
        return await self.core.sender.send("GET", path, lambda body: int(version_of(body) or 0), query)

    async def managed_fields(self, resource: APIResource, key: Key) -> Sequence[Mapping[str, Any]]:
        try:
            return await self.core.sender.send("GET", object_path(resource, key), managed_fields_of)
        except NotFound:
            return ()

    async def settle(self, resource: APIResource | None = None, key: Key | None = None) -> None:
        """Wait until the cache shows this key's own writes (of one resource or one object, if given)."""
        core = self.core
        if core.cache is None or not core.journal:
            return
        try:
            await core.journal.settle(core.cache, self, resource, key)
        except CacheBehind:
            core.run.note_failure()
            raise

    async def ask(
        self,
        resource: APIResource,
        key: Key | None,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        read: Callable[[bytes], R],
    ) -> R:
        """The answer to a GET, decoded by `read`; the record of the run gets its outcome."""
        run = self.core.run
        try:
            answer = await self.core.sender.send("GET", path, read, query)
        except ApiError as error:
            if not isinstance(error, NotFound):
                run.read_failed(resource, key)
            raise
        run.read_answered(resource, key)
        return answer

    async def _live(
        self, resource: APIResource, key: Key, read: Callable[[bytes], Snapshot]
    ) -> Snapshot | None:
        try:
            snapshot = await self.ask(resource, key, object_path(resource, key), read=read)
        except NotFound:
            return None
        self.core.note_secrets(resource, snapshot)
        return snapshot

    async def _all_pages(
        self, resource: APIResource, namespace: str, labels: Labels, fields: Fields
    ) -> Sequence[Snapshot]:
        """All objects of one state; in one piece where the pages expire while they are read."""
        try:
            pages = [page async for page in self.pages(resource, namespace, labels, fields, PAGE)]
        except Expired:
            pages = [page async for page in self.pages(resource, namespace, labels, fields, 0)]
        request = f"GET {resource.path(namespace)}"
        return [parsed(Snapshot.from_json, bytes(item), request) for page in pages for item in page]


def object_path(resource: APIResource, key: Key, subresource: str = "") -> str:
    """The path of an object. Raises NotFound without a name: the path would be that of all objects."""
    if not key.name:
        raise NotFound(404, "NotFound", f"{resource} in {key.namespace!r}: an object has a name")
    return resource.path(key.namespace, key.name, subresource)


def stored_object(body: bytes, appliers: Appliers | None = None) -> Snapshot:
    """A stored object. Raises ValueError for one without name, uid or resourceVersion."""
    snapshot = Snapshot.from_json(body, appliers=appliers)
    if not (snapshot.key.name and snapshot.uid and snapshot.version):
        raise ValueError("a stored object has a name, a uid and a resourceVersion")
    return snapshot


def selector_query(labels: Labels, fields: Fields) -> dict[str, str]:
    """The query of a list or watch. Raises ValueError for a selector that cannot be read."""
    named = {"labelSelector": label_text(labels), "fieldSelector": field_text(fields)}
    return {name: text for name, text in named.items() if text}


def version_of(body: bytes) -> str:
    return decode_list_page(body).metadata.resource_version


def managed_fields_of(body: bytes) -> Sequence[Mapping[str, Any]]:
    entries: Sequence[Mapping[str, Any]] = json_object(body)["metadata"].get("managedFields") or ()
    return entries
