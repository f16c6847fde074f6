"""Keeps the pods of RayClusters: reads them, has `plan` decide, carries it out, says what came of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import evolve

from reconcile import (
    ApiError,
    Context,
    Controller,
    ObjectMeta,
    StaleVersion,
    StatusError,
    Unstructured,
    encode,
    unstructured,
)
from reconcile.incidents import Logic
from reconcile.kinds import Pod, Service

from .models import HeadInfo, RayCluster
from .original import plan_group_like_v1_3_0
from .plan import Plan, PlanGroup, Removal, plan_cluster, plan_group
from .pods import head_pod, head_service, worker_pod
from .spec import cluster_view, is_managed
from .status import ClusterStatus, Failure, failure_of, status_of
from .views import ClusterView, Object, PodView, pod_view

# The decisions look at more of a pod than its small model has.
WholePod = unstructured("v1", "Pod")


class StepFailed(Exception):
    """A pod or the head Service could not be written; `failure` is what the status says about it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.reason}: {failure.message}")
        self.failure = failure


def make_controller(logic: Logic = "ours") -> Controller[RayCluster]:
    """The controller `worker-groups`, or with `original` its control, which plans as KubeRay v1.3.0 did.

    The control reads what v1.3.0 read: its expectation of a deletion was met by a deletionTimestamp
    or by absence, which is when a run of this library goes on after a deletion of its own.
    """

    async def keep(ctx: Context[RayCluster]) -> None:
        original = logic == "original"
        await keep_cluster(ctx, plan_group_like_v1_3_0(ctx.clock.random) if original else plan_group)

    return Controller(RayCluster, keep, owns=[Pod, Service], name="worker-groups")


async def keep_cluster(ctx: Context[RayCluster], plan_group: PlanGroup) -> None:
    """One run: at most one deletion of each surplus pod, whatever the cache has seen by then."""
    manifest = encode(ctx.object)
    if not is_managed(manifest["spec"]):
        return
    cluster = cluster_view(manifest)
    pods = [pod_view(pod.body) for pod in await ctx.owned(WholePod)]
    plan = plan_cluster(cluster, pods, plan_group)
    head = ctx.object.status.head
    try:
        if not plan.refused:
            head = await _keep_service(ctx, cluster)
            await _carry_out(ctx, cluster, plan)
    except StepFailed as failed:
        _report(ctx, cluster, pods, head, failed.failure)
        raise
    doomed = {removal.pod.uid for removal in plan.removals}
    _report(ctx, cluster, [pod for pod in pods if pod.uid not in doomed], head, failure_of(plan))


async def _keep_service(ctx: Context[RayCluster], cluster: ClusterView) -> HeadInfo:
    """The head Service as it should be; answers its name and IP, without the pod's."""
    with _step("FailedApplyHeadService"):
        service = await ctx.apply(head_service(cluster))
    ip = service["spec"].get("clusterIP") or ""
    return HeadInfo(service_name=service.name, service_ip="" if ip == "None" else ip)


async def _carry_out(ctx: Context[RayCluster], cluster: ClusterView, plan: Plan) -> None:
    """Deletions first, so that what is made next finds their share of a quota."""
    for removal in plan.removals:
        await _delete(ctx, removal)
    if plan.head.create:
        await _create(ctx, head_pod(cluster), "Head")
    groups = {group.name: group for group in cluster.groups}
    for planned in plan.groups:
        for _ in range(planned.create):
            await _create(ctx, worker_pod(cluster, groups[planned.group]), "Worker")


async def _delete(ctx: Context[RayCluster], removal: Removal) -> None:
    pod, role = removal.pod, "Head" if removal.pod.node_type == "head" else "Worker"
    with _step(f"FailedDelete{role}Pod"):
        await ctx.delete(Pod(metadata=ObjectMeta(pod.name, pod.namespace, uid=pod.uid)))
    ctx.event(f"Deleted{role}Pod", f"deleted pod {pod.name} ({removal.reason})")


async def _create(ctx: Context[RayCluster], manifest: Object, role: str) -> None:
    with _step(f"FailedCreate{role}Pod"):
        pod: Unstructured = await ctx.create(manifest)
    ctx.event(f"Created{role}Pod", f"created pod {pod.name}")


@contextmanager
def _step(reason: str) -> Iterator[None]:
    try:
        yield
    except StaleVersion:
        raise
    except ApiError as error:
        message = error.message if isinstance(error, StatusError) else str(error)
        raise StepFailed(Failure(reason, message)) from error


def _report(
    ctx: Context[RayCluster],
    cluster: ClusterView,
    pods: Sequence[PodView],
    head: HeadInfo,
    failure: Failure | None,
) -> None:
    before = ctx.object.status
    provisioned = any(
        one.type == "RayClusterProvisioned" and one.status == "True" for one in before.conditions
    )
    status = status_of(cluster, pods, provisioned=provisioned, failure=failure)
    head = evolve(
        head,
        pod_name=status.head_pod_name,
        pod_ip=status.head_pod_ip,
        service_ip=head.service_ip or status.head_pod_ip,
    )
    ctx.status(**_fields(status), head=head, observed_generation=ctx.object.metadata.generation)
    for condition in status.conditions:
        ctx.condition(condition.type, condition.status, reason=condition.reason, message=condition.message)
    if failure is not None and failure.message != before.reason:
        ctx.event(failure.reason, failure.message, warning=True)


def _fields(status: ClusterStatus) -> dict[str, Any]:
    return {
        "state": status.state,
        "reason": status.reason,
        "desired_worker_replicas": status.desired_worker_replicas,
        "min_worker_replicas": status.min_worker_replicas,
        "max_worker_replicas": status.max_worker_replicas,
        "available_worker_replicas": status.available_worker_replicas,
        "ready_worker_replicas": status.ready_worker_replicas,
        "desired_cpu": status.desired_cpu,
        "desired_memory": status.desired_memory,
        "desired_gpu": status.desired_gpu,
        "desired_tpu": status.desired_tpu,
    }


controller = make_controller()
