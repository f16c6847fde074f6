"""Requests beyond the six verbs: custom patches, subresources, whole objects, stored states."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen

from informers import APIResource, Key, MalformedAnswer, PreconditionFailed, Snapshot
from reconcile.client import scale_writes
from reconcile.client.client_core import ClientCore
from reconcile.client.object_reads import ObjectReads, object_path
from reconcile.client.object_selectors import Fields, Labels
from reconcile.client.object_writes import ObjectWrites, Propagation, accepted
from reconcile.client.patch_types import BY_NAME, PatchName
from reconcile.client.sender import JSON, json_object
from reconcile.models import Object, Unstructured, kind_of

O = TypeVar("O", bound=Object)  # noqa: E741


@frozen(eq=False)
class RawClient:
    """The requests for which `Client` has no verb; own writes are seen here too."""

    _core: ClientCore
    _reads: ObjectReads
    _writes: ObjectWrites

    # --- reads ----------------------------------------------------------------------------------

    async def snapshot(self, resource: APIResource, key: Key, *, live: bool = False) -> Snapshot | None:
        """The stored state of an object, or None."""
        return await self._reads.snapshot(resource, key, live=live)

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
        """The stored states of the objects that match every argument; see `Client.list`."""
        return await self._reads.snapshots(
            resource, namespace, labels=labels, fields=fields, owner=owner, index=index, live=live
        )

    async def read_subresource(self, obj: Object, subresource: str) -> dict[str, Any]:
        """A subresource of an object, such as its Scale, as the server has it now. Raises NotFound."""
        resource = kind_of(obj).resource
        key = self._core.key_of(resource, obj.key)
        path = object_path(resource, key, subresource)
        return await self._reads.ask(resource, key, path, read=json_object)

    async def managed_fields(self, resource: APIResource, key: Key) -> Sequence[Mapping[str, Any]]:
        """The managedFields of an object as the server has it now; empty where there is no object."""
        return await self._reads.managed_fields(resource, key)

    async def version(self, resource: APIResource, namespace: str = "") -> int:
        """The resourceVersion of a resource as of now, from a consistent list of one object."""
        return await self._reads.version(resource, namespace)

    async def unstructured(self, manifest: Mapping[str, Any] | str) -> Unstructured:
        """A manifest as an object; the server is asked for its resource. Raises UnknownKind, ValueError."""
        return await self._core.manifests.object_of(manifest)

    # --- writes ---------------------------------------------------------------------------------

    async def patch(
        self,
        resource: APIResource,
        key: Key,
        patch: Any,
        *,
        guard: Mapping[str, str],
        patch_type: PatchName = "merge",
        subresource: str = "",
    ) -> Snapshot:
        """Send a patch as it is; `guard` (uid, resourceVersion) names the state that it is meant for.

        `patch` is a mapping, or with `"json"` a list of operations (RFC 6902). A server takes `"strategic"`
        for built-in kinds alone. Returns the stored state. Raises StaleVersion and PreconditionFailed where
        the object is in another state, or another one.
        """
        return await self._writes.patch(
            resource, key, patch, guard=guard, patch_type=BY_NAME[patch_type], subresource=subresource
        )

    async def merge(
        self,
        obj: O,
        patch: Mapping[str, Any],
        *,
        guard: Mapping[str, str] | None = None,
        subresource: str = "",
    ) -> O:
        """Send a merge patch for `obj`; an empty one is not sent.

        `guard` (uid, resourceVersion) names the state that it is meant for. By default that is this very
        object, at this version where the patch touches status, a list, the choice within a union, or fields
        that the cache drops; raises ValueError where it was not read. `guard={}` is a blind write.
        """
        return await self._writes.merge(obj, patch, guard, subresource)

    async def update(self, obj: O, *, subresource: str = "", whole: bool = False) -> O:
        """Replace the object by `obj`, at its resourceVersion. Raises StaleVersion.

        Fields unknown to its class stay, for which the object may have to be read first; with `whole`, `obj`
        is the entire object. To change a part of an object, use `Client.modify` or `Client.editing`.
        """
        return await self._writes.update(obj, subresource, whole)

    async def create_subresource(self, obj: Object, subresource: str, body: Mapping[str, Any]) -> None:
        """POST to a subresource of an object (a pod's `binding`, `eviction`); its answer is not read."""
        obj = self._core.placed(obj)
        resource = kind_of(obj).resource
        await self._writes.send("POST", resource, obj.key, body, JSON, accepted, bytes, subresource)

    async def apply_scale(self, obj: Object, replicas: int, *, force: bool = False) -> int:
        """Own the replicas of `obj` through /scale, by server-side apply; returns the resulting number.

        Raises OwnedByOther where another field manager owns the number, unless `force` takes it over, and
        PreconditionFailed if the object was replaced by another of its name. For built-in kinds: a real
        server (1.36) answers 500 to an apply of the Scale of a custom resource.
        """
        return await scale_writes.apply_scale(self._writes, obj, replicas, force)

    async def set_scale(self, obj: Object, replicas: int, *, expect: int) -> None:
        """Change the replicas of `obj` through /scale from `expect` to `replicas`, in one attempt.

        Raises StaleVersion if the number has changed: decide again.
        """
        await scale_writes.set_scale(self._writes, obj, replicas, expect)

    async def delete_snapshot(
        self, resource: APIResource, snapshot: Snapshot, *, propagation: Propagation | None = None
    ) -> None:
        """As `Client.delete`, for the object of a stored state."""
        key = self._core.key_of(resource, snapshot.key)
        await self._writes.decide_on_fresh_state(resource)
        await self._writes.delete(resource, key, snapshot.uid, propagation)

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
        """Delete the matching live objects that are not terminating; returns how many.

        Each by its uid, so that new objects are spared. Raises MalformedAnswer for one without.
        """
        resource = kind_of(model).resource
        snapshots = await self._reads.snapshots(
            resource, namespace, labels=labels, fields=fields, owner=owner, live=True
        )
        deleted = 0
        for snapshot in snapshots:
            if snapshot.terminating:
                continue
            if not (snapshot.key.name and snapshot.uid):
                raise MalformedAnswer(f"the server listed {resource} without the name or the uid of one")
            try:
                deleted += await self._writes.delete(resource, snapshot.key, snapshot.uid, propagation)
            except PreconditionFailed:
                continue
        return deleted
