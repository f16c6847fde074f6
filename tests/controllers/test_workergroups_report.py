"""What a run writes of its cluster: the whole status, only where it is news, and a Warning of what is bad."""

from datetime import timedelta
from typing import Any

import pytest
from attrs import asdict, evolve

from controllers.workergroups import RayCluster
from controllers.workergroups.models import HeadInfo, RayClusterStatus
from controllers.workergroups.status_writer import is_true
from reconcile import Condition, ObjectMeta
from reconcile.kinds import Service
from reconcile.models import encode
from reconcile.testing import FakeClient, VirtualClock
from tests.controllers.ray_runs import become_ready, cluster, live, once, pods

ENDPOINTS = {"client": "10001", "dashboard": "8265", "gcs-server": "6379", "metrics": "8080", "serve": "8000"}


def without_times(status: RayClusterStatus) -> dict[str, Any]:
    told = asdict(status, recurse=False)
    del told["last_update_time"], told["state_transition_times"]
    told["conditions"] = [(one.type, one.status, one.reason, one.message) for one in status.conditions]
    return told


async def test_all_fields_of_a_status_are_written() -> None:
    clock = VirtualClock()
    group = evolve(cluster(2).spec.worker_group_specs[0], min_replicas=1, max_replicas=5)
    spec = evolve(cluster(2).spec, worker_group_specs=(group,), replicas=2)
    client = FakeClient(RayCluster(metadata=ObjectMeta("ray", "default"), spec=spec), clock=clock)
    await once(client)
    await become_ready(client)
    began = clock.now()
    await once(client)
    status = (await live(client)).status
    (head,) = [pod for pod in await pods(client) if "-head-" in pod.name]
    expected = RayClusterStatus(
        state="ready",
        desired_worker_replicas=2,
        min_worker_replicas=1,
        max_worker_replicas=5,
        available_worker_replicas=2,
        ready_worker_replicas=2,
        desired_cpu="0",
        desired_memory="0",
        desired_gpu="0",
        desired_tpu="0",
        head=HeadInfo(head.name, "10.0.0.1", "ray-head-svc", "10.0.0.1"),
        endpoints=ENDPOINTS,
        conditions=(
            Condition("HeadPodReady", "True", reason="HeadPodRunningAndReady"),
            Condition(
                "RayClusterProvisioned",
                "True",
                reason="AllPodRunningAndReadyFirstTime",
                message="all Ray pods are ready for the first time",
            ),
            Condition("ReplicaFailure", "False", reason="NoFailure"),
        ),
        observed_generation=1,
        replicas=2,
        selector="ray.io/cluster=ray,ray.io/group=small",
    )
    assert without_times(status) == without_times(expected)
    assert status.last_update_time is not None
    assert abs(status.last_update_time - began) < timedelta(seconds=2)
    assert list(status.state_transition_times or ()) == ["ready"]


async def test_a_cluster_that_is_refused_later_keeps_its_endpoints_and_has_no_scale() -> None:
    spec = evolve(cluster(1).spec, replicas=1)
    client = FakeClient(RayCluster(metadata=ObjectMeta("ray", "default"), spec=spec))
    await once(client)
    await become_ready(client)
    await once(client)
    before = (await live(client)).status
    await client.raw.merge(await live(client), {"spec": {"networkPolicy": {"mode": "DenyAll"}}})
    made = await once(client)
    after = (await live(client)).status
    what = "no NetworkPolicy is made; write one yourself and remove the field"
    why = f"spec.networkPolicy is not supported: {what}"
    assert (after.state, after.reason) == ("failed", why)
    assert made.events == [f"Warning Refused: {why}"]
    assert (after.endpoints, after.head) == (ENDPOINTS, before.head)
    assert (before.selector, after.replicas, after.selector) == (
        "ray.io/cluster=ray,ray.io/group=small",
        None,
        None,
    )
    assert after.observed_generation == 2
    assert sorted(after.state_transition_times or ()) == ["failed", "ready"]
    assert (await once(client)).events == []
    await client.raw.merge(
        await live(client), {"spec": {"networkPolicy": None, "historyServerOptions": {"a": "b"}}}
    )
    (event,) = (await once(client)).events
    assert event.startswith("Warning Refused: spec.historyServerOptions is not supported")


async def test_the_status_has_the_address_of_a_service_that_has_one() -> None:
    head = evolve(cluster().spec.head_group_spec, service_type="NodePort")
    client = FakeClient(cluster(1, head_group_spec=head))
    await once(client)
    service = await client.get(Service, "ray-head-svc", "default")
    address = encode(service)["spec"]["clusterIP"]
    assert address not in ("", "None")
    assert (await live(client)).status.head.service_ip == address


@pytest.mark.rule("kuberay-1d-suspend")
async def test_conditions_of_a_suspension_stay_after_the_first_one() -> None:
    def told(status: RayClusterStatus) -> dict[str, str]:
        return {one.type: one.status for one in status.conditions if "Suspend" in one.type}

    client = FakeClient(cluster(1))
    await once(client)
    assert told((await live(client)).status) == {}
    seen = []
    for suspend in (True, True, True, False, False):
        await client.raw.merge(await live(client), {"spec": {"suspend": suspend}})
        await once(client)
        found = told((await live(client)).status)
        seen.append((found["RayClusterSuspending"], found["RayClusterSuspended"]))
    assert seen == [
        ("True", "False"),
        ("True", "False"),
        ("False", "True"),
        ("False", "False"),
        ("False", "False"),
    ]


def test_a_condition_holds_only_if_its_status_is_true() -> None:
    conditions = [Condition("A", "True"), Condition("B", "False"), Condition("C", "Unknown")]
    assert [is_true(conditions, name) for name in "ABCD"] == [True, False, False, False]
