"""Releases an object that kopf created by half, after a person has seen to what its handler did outside."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import frozen

from informers import Conflict, Key, NotFound
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.tally import TEXT
from reconcile.client.patch_types import MERGE
from reconcile.client.sender import Sender, json_object
from reconcile.predecessors import ObjectTraces, release, traces_on

ATTEMPTS: Final = 5
"""How often an object is read and written anew that others write to meanwhile."""
FIELD_MANAGER: Final = "reconcile-adopt-kopf"
SHOWN: Final = 5


@frozen
class HeldObject:
    """An object whose creation under kopf has begun and not ended."""

    kind: AdoptedKind
    document: Mapping[str, Any]
    traces: ObjectTraces

    @property
    def path(self) -> str:
        metadata = self.document["metadata"]
        return self.kind.resource.path(metadata.get("namespace", ""), metadata["name"])

    def __str__(self) -> str:
        """The object, and which handlers have not ended; never what they left in their records."""
        metadata = self.document["metadata"]
        name = f"{self.kind.resource.name} {Key(metadata.get('namespace', ''), metadata['name'])}"
        records = self.traces.half_created
        if not records:
            return f"{name}: kopf may have begun to create it"
        handlers = [f"{one.handler[:TEXT]} (since {one.started[:TEXT]})" for one in records[:SHOWN]]
        more = f" and {len(records) - SHOWN} more" if len(records) > SHOWN else ""
        return f"{name}: {', '.join(handlers)}{more} began and did not end"


@frozen
class Release:
    """Reads and writes through `sender`."""

    sender: Sender

    async def held(self, kinds: Iterable[AdoptedKind], key: Key) -> Sequence[HeldObject]:
        """The objects of that name that are held, one of a kind at most. Raises ApiError."""
        found = [
            await self._held(kind, key) for kind in kinds if kind.resource.namespaced == bool(key.namespace)
        ]
        return [one for one in found if one is not None]

    async def release(self, held: HeldObject) -> None:
        """Have it count as created, for kopf too. Raises ApiError.

        The annotations go first: a process that is killed between the two writes leaves the object held.
        """
        metadata = held.document["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        latest: HeldObject | None = held
        for attempt in range(1, ATTEMPTS + 1):
            if latest is None or latest.document["metadata"]["uid"] != metadata["uid"]:
                return
            try:
                await self._write(latest)
                return
            except NotFound:
                return
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                latest = await self._held(held.kind, key)

    async def _held(self, kind: AdoptedKind, key: Key) -> HeldObject | None:
        try:
            document = await self.sender.send("GET", kind.resource.path(key.namespace, key.name), json_object)
        except NotFound:
            return None
        traces = traces_on(document, kind.names)
        going = "deletionTimestamp" in document["metadata"]
        is_held = not going and (traces.half_created or traces.begun)
        return HeldObject(kind, document, traces) if is_held else None

    async def _write(self, held: HeldObject) -> None:
        names, document = held.kind.names, held.document
        if marks := release(held.traces, names):
            patch = {"metadata": {"annotations": dict(marks)}}
            document = await self._patch(held.path, document, patch)
        if not any(one.place == "status" for one in held.traces.half_created):
            return
        gone = {"status": {names.status_field: {"progress": None}}}
        document = await self._patch(held.path, document, gone)
        if ((document.get("status") or {}).get(names.status_field) or {}).get("progress"):
            await self._patch(f"{held.path}/status", document, gone)  # the status is a subresource

    async def _patch(
        self, path: str, document: Mapping[str, Any], patch: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        metadata = document["metadata"]
        guard = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = msgspec.json.encode(MERGE.guarded(patch, guard))
        query = {"fieldManager": FIELD_MANAGER}
        return await self.sender.send("PATCH", path, json_object, query, MERGE.headers, body)
