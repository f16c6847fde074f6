"""Rewrites the stored objects of a kind, so that each is stored in the storage version.

As Cluster API's crdmigrator does: metadata alone is listed, and each object gets an apply that says nothing,
which the server stores anew if it was stored in another version. It goes through `/status` where the kind has
it, so that webhooks for the objects themselves cannot refuse it.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import anyio
import msgspec
from attrs import define, field, frozen

from informers import APIResource, BadRequest, Conflict, Expired, Invalid, Key, NotFound, ServerError
from informers.apimachinery.envelopes import ListPage, decode_list_page
from reconcile.client.patch_types import APPLY, MERGE, PatchType
from reconcile.client.sender import Sender
from reconcile.runs.supervision import without_groups

PAGE: Final = 500
STRANDS: Final = 8
"""Requests at a time."""
NAMED: Final = 20
"""How many objects that failed are kept by name."""
SHOWN: Final = 500
"""Characters of the reason, which a webhook may have written."""
RESTARTS: Final = 3
"""How often a list that expired is begun again; it lives for five minutes."""
FIELD_MANAGER: Final = "reconcile-storage-migration"
_ACCEPT = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    managed_fields: list[dict[str, Any]] = []


class _Item(msgspec.Struct):
    metadata: _Metadata


_decode_item = msgspec.json.Decoder(_Item).decode


@define
class Rewritten:
    """The result of a pass: how many objects are stored as they should be, and which could not be stored."""

    done: int = 0
    failed: int = 0
    failures: list[str] = field(factory=list)

    def fail(self, key: str, error: Exception) -> None:
        self.failed += 1
        self.failures = [*self.failures, f"{key}: {str(error)[:SHOWN]}"][:NAMED]


@frozen
class StoredObjects:
    """The objects of `resource`, in the storage version; `others` are further versions that are served.

    `progress` is called after each page.
    """

    sender: Sender
    resource: APIResource
    has_status: bool
    others: Sequence[str] = ()
    progress: Callable[[Rewritten], None] = lambda rewritten: None

    async def rewrite(self, drop: Sequence[str] = ()) -> Rewritten:
        """Store all objects anew, without managedFields of the versions `drop`.

        An object that cannot be stored is named in the result, and the others go on. Raises ApiError for what
        may pass: the pass is then repeated, and costs little for objects that are stored anew already.
        """
        for restart in range(RESTARTS):
            try:
                return await self._in_any_version(drop)
            except Expired:
                if restart == RESTARTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _in_any_version(self, drop: Sequence[str]) -> Rewritten:
        """A list fails if one object cannot be converted; in the version of that object it does not."""
        first: ServerError | None = None
        for version in (self.resource.version, *self.others):
            try:
                return await self._pass(version, drop)
            except ServerError as error:
                if error.code != 500:
                    raise
                first = first or error
        assert first is not None
        rewritten = Rewritten()
        rewritten.fail(f"the list of {self.resource.name}", first)
        return rewritten

    async def _pass(self, version: str, drop: Sequence[str]) -> Rewritten:
        rewritten = Rewritten()
        async for items in self._pages(version):
            with without_groups():
                async with anyio.create_task_group() as strands:
                    rest = iter(items)
                    for _ in range(min(STRANDS, len(items))):
                        strands.start_soon(self._strand, rest, drop, rewritten)
            self.progress(rewritten)
        return rewritten

    async def _pages(self, version: str) -> AsyncIterator[Sequence[_Metadata]]:
        path, after = f"/apis/{self.resource.group}/{version}/{self.resource.plural}", ""
        while True:
            query = {"limit": str(PAGE), **({"continue": after} if after else {})}
            page: ListPage = await self.sender.send("GET", path, decode_list_page, query, _ACCEPT)
            yield [_decode_item(item).metadata for item in page.items or ()]
            after = page.metadata.continue_
            if not after:
                return

    async def _strand(self, items: Iterator[_Metadata], drop: Sequence[str], rewritten: Rewritten) -> None:
        for metadata in items:
            try:
                await self._rewrite_one(metadata, drop)
            except (NotFound, Conflict):
                pass  # deleted, or written by others meanwhile and so stored in the storage version
            except (BadRequest, Invalid) as error:
                rewritten.fail(_key(metadata), error)
                continue
            except ServerError as error:
                if error.code != 500:
                    raise
                rewritten.fail(_key(metadata), error)
                continue
            rewritten.done += 1

    async def _rewrite_one(self, metadata: _Metadata, drop: Sequence[str]) -> None:
        guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        dropped = {f"{self.resource.group}/{version}" for version in drop}
        left = [entry for entry in metadata.managed_fields if entry.get("apiVersion") not in dropped]
        if len(left) < len(metadata.managed_fields):
            change = {"metadata": {"managedFields": left or [self._almost_nothing_managed()]}}
            # Not through /status: a server ignores managedFields that are sent to a subresource.
            await self._send(metadata, "", MERGE, MERGE.guarded(change, guard))
            return
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        place = {"name": metadata.name, **({"namespace": metadata.namespace} if metadata.namespace else {})}
        body = APPLY.guarded({**head, "metadata": place}, guard)
        await self._send(metadata, "/status" if self.has_status else "", APPLY, body, {"force": "true"})

    def _almost_nothing_managed(self) -> dict[str, Any]:
        """One entry: with an empty list the server would keep the old one, and with none the first apply
        would share its fields with a guessed owner (`before-first-apply`)."""
        return {
            "manager": FIELD_MANAGER,
            "operation": "Apply",
            "apiVersion": self.resource.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:name": {}}},
        }

    async def _send(
        self,
        metadata: _Metadata,
        part: str,
        patch: PatchType,
        body: Any,
        query: Mapping[str, str] | None = None,
    ) -> None:
        path = f"{self.resource.path(metadata.namespace)}/{metadata.name}{part}"
        asked = {"fieldManager": FIELD_MANAGER, **(query or {})}
        await self.sender.send("PATCH", path, bytes, asked, patch.headers, msgspec.json.encode(body))


def _key(metadata: _Metadata) -> str:
    return str(Key(metadata.namespace, metadata.name))
