"""The operator's tests: operations that take hours, a storage system that fails, and every single fault."""

import os
from typing import Literal

import pytest
from attrs import define, evolve, field
from backups import POLL, Backup, BackupSpec, Restore, RestoreSpec, backups, restores
from storage import Operation, StorageFailed

from reconcile import Condition, Controller, ObjectMeta
from reconcile.conditions import find_condition
from reconcile.errors import Invalid
from reconcile.testing import Apply, Delete, FakeClient, RunReport, Scenario, Wait, World, run_once, sweep

RUNS = int(os.environ.get("SWEEP_RUNS", "25")) or None  # of the sweep; 0: all
DAILY = Backup(metadata=ObjectMeta("daily", "default"), spec=BackupSpec("disk-1"))
BACK = Restore(metadata=ObjectMeta("back", "default"), spec=RestoreSpec("daily", "disk-2"))


@define
class FakeStorage:
    """A storage system whose operations run until the test ends them."""

    operations: dict[str, Operation] = field(factory=dict)
    started: list[str] = field(factory=list)
    """The started operations with their arguments: one that is started twice is listed twice."""
    down: bool = False

    async def find(self, operation: str) -> Operation | None:
        self._asked()
        return self.operations.get(operation)

    async def back_up(self, operation: str, volume: str) -> Operation:
        return self._start(operation, f"back up {volume}")

    async def restore(self, operation: str, backup: str, volume: str) -> Operation:
        assert self.operations[backup].state == "Succeeded"
        return self._start(operation, f"restore to {volume}")

    async def remove(self, operation: str) -> None:
        self._asked()
        self.operations.pop(operation, None)

    def end(self, state: Literal["Succeeded", "Failed"] = "Succeeded", message: str = "") -> None:
        for name, operation in self.operations.items():
            if operation.state == "Running":
                self.operations[name] = evolve(operation, state=state, message=message)

    def _start(self, operation: str, what: str) -> Operation:
        self._asked()
        self.started.append(what)
        self.operations[operation] = Operation()
        return self.operations[operation]

    def _asked(self) -> None:
        if self.down:
            raise StorageFailed("503 from storage.example.com")


@define
class Cluster:
    client: FakeClient
    storage: FakeStorage = field(factory=FakeStorage)

    async def keep(self, obj: Backup | Restore) -> RunReport:
        if isinstance(obj, Backup):
            done = await run_once(backups(self.storage), obj, self.client)
        else:
            done = await run_once(restores(self.storage), obj, self.client)
        assert done.undeclared == []  # `reconcile manifests` allows all that it wrote
        return done

    async def complete(self, obj: Backup | Restore) -> Condition:
        found = await self.client.get(type(obj), obj.name, "default")
        condition = find_condition(found.status.conditions, "Complete")
        assert condition is not None
        return condition

    async def delete(self, obj: Backup | Restore) -> None:
        await self.client.delete(await self.client.get(type(obj), obj.name, "default"))


async def with_a_backup() -> Cluster:
    cluster = Cluster(FakeClient(DAILY, BACK))
    await cluster.keep(DAILY)
    cluster.storage.end()
    await cluster.keep(DAILY)
    return cluster


async def test_a_backup_is_started_once_and_polled_until_it_has_ended() -> None:
    cluster = Cluster(FakeClient(DAILY))
    done = await cluster.keep(DAILY)
    assert done.writes == ["patch backups default/daily", "patch backups/status default/daily"]
    done = await cluster.keep(DAILY)
    assert (done.writes, done.result.requeue_after) == ([], POLL)
    cluster.storage.end("Succeeded", "12 GiB")
    done = await cluster.keep(DAILY)
    assert done.events == ["Normal Succeeded: 12 GiB"]
    assert done.result.requeue_after is None
    assert cluster.storage.started == ["back up disk-1"]


async def test_an_operation_that_has_ended_is_not_polled_again() -> None:
    cluster = await with_a_backup()
    cluster.storage.down = True
    done = await cluster.keep(DAILY)
    assert (done.error, done.writes) == (None, [])


async def test_a_storage_system_that_is_down_is_a_condition_and_a_retry() -> None:
    cluster = Cluster(FakeClient(DAILY))
    cluster.storage.down = True
    done = await cluster.keep(DAILY)
    assert done.retry
    assert done.conditions["Synced"]["message"] == "503 from storage.example.com"
    cluster.storage.down = False
    assert (await cluster.keep(DAILY)).conditions["Synced"]["status"] == "True"


async def test_a_restore_waits_for_its_backup() -> None:
    cluster = Cluster(FakeClient(DAILY, BACK))
    await cluster.keep(BACK)
    assert (await cluster.complete(BACK)).reason == "BackupRunning"
    await cluster.keep(DAILY)
    cluster.storage.end()
    await cluster.keep(DAILY)
    await cluster.keep(BACK)
    assert cluster.storage.started == ["back up disk-1", "restore to disk-2"]
    cluster.storage.end()
    await cluster.keep(BACK)
    assert (await cluster.complete(BACK)).status == "True"


async def test_a_restore_waits_for_a_missing_backup_and_fails_with_a_failed_one() -> None:
    cluster = Cluster(FakeClient(BACK))
    await cluster.keep(BACK)
    assert (await cluster.complete(BACK)).status == "Unknown"
    cluster.client.add(DAILY)
    await cluster.keep(DAILY)
    cluster.storage.end("Failed", "disk-1 is gone")
    assert (await cluster.keep(DAILY)).events == ["Warning Failed: disk-1 is gone"]
    await cluster.keep(BACK)
    assert (await cluster.complete(BACK)).reason == "BackupFailed"


async def test_a_backup_stays_while_it_is_restored() -> None:
    cluster = await with_a_backup()
    await cluster.keep(BACK)
    await cluster.delete(DAILY)
    done = await cluster.keep(DAILY)
    assert done.conditions["Removable"]["message"] == "restored by back"
    assert done.result.requeue_after == POLL
    cluster.storage.end()
    await cluster.keep(BACK)
    await cluster.keep(DAILY)
    assert await cluster.client.find(Backup, "daily", "default") is None


async def test_restores_fail_when_their_backup_is_deleted_before_it_is_complete() -> None:
    cluster = Cluster(FakeClient(DAILY, BACK))
    await cluster.keep(DAILY)
    await cluster.delete(DAILY)
    assert (await cluster.keep(DAILY)).result.requeue_after == POLL
    await cluster.keep(BACK)
    assert (await cluster.complete(BACK)).reason == "BackupDeleted"
    await cluster.keep(DAILY)
    assert cluster.storage.operations == {}


async def test_a_deleted_object_stays_until_the_storage_system_has_removed_its_operation() -> None:
    cluster = await with_a_backup()
    await cluster.delete(BACK)
    await cluster.keep(BACK)
    await cluster.delete(DAILY)
    cluster.storage.down = True
    assert (await cluster.keep(DAILY)).retry
    assert await cluster.client.find(Backup, "daily", "default") is not None
    cluster.storage.down = False
    await cluster.keep(DAILY)
    assert cluster.storage.operations == {}
    assert await cluster.client.find(Backup, "daily", "default") is None


async def test_the_spec_of_a_backup_cannot_be_changed() -> None:
    client = FakeClient(DAILY)
    with pytest.raises(Invalid, match="spec"):
        await client.modify(
            Backup, "daily", "default", lambda found: found.replace(spec=BackupSpec("disk-9"))
        )


def controllers(storage: FakeStorage) -> list[Controller[Backup] | Controller[Restore]]:
    return [backups(storage), restores(storage)]


async def operations_end(world: World) -> None:
    world.outside.end()


def each_was_started_once(world: World) -> None:
    assert len(set(world.outside.started)) == len(world.outside.started)


def nothing_is_left_of_what_is_gone(world: World) -> None:
    objects = [*world.objects(Backup), *world.objects(Restore)]
    assert set(world.outside.operations) <= {one.metadata.uid for one in objects}


def test_a_backup_that_is_restored_survives_every_fault() -> None:
    scenario = Scenario(
        controllers=controllers,
        outside=FakeStorage,
        steps=[
            Apply(BACK),
            Apply(DAILY),
            operations_end,
            Wait(2 * POLL),
            Delete(DAILY),  # while it is restored
            Wait(POLL),
            operations_end,
            Wait(2 * POLL),
            Delete(BACK),
        ],
        invariants=[each_was_started_once, nothing_is_left_of_what_is_gone],
        quiet_seconds=2 * POLL,
    )
    print(sweep(scenario, most=RUNS))
