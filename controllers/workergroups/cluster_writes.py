"""The requests of a run: Services and the like as they shall be, pods deleted and made."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reconcile import Context, ObjectMeta, Unstructured
from reconcile.blocks import new_hosts
from reconcile.errors import AlreadyExists, ApiError, StaleVersion, StatusError
from reconcile.kinds import Pod, Secret
from reconcile.models import unstructured_kind

from .models import HeadInfo, RayCluster
from .pod_plan import HeadPlan, PodRemoval, RayClusterPlan, WorkerGroupPlan
from .ray_autoscaler import permissions
from .ray_pod_view import MARKS, RayPodView, pod_view
from .ray_pods import TOKEN_KEY, head_pod, upgrade_marks, worker_pod
from .ray_services import head_ingress, head_service, services
from .raycluster_names import Manifest
from .raycluster_status import ReplicaFailure
from .raycluster_view import ClusterView, GroupView

# The decisions look at more of a pod than its small model has.
WholePod = unstructured_kind("v1", "Pod")


class ClusterWriteFailed(Exception):
    """Something could not be written; `failure` is what the status says about it."""

    def __init__(self, failure: ReplicaFailure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


async def pods_of(ctx: Context[RayCluster]) -> list[RayPodView]:
    """The pods that the cluster owns."""
    return [pod_view(pod.body) for pod in await ctx.owned(WholePod)]


async def keep_objects(ctx: Context[RayCluster], cluster: ClusterView) -> HeadInfo:
    """All but the pods, in KubeRay's order; answers where the head Service is, without the pod's address.

    What is there under such a name and is not this cluster's stays as it is: the cluster's author chose its
    name, and may not have the right to change a Role.
    """
    for manifest in permissions(cluster):
        with step(f"FailedApply{manifest['kind']}"):
            await ctx.apply(manifest, adopt=False)
    for manifest in head_ingress(cluster):
        with step("FailedApplyIngress"):
            await ctx.apply(manifest, adopt=False)
    await _keep_token(ctx, cluster)
    with step("FailedApplyHeadService"):
        service = await ctx.apply(head_service(cluster), adopt=False)
    for manifest in services(cluster):
        with step("FailedApplyService"):
            await ctx.apply(manifest, adopt=False)
    ip = service["spec"].get("clusterIP") or ""
    return HeadInfo(service_name=service.name, service_ip="" if ip == "None" else ip)


async def _keep_token(ctx: Context[RayCluster], cluster: ClusterView) -> None:
    """Make the Secret of the token once; what is in it is never read, so it may be changed by hand."""
    if not cluster.owns_token:
        return
    name = cluster.token_secret
    with step("FailedCreateAuthSecret"):
        if await ctx.client.find(Secret, name, cluster.namespace) is not None:
            return
        token = f"{ctx.clock.uuid().hex}{ctx.clock.uuid().hex}"
        metadata = ObjectMeta(name, cluster.namespace, labels={"ray.io/cluster": cluster.name})
        secret = Secret(metadata=metadata, type="Opaque", extra={"stringData": {TOKEN_KEY: token}})
        try:
            await ctx.create(secret)
        except AlreadyExists:
            return


async def carry_out(ctx: Context[RayCluster], cluster: ClusterView, plan: RayClusterPlan) -> None:
    """Deletions first, so that what is made next finds their share of a quota."""
    for removal in plan.removals:
        await delete_pod(ctx, removal)
    await _keep_head(ctx, cluster, plan.head)
    groups = {group.name: group for group in cluster.groups}
    for planned in plan.groups:
        await _make_workers(ctx, cluster, groups[planned.group], planned)


async def delete_pod(ctx: Context[RayCluster], removal: PodRemoval) -> None:
    """Delete that very pod, and say why."""
    pod, role = removal.pod, "Head" if removal.pod.node_type == "head" else "Worker"
    with step(f"FailedDelete{role}Pod"):
        await ctx.delete(Pod(metadata=ObjectMeta(pod.name, pod.namespace, uid=pod.uid)))
    ctx.event(f"Deleted{role}Pod", f"deleted pod {pod.name} ({removal.reason})")


async def _keep_head(ctx: Context[RayCluster], cluster: ClusterView, plan: HeadPlan) -> None:
    if plan.create:
        await _create(ctx, head_pod(cluster, plan.failures), "Head")
    if plan.mark is not None:
        await _annotate(ctx, plan.mark, upgrade_marks(cluster), "Head")


async def _annotate(
    ctx: Context[RayCluster], view: RayPodView, annotations: Mapping[str, str], role: str
) -> None:
    pod = Pod(metadata=ObjectMeta(view.name, view.namespace, uid=view.uid))
    with step(f"FailedUpdate{role}Pod"):
        await ctx.client.merge(pod, {"metadata": {"annotations": dict(annotations)}}, guard={"uid": view.uid})


async def _make_workers(
    ctx: Context[RayCluster], cluster: ClusterView, group: GroupView, plan: WorkerGroupPlan
) -> None:
    def unique() -> str:
        return f"{group.name[:50]}-{ctx.clock.uuid().hex[:8]}"

    for replica in plan.create:
        for host in new_hosts(replica, group.num_of_hosts, unique):
            await _create(ctx, worker_pod(cluster, group, host), "Worker")
    for pod in plan.mark:
        await _annotate(ctx, pod, {MARKS.whole: "true"}, "Worker")


async def _create(ctx: Context[RayCluster], manifest: Manifest, role: str) -> None:
    with step(f"FailedCreate{role}Pod"):
        pod: Unstructured = await ctx.create(manifest)
    ctx.event(f"Created{role}Pod", f"created pod {pod.name}")


@contextmanager
def step(reason: str) -> Iterator[None]:
    """What fails within raises StepFailed with this reason; StaleVersion stays what it is."""
    try:
        yield
    except StaleVersion:
        raise
    except ApiError as error:
        message: Any = error.message if isinstance(error, StatusError) else str(error)
        raise ClusterWriteFailed(ReplicaFailure(reason, message)) from error
