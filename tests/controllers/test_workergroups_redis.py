"""RayClusters with their state in Redis: what Ray is told, and what happens before one may go."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.workergroups import RayCluster, make_controller
from controllers.workergroups.controller import Settings
from controllers.workergroups.fault_tolerance import (
    FINALIZER,
    Farewell,
    deletion_timeout,
    job_state,
    plan_farewell,
)
from reconcile import Client, NotFound, encode
from reconcile.kinds import Job
from reconcile.testing import FakeClient, VirtualClock, run_once
from tests.controllers.test_workergroups_controller import cluster, live, once
from tests.controllers.test_workergroups_features import bodies, settled, variables

REDIS = {
    "redisAddress": "redis:6379",
    "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "r", "key": "p"}}},
}


def tolerant() -> RayCluster:
    return cluster(1, gcs_fault_tolerance_options=REDIS)


async def test_ray_finds_its_state_in_redis() -> None:
    client = FakeClient(tolerant())
    made = await once(client)
    assert made.writes[0] == "patch rayclusters default/ray"
    owner = await live(client)
    assert FINALIZER in owner.metadata.finalizers
    found = await bodies(client)
    ray = variables(found["head"]["spec"]["containers"][0])
    assert ray["RAY_REDIS_ADDRESS"] == "redis:6379"
    assert ray["REDIS_PASSWORD"] == {"secretKeyRef": {"name": "r", "key": "p"}}
    assert ray["RAY_external_storage_namespace"] == owner.uid
    assert "--redis-password=$REDIS_PASSWORD" in found["head"]["spec"]["containers"][0]["args"][0]
    worker = variables(found["worker"]["spec"]["containers"][0])
    assert worker["RAY_gcs_rpc_server_reconnect_timeout_s"] == "600"
    assert {pod["metadata"]["annotations"]["ray.io/ft-enabled"] for pod in found.values()} == {"true"}
    await settled(client)


@pytest.mark.rule("kuberay-1d-redis")
async def test_without_the_clean_up_there_is_no_finalizer() -> None:
    client = FakeClient(tolerant())
    await run_once(make_controller(settings=Settings(redis_cleanup=False)), "default/ray", client)
    assert (await live(client)).metadata.finalizers == ()


@pytest.mark.rule("kuberay-1d-redis")
@pytest.mark.parametrize("ends", ["Complete", "Failed"])
async def test_a_cluster_goes_once_its_pods_and_the_job_have_ended(ends: str) -> None:
    client = FakeClient(tolerant())
    await once(client)
    await client.delete(await live(client))
    assert len([write for write in (await once(client)).writes if write.startswith("delete pods")]) == 2
    made = await once(client)
    assert made.writes == ["create jobs default/ray-redis-cleanup"]
    assert (await once(client)).writes == []
    job = await client.get(Job, "ray-redis-cleanup", "default")
    body = encode(job)["spec"]["template"]["spec"]
    assert body["restartPolicy"] == "Never"
    assert "cleanup_redis_storage" in body["containers"][0]["args"][0]
    assert variables(body["containers"][0])["RAY_REDIS_ADDRESS"] == "redis:6379"
    await end_job(client, job, ends)
    assert (await once(client)).writes == ["patch rayclusters default/ray"]
    with pytest.raises(NotFound):
        await live(client)


async def end_job(client: Client, job: Job, how: str) -> None:
    now = "2026-01-01T00:00:00Z"
    conditions: list[dict[str, str]] = [{"type": how, "status": "True", "lastTransitionTime": now}]
    status: dict[str, Any] = {"conditions": conditions, "startTime": now}
    if how == "Complete":
        conditions.insert(0, {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now})
        status |= {"completionTime": now, "succeeded": 1}
    else:
        conditions.insert(0, {"type": "FailureTarget", "status": "True", "lastTransitionTime": now})
        status |= {"failed": 1}
    await client.merge(job, {"status": status}, guard={"uid": job.uid}, subresource="status")


@pytest.mark.rule("kuberay-1d-redis")
async def test_a_cluster_whose_time_is_up_goes_and_says_what_is_left() -> None:
    clock = VirtualClock()
    client = FakeClient(tolerant(), clock=clock)
    await once(client)
    await client.delete(await live(client))
    clock.advance(301)
    made = await once(client)
    assert any("RedisCleanupTimedOut" in event for event in made.events)
    with pytest.raises(NotFound):
        await live(client)


NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.rule("kuberay-1d-redis")
@pytest.mark.parametrize(
    ("pods_live", "heads", "job", "age", "action"),
    [
        (2, 1, "none", 0, "delete-pods"),
        (0, 1, "none", 5, "wait"),
        (0, 0, "none", 10, "create-job"),
        (0, 0, "running", 20, "wait"),
        (0, 0, "finished", 30, "release"),
        (0, 1, "none", 300, "give-up"),
        (0, 0, "finished", 300, "release"),
    ],
)
def test_what_is_left_to_do_for_a_cluster_that_goes(
    pods_live: int, heads: int, job: Any, age: int, action: str
) -> None:
    since = NOW - timedelta(seconds=age)
    found = plan_farewell(live=pods_live, heads=heads, job=job, since=since, now=NOW, timeout=300)
    assert found.action == action
    assert isinstance(found, Farewell)


@pytest.mark.rule("kuberay-1d-redis-timeout")
@pytest.mark.parametrize(
    ("said", "seconds"), [(None, 300), ("60", 60), ("0", 300), ("-5", 300), ("soon", 300), ("", 300)]
)
def test_the_time_for_the_clean_up_is_read_from_an_annotation(said: str | None, seconds: int) -> None:
    annotations = {} if said is None else {"ray.io/gcs-ft-deletion-timeout": said}
    assert deletion_timeout(annotations) == seconds


def test_a_job_has_ended_when_a_condition_says_so() -> None:
    assert job_state(None) == "none"
    assert job_state({"status": {"active": 1}}) == "running"
    assert job_state({"status": {"conditions": [{"type": "Failed", "status": "False"}]}}) == "running"
    assert job_state({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}) == "finished"


async def test_a_refused_cluster_loses_its_state_too_and_goes() -> None:
    client = FakeClient(tolerant())
    await once(client)
    await client.merge(await live(client), {"spec": {"networkPolicy": {"mode": "DenyAll"}}})
    await client.delete(await live(client))
    await once(client)
    assert (await once(client)).writes == ["create jobs default/ray-redis-cleanup"]
