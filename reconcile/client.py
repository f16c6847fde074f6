"""How an operator reads and writes: typed, through the cache where there is one, and never blind.

A write is a diff of what changed, or an intent that is applied; a write that would change nothing
is not sent; every answer is remembered for the key that caused it, so that its next read sees it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

import anyio
import msgspec

from informers import (
    AlreadyExists,
    Cache,
    Clock,
    Key,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Resource,
    ServerTimeout,
    Snapshot,
    StaleVersion,
    SystemClock,
    Transport,
    error_from_response,
)
from informers.discovery import Discovery
from reconcile.applying import AppliedIntents
from reconcile.consistency import Journal
from reconcile.diffing import merge_diff
from reconcile.models import Object, Unstructured, decode, encode, kind_of, unstructured

O = TypeVar("O", bound=Object)  # noqa: E741
Propagation = Literal["Background", "Foreground", "Orphan"]

_JSON = {"content-type": "application/json", "accept": "application/json"}
_MERGE = {"content-type": "application/merge-patch+json", "accept": "application/json"}
_PATCH = {"content-type": "application/json-patch+json", "accept": "application/json"}
_APPLY = {"content-type": "application/apply-patch+yaml", "accept": "application/json"}
_MODIFY_ATTEMPTS = 5


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_List)


class Client:
    """Reads and writes objects of one cluster.

    With a `cache`, `get` and `list` read declared kinds from it and everything else from the server;
    without one, or with `live=True`, they always ask the server. `field_manager` is the name under
    which writes are recorded. Failures are `reconcile.ApiError`s.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        cache: Cache | None = None,
        field_manager: str = "reconcile",
        clock: Clock | None = None,
    ) -> None:
        self.transport = transport
        self.cache = cache
        self.field_manager = field_manager
        self.clock = clock or SystemClock()
        self._discovery = Discovery(transport)
        self._journal = Journal()
        self._intents = AppliedIntents()

    def bound(self, journal: Journal, field_manager: str = "") -> "Client":
        """The same client for one key: its writes are noted in `journal`, its reads wait for them."""
        other = Client.__new__(Client)
        other.__dict__.update(self.__dict__)
        other._journal = journal
        other.field_manager = field_manager or self.field_manager
        return other

    # --- reading --------------------------------------------------------------------------------

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
        return None if snapshot is None else decode(model, snapshot.raw)

    async def list(
        self,
        model: type[O],
        namespace: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        owner: Object | None = None,
        live: bool = False,
    ) -> Sequence[O]:
        """The objects of a kind, in all namespaces or in one, with those labels, owned by that owner."""
        snapshots = await self.snapshots(kind_of(model).resource, namespace, owner=owner, live=live)
        wanted = (labels or {}).items()
        return [decode(model, s.raw) for s in snapshots if wanted <= s.labels.items()]

    async def snapshot(self, resource: Resource, key: Key, *, live: bool = False) -> Snapshot | None:
        """The stored state of an object, or None."""
        informer = None if live or self.cache is None else self.cache.find(resource)
        if informer is None or not informer.covers(key.namespace):
            return await self.read(resource, key)
        await self.settle(resource)
        return informer.store.get(key)

    async def snapshots(
        self, resource: Resource, namespace: str = "", *, owner: Object | None = None, live: bool = False
    ) -> Sequence[Snapshot]:
        """The stored states of all objects of a resource, of a namespace, of an owner."""
        informer = None if live or self.cache is None else self.cache.find(resource)
        if informer is None or (namespace and not informer.covers(namespace)):
            found: Iterable[Snapshot] = await self._read_all(resource, namespace)
            return [s for s in found if owner is None or any(o.uid == owner.uid for o in s.owners)]
        await self.settle(resource)
        if owner is None:
            return informer.store.list(namespace)
        owned = informer.store.by_index("owner", owner.uid)
        return [s for s in owned if not namespace or s.key.namespace == namespace]

    async def version(self, resource: Resource, namespace: str = "") -> int:
        """The resourceVersion of a resource as of now, from a consistent list of one object."""
        body = await self._send("GET", resource.path(namespace), {"limit": "1"})
        return int(_list.decode(body).metadata.resource_version or 0)

    async def settle(self, resource: Resource | None = None) -> None:
        """Wait until the cache shows this key's own writes (of one resource, if given)."""
        if self.cache is not None and self._journal:
            await self._journal.settle(self.cache, self, resource)

    # --- writing --------------------------------------------------------------------------------

    async def create(self, obj: O) -> O:
        """Create an object. Raises AlreadyExists, Invalid, Forbidden."""
        resource = kind_of(obj).resource
        body = _intent(obj)
        path = resource.path(self._namespace(resource, obj.key))
        written = await self._write("POST", resource, obj.key, path, body, _JSON)
        return decode(type(obj), written.raw)

    @overload
    async def apply(self, obj: O, *, force: bool = True) -> O: ...
    @overload
    async def apply(self, obj: Mapping[str, Any], *, force: bool = True) -> Unstructured: ...
    async def apply(self, obj: Object | Mapping[str, Any], *, force: bool = True) -> Object:
        """Make the object have what `obj` says (server-side apply), whoever else writes the rest.

        An intent that was acknowledged before, and still holds in the cache, is not sent again.
        With `force`, fields that others own are taken over; without, they raise OwnedByOther.
        """
        if isinstance(obj, Mapping):
            obj = await self.unstructured(obj)
        resource, body = kind_of(obj).resource, _intent(obj)
        self._namespace(resource, obj.key)
        known = await self._known(resource, obj.key)
        if known is not None and self._intents.holds(resource, body, known):
            return decode(type(obj), known.raw)
        query = {"force": "true"} if force else {}
        path = resource.path(obj.namespace, obj.name)
        written = await self._write("PATCH", resource, obj.key, path, body, _APPLY, query)
        self._intents.acknowledged(resource, body, written)
        return decode(type(obj), written.raw)

    async def update(self, obj: O) -> O:
        """Replace the object by `obj`, which says at which resourceVersion. Raises StaleVersion."""
        resource = kind_of(obj).resource
        path = resource.path(obj.namespace, obj.name)
        written = await self._write("PUT", resource, obj.key, path, encode(obj), _JSON)
        return decode(type(obj), written.raw)

    async def modify(
        self, model: type[O], name: str, namespace: str, change: Callable[[O], O], *, subresource: str = ""
    ) -> O:
        """Read the object live, write what `change` makes different; again on fresh state if it was stale.

        `change` gets the object and returns it changed (`obj.replace(...)`); it may run several times.
        """
        for attempt in range(_MODIFY_ATTEMPTS):
            live = await self.get(model, name, namespace, live=True)
            patch = merge_diff(encode(live), encode(change(live)))
            if not patch:
                return live
            guard = {"uid": live.uid, "resourceVersion": live.metadata.resource_version}
            try:
                return await self.merge(live, patch, guard=guard, subresource=subresource)
            except StaleVersion:
                if attempt == _MODIFY_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def merge(
        self, obj: O, patch: Mapping[str, Any], *, guard: Mapping[str, str], subresource: str = ""
    ) -> O:
        """Send a merge patch for `obj`; `guard` (uid, resourceVersion) says which state it is meant for."""
        resource = kind_of(obj).resource
        written = await self.patch(resource, obj.key, patch, guard=guard, subresource=subresource)
        return decode(type(obj), written.raw)

    async def patch(
        self,
        resource: Resource,
        key: Key,
        patch: Mapping[str, Any],
        *,
        guard: Mapping[str, str],
        subresource: str = "",
    ) -> Snapshot:
        """As `merge`, for an object that is known by resource and key only."""
        body = {**patch, "metadata": {**patch.get("metadata", {}), **guard}}
        path = resource.path(key.namespace, key.name, subresource)
        return await self._write("PATCH", resource, key, path, body, _MERGE)

    async def create_subresource(self, obj: Object, subresource: str, body: Mapping[str, Any]) -> None:
        """POST to a subresource of an object (a pod's `binding`, `eviction`); its answer is not read."""
        resource = kind_of(obj).resource
        path = resource.path(obj.namespace, obj.name, subresource)
        await self._guarded("POST", resource, obj.key, path, body, _JSON, {})
        self._journal.unknown(resource, obj.key)

    async def set_scale(self, obj: Object, replicas: int, *, expect: int) -> None:
        """Change the replicas of `obj` through /scale from `expect` to `replicas`.

        Test and replace: raises Invalid if another writer has changed the number meanwhile.
        """
        resource = kind_of(obj).resource
        operations = [
            {"op": "test", "path": "/spec/replicas", "value": expect},
            {"op": "replace", "path": "/spec/replicas", "value": replicas},
        ]
        path = resource.path(obj.namespace, obj.name, "scale")
        self._journal.unknown(resource, obj.key)
        await self._send("PATCH", path, self._manager(), _PATCH, msgspec.json.encode(operations))

    async def delete(
        self,
        obj: Object,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete that very object (its uid is the precondition); no error if it is gone already.

        Raises PreconditionFailed if another object has taken its name.
        """
        resource = kind_of(obj).resource
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if obj.uid:
            options["preconditions"] = {"uid": obj.uid}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        path = resource.path(obj.namespace, obj.name)
        try:
            await self._guarded("DELETE", resource, obj.key, path, options, _JSON, {})
        except NotFound:
            return
        self._journal.deleted(resource, obj.key, obj.uid)

    async def unstructured(self, manifest: Mapping[str, Any]) -> Unstructured:
        """A manifest as an object, its resource asked of the server. Raises UnknownKind, ValueError."""
        api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            raise ValueError("a manifest needs apiVersion and kind")
        resource = await self._discovery.resource(api_version, kind)
        model = unstructured(api_version, kind, plural=resource.plural, namespaced=resource.namespaced)
        return decode(model, manifest)

    # --- requests -------------------------------------------------------------------------------

    async def _known(self, resource: Resource, key: Key) -> Snapshot | None:
        """The stored state, if an intent was acknowledged for it: cached, or read where nothing caches it."""
        if not self._intents.remembers(resource, key):
            return None
        informer = None if self.cache is None else self.cache.find(resource)
        if informer is None or not informer.covers(key.namespace):
            return await self.read(resource, key)
        await self.settle(resource)
        return informer.store.get(key)

    async def read(self, resource: Resource, key: Key) -> Snapshot | None:
        """The state of an object as the server has it now, or None."""
        try:
            return Snapshot.from_json(await self._send("GET", resource.path(key.namespace, key.name)))
        except NotFound:
            return None

    async def _read_all(self, resource: Resource, namespace: str) -> Iterable[Snapshot]:
        found: list[Snapshot] = []
        query = {"limit": "500"}
        while True:
            page = _list.decode(await self._send("GET", resource.path(namespace), query))
            found.extend(Snapshot.from_json(item) for item in page.items or ())
            if not page.metadata.continue_:
                return found
            query["continue"] = page.metadata.continue_

    async def _write(
        self,
        method: str,
        resource: Resource,
        key: Key,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
    ) -> Snapshot:
        answer = await self._guarded(method, resource, key, path, body, headers, query or {})
        written = Snapshot.from_json(answer)
        self._journal.wrote(resource, written)
        return written

    async def _guarded(
        self,
        method: str,
        resource: Resource,
        key: Key,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        query: Mapping[str, str],
    ) -> bytes:
        """Send a write, and note what a failure says of the cache."""
        try:
            return await self._send(
                method, path, {**self._manager(), **query}, headers, msgspec.json.encode(body)
            )
        except StaleVersion:
            metadata = body.get("metadata", {})
            version = str(metadata.get("resourceVersion", ""))
            if version.isdigit():
                self._journal.stale(resource, key, metadata.get("uid", ""), int(version))
            else:
                self._journal.unknown(resource, key)
            raise
        except (AlreadyExists, PreconditionFailed, NotFound, OutcomeUnknown, ServerTimeout):
            self._journal.unknown(resource, key)
            raise
        except anyio.get_cancelled_exc_class():
            self._journal.unknown(resource, key)
            raise

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] = _JSON,
        body: bytes | None = None,
    ) -> bytes:
        response = await self.transport.request(method, path, query or {}, headers, body)
        if response.status >= 400:
            raise error_from_response(response.status, response.headers, response.body, f"{method} {path}")
        return response.body

    def _manager(self) -> Mapping[str, str]:
        return {"fieldManager": self.field_manager}

    @staticmethod
    def _namespace(resource: Resource, key: Key) -> str:
        if resource.namespaced and not key.namespace:
            raise ValueError(f"{resource} {key.name!r} has no namespace: set metadata.namespace")
        return key.namespace


def _intent(obj: Object) -> dict[str, Any]:
    """What is sent for an object: nothing that only the server sets, and no status."""
    body = encode(obj)
    body.pop("status", None)
    server_set = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
    body["metadata"] = {k: v for k, v in body["metadata"].items() if k not in (*server_set, "managedFields")}
    return body
