"""A RayCluster in a simulated cluster."""

from collections.abc import Callable, Collection

import anyio
from attrs import evolve

from controllers.workergroups import RayCluster, RayClusterSpec
from controllers.workergroups.models import HeadGroupSpec, WorkerGroupSpec
from reconcile import Client, ObjectMeta
from reconcile.kinds import Pod
from reconcile.simulation import Observer
from tests.controllers.world import NAMESPACE, World


def cluster(replicas: int, **annotations: str) -> RayCluster:
    def template(name: str, **said: str) -> dict[str, object]:
        return {"metadata": {"annotations": said}, "spec": {"containers": [{"name": name, "image": "ray"}]}}

    group = WorkerGroupSpec(group_name="small", template=template("worker", **annotations), replicas=replicas)
    spec = RayClusterSpec(
        head_group_spec=HeadGroupSpec(template=template("head")), worker_group_specs=(group,)
    )
    return RayCluster(metadata=ObjectMeta("ray", NAMESPACE), spec=spec)


def scaled(replicas: int) -> Callable[[RayCluster], RayCluster]:
    def change(old: RayCluster) -> RayCluster:
        group = evolve(old.spec.worker_group_specs[0], replicas=replicas)
        spec = evolve(old.spec, worker_group_specs=(group,))
        return RayCluster(metadata=old.metadata, spec=spec, status=old.status)

    return change


async def workers(user: Client) -> dict[str, Pod]:
    found = await user.list(Pod, NAMESPACE, labels={"ray.io/node-type": "worker"})
    return {pod.uid: pod for pod in found}


async def all_ready(here: World, count: int) -> dict[str, Pod]:
    for _ in range(60):
        found = await workers(here.user)
        if len(found) == count and all(pod.ready for pod in found.values()):
            return found
        await anyio.sleep(0.5)
    raise AssertionError(f"there are not {count} Ready workers: {found}")


def counts(observer: Observer, before: Collection[str]) -> tuple[int, int]:
    """Workers deleted, and workers made since."""
    pods = [c for c in observer.changes if c.last.labels.get("ray.io/node-type") == "worker"]
    gone = {c.last.uid for c in pods if c.new is None or c.new.terminating}
    return len(gone), len({c.last.uid for c in pods} - set(before))
