"""The writes of a client, guarded by uid or version; the observers get each step."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar

import anyio
import msgspec
from attrs import frozen

from informers import APIResource, Cache, Invalid, Key, NotFound, PreconditionFailed, Snapshot, StaleVersion
from informers.apimachinery.server_fields import SET_BY_SERVER
from informers.applied import Appliers
from reconcile.client.client_core import ClientCore
from reconcile.client.diff import holds_list, merge_diff, needs_version, overlaid, pointers, sets_null
from reconcile.client.object_reads import ObjectReads, stored_object
from reconcile.client.patch_types import JSON_PATCH, MERGE, Guard, PatchType
from reconcile.client.sender import JSON, json_object
from reconcile.models import Object, Unstructured, decode, encode, kind_of
from reconcile.runs.tenure import tenure_here, within
from reconcile.runs.write_events import Answered, Failed, Sent

O = TypeVar("O", bound=Object)  # noqa: E741
R = TypeVar("R")

Propagation = Literal["Background", "Foreground", "Orphan"]

MODIFY_ATTEMPTS = 20


@frozen(eq=False)
class ObjectWrites:
    core: ClientCore
    reads: ObjectReads

    # --- one request ----------------------------------------------------------------------------

    async def send_object(
        self,
        method: str,
        resource: APIResource,
        key: Key,
        body: Any,
        headers: Mapping[str, str] = JSON,
        *,
        subresource: str = "",
        query: Mapping[str, str] | None = None,
        appliers: Appliers | None = None,
    ) -> tuple[Snapshot, bytes]:
        """Send a write that is answered with the object: its state, and the answer with managedFields."""
        read = partial(_object_in, method, resource, key, self.core.dry_run, appliers)
        return await self.send(
            method, resource, key, body, headers, self._object_answered, read, subresource, query
        )

    async def send(
        self,
        method: str,
        resource: APIResource,
        key: Key,
        body: Any,
        headers: Mapping[str, str],
        answered: Callable[[Sent, R], Answered],
        read: Callable[[bytes], R],
        subresource: str = "",
        query: Mapping[str, str] | None = None,
    ) -> R:
        """Send a write; `read` decodes its answer, `answered` turns the result into the observers' event."""
        core = self.core
        creates = method == "POST" and not subresource
        if not (key.name or creates):
            # Without a name the path is that of the collection: a DELETE would delete every object of it.
            raise ValueError(f"{resource} in {key.namespace!r}: the object to write has no name")
        sent = Sent(
            method, resource, key, subresource, body, base=core.cached(resource, key), dry=core.dry_run
        )
        for observer in core.observers:
            observer.sent(sent)
        try:
            reply = await self._request(sent, headers, {**self._query(method), **(query or {})}, read)
        except BaseException as error:  # a write that was cancelled may have been carried out
            self._note_failed(sent, error)
            raise
        event = answered(sent, reply)
        for observer in core.observers:
            observer.answered(event)
        return reply

    async def _request(
        self, sent: Sent, headers: Mapping[str, str], query: Mapping[str, str], read: Callable[[bytes], R]
    ) -> R:
        key = sent.key
        if sent.method == "POST" and not sent.subresource:
            path = sent.resource.path(key.namespace)
        else:
            path = sent.resource.path(key.namespace, key.name, sent.subresource)
        body = msgspec.json.encode(sent.body)
        try:
            # The run's own: a task that it has not started may have its client.
            with within(self.core.run.tenure or tenure_here()):
                return await self.core.sender.send(sent.method, path, read, query, headers, body)
        except Invalid as error:
            # A deletion that names another uid is a Conflict, a patch that does is Invalid: one error here.
            if not any(cause.field == "metadata.uid" for cause in error.causes):
                raise
            raise _replaced(error) from error

    def _note_failed(self, sent: Sent, error: BaseException) -> None:
        failed = Failed(sent, error)
        for observer in self.core.observers:
            observer.failed(failed)

    def _object_answered(self, sent: Sent, reply: tuple[Snapshot, bytes]) -> Answered:
        written, answer = reply
        fresh = sent.base is None and (sent.method == "POST" or _is_all_of(self.core.field_manager, answer))
        return Answered(sent, written, fresh)

    def _query(self, method: str) -> dict[str, str]:
        core = self.core
        query = {} if method == "DELETE" else {"fieldManager": core.field_manager}
        if core.dry_run:
            query["dryRun"] = "All"
        if core.field_validation is not None and method != "DELETE":
            query["fieldValidation"] = core.field_validation
        return query

    # --- patches --------------------------------------------------------------------------------

    async def patch(
        self,
        resource: APIResource,
        key: Key,
        patch: Any,
        *,
        guard: Guard,
        patch_type: PatchType = MERGE,
        subresource: str = "",
    ) -> Snapshot:
        """Send a patch; see `RawClient.patch`. Raises StaleVersion, PreconditionFailed."""
        key = self.core.key_of(resource, key)
        body = patch_type.guarded(patch, guard)
        return (
            await self.send_object("PATCH", resource, key, body, patch_type.headers, subresource=subresource)
        )[0]

    async def merge(self, obj: O, patch: Mapping[str, Any], guard: Guard | None, subresource: str) -> O:
        """Send a merge patch for an object; see `RawClient.merge`. Raises ValueError for one not read."""
        if not patch:
            return obj
        resource = kind_of(obj).resource
        if guard is None:
            unseen = any(self.core.lacks(resource, pointer) for pointer in pointers(patch))
            guard = guard_of(obj, patch, versioned=subresource == "status" or unseen)
        written = await self.patch(resource, obj.key, patch, guard=guard, subresource=subresource)
        return self.core.decoded(type(obj), written)

    # --- changed objects ------------------------------------------------------------------------

    async def modify(self, model: type[O], key: Key, change: Callable[[O], O], subresource: str) -> O:
        """Write what `change` makes of a live read; repeated on fresh state where that was stale."""
        resource = kind_of(model).resource
        key = self.core.key_of(resource, key)
        uid = ""
        for attempt in range(1, MODIFY_ATTEMPTS + 1):
            stored = await self.reads.read(resource, key)
            if stored is None:
                raise NotFound(404, "NotFound", f'{resource} "{key.name}" not found')
            if uid and uid != stored.uid:
                raise PreconditionFailed(409, "Conflict", f"{resource} {key.name!r} was replaced by another")
            uid = stored.uid
            before = decode(model, stored.raw)
            try:
                return await self.write_change(before, change(before), stored, subresource)
            except StaleVersion:
                if attempt == MODIFY_ATTEMPTS:
                    raise
            # Chance sets writers of one object apart that would collide for ever in step.
            await anyio.sleep(min(1.0, 0.01 * 2 ** (attempt - 1)) * self.core.clock.random())
        raise AssertionError("unreachable")

    async def write_change(self, before: O, after: O, stored: Snapshot | None, subresource: str) -> O:
        """Write the difference between two states; `stored` is the live state before, if any."""
        old, new = encode(before), encode(after)
        # A write to a subresource changes no labels.
        if old != new and not subresource and (labelled := self.core.labelled(after)) is not after:
            after, new = labelled, encode(labelled)
        if sets_null(old, new):
            return await self._rewrite(before, after, subresource)
        patch = _authored(merge_diff(old, new), subresource)
        form = stored
        if form is None and not isinstance(before, Unstructured) and holds_list(patch):
            form = await self._stored_form(before)
        if form is not None:
            patch = _authored(merge_diff(old, new, form.to_dict()), subresource)
        # What was decided on a live read may rest on any field of it, so it is for that version only.
        guard = guard_of(before, patch, versioned=stored is not None or subresource == "status")
        return await self.merge(before, patch, guard, subresource)

    async def _rewrite(self, before: O, after: O, subresource: str) -> O:
        """Write a change that sets null: a JSON patch of whole parts, as null in a merge patch removes."""
        old, new = encode(before), encode(after)
        target = overlaid(old, new, (await self._stored_form(before)).to_dict())
        operations: list[dict[str, Any]] = []
        for name, change in _authored(merge_diff(old, new), subresource).items():
            if name == "metadata":
                operations += [_put(target[name], member, "/metadata") for member in change]
            else:
                operations.append(_put(target, name))
        guard = guard_of(before, {}, versioned=True)
        resource = kind_of(before).resource
        written = await self.patch(
            resource, before.key, operations, guard=guard, patch_type=JSON_PATCH, subresource=subresource
        )
        return self.core.decoded(type(before), written)

    async def update(self, obj: O, subresource: str, whole: bool) -> O:
        """Replace an object; without `whole`, fields unknown to its class stay."""
        obj = self.core.labelled(self.core.placed(obj))
        resource = kind_of(obj).resource
        body = encode(obj) if whole else await self._whole_body(obj)
        written, _ = await self.send_object("PUT", resource, obj.key, body, subresource=subresource)
        return self.core.decoded(type(obj), written)

    async def whole(self, obj: O) -> O:
        """The object; where the cache does not keep whole objects, the same object read live."""
        resource = kind_of(obj).resource
        if self.core.keeps_all(resource):
            return obj
        stored = await self.reads.read(resource, self.core.key_of(resource, obj.key))
        if stored is None or stored.uid != obj.uid:
            raise PreconditionFailed(409, "Conflict", f"{resource} {str(obj.key)!r} is gone or was replaced")
        return decode(type(obj), stored.raw)

    async def _whole_body(self, obj: Object) -> dict[str, Any]:
        """The body of a PUT: a typed object that was read is written over its stored form."""
        if isinstance(obj, Unstructured) or not obj.uid:
            return encode(obj)
        raw = (await self._stored_form(obj)).to_dict()
        body: dict[str, Any] = overlaid(encode(decode(type(obj), raw)), encode(obj), raw)
        return body

    async def _stored_form(self, obj: Object) -> Snapshot:
        """The whole object at the version at which it was read. Raises StaleVersion if it has changed."""
        core, resource = self.core, kind_of(obj).resource
        key = core.key_of(resource, obj.key)
        informer = core.informer(resource, key.namespace)
        cached = None if informer is None else informer.store.get(key)
        for stored in (cached if core.keeps_all(resource) else None, await self.reads.read(resource, key)):
            if stored is not None and stored.uid == obj.uid and str(stored.version) == _version(obj):
                return stored
        raise StaleVersion(409, "Conflict", f"{resource} {str(key)!r} has changed since it was read")

    # --- deleting -------------------------------------------------------------------------------

    async def decide_on_fresh_state(self, resource: APIResource) -> None:
        """Before a deletion. Raises StaleVersion for the first of a kind if the cache was behind.

        Also if the run's own object has changed: a standby that had not seen the new spec would delete what
        its predecessor has made for it.
        """
        core = self.core
        if not core.of_run or core.cache is None or core.dry_run:
            return
        current = await core.freshness.confirm(core.cache, self.reads, resource)
        if not await self._knew_own_object(core.cache, resource) or not current:
            why = f"the cache had not caught up when a deletion of {resource} was decided: decide again"
            raise StaleVersion(409, "Conflict", why)

    async def _knew_own_object(self, cache: Cache, deleted: APIResource) -> bool:
        """Whether the run began with the present state of its object, if that was not certain yet."""
        core, primary = self.core, self.core.run.primary
        resource = core.run.primary_resource
        if primary is None or resource is None or resource == deleted:
            return True
        if await core.freshness.confirm(cache, self.reads, resource):
            return True
        cached = core.cached(resource, primary.key)
        return cached is not None and cached.version == primary.version

    async def delete(
        self,
        resource: APIResource,
        key: Key,
        uid: str,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        version: str = "",
    ) -> bool:
        """Delete by uid, and by `version` if given; false if the object is gone already."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": version}
        if uid or version:
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if self.core.dry_run:
            options["dryRun"] = ["All"]  # a server that is given a body looks for it there alone
        try:
            await self.send("DELETE", resource, key, options, JSON, accepted, json_object)
        except NotFound:
            return False
        return True


def guard_of(obj: Object, patch: Mapping[str, Any], *, versioned: bool = False) -> dict[str, str]:
    """The uid of `obj`, and its version if `versioned` or needed. Raises ValueError for one not read."""
    version = _version(obj)
    if not (obj.uid and version):
        raise ValueError(
            f"{type(obj).__name__} {str(obj.key)!r} was not read, so a patch of it would be blind: "
            f"read it first, or say guard={{}} if that is meant"
        )
    # A patch of /status is versioned: for the status of a custom resource an API server ignores the uid, and
    # would patch a namesake.
    if versioned or needs_version(patch, encode(obj)):
        return {"uid": obj.uid, "resourceVersion": version}
    return {"uid": obj.uid}


def _version(obj: Object) -> str:
    return obj.metadata.resource_version


def _authored(patch: dict[str, Any], subresource: str) -> dict[str, Any]:
    """The patch without server-set metadata. Raises ValueError for fields beyond a write to /status."""
    metadata = {k: v for k, v in (patch.get("metadata") or {}).items() if k not in SET_BY_SERVER}
    rest = {name: value for name, value in patch.items() if name != "metadata"}
    if metadata:
        rest["metadata"] = metadata
    if subresource == "status" and set(rest) - {"status"}:
        beside = ", ".join(sorted(set(rest) - {"status"}))
        raise ValueError(f"a write to /status changes status alone, and this one changes {beside} as well")
    return rest


def _put(body: Mapping[str, Any], name: str, above: str = "") -> dict[str, Any]:
    """The operation of a JSON patch that sets a member to its value in `body`, or removes it."""
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


def _object_in(
    method: str, resource: APIResource, key: Key, dry: bool, appliers: Appliers | None, answer: bytes
) -> tuple[Snapshot, bytes]:
    """The object in an answer, and the answer itself. Raises ValueError if it is another object.

    The answer to a POST need not be stored: a review (of access, of a token) may have no name, and kinds of
    aggregated APIs no uid. What was patched or replaced is stored, unless a dry run was to create it.
    """
    if method != "POST" and not dry:
        written = stored_object(answer, appliers)
        if written.key.name != key.name:
            raise ValueError(f"expected {key.name!r}, got {written.key.name!r}")
        return written, answer
    written = Snapshot.from_json(answer, appliers=appliers)
    name = written.key.name
    if name and key.name in (name, ""):
        return written, answer
    if not name and json_object(answer).get("kind") == resource.kind:
        return written, answer
    raise ValueError(f"expected {key.name!r}, got {name!r}")


def accepted(sent: Sent, _answer: object) -> Answered:
    """The event of a write whose answer is not the object."""
    return Answered(sent)


def _is_all_of(manager: str, answer: bytes) -> bool:
    entries = _managed.decode(answer).metadata.managed_fields
    return bool(entries) and all(entry.manager == manager for entry in entries)


def _replaced(error: Invalid) -> PreconditionFailed:
    return PreconditionFailed(
        error.code,
        error.reason,
        f"the object was replaced by another of its name: {error.message}",
        causes=error.causes,
        details=error.details,
        request=error.request,
    )
