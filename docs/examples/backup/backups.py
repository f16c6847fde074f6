"""An operator whose backups and restores of volumes are carried out by a storage system, and take hours."""

from typing import Literal

from attrs import frozen
from storage import Operation, Storage, StorageFailed

from reconcile import Backoff, Condition, Context, Controller, Object, Request, Result, Watch, resource
from reconcile.conditions import find_condition, is_true

POLL = 30.0
BACKOFF = Backoff(base=1, limit=POLL)
COLUMNS = {"Complete": '.status.conditions[?(@.type=="Complete")].reason'}


@frozen
class BackupSpec:
    volume: str


@frozen
class RestoreSpec:
    backup: str
    """The name of a Backup in the same namespace."""
    volume: str


@frozen
class OperationStatus:
    conditions: tuple[Condition, ...] = ()

    @property
    def over(self) -> bool:
        """Whether the operation has ended, successfully or not. It is never started again."""
        complete = find_condition(self.conditions, "Complete")
        return complete is not None and complete.status != "Unknown"


@resource("storage.example.com/v1", columns=COLUMNS, rules=("self.spec == oldSelf.spec",))
class Backup(Object):
    spec: BackupSpec
    status: OperationStatus = OperationStatus()


@resource("storage.example.com/v1", columns=COLUMNS, rules=("self.spec == oldSelf.spec",))
class Restore(Object):
    spec: RestoreSpec
    status: OperationStatus = OperationStatus()


def operation_of(obj: Backup | Restore) -> str:
    return obj.metadata.uid  # an object created again under an old name is another operation


def report(ctx: Context[Backup] | Context[Restore], operation: Operation) -> Result | None:
    ctx.condition("Synced", True, reason="Asked")
    if operation.state == "Running":
        ctx.condition("Complete", "Unknown", reason="Running", message=operation.message)
        return Result(requeue_after=POLL)
    succeeded = operation.state == "Succeeded"
    ctx.condition("Complete", succeeded, reason=operation.state, message=operation.message)
    ctx.event(operation.state, operation.message, warning=not succeeded)
    return None


def backups(storage: Storage) -> Controller[Backup]:
    async def keep(ctx: Context[Backup]) -> Result | None:
        backup, name = ctx.object, operation_of(ctx.object)
        if backup.status.over:
            return None
        with ctx.false_on_failure("Synced", StorageFailed):
            operation = await storage.find(name) or await storage.back_up(name, backup.spec.volume)
        return report(ctx, operation)

    async def drop(ctx: Context[Backup]) -> Result | None:
        restores = await ctx.client.list(Restore, ctx.object.namespace)
        users = [one.name for one in restores if one.spec.backup == ctx.object.name and not one.status.over]
        if users:  # a Result keeps the finalizer; the end of a Restore wakes this key sooner than the poll
            ctx.condition(
                "Removable", False, reason="InUse", message=f"restored by {', '.join(sorted(users))}"
            )
            return Result(requeue_after=POLL)
        with ctx.false_on_failure("Removable", StorageFailed):
            await storage.remove(operation_of(ctx.object))
        return None

    return Controller(
        Backup,
        keep,
        cleanup=drop,
        watches=[Watch(Restore, to=lambda restore: [Request(restore.namespace, restore.spec.backup)])],
        backoff=BACKOFF,
    )


def obstacle(backup: Backup | None) -> tuple[Literal["Unknown", "False"], str]:
    """The status and reason of a Restore whose Backup is not complete; False if it never will be."""
    if backup is None:
        return "Unknown", "NoBackup"
    if backup.status.over:
        return "False", "BackupFailed"
    return ("False", "BackupDeleted") if backup.terminating else ("Unknown", "BackupRunning")


def restores(storage: Storage) -> Controller[Restore]:
    async def keep(ctx: Context[Restore]) -> Result | None:
        restore, name = ctx.object, operation_of(ctx.object)
        if restore.status.over:
            return None
        backup = await ctx.client.find(Backup, restore.spec.backup, restore.namespace)
        with ctx.false_on_failure("Synced", StorageFailed):
            if operation := await storage.find(name):
                return report(ctx, operation)
            if backup is None or not is_true(backup.status.conditions, "Complete"):
                status, reason = obstacle(backup)
                ctx.condition("Complete", status, reason=reason)
                return None  # a change of the Backup wakes this key
            return report(ctx, await storage.restore(name, operation_of(backup), restore.spec.volume))

    async def drop(ctx: Context[Restore]) -> None:
        with ctx.false_on_failure("Synced", StorageFailed):
            await storage.remove(operation_of(ctx.object))

    return Controller(
        Restore,
        keep,
        cleanup=drop,
        watches=[Watch(Backup, by=lambda restore: restore.spec.backup)],
        backoff=BACKOFF,
    )
