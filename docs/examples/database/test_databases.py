"""The operator's tests: single runs, and then a series of backups under every single fault."""

import base64
import os
from datetime import timedelta

import postgres
import pytest
from databases import Database, DatabaseSpec, databases

from reconcile import ObjectMeta
from reconcile.kinds import Job, Secret, StatefulSet
from reconcile.testing import Apply, Edit, FakeClient, Scenario, Wait, World, run_once, sweep

EVERY = timedelta(minutes=10)
RUNS = int(os.environ.get("SWEEP_RUNS", "15")) or None  # of the sweep; 0: all
SHOP = Database(metadata=ObjectMeta("shop", "default"), spec=DatabaseSpec("saver:1", EVERY, keep_jobs=1))
UP = {"status": {"replicas": 1, "readyReplicas": 1}}
TIMES = {"startTime": "2026-01-01T12:00:00Z", "completionTime": "2026-01-01T12:00:00Z"}
CONDITIONS = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
COMPLETE = {"status": {**TIMES, "conditions": CONDITIONS}}


async def with_its_server_up() -> FakeClient:
    client = FakeClient(SHOP)
    await run_once(databases, SHOP, client)
    server = await client.get(StatefulSet, "shop", "default")
    await client.raw.merge(server, UP, subresource="status")
    return client


async def test_a_database_gets_a_password_and_a_server() -> None:
    client = FakeClient(SHOP)
    done = await run_once(databases, SHOP, client)
    assert done.writes == [
        "create secrets default/shop-password",
        "apply services default/shop",
        "apply statefulsets default/shop",
        "patch databases/status default/shop",
    ]
    assert done.undeclared == []  # `reconcile manifests` allows all that it wrote
    assert done.conditions["Ready"]["reason"] == "NoSchema"


async def test_a_server_that_is_up_gets_its_schema_and_a_first_backup() -> None:
    client = await with_its_server_up()
    done = await run_once(databases, SHOP, client)
    assert done.writes == ["apply jobs default/shop-20260101-000000", "patch databases/status default/shop"]
    assert done.undeclared == []
    assert done.result.requeue_after is not None
    assert done.result.requeue_after <= EVERY.total_seconds()
    secret = await client.get(Secret, "shop-password", "default")
    assert postgres.passwords["shop.default"] == base64.b64decode(secret.data["password"]).decode()
    assert (await run_once(databases, SHOP, client)).writes == []


async def test_no_backup_starts_while_one_is_running() -> None:
    client = await with_its_server_up()
    await run_once(databases, SHOP, client)
    client.clock.advance(EVERY.total_seconds())
    assert (await run_once(databases, SHOP, client)).writes == []


async def test_no_backup_is_made_while_the_schema_cannot_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    client = await with_its_server_up()

    def refuse(host: str, password: str, *, timeout: float) -> None:
        raise ConnectionError(host)

    monkeypatch.setattr(postgres, "create_schema", refuse)
    done = await run_once(databases, SHOP, client)
    assert done.retry
    assert done.writes == []
    assert done.conditions["Ready"]["status"] == "False"  # it is said although the run failed


async def backups_end(world: World) -> None:
    """Simulate the controller that runs Jobs."""
    for job in world.objects(Job):
        if not job.finished:
            await world.act(Edit(job, COMPLETE, "status"))


def one_backup_at_a_time(world: World) -> None:
    assert sum(not job.finished for job in world.objects(Job)) <= 1


def jobs_are_limited(world: World) -> None:
    assert sum(job.finished for job in world.objects(Job)) <= SHOP.spec.keep_jobs


def test_a_series_of_backups_survives_every_fault() -> None:
    scenario = Scenario(
        controllers=lambda: databases,
        steps=[Apply(SHOP), Edit((StatefulSet, "shop"), UP, "status"), backups_end, Wait(600), backups_end],
        always=[one_backup_at_a_time],
        invariants=[jobs_are_limited],
    )
    print(sweep(scenario, most=RUNS))
