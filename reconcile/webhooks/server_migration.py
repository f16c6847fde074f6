"""Has the control plane rewrite the stored objects of a kind, by a StorageVersionMigration, where it can."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import anyio
import msgspec
from attrs import frozen

from informers import AlreadyExists, APIResource, NotFound
from reconcile.client.sender import Sender, json_object

GROUP: Final = "storagemigration.k8s.io"
VERSIONS: Final = ("v1", "v1beta1")
POLL: Final = 2.0
START_SECONDS: Final = 60.0
"""Until a migration that no controller began is given up: the API may be served without its controller."""
RUN_SECONDS: Final = 120.0
"""Until one that is running is not waited for any more: the control plane repeats for ever what an object or
a webhook refuses, and does not name it. Two migrations at a time do no harm."""


@frozen
class ServerMigration:
    """The migration of a kind for one generation of its definition; its name is that of the definition."""

    sender: Sender
    resource: APIResource
    generation: int

    async def run(self) -> bool:
        """Whether the control plane rewrote all objects; false where it cannot. Raises ApiError."""
        version = await self._version()
        if version is None:
            return False
        path = f"/apis/{GROUP}/{version}/storageversionmigrations"
        await self._begin(version, path)
        if not await self._succeeds(f"{path}/{self.resource.name}"):
            return False
        await self._delete(f"{path}/{self.resource.name}")
        return True

    async def _version(self) -> str | None:
        try:
            served = await self.sender.send("GET", f"/apis/{GROUP}", json_object)
        except NotFound:
            return None
        names = {entry.get("version") for entry in served.get("versions") or ()}
        return next((version for version in VERSIONS if version in names), None)

    async def _begin(self, version: str, path: str) -> None:
        """Create the migration; one of an earlier generation goes first, and one of this one goes on."""
        body = {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "StorageVersionMigration",
            "metadata": {"name": self.resource.name, "annotations": {self._mark: str(self.generation)}},
            "spec": {"resource": {"group": self.resource.group, "resource": self.resource.plural}},
        }
        while True:
            found = await self._read(f"{path}/{self.resource.name}")
            if found is not None and self._is_this(found):
                return
            if found is not None:
                await self._delete(f"{path}/{self.resource.name}")
            try:
                await self.sender.send("POST", path, bytes, body=msgspec.json.encode(body))
            except AlreadyExists:
                await anyio.sleep(POLL)

    async def _succeeds(self, path: str) -> bool:
        begun = anyio.current_time()
        while True:
            found = await self._read(path)
            if found is None or not self._is_this(found):
                return False
            conditions = _conditions(found)
            if conditions.get("Succeeded") == "True":
                return True
            if conditions.get("Failed") == "True":
                return False
            patience = RUN_SECONDS if "Running" in conditions else START_SECONDS
            if anyio.current_time() >= begun + patience:
                return False
            await anyio.sleep(POLL)

    @property
    def _mark(self) -> str:
        return f"{self.resource.group}/generation"

    def _is_this(self, found: Mapping[str, Any]) -> bool:
        annotations = found["metadata"].get("annotations") or {}
        return bool(annotations.get(self._mark) == str(self.generation))

    async def _read(self, path: str) -> dict[str, Any] | None:
        try:
            return await self.sender.send("GET", path, json_object)
        except NotFound:
            return None

    async def _delete(self, path: str) -> None:
        with suppress(NotFound):
            await self.sender.send("DELETE", path, bytes)


def _conditions(found: Mapping[str, Any]) -> dict[str, str]:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return {condition.get("type", ""): condition.get("status", "") for condition in conditions}
