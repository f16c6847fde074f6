"""How an operator reads and writes: typed, through the cache where there is one, and never blind.

A write is a diff of what changed, or an intent that is applied; a write that would change nothing
is not sent; every answer is remembered for the key that caused it, so that its next read sees it.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, Self, TypeVar, overload

import anyio
import msgspec

from informers import (
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
from reconcile.client.applier import Applier
from reconcile.client.diff import pointers, sets_null
from reconcile.client.editing import Draft, finished
from reconcile.client.field_managers import check_field_manager
from reconcile.client.limits import RateLimiter
from reconcile.client.object_selectors import Fields, Labels
from reconcile.client.own_writes import Journal
from reconcile.client.reader import Check
from reconcile.client.redaction import SecretValues
from reconcile.client.sender import APPLY_PATCH, JSON, JSON_PATCH, FieldValidation, json_object
from reconcile.client.writer import guard_of
from reconcile.models import Object, Unstructured, decode, encode, kind_of
from reconcile.runs.run_record import RunRecord

O = TypeVar("O", bound=Object)  # noqa: E741
Propagation = Literal["Background", "Foreground", "Orphan"]

MODIFY_ATTEMPTS = 20
SCALE_ATTEMPTS = 5
SCALE_WAIT = 0.1
"""Seconds, before chance makes half as much or half as much again of it."""


class _ScaleSpec(msgspec.Struct):
    replicas: int | None = None


class _ScaleMetadata(msgspec.Struct):
    uid: str = ""


class _Scale(msgspec.Struct):
    metadata: _ScaleMetadata
    spec: _ScaleSpec | None = None


class Client(Applier):
    """Reads and writes objects of one cluster.

    With a `cache`, `get` and `list` read declared kinds from it and everything else from the server;
    without one, or with `live=True`, they always ask the server. `field_manager` is the name under
    which writes are recorded. With `dry_run` the server checks writes and carries none out;
    `field_validation` says what it does about unknown fields (default: it warns; an apply is always
    strict). `limiter` slows requests down. Failures are `reconcile.errors.ApiError`s.
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
        limiter: RateLimiter | None = None,
    ) -> None:
        super().__init__(
            transport,
            cache=cache,
            field_manager=field_manager,
            clock=clock,
            namespace=namespace,
            dry_run=dry_run,
            field_validation=field_validation,
            limiter=limiter,
        )

    def bound(
        self,
        journal: Journal,
        field_manager: str = "",
        former_field_managers: Sequence[str] | None = None,
        beside: "Client | None" = None,
    ) -> Self:
        """The same client for one key: its writes are noted in `journal`, its reads wait for them.

        What was applied under `former_field_managers` belongs to `field_manager` after its next apply.
        What it sees of Secrets, writes and fails at is also known to the client `beside` it, of the same run.
        """
        former = self.former_field_managers if former_field_managers is None else former_field_managers
        return self._copied(
            _journal=journal,
            _secrets=SecretValues() if beside is None else beside._secrets,
            run=RunRecord() if beside is None else beside.run,
            field_manager=field_manager or self.field_manager,
            former_field_managers=former,
            _for_key=True,
            _certain=self.freshness.certain,
        )

    def checked(self, check: Check) -> Self:
        """The same client, which asks before each write whether it may be sent."""
        return self._copied(_check=check)

    def with_options(
        self,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Self:
        """A view of the same client: of one namespace, under another name, or for dry runs."""
        given = {
            "namespace": namespace,
            "field_manager": None if field_manager is None else check_field_manager(field_manager),
            "former_field_managers": None if field_manager is None else (),
            "dry_run": dry_run,
            "field_validation": field_validation,
        }
        return self._copied(**{name: value for name, value in given.items() if value is not None})

    # --- changes --------------------------------------------------------------------------------

    async def update(self, obj: O, *, subresource: str = "", whole: bool = False) -> O:
        """Replace the object by `obj`, which says at which resourceVersion. Raises StaleVersion.

        It replaces all of it that its class has; fields that the class does not have stay, for which the
        object may have to be read first. With `whole` it is not: `obj` is all that there shall be.
        `modify` and `editing` are for changing some of it.
        """
        obj = self._placed(obj)
        resource = kind_of(obj).resource
        path = resource.path(obj.namespace, obj.name, subresource)
        body = encode(obj) if whole else await self._whole_body(obj)
        written = await self._write("PUT", resource, obj.key, path, body, JSON)
        return self.decoded(type(obj), written)

    async def modify(
        self, model: type[O], name: str, namespace: str, change: Callable[[O], O], *, subresource: str = ""
    ) -> O:
        """Read the object live, write what `change` makes different; again on fresh state if it was stale.

        `change` gets the object and returns it changed (`obj.replace(...)`); it may run several times,
        and no update of another writer is lost between its reading and its writing. Raises NotFound,
        PreconditionFailed if the object is replaced by another of its name meanwhile, and StaleVersion
        only after 20 attempts.
        """
        resource = kind_of(model).resource
        key = self._placed_key(resource, Key(namespace, name))
        uid = ""
        for attempt in range(MODIFY_ATTEMPTS):
            stored = await self.read(resource, key)
            if stored is None:
                raise NotFound(404, "NotFound", f'{resource} "{name}" not found')
            if uid and uid != stored.uid:
                raise PreconditionFailed(409, "Conflict", f"{resource} {name!r} was replaced by another")
            uid = stored.uid
            try:
                return await self._modify_once(model, stored, change, subresource)
            except StaleVersion:
                if attempt == MODIFY_ATTEMPTS - 1:
                    raise
            await anyio.sleep(min(1.0, 0.01 * 2**attempt) * self.clock.random())
        raise AssertionError("unreachable")

    @overload
    def editing(  # type: ignore[overload-overlap]
        self, obj: Unstructured, *, subresource: str = ""
    ) -> AbstractAsyncContextManager[dict[str, Any]]: ...
    @overload
    def editing(self, obj: O, *, subresource: str = "") -> AbstractAsyncContextManager[Draft[O]]: ...
    def editing(self, obj: Object, *, subresource: str = "") -> AbstractAsyncContextManager[Any]:
        """A mutable copy of `obj`, whose changes are sent at the end: `async with ... as draft`.

        A model's copy is a `Draft`, that of an unstructured object a dict. Nothing is sent after an
        exception, or if nothing has changed. The patch names the object by uid, and its version where
        it touches a list or the choice within a union; raises StaleVersion, PreconditionFailed. A
        number that others count up as well is for `modify`. Where the cache does not keep whole
        objects, the copy is of a live read.
        """
        return self._editing(obj, subresource)

    async def merge(
        self,
        obj: O,
        patch: Mapping[str, Any],
        *,
        guard: Mapping[str, str] | None = None,
        subresource: str = "",
    ) -> O:
        """Send a merge patch for `obj`; one that is empty is no request.

        `guard` (uid, resourceVersion) says for which state it is meant; the default is this very
        object, at this version where the patch touches status, a list, the choice within a union, or what
        the cache does not keep; raises ValueError where it was not read. `guard={}` is a blind write.
        """
        if not patch:
            return obj
        resource = kind_of(obj).resource
        if guard is None:
            unseen = any(self.lacks(resource, pointer) for pointer in pointers(patch))
            guard = guard_of(obj, patch, versioned=subresource == "status" or unseen)
        written = await self.patch(resource, obj.key, patch, guard=guard, subresource=subresource)
        return self.decoded(type(obj), written)

    async def create_subresource(self, obj: Object, subresource: str, body: Mapping[str, Any]) -> None:
        """POST to a subresource of an object (a pod's `binding`, `eviction`); its answer is not read."""
        obj = self._placed(obj)
        resource = kind_of(obj).resource
        path = resource.path(obj.namespace, obj.name, subresource)
        await self._guarded("POST", resource, obj.key, path, body, JSON, read=bytes)
        self._journal.unknown(resource, obj.key)

    # --- scale ----------------------------------------------------------------------------------

    async def scale(self, obj: Object, decide: Callable[[int], int]) -> int:
        """Set the replicas of `obj` through /scale to what `decide` makes of them; returns them.

        Test and replace: where another writer was faster, the number is read again and `decide` runs
        again, up to five times. Raises StaleVersion after that, PreconditionFailed if the object was
        replaced by another of its name, and Invalid for a number that the server refuses.
        """
        refused: tuple[Invalid, Any] | None = None
        for _ in range(SCALE_ATTEMPTS):
            scale = await self._scale_of(obj)
            if refused is not None and refused[1] == scale["spec"]:
                raise refused[0]
            replicas = scale["spec"].get("replicas") or 0
            wanted = decide(replicas)
            if wanted == replicas:
                return replicas
            try:
                await self._replace_scale(obj, scale, wanted)
            except Invalid as error:
                refused = error, scale["spec"]
            except StaleVersion:
                refused = None
            else:
                return wanted
            await anyio.sleep(SCALE_WAIT * (0.5 + self.clock.random()))
        raise StaleVersion(409, "Conflict", f"others keep changing the replicas of {str(obj.key)!r}")

    async def apply_scale(self, obj: Object, replicas: int, *, force: bool = False) -> int:
        """Own the replicas of `obj` through /scale, by server-side apply; returns how many it has then.

        Raises OwnedByOther where another field manager owns the number, unless `force` takes it over,
        and PreconditionFailed if the object was replaced by another of its name. For built-in kinds: a real
        server (1.36) answers 500 to an apply of the Scale of a custom resource.
        """
        resource = kind_of(obj).resource
        key = self._placed_key(resource, obj.key)
        metadata = {"name": key.name, "namespace": key.namespace, "uid": obj.uid}
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {name: value for name, value in metadata.items() if value},
            "spec": {"replicas": replicas},
        }
        path = resource.path(key.namespace, key.name, "scale")
        query = {"force": "true" if force else "false"}
        scale, scaled = await self._guarded(
            "PATCH", resource, key, path, body, APPLY_PATCH, query, read=_scale_in
        )
        if not self.dry_run:
            self._journal.scaled(resource, scale)
        return scaled

    async def set_scale(self, obj: Object, replicas: int, *, expect: int) -> None:
        """Change the replicas of `obj` through /scale from `expect` to `replicas`, in one attempt.

        Raises StaleVersion if the number is another one now: decide anew.
        """
        scale = await self._scale_of(obj)
        now = scale["spec"].get("replicas") or 0
        stale = StaleVersion(409, "Conflict", f"{str(obj.key)!r} has {now} replicas, not {expect}")
        if now != expect:
            raise stale
        try:
            await self._replace_scale(obj, scale, replicas)
        except Invalid as error:
            if (await self._scale_of(obj))["spec"] == scale["spec"]:
                raise
            raise stale from error

    # --- deleting -------------------------------------------------------------------------------

    async def delete(
        self,
        obj: Object,
        *,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        if_unchanged: bool = False,
    ) -> None:
        """Delete that very object (its uid is the precondition); no error if it is gone already.

        With `if_unchanged` its resourceVersion is a precondition too: where what the object says decides
        that it goes, and somebody may just have changed it. Raises StaleVersion if somebody has, and
        PreconditionFailed if another object has taken its name. In a reconcile, the first deletion of a
        kind after the start waits until the cache is certainly up to date; raises StaleVersion if it was
        not, since then the decision was made on old state. Raises ValueError for an object that was not
        read and is to be unchanged.
        """
        obj = self._placed(obj)
        resource = kind_of(obj).resource
        if if_unchanged and not obj.metadata.resource_version:
            raise ValueError(f"{str(obj.key)!r} was not read: it has no resourceVersion to be unchanged at")
        version = obj.metadata.resource_version if if_unchanged else ""
        await self._decided_on_fresh_state(resource)
        await self._delete(resource, obj.key, obj.uid, propagation, grace_seconds, version)

    async def delete_snapshot(
        self, resource: APIResource, snapshot: Snapshot, *, propagation: Propagation | None = None
    ) -> None:
        """As `delete`, for the object of a stored state."""
        key = self._placed_key(resource, snapshot.key)
        await self._decided_on_fresh_state(resource)
        await self._delete(resource, key, snapshot.uid, propagation, None)

    async def delete_all(
        self,
        model: type[Object],
        namespace: str = "",
        *,
        labels: Labels = None,
        fields: Fields = None,
        owner: Object | None = None,
        propagation: Propagation | None = None,
    ) -> int:
        """Delete the objects that fit and are not going yet, as the server has them now; says how many.

        Each by its uid, so that what appears meanwhile is spared.
        """
        resource = kind_of(model).resource
        found = await self.snapshots(
            resource, namespace, labels=labels, fields=fields, owner=owner, live=True
        )
        deleted = 0
        for snapshot in found:
            if snapshot.terminating:
                continue
            try:
                deleted += await self._delete(resource, snapshot.key, snapshot.uid, propagation, None)
            except PreconditionFailed:
                continue
        return deleted

    # --- within ---------------------------------------------------------------------------------

    async def _modify_once(
        self, model: type[O], stored: Snapshot, change: Callable[[O], O], subresource: str
    ) -> O:
        before = decode(model, stored.raw)
        after = change(before)
        if sets_null(encode(before), encode(after)):
            return await self._rewrite(before, after, subresource)
        patch = await self._difference(before, after, stored.to_dict(), subresource)
        return await self.merge(
            before, patch, guard=guard_of(before, patch, versioned=True), subresource=subresource
        )

    @asynccontextmanager
    async def _editing(self, obj: Object, subresource: str) -> AsyncIterator[Any]:
        if not obj.uid:
            raise ValueError(f"editing takes an object that was read, and {str(obj.key)!r} has no uid")
        before = await self._whole(obj)
        if isinstance(before, Unstructured):
            body = msgspec.json.decode(msgspec.json.encode(encode(before)))
            yield body
            after: Object = decode(type(before), body)
        else:
            draft = Draft(before)
            yield draft
            after = finished(draft)
        if sets_null(encode(before), encode(after)):
            await self._rewrite(before, after, subresource)
            return
        patch = await self._difference(before, after, None, subresource)
        guard = guard_of(before, patch, versioned=subresource == "status")
        await self.merge(before, patch, guard=guard, subresource=subresource)

    async def _whole(self, obj: O) -> O:
        """The object, or where the cache keeps less than all of objects, the same object read live."""
        resource = kind_of(obj).resource
        if self._keeps_all(resource):
            return obj
        stored = await self.read(resource, self._placed_key(resource, obj.key))
        if stored is None or stored.uid != obj.uid:
            raise PreconditionFailed(409, "Conflict", f"{resource} {str(obj.key)!r} is gone or was replaced")
        return decode(type(obj), stored.raw)

    async def _scale_of(self, obj: Object) -> dict[str, Any]:
        resource = kind_of(obj).resource
        key = self._placed_key(resource, obj.key)
        path = resource.path(key.namespace, key.name, "scale")
        scale = await self._ask(resource, key, path, read=_readable_scale)
        if obj.uid and scale["metadata"].get("uid") != obj.uid:
            raise PreconditionFailed(409, "Conflict", f"{str(obj.key)!r} was replaced by another of its name")
        return scale

    async def _replace_scale(self, obj: Object, scale: Mapping[str, Any], replicas: int) -> None:
        """Spec is compared whole: a Scale of 0 replicas leaves the number out."""
        resource = kind_of(obj).resource
        key = self._placed_key(resource, obj.key)
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": scale["metadata"].get("uid")},
            {"op": "test", "path": "/spec", "value": scale["spec"]},
            {"op": "replace", "path": "/spec", "value": {"replicas": replicas}},
        ]
        path = resource.path(key.namespace, key.name, "scale")
        answered, _ = await self._guarded(
            "PATCH", resource, key, path, operations, JSON_PATCH, read=_scale_in
        )
        if not self.dry_run:
            self._journal.scaled(resource, answered)

    async def _decided_on_fresh_state(self, resource: APIResource) -> None:
        if not self._for_key or self.cache is None or self.dry_run:
            return
        if not await self.freshness.confirm(self.cache, self, resource):
            why = f"the cache of {resource} had not caught up when a deletion was decided: decide again"
            raise StaleVersion(409, "Conflict", why)

    async def _delete(
        self,
        resource: APIResource,
        key: Key,
        uid: str,
        propagation: Propagation | None,
        grace_seconds: int | None,
        version: str = "",
    ) -> bool:
        """Delete by uid, and by version where one is given; false if it is gone already."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": version}
        if uid or version:
            options["preconditions"] = {name: value for name, value in preconditions.items() if value}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if self.dry_run:
            options["dryRun"] = ["All"]  # a server that is given a body looks for it there alone
        path = resource.path(key.namespace, key.name)
        try:
            await self._guarded("DELETE", resource, key, path, options, JSON, read=json_object)
        except NotFound:
            return False
        if not self.dry_run:
            self._journal.deleted(resource, key, uid)
        return True


def _readable_scale(answer: bytes) -> dict[str, Any]:
    """A Scale with metadata, and with a spec that has a number of replicas or none."""
    scale = json_object(answer)
    msgspec.convert(scale, _Scale)
    return {**scale, "spec": scale.get("spec") or {}}


def _scale_in(answer: bytes) -> tuple[Snapshot, int]:
    """A Scale that a server answered, and its number of replicas."""
    return Snapshot.from_json(answer), _readable_scale(answer)["spec"].get("replicas") or 0
