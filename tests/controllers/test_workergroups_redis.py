"""RayClusters with their state in Redis: what Ray is told, and what happens before one may go."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.workergroups import RayCluster, make_controller
from controllers.workergroups.controller import WorkerGroupSettings
from controllers.workergroups.fault_tolerance import (
    FINALIZER,
    CleanupStep,
    cleanup_name,
    deletion_timeout,
    job_state,
    plan_cleanup,
    storage_annotations,
    storage_environment,
    storage_namespace,
    storage_params,
)
from controllers.workergroups.raycluster_view import ClusterView
from reconcile.errors import NotFound
from reconcile.kinds import Job
from reconcile.models import encode
from reconcile.testing import FakeClient, VirtualClock, run_once
from tests.controllers.ray_features import bodies, settled, variables
from tests.controllers.ray_runs import cluster, live, once
from tests.controllers.ray_storage import end_job

REDIS = {
    "redisAddress": "redis:6379",
    "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "r", "key": "p"}}},
}


def tolerant() -> RayCluster:
    return cluster(1, gcs_fault_tolerance_options=REDIS)


async def test_ray_finds_its_state_in_redis() -> None:
    client = FakeClient(tolerant())
    assert (await once(client)).writes[0] == "patch rayclusters default/ray"
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
async def test_without_redis_cleanup_there_is_no_finalizer() -> None:
    client = FakeClient(tolerant())
    await run_once(make_controller(WorkerGroupSettings(redis_cleanup=False)), "default/ray", client)
    assert (await live(client)).metadata.finalizers == ()


@pytest.mark.rule("kuberay-1d-redis")
@pytest.mark.parametrize("ends", ["Complete", "Failed"])
async def test_a_cluster_is_removed_once_its_pods_and_the_cleanup_job_have_ended(ends: str) -> None:
    client = FakeClient(tolerant())
    await once(client)
    await client.delete(await live(client))
    assert len([write for write in (await once(client)).writes if write.startswith("delete pods")]) == 2
    assert (await once(client)).writes == ["create jobs default/ray-redis-cleanup"]
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


@pytest.mark.rule("kuberay-1d-redis")
async def test_a_cluster_whose_cleanup_times_out_is_removed_and_reports_what_is_left() -> None:
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
DONE = {"type": "Complete", "status": "True"}


@pytest.mark.rule("kuberay-1d-redis")
@pytest.mark.parametrize(
    ("pods_live", "heads", "job", "age", "farewell"),
    [
        (2, 1, "none", 0, CleanupStep("delete-pods", 300)),
        (1, 0, "none", 299, CleanupStep("delete-pods", 1)),
        (0, 1, "none", 5, CleanupStep("wait", 295)),
        (0, 0, "none", 10, CleanupStep("create-job", 290)),
        (0, 0, "running", 20, CleanupStep("wait", 280)),
        (0, 0, "finished", 30, CleanupStep("release")),
        (0, 1, "none", 300, CleanupStep("give-up")),
        (2, 1, "running", 301, CleanupStep("give-up")),
        (0, 0, "finished", 300, CleanupStep("release")),
    ],
)
def test_the_next_cleanup_step_follows_from_pods_job_and_age(
    pods_live: int, heads: int, job: Any, age: int, farewell: CleanupStep
) -> None:
    since = NOW - timedelta(seconds=age)
    found = plan_cleanup(live=pods_live, heads=heads, job=job, since=since, now=NOW, timeout=300)
    assert found == farewell


@pytest.mark.rule("kuberay-1d-redis-timeout")
@pytest.mark.parametrize(
    ("said", "seconds"),
    [(None, 300), ("60", 60), ("1", 1), ("0", 300), ("-5", 300), ("soon", 300), ("", 300)],
)
def test_the_cleanup_timeout_is_read_from_an_annotation(said: str | None, seconds: int) -> None:
    annotations = {} if said is None else {"ray.io/gcs-ft-deletion-timeout": said}
    assert deletion_timeout(annotations) == seconds


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (None, "running"),
        ({"active": 1}, "running"),
        ({"conditions": None}, "running"),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, "running"),
        ({"conditions": [{"type": "FailureTarget", "status": "True"}]}, "running"),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, "finished"),
        ({"conditions": [{"type": "Suspended", "status": "False"}, DONE]}, "finished"),
    ],
)
def test_a_job_has_ended_if_it_is_complete_or_failed(status: Any, state: str) -> None:
    assert job_state({"status": status}) == state
    assert (job_state(None), job_state({})) == ("none", "running")


@pytest.mark.parametrize(
    ("options", "annotation", "kept_under"),
    [
        (None, None, "cluster-uid"),
        ({}, "mine", "mine"),
        ({"externalStorageNamespace": ""}, None, "cluster-uid"),
        ({"externalStorageNamespace": "ours"}, "mine", "ours"),
    ],
)
def test_no_two_clusters_share_their_state_unless_they_name_the_same_storage_namespace(
    options: Any, annotation: str | None, kept_under: str
) -> None:
    annotations = {} if annotation is None else {"ray.io/external-storage-namespace": annotation}
    view = ClusterView("ray", "default", "cluster-uid", annotations=annotations, fault_tolerance=options)
    assert storage_namespace(view) == kept_under


@pytest.mark.parametrize(
    ("options", "head", "params"),
    [
        (None, {}, {}),
        ({}, {"RAY_external_storage_namespace": "cluster-uid"}, {}),
        (
            {"redisAddress": "r", "redisUsername": {"value": "u"}, "redisPassword": {"value": "p"}},
            {
                "RAY_external_storage_namespace": "cluster-uid",
                "RAY_REDIS_ADDRESS": "r",
                "REDIS_USERNAME": "u",
                "REDIS_PASSWORD": "p",
            },
            {"redis-password": "$REDIS_PASSWORD", "redis-username": "$REDIS_USERNAME"},
        ),
    ],
)
def test_only_a_fault_tolerant_cluster_gets_the_address_of_its_state(
    options: Any, head: dict[str, str], params: dict[str, str]
) -> None:
    view = ClusterView("ray", "default", "cluster-uid", fault_tolerance=options)
    assert storage_environment(view, "head") == {name: {"value": value} for name, value in head.items()}
    assert storage_params(view) == params
    worker = {} if options is None else {"RAY_gcs_rpc_server_reconnect_timeout_s": {"value": "600"}}
    assert storage_environment(view, "worker") == worker
    assert storage_annotations(view) == ({} if options is None else {"ray.io/ft-enabled": "true"})


def test_the_job_of_a_cluster_with_a_long_name_is_named_by_its_end() -> None:
    assert cleanup_name(ClusterView("x" * 60, "default", "u")) == "x" * 36 + "-redis-cleanup"


async def test_a_refused_cluster_is_cleaned_up_and_removed_too() -> None:
    client = FakeClient(tolerant())
    await once(client)
    await client.raw.merge(await live(client), {"spec": {"networkPolicy": {"mode": "DenyAll"}}})
    await client.delete(await live(client))
    await once(client)
    assert (await once(client)).writes == ["create jobs default/ray-redis-cleanup"]
