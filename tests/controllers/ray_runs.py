"""Runs of the controller of worker groups on a fake client."""

from typing import Any

from attrs import evolve

from controllers.workergroups import RayCluster, RayClusterSpec, controller
from controllers.workergroups.models import HeadGroupSpec, WorkerGroupSpec
from reconcile import ObjectMeta
from reconcile.kinds import Pod, PodCondition, PodStatus
from reconcile.testing import FakeClient, RunReport, run_once
from tests.helpers.admission import without_admission

UNADMITTED = without_admission(controller)


def cluster(replicas: int = 2, **spec: Any) -> RayCluster:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    group = WorkerGroupSpec(group_name="small", template=template, replicas=replicas)
    given = RayClusterSpec(HeadGroupSpec(template=template), (group,))
    return RayCluster(metadata=ObjectMeta("ray", "default"), spec=evolve(given, **spec))


async def once(client: FakeClient, name: str = "ray") -> RunReport:
    return await run_once(UNADMITTED, f"default/{name}", client)


async def live(client: FakeClient, name: str = "ray") -> RayCluster:
    return await client.get(RayCluster, name, "default")


async def pods(client: FakeClient) -> list[Pod]:
    return list(await client.list(Pod, "default"))


async def become_ready(client: FakeClient) -> None:
    for pod in await pods(client):
        await set_phase(client, pod, "Running", ready=True)


async def set_phase(client: FakeClient, pod: Pod, phase: str, *, ready: bool = False) -> None:
    ready_now = PodCondition("Ready", str(ready))
    status = PodStatus(phase=phase, pod_ip="10.0.0.1", conditions=(ready_now,))
    changed = Pod(metadata=pod.metadata, spec=pod.spec, status=status)
    await client.modify(Pod, pod.name, "default", lambda _: changed, subresource="status")
