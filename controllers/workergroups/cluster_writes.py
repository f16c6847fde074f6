"""The writes of a run: Services and other objects applied, pods deleted and created."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reconcile import Context, ObjectMeta, Unstructured
from reconcile.blocks import new_hosts
from reconcile.errors import AlreadyExists, ApiError, StaleVersion, StatusError
from reconcile.kinds import Ingress, Pod, Secret, Service
from reconcile.models import unstructured_kind

from .models import HeadInfo, RayCluster
from .pod_plan import HeadPlan, PodRemoval, RayClusterPlan, WorkerGroupPlan
from .ray_autoscaler import permissions
from .ray_pod_view import MARKS, RayPodView, pod_view
from .ray_pods import TOKEN_KEY, head_pod, upgrade_marks, worker_pod
from .ray_services import head_ingress, head_service, services, switched_off
from .raycluster_names import Manifest
from .raycluster_status import ReplicaFailure
from .raycluster_view import ClusterView, GroupView

# Decisions read fields of pods that the small model `Pod` does not have.
WholePod = unstructured_kind("v1", "Pod")


class ClusterWriteFailed(Exception):
    def __init__(self, failure: ReplicaFailure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


async def owned_pods(ctx: Context[RayCluster]) -> list[RayPodView]:
    return [pod_view(pod.body) for pod in await ctx.owned(WholePod)]


async def apply_objects(ctx: Context[RayCluster], cluster: ClusterView) -> HeadInfo:
    """Apply everything but the pods, in KubeRay's order. Returns where the head Service is.

    Objects of other owners are left alone: the author of the cluster chose their names, and may lack the
    right to change, say, a Role.
    """
    for manifest in permissions(cluster):
        with failing_with(f"FailedApply{manifest['kind']}"):
            await ctx.apply(manifest, adopt=False)
    for manifest in head_ingress(cluster):
        with failing_with("FailedApplyIngress"):
            await ctx.apply(manifest, adopt=False)
    await _create_token(ctx, cluster)
    with failing_with("FailedApplyHeadService"):
        service = await ctx.apply(head_service(cluster), adopt=False)
    for manifest in services(cluster):
        with failing_with("FailedApplyService"):
            await ctx.apply(manifest, adopt=False)
    await _delete_switched_off(ctx, cluster)
    ip = service["spec"].get("clusterIP") or ""
    return HeadInfo(service_name=service.name, service_ip="" if ip == "None" else ip)


async def _delete_switched_off(ctx: Context[RayCluster], cluster: ClusterView) -> None:
    """Delete the Ingress and the Services of features that were switched off: they would still expose pods.

    ServiceAccount, Role and RoleBinding of the autoscaler stay: a head pod that was made with them runs on.
    """
    off = switched_off(cluster)
    for one in (*await ctx.owned(Ingress), *await ctx.owned(Service)):
        if one.name in off:
            with failing_with(f"FailedDelete{type(one).__name__}"):
                await ctx.delete(one)


async def _create_token(ctx: Context[RayCluster], cluster: ClusterView) -> None:
    """Create the token's Secret once. Its content is never read, so it may be changed by hand."""
    if not cluster.owns_token:
        return
    name = cluster.token_secret
    with failing_with("FailedCreateAuthSecret"):
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
    """Delete first, so that what is created next fits into a quota."""
    for removal in plan.removals:
        await delete_pod(ctx, removal)
    await _keep_head(ctx, cluster, plan.head)
    groups = {group.name: group for group in cluster.groups}
    for planned in plan.groups:
        await _make_workers(ctx, cluster, groups[planned.group], planned)


async def delete_pod(ctx: Context[RayCluster], removal: PodRemoval) -> None:
    pod, role = removal.pod, "Head" if removal.pod.node_type == "head" else "Worker"
    with failing_with(f"FailedDelete{role}Pod"):
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
    with failing_with(f"FailedUpdate{role}Pod"):
        await ctx.client.raw.merge(
            pod, {"metadata": {"annotations": dict(annotations)}}, guard={"uid": view.uid}
        )


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
    with failing_with(f"FailedCreate{role}Pod"):
        pod: Unstructured = await ctx.create(manifest)
    ctx.event(f"Created{role}Pod", f"created pod {pod.name}")


@contextmanager
def failing_with(reason: str) -> Iterator[None]:
    """Turn errors of requests into ClusterWriteFailed with this reason, except StaleVersion."""
    try:
        yield
    except StaleVersion:
        raise
    except ApiError as error:
        message: Any = error.message if isinstance(error, StatusError) else str(error)
        raise ClusterWriteFailed(ReplicaFailure(reason, message)) from error
