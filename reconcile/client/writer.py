"""What every write has in common: its query, its guard, and what its end says of the cache."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
import msgspec

from informers import (
    AlreadyExists,
    ApiError,
    APIResource,
    Cache,
    Clock,
    Invalid,
    Key,
    NotFound,
    PreconditionFailed,
    Snapshot,
    StaleVersion,
    Transport,
)
from informers.apimachinery.server_fields import SET_BY_SERVER
from informers.applied import Appliers
from reconcile.client.diff import merge_diff, needs_version, overlaid
from reconcile.client.field_managers import check_field_manager
from reconcile.client.limits import RateLimiter
from reconcile.client.reader import Reader
from reconcile.client.sender import JSON_PATCH, MERGE_PATCH, FieldValidation, json_object
from reconcile.models import Object, Unstructured, decode, encode, kind_of
from reconcile.runs.run_record import Sent

O = TypeVar("O", bound=Object)  # noqa: E741
R = TypeVar("R")


class Writer(Reader):
    """A reader that also sends guarded patches, and notes each write for the key that caused it."""

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
        limiter: RateLimiter | None = None,
    ) -> None:
        super().__init__(transport, cache=cache, clock=clock, namespace=namespace, limiter=limiter)
        self.field_manager = check_field_manager(field_manager)
        self.former_field_managers: Sequence[str] = ()
        self.dry_run = dry_run
        self.field_validation = field_validation

    async def patch(
        self,
        resource: APIResource,
        key: Key,
        patch: Mapping[str, Any],
        *,
        guard: Mapping[str, str],
        subresource: str = "",
    ) -> Snapshot:
        """Send a merge patch; `guard` (uid, resourceVersion) says for which state it is meant.

        Raises StaleVersion and PreconditionFailed where the object is in another state, or another one.
        """
        key = self._placed_key(resource, key)
        body = {**patch, "metadata": {**(patch.get("metadata") or {}), **guard}}
        path = resource.path(key.namespace, key.name, subresource)
        return await self._write("PATCH", resource, key, path, body, MERGE_PATCH)

    # --- differences ----------------------------------------------------------------------------

    async def _difference(
        self, before: Object, after: Object, raw: Mapping[str, Any] | None, subresource: str
    ) -> dict[str, Any]:
        """The patch from one to the other; list elements are written from their stored form."""
        old, new = encode(before), encode(after)
        patch = _authored(merge_diff(old, new), subresource)
        if raw is None and not isinstance(before, Unstructured) and _has_list(patch):
            raw = (await self._stored_form(before)).to_dict()
        return patch if raw is None else _authored(merge_diff(old, new, raw), subresource)

    async def _rewrite(self, before: O, after: O, subresource: str) -> O:
        """Write what changed, where something becomes null: each changed part whole, at this version only."""
        old, new = encode(before), encode(after)
        wanted = overlaid(old, new, (await self._stored_form(before)).to_dict())
        operations = [
            {"op": "add", "path": f"/metadata/{name}", "value": value}
            for name, value in guard_of(before, {}, versioned=True).items()
        ]
        for name, change in _authored(merge_diff(old, new), subresource).items():
            if name == "metadata":
                operations += [_put(wanted[name], member, "/metadata") for member in change]
            else:
                operations.append(_put(wanted, name))
        resource = kind_of(before).resource
        path = resource.path(before.namespace, before.name, subresource)
        written = await self._write("PATCH", resource, before.key, path, operations, JSON_PATCH)
        return self.decoded(type(before), written)

    async def _whole_body(self, obj: Object) -> dict[str, Any]:
        """An object for a PUT: what was read and has a class is written over its stored form."""
        if isinstance(obj, Unstructured) or not obj.uid:
            return encode(obj)
        raw = (await self._stored_form(obj)).to_dict()
        body: dict[str, Any] = overlaid(encode(decode(type(obj), raw)), encode(obj), raw)
        return body

    async def _stored_form(self, obj: Object) -> Snapshot:
        """The whole object at the version at which it was read. Raises StaleVersion if it has changed."""
        resource = kind_of(obj).resource
        key = self._placed_key(resource, obj.key)
        informer = self._informer(resource, key.namespace)
        cached = None if informer is None else informer.store.get(key)
        for found in (cached if self._keeps_all(resource) else None, await self.read(resource, key)):
            if found is not None and found.uid == obj.uid and str(found.version) == _version(obj):
                return found
        raise StaleVersion(409, "Conflict", f"{resource} {str(key)!r} has changed since it was read")

    def _keeps_all(self, resource: APIResource) -> bool:
        """Whether what is read from the cache is the object as the server has it."""
        informer = None if self.cache is None else self.cache.find(resource)
        return informer is None or informer.store.shape.keeps_all

    def lacks(self, resource: APIResource, pointer: str) -> bool:
        """Whether the cache does not keep what stands at a JSON pointer in objects of a resource."""
        informer = None if self.cache is None else self.cache.find(resource)
        return informer is not None and informer.store.lacks(pointer)

    # --- requests -------------------------------------------------------------------------------

    async def _write(
        self,
        method: str,
        resource: APIResource,
        key: Key,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
    ) -> Snapshot:
        return (await self._answered(method, resource, key, path, body, headers, query))[1]

    async def _answered(
        self,
        method: str,
        resource: APIResource,
        key: Key,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        appliers: Appliers | None = None,
    ) -> tuple[bytes, Snapshot]:
        """Send a write of an object; the answer, and what is kept of it, which has no managedFields."""
        base = self._cached(resource, key)
        read = partial(_with_snapshot, method, resource, key, appliers)
        written, answer = await self._guarded(
            method, resource, key, path, body, headers, query, read=read, whole=True
        )
        if not self.dry_run:
            self._journal.wrote(resource, written)
        if self.run is not None:
            self.run.kept(resource, written.key, None if self.dry_run else written)
            fresh = base is None and (method == "POST" or _is_all_of(self.field_manager, answer))
            part = _subresource_of(resource, written.key, path)
            self.run.asked(
                Sent(method, resource, written.key, part, body, base, written, fresh, self.dry_run)
            )
        return answer, written

    def _decided_on_certain_state(self, resource: APIResource) -> None:
        """Before a create that no server refuses. Raises StaleVersion where the cache may be behind.

        That the cache is up to date now proves nothing: what was decided on was read before. So the run that
        may go on is one that began after the cache had reached the version of a consistent list.
        """
        unbound = self.cache is None or self.cache.find(resource) is None or not self._for_key
        if unbound or self.dry_run or resource in self._certain:
            return
        if not self._journal.is_certain(resource):
            self._journal.unknown(resource, Key("", ""))
            why = f"the cache of {resource} may be behind a predecessor's: decide again once it has caught up"
            raise StaleVersion(409, "Conflict", why)
        self.freshness.note_certain(resource)

    def _cached(self, resource: APIResource, key: Key) -> Snapshot | None:
        informer = None if self.cache is None else self.cache.find(resource)
        return None if informer is None else informer.store.get(key)

    async def _guarded(
        self,
        method: str,
        resource: APIResource,
        key: Key,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None = None,
        *,
        read: Callable[[bytes], R],
        whole: bool = False,
    ) -> R:
        """Send a write, and note what a failure says of the cache. `whole`: the answer is the object."""
        part = _subresource_of(resource, key, path)
        if self._check is not None:
            self._check(method, resource, part)
        sent = Sent(method, resource, key, part, body, dry=self.dry_run)
        try:
            answer = await self._noted(method, resource, key, path, body, headers, query, read)
        except ApiError as error:
            if self.run is not None:
                self.run.asked(sent)
                if not (method == "DELETE" and isinstance(error, NotFound)):
                    self.run.failed(resource, key)
            raise
        if self.run is not None:
            self.run.answered(resource, key)
            if not whole:
                self.run.asked(sent)
            if method in ("PATCH", "PUT"):
                self.run.kept(resource, key)
        return answer

    async def _noted(
        self,
        method: str,
        resource: APIResource,
        key: Key,
        path: str,
        body: Any,
        headers: Mapping[str, str],
        query: Mapping[str, str] | None,
        read: Callable[[bytes], R],
    ) -> R:
        query = {**self._write_query(method), **(query or {})}
        encoded = msgspec.json.encode(body)
        if self._secrets is not None:
            self._secrets.saw(resource, encoded)
        try:
            return await self._sender.send(method, path, read, query, headers, encoded)
        except StaleVersion:
            self._note_stale(resource, key, body)
            raise
        except Invalid as error:
            if not any(cause.field == "metadata.uid" for cause in error.causes):
                raise
            self._journal.unknown(resource, key)
            raise _replaced(error) from error
        except ApiError as error:
            if error.may_have_acted or isinstance(error, AlreadyExists | PreconditionFailed | NotFound):
                self._journal.unknown(resource, key)
            raise
        except anyio.get_cancelled_exc_class():
            self._journal.unknown(resource, key)
            raise

    def _kept(self, resource: APIResource, key: Key) -> None:
        if self.run is not None:
            self.run.kept(resource, key)

    def _write_query(self, method: str) -> dict[str, str]:
        query = {} if method == "DELETE" else {"fieldManager": self.field_manager}
        if self.dry_run:
            query["dryRun"] = "All"
        if self.field_validation is not None and method != "DELETE":
            query["fieldValidation"] = self.field_validation
        return query

    def _note_stale(self, resource: APIResource, key: Key, body: Any) -> None:
        said = body if isinstance(body, Mapping) else {}
        meant = said.get("metadata") or said.get("preconditions") or {}  # those are of a deletion
        version = str(meant.get("resourceVersion", ""))
        if version.isdecimal():
            self._journal.stale(resource, key, meant.get("uid", ""), int(version))
        else:
            self._journal.unknown(resource, key)

    def _placed(self, obj: O) -> O:
        """The object in the namespace of this view. Raises ValueError for one without a namespace."""
        resource = kind_of(obj).resource
        namespace = self._placed_namespace(resource, obj.namespace)
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource} {obj.name!r} has no namespace: set metadata.namespace")
        return obj if namespace == obj.namespace else obj.with_metadata(namespace=namespace)


def guard_of(obj: Object, patch: Mapping[str, Any], *, versioned: bool = False) -> dict[str, str]:
    """For which state of `obj` a patch is meant: its uid, and its version where the patch needs it.

    `versioned`: it does in any case. A patch of /status does, because of a custom resource's status an
    API server passes over the uid, and would patch a namesake. Raises ValueError for an object that
    was not read: nothing would guard the patch.
    """
    version = _version(obj)
    if not (obj.uid and version):
        raise ValueError(
            f"{type(obj).__name__} {str(obj.key)!r} was not read, so a patch of it would be blind: "
            f"read it first, or say guard={{}} if that is meant"
        )
    if versioned or needs_version(patch, encode(obj)):
        return {"uid": obj.uid, "resourceVersion": version}
    return {"uid": obj.uid}


def _version(obj: Object) -> str:
    return obj.metadata.resource_version


def _authored(patch: dict[str, Any], subresource: str) -> dict[str, Any]:
    """The patch without what only the server sets. Raises ValueError for what a write cannot reach."""
    metadata = {k: v for k, v in (patch.get("metadata") or {}).items() if k not in SET_BY_SERVER}
    rest = {name: value for name, value in patch.items() if name != "metadata"}
    if metadata:
        rest["metadata"] = metadata
    if subresource == "status" and set(rest) - {"status"}:
        beside = ", ".join(sorted(set(rest) - {"status"}))
        raise ValueError(f"a write to /status changes status alone, and this one changes {beside} as well")
    return rest


def _put(body: Mapping[str, Any], name: str, above: str = "") -> dict[str, Any]:
    """The operation of a JSON patch that makes a member what it is in `body`."""
    path = f"{above}/{name}"
    return (
        {"op": "add", "path": path, "value": body[name]} if name in body else {"op": "remove", "path": path}
    )


class _Entry(msgspec.Struct):
    manager: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: list[_Entry] = []


class _Managed(msgspec.Struct):
    metadata: _Metadata


_managed = msgspec.json.Decoder(_Managed)


def _with_snapshot(
    method: str, resource: APIResource, key: Key, appliers: Appliers | None, answer: bytes
) -> tuple[Snapshot, bytes]:
    """The state that a write answered, and the answer itself. Raises ValueError if it is of another object.

    Reviews (of access, of tokens) are created and never stored, so what a POST answers may have no name.
    """
    written = Snapshot.from_json(answer, appliers=appliers)
    name = written.key.name
    if name == key.name or (method == "POST" and not key.name and name):
        return written, answer
    if method == "POST" and not name and json_object(answer).get("kind") == resource.kind:
        return written, answer
    raise ValueError(f"expected {key.name!r}, got {name!r}")


def _is_all_of(manager: str, answer: bytes) -> bool:
    """Whether every field of an object is of this field manager."""
    entries = _managed.decode(answer).metadata.managed_fields
    return bool(entries) and all(entry.manager == manager for entry in entries)


def _subresource_of(resource: APIResource, key: Key, path: str) -> str:
    """What stands in a path behind the object."""
    whole = resource.path(key.namespace, key.name) if key.name else path
    return path[len(whole) + 1 :]


def _has_list(patch: Any) -> bool:
    if isinstance(patch, Mapping):
        return any(map(_has_list, patch.values()))
    return isinstance(patch, list | tuple)


def _replaced(error: Invalid) -> PreconditionFailed:
    """How a server says of a patch that the object is another one than was meant."""
    return PreconditionFailed(
        error.code,
        error.reason,
        f"the object was replaced by another of its name: {error.message}",
        causes=error.causes,
        details=error.details,
        request=error.request,
    )
