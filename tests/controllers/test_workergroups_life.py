"""RayClusters over time, on late watches, with nodes that start and end their pods (systems.md, table 1d)."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from attrs import evolve

from controllers.workergroups import RayCluster, definition, make_controller
from reconcile import ObjectMeta
from reconcile.errors import NotFound
from reconcile.kinds import Job, Pod, Service
from reconcile.models import encode, unstructured_kind
from reconcile.simulation import BEHAVIOUR, Delays, observe
from reconcile.testing import FakeClient, Fault, FaultPlan, LoseReply, When, simulate
from tests.controllers.ray_runs import once
from tests.controllers.ray_storage import end_job
from tests.controllers.ray_world import all_ready, cluster, counts, scaled, workers
from tests.controllers.world import NAMESPACE, World, world
from tests.helpers.scenarios import in_world, simulated

Event = unstructured_kind("events.k8s.io/v1", "Event")
ResourceQuota = unstructured_kind("v1", "ResourceQuota")
QUICK = Delays(start=0.2, stop=0.2)
HELD = "example.com/held"
Change = Callable[[RayCluster], RayCluster]


def play(test: Callable[[World], Awaitable[None]], seed: int = 0) -> None:
    async def run() -> None:
        async with world(seed, definition(), delays=QUICK) as here, here.running(make_controller()):
            await test(here)

    simulate(run, seed=seed)


def with_spec(**spec: Any) -> Change:
    return lambda old: RayCluster(metadata=old.metadata, spec=evolve(old.spec, **spec), status=old.status)


def with_group(**group: Any) -> Change:
    def change(old: RayCluster) -> RayCluster:
        return with_spec(worker_group_specs=(evolve(old.spec.worker_group_specs[0], **group),))(old)

    return change


async def edit(here: World, change: Change, name: str = "ray") -> None:
    await here.user.modify(RayCluster, name, NAMESPACE, change)


async def conditions(here: World, name: str = "ray") -> dict[str, str]:
    found = await here.user.get(RayCluster, name, NAMESPACE)
    return {one.type: one.status for one in found.status.conditions}


async def hold_pods(here: World) -> None:
    for pod in await here.user.list(Pod, NAMESPACE):
        await here.user.raw.merge(pod, {"metadata": {"finalizers": [HELD]}})


async def release_pods(here: World) -> None:
    for pod in await here.user.list(Pod, NAMESPACE):
        if HELD in pod.metadata.finalizers:
            await here.user.raw.merge(pod, {"metadata": {"finalizers": []}}, guard={"uid": pod.uid})


@pytest.mark.rule("kuberay-1d-e2e-scale-down")
@pytest.mark.parametrize("seed", range(3))
@in_world(play)
async def test_of_two_workers_held_by_finalizers_exactly_one_is_deleted(here: World, seed: int) -> None:
    await here.user.create(cluster(2))
    await all_ready(here, 2)
    await hold_pods(here)
    await edit(here, scaled(1))
    await anyio.sleep(5)
    going = [pod.name for pod in await here.user.list(Pod, NAMESPACE) if pod.terminating]
    assert len(going) == 1
    assert "worker" in going[0]
    await release_pods(here)
    await all_ready(here, 1)


@pytest.mark.rule("kuberay-1d-suspend")
@pytest.mark.parametrize("seed", range(3))
@in_world(play)
async def test_a_suspension_is_not_revoked_before_all_pods_are_gone(here: World, seed: int) -> None:
    await here.user.create(cluster(2))
    before = set(await all_ready(here, 2))
    await hold_pods(here)
    await edit(here, with_spec(suspend=True))
    await anyio.sleep(5)
    await edit(here, with_spec(suspend=False))
    for _ in range(5):
        await anyio.sleep(1)
        assert (await conditions(here))["RayClusterSuspending"] == "True"
        assert all(pod.terminating for pod in await here.user.list(Pod, NAMESPACE))
    await release_pods(here)
    await all_ready(here, 2)
    assert not before & set(await workers(here.user))
    found = await conditions(here)
    assert (found["RayClusterSuspending"], found["RayClusterSuspended"]) == ("False", "False")


@pytest.mark.rule("kuberay-1d-bounds")
@in_world(play)
async def test_a_group_stays_within_its_bounds_whatever_is_requested(here: World) -> None:
    await here.user.create(cluster(3))
    await all_ready(here, 3)
    await edit(here, with_group(replicas=5, max_replicas=4))
    await all_ready(here, 4)
    await anyio.sleep(60)
    assert len(await workers(here.user)) == 4
    await edit(here, with_group(replicas=0, min_replicas=2, max_replicas=4))
    await anyio.sleep(10)
    assert len(await workers(here.user)) == 2


@pytest.mark.rule("kuberay-1d-quota")
@in_world(play)
async def test_an_exceeded_quota_is_a_condition_and_freed_quota_is_used_later(here: World) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": NAMESPACE}}
    await here.user.create({**quota, "spec": {"hard": {"pods": "3"}}})
    await here.user.create(cluster(4))
    await anyio.sleep(20)
    assert (await conditions(here))["ReplicaFailure"] == "True"
    assert len(await workers(here.user)) == 2
    found = await here.user.get(RayCluster, "ray", NAMESPACE)
    assert "exceeded quota" in found.status.reason
    stored = await here.user.get(ResourceQuota, "few", NAMESPACE)
    await here.user.raw.merge(stored, {"spec": {"hard": {"pods": "9"}}})
    await anyio.sleep(1100)
    await all_ready(here, 4)
    assert (await conditions(here))["ReplicaFailure"] == "False"


@pytest.mark.rule("kuberay-1d-07")
@pytest.mark.parametrize("seed", range(3))
@in_world(play)
async def test_a_replica_that_loses_a_host_is_replaced_as_a_whole_and_the_others_stay(
    here: World, seed: int
) -> None:
    await here.user.create(with_group(replicas=3, num_of_hosts=4)(cluster(0)))
    before = await all_ready(here, 12)
    lost = next(iter(before.values()))
    name = "ray.io/worker-group-replica-name"
    others = {uid for uid, pod in before.items() if pod.metadata.labels[name] != lost.metadata.labels[name]}
    async with observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock) as observer:
        await here.user.delete(lost)
        await anyio.sleep(10)
        assert counts(observer, before) == (4, 4)
    after = await all_ready(here, 12)
    assert others <= set(after)


@in_world(play)
async def test_workers_that_fail_at_once_are_recreated_less_and_less_often(here: World) -> None:
    async with observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock) as observer:
        await here.user.create(cluster(1, **{BEHAVIOUR: "fail"}))
        await anyio.sleep(300)
        # At 0, then 10, 20, 40, 80 and 160 s after the one before.
        assert 5 <= counts(observer, ())[1] <= 7


@pytest.mark.rule("kuberay-1d-bad-input")
@in_world(play)
async def test_an_invalid_spec_is_reported_by_field_and_other_clusters_continue(here: World) -> None:
    await here.user.create(cluster(1))
    broken = with_group(min_replicas=7, max_replicas=5)(cluster(1))
    named = ObjectMeta("broken", NAMESPACE)
    await here.user.create(RayCluster(metadata=named, spec=broken.spec))
    await all_ready(here, 1)
    found = await here.user.get(RayCluster, "broken", NAMESPACE)
    (failure,) = [one for one in found.status.conditions if one.type == "ReplicaFailure"]
    assert (failure.status, failure.reason) == ("True", "Refused")
    path = "spec.workerGroupSpecs[small].minReplicas"
    assert path in failure.message
    events = [encode(event) for event in await here.user.list(Event, NAMESPACE)]
    warnings = [one for one in events if one["type"] == "Warning"]
    assert [path in (one.get("note") or one.get("message") or "") for one in warnings] == [True]
    await edit(here, scaled(2))
    await all_ready(here, 2)
    await edit(here, with_group(min_replicas=1), "broken")
    await all_ready(here, 3)


@pytest.mark.rule("kuberay-1d-redis")
@in_world(play)
async def test_a_cluster_with_its_state_in_redis_is_deleted_in_order(here: World) -> None:
    options = {"redisAddress": "redis:6379"}
    await here.user.create(with_spec(gcs_fault_tolerance_options=options)(cluster(1)))
    await all_ready(here, 1)
    await here.user.delete(await here.user.get(RayCluster, "ray", NAMESPACE))
    await anyio.sleep(5)
    assert await here.user.list(Pod, NAMESPACE) == []
    (job,) = await here.user.list(Job, NAMESPACE)
    await end_job(here.user, job, "Complete")
    await anyio.sleep(5)
    with pytest.raises(NotFound):
        await here.user.get(RayCluster, "ray", NAMESPACE)


# What KubeRay needs expectations for.


@pytest.mark.rule("kuberay-1d-exp")
@pytest.mark.parametrize("seed", range(4))
@simulated
async def test_objects_missing_from_a_stale_cache_are_neither_created_nor_deleted_again(seed: int) -> None:
    async with world(seed, definition(), delays=QUICK) as here:
        watching = observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock)
        async with watching as observer, here.running(make_controller(), lag=(0.5, 3.0)):
            await here.user.create(cluster(3))
            await anyio.sleep(20)
            assert len({one.last.uid for one in observer.changes}) == 4
            before, mark = await workers(here.user), len(observer.changes)
            await edit(here, scaled(2))
            await anyio.sleep(20)
            del observer.changes[:mark]
            assert counts(observer, before) == (1, 0)


@pytest.mark.rule("kuberay-1d-exp")
@pytest.mark.parametrize("verb", ["create", "delete"])
async def test_a_request_whose_answer_is_lost_is_not_repeated(verb: Any) -> None:
    lost = FaultPlan(tuple(Fault(When(verb, "*/pods*", nth=nth), LoseReply()) for nth in (1, 2)))
    client = FakeClient(in_default(cluster(3)), plan=lost)
    for _ in range(4):
        await once(client)
    assert len(await client.list(Pod, "default")) == 4
    await client.modify(RayCluster, "ray", "default", scaled(1))
    for _ in range(4):
        await once(client)
    assert len(await client.list(Pod, "default")) == 2


def in_default(made: RayCluster) -> RayCluster:
    return RayCluster(metadata=ObjectMeta(made.name, "default"), spec=made.spec)


@pytest.mark.parametrize("seed", range(6))
@simulated
async def test_no_pod_is_created_for_a_deleted_cluster(seed: int) -> None:
    """Its pods may be seen to go before it is seen to have gone: the watches are two."""
    async with world(seed, definition(), delays=Delays(0.2, 5.0)) as here:
        watching = observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock)
        async with watching as observer, here.running(make_controller(), lag=(0.05, 3.0)):
            made = await here.user.create(cluster(4))
            await anyio.sleep(20)
            pods = {one.last.uid for one in observer.changes}
            await here.user.delete(made)
            await anyio.sleep(20)
            assert {one.last.uid for one in observer.changes} == pods
        assert await here.user.list(Pod, NAMESPACE) == []


@pytest.mark.parametrize("seed", range(3))
@in_world(play)
async def test_a_recreated_cluster_takes_over_nothing_from_its_predecessor(here: World, seed: int) -> None:
    first = await here.user.create(cluster(2))
    before = set(await all_ready(here, 2))
    await here.user.delete(first)
    second = await here.user.create(cluster(2))
    assert second.uid != first.uid
    await anyio.sleep(30)
    after = await all_ready(here, 2)
    assert not before & set(after)
    service = await here.user.get(Service, "ray-head-svc", NAMESPACE)
    assert [one.uid for one in service.metadata.owner_references] == [second.uid]
    assert (await here.user.get(RayCluster, "ray", NAMESPACE)).status.state == "ready"
