"""Carries out StorageVersionMigrations: each object is written anew in the storage version of its resource.

As in kube-controller-manager, one migration of a resource runs at a time, the oldest first. Its definition
has the condition StorageMigrating meanwhile, and then, if it has not changed, that version alone in
`status.storedVersions`. A migration that cannot proceed stays Running and is tried again.
"""

import datetime
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import msgspec

from informers.resource import Key
from informers.transport import Response
from reconcile.embedded.api import APPLY_PATCH, ApiRequest
from reconcile.embedded.engine import Engine
from reconcile.embedded.kinds.custom_definitions import set_condition
from reconcile.embedded.kinds.storage_migrations import GROUP, is_true
from reconcile.embedded.log import DEFINITIONS, StorageKey, Stored, StoredChange
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.served import ServedResource

MIGRATIONS: StorageKey = (GROUP, "storageversionmigrations")
MANAGER: Final = "storage-version-migrator-controller"
# A custom resource may be unknown to the graph of the garbage collector for as long.
UNKNOWN_FOR: Final = datetime.timedelta(minutes=1)
_ENDS: Final = ("Succeeded", "Failed")
_SUCCEEDED: Final = ("Succeeded", "StorageVersionMigrationSucceeded", "")
_NOT_FOUND: Final = ("Failed", "StorageVersionMigrationFailed", "resource not found")

Send = Callable[[ApiRequest], Awaitable[object]]


class Migrations:
    """`sync` does what can be done now for a resource; `pending` says whether a migration has not ended."""

    def __init__(self, engine: Engine, send: Send) -> None:
        self._engine = engine
        self._send = send
        self._open: dict[Key, None] = {
            stored.key: None for stored in engine.log.snapshot(MIGRATIONS) if not _ended(stored.decode())
        }
        engine.log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if change.resource != MIGRATIONS:
            return
        self._open.pop(change.key, None)
        if change.new is not None and not _ended(change.new.decode()):
            self._open[change.key] = None

    @property
    def pending(self) -> bool:
        return bool(self._open)

    def resources(self) -> set[StorageKey]:
        """The resources with a migration that has not ended."""
        return {_resource_of(migration) for _, migration in self._decoded()}

    async def sync(self, resource: StorageKey) -> None:
        """Run the next migration of a resource, and then those that wait for it."""
        ended = True
        while ended and (waiting := [one for one in self._decoded() if _resource_of(one[1]) == resource]):
            stored, _ = min(waiting, key=_rank)
            try:
                await self._run(stored)
            except ApiFailure:
                return  # the disk takes no writes, so it is due again
            ended = stored.key not in self._open

    def _decoded(self) -> Iterator[tuple[Stored, dict[str, Any]]]:
        for key in list(self._open):
            stored = self._engine.log.get(MIGRATIONS, key)
            if stored is not None:
                yield stored, stored.decode()

    # --- one migration ---

    async def _run(self, stored: Stored) -> None:
        migration = stored.decode()
        group, plural = _resource_of(migration)
        if not is_true(migration, "Running"):
            self._mark_definition(f"{plural}.{group}", migration["metadata"]["name"])
            status = migration["status"] = dict(migration.get("status") or {})
            status.setdefault("resourceVersion", str(self._engine.log.version))
            self._set(migration, "Running", "True", "MigrationRunning", "The migration is running")
            stored = self._engine.put(stored.encoded_by, migration)
        resource = next((one for one in self._engine.registry if one.storage_key == (group, plural)), None)
        if resource is None:
            created = datetime.datetime.fromisoformat(migration["metadata"]["creationTimestamp"])
            if self._engine.clock.now() - created >= UNKNOWN_FOR:
                self._end(stored.key, stored.uid, *_NOT_FOUND)
        elif await self._migrate(resource):
            self._end(stored.key, stored.uid, *_SUCCEEDED)

    async def _migrate(self, resource: ServedResource) -> bool:
        """Write every object anew; False if one of them is refused for another reason than a conflict."""
        for stored in list(self._engine.log.snapshot(resource.storage_key)):
            answer = await self._send(_empty_apply(resource, stored))
            if not isinstance(answer, Response) or (answer.status >= 300 and answer.status != 409):
                return False  # after a conflict, the object is gone or written anew already
        return True

    def _end(self, key: Key, uid: str, kind: str, reason: str, message: str) -> None:
        stored = self._engine.log.get(MIGRATIONS, key)
        if stored is None or stored.uid != uid:
            return
        migration = stored.decode()
        migration["status"] = dict(migration.get("status") or {})
        self._set(migration, "Running", "False", "MigrationCompleted", "The migration has completed")
        self._set(migration, kind, "True", reason, message)
        group, plural = _resource_of(migration)
        self._finish_definition(f"{plural}.{group}", succeeded=kind == "Succeeded")
        self._engine.put(stored.encoded_by, migration)

    def _set(self, obj: dict[str, Any], kind: str, status: str, reason: str, message: str) -> None:
        conditions = {one["type"]: one for one in obj["status"].get("conditions") or ()}
        set_condition(conditions, kind, status, reason, message, self._engine.now())
        obj["status"]["conditions"] = list(conditions.values())

    # --- its definition ---

    def _mark_definition(self, name: str, migration: str) -> None:
        stored = self._engine.log.get(DEFINITIONS, Key("", name))
        if stored is not None:
            definition = stored.decode()
            why = ("MigrationRunning", f"Migration {migration} is running")
            self._write_definition(stored, definition, "True", *why)

    def _finish_definition(self, name: str, *, succeeded: bool) -> None:
        stored = self._engine.log.get(DEFINITIONS, Key("", name))
        if stored is None:
            return
        definition = stored.decode()
        conditions = definition["status"].get("conditions") or ()
        marked: dict[str, Any] = next((one for one in conditions if one["type"] == "StorageMigrating"), {})
        unchanged = marked.get("observedGeneration") == definition["metadata"]["generation"]
        if not succeeded:
            why = ("MigrationFailed", "The migration has failed")
        elif unchanged:
            why = ("MigrationSucceeded", f"{_DONE} and the stored versions have been updated")
        else:
            mismatch = "but the stored versions have not been updated due to a generation mismatch"
            why = ("MigrationSucceeded", f"{_DONE} {mismatch}")
        if unchanged and succeeded:
            versions = definition["spec"]["versions"]
            definition["status"]["storedVersions"] = [one["name"] for one in versions if one.get("storage")]
        self._write_definition(stored, definition, "False", *why)

    def _write_definition(
        self, stored: Stored, definition: dict[str, Any], status: str, reason: str, message: str
    ) -> None:
        self._set(definition, "StorageMigrating", status, reason, message)
        for condition in definition["status"]["conditions"]:
            if condition["type"] == "StorageMigrating":
                condition["observedGeneration"] = definition["metadata"]["generation"]
        self._engine.put(stored.encoded_by, definition)


def _rank(one: tuple[Stored, dict[str, Any]]) -> tuple[bool, str, Key]:
    """The one that is running comes first, then the oldest."""
    stored, migration = one
    return not is_true(migration, "Running"), migration["metadata"]["creationTimestamp"], stored.key


_DONE: Final = "The migration has succeeded"


def _ended(migration: dict[str, Any]) -> bool:
    return any(is_true(migration, kind) for kind in _ENDS)


def _resource_of(migration: dict[str, Any]) -> StorageKey:
    resource = migration["spec"]["resource"]
    return resource.get("group") or "", resource["resource"]


def _empty_apply(resource: ServedResource, stored: Stored) -> ApiRequest:
    """An apply of nothing: it writes the object anew if it is stored in another version.

    With uid and version it fails for an object that has been written or deleted meanwhile.
    """
    root = f"/apis/{resource.group}" if resource.group else "/api"
    place = f"/namespaces/{stored.key.namespace}" if stored.key.namespace else ""
    metadata = {"uid": stored.uid, "resourceVersion": str(stored.version)}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    path = f"{root}/{resource.version}{place}/{resource.plural}/{stored.key.name}"
    headers = {"content-type": APPLY_PATCH}
    return ApiRequest("PATCH", path, {"fieldManager": MANAGER}, headers, msgspec.json.encode(body))
