"""Keeps the pods of RayClusters: read, plan, carry out, write the status."""

import os
from collections.abc import Sequence
from functools import partial

from attrs import frozen

from reconcile import Context, Controller, Predecessor, Result, Write
from reconcile.conditions import is_true
from reconcile.kinds import Ingress, Job, Pod, Secret, Service, ServiceAccount
from reconcile.models import encode, unstructured_kind

from .. import OPERATOR
from ..refusals import refusing
from .cluster_writes import ClusterWriteFailed, apply_objects, carry_out, owned_pods
from .fault_tolerance import FINALIZER
from .models import RayCluster
from .pod_plan import PlanGroup, RayClusterPlan, plan_cluster, plan_group, plan_group_at_random, plan_no_pods
from .ray_pod_view import RayPodView, pods_of_cluster
from .raycluster_spec import cluster_view, faults_of, is_managed, within_bounds
from .raycluster_status import failure_in_plan
from .raycluster_view import ClusterView
from .redis_cleanup import finalize
from .status_writer import StatusWriter
from .suspension import SUSPENDED, SUSPENDING, Suspension, plan_suspension

Role = unstructured_kind("rbac.authorization.k8s.io/v1", "Role")
RoleBinding = unstructured_kind("rbac.authorization.k8s.io/v1", "RoleBinding")

KUBERAY = Predecessor(
    "KubeRay",
    leases=("ray-operator-leader",),
    deployments=("kuberay-operator",),
    images=("kuberay/operator", "kuberay-operator"),
)

SOON = 0.05
"""Seconds until the next run if this one had to store a condition before pods may be deleted."""


@frozen
class WorkerGroupSettings:
    """The settings that KubeRay's operator reads from its environment, under the same names.

    Attributes:
        random_delete: Choose surplus workers under the in-tree autoscaler too (ENABLE_RANDOM_POD_DELETE).
        redis_cleanup: Delete the state in Redis with its cluster (ENABLE_GCS_FT_REDIS_CLEANUP).
    """

    random_delete: bool = os.environ.get("ENABLE_RANDOM_POD_DELETE", "").lower() == "true"
    redis_cleanup: bool = os.environ.get("ENABLE_GCS_FT_REDIS_CLEANUP", "").lower() != "false"


def make_controller(
    settings: WorkerGroupSettings = WorkerGroupSettings(), *, planner: PlanGroup | None = None
) -> Controller[RayCluster]:
    """The controller `worker-groups`.

    `planner` decides which workers of a group are created and deleted: `plan_group`, or
    `plan_group_at_random` if the settings ask for it.
    """
    if planner is None:
        planner = plan_group_at_random if settings.random_delete else plan_group
    return Controller(
        RayCluster,
        partial(keep_cluster, plan_group=planner, settings=settings),
        on_terminating=partial(finalize, redis_cleanup=settings.redis_cleanup),
        owns=[Pod, Service, Job, ServiceAccount, Role, RoleBinding, Ingress],
        writes=[
            Write(RayCluster, ("patch",)),  # the finalizer for the clean-up of Redis
            Write(Secret, ("get", "create")),  # the token: created once, never updated
        ],
        admission=refusing(RayCluster, _refused),
        predecessor=KUBERAY,
        name="worker-groups",
        operator=OPERATOR,
        former_field_managers=["worker-groups"],
    )


def _refused(cluster: RayCluster) -> Sequence[str]:
    """What makes the controller leave a cluster alone; nothing for one that another operator keeps."""
    manifest = encode(cluster)
    return faults_of(manifest) if is_managed(manifest["spec"]) else ()


async def keep_cluster(
    ctx: Context[RayCluster], plan_group: PlanGroup, settings: WorkerGroupSettings = WorkerGroupSettings()
) -> Result | None:
    """Deletes each surplus pod at most once, however far the cache lags behind."""
    manifest = encode(ctx.object)
    if not is_managed(manifest["spec"]):
        return None
    cluster, pods = cluster_view(within_bounds(manifest)), await owned_pods(ctx)
    suspension = _suspension(ctx, cluster, pods)
    report = StatusWriter(ctx, cluster, suspension.phase)
    plan = _plan(ctx, cluster, pods, suspension, plan_group)
    # Pods of a deleted cluster end one by one, and the cache may show that before it shows the deletion:
    # to replace them now would leave pods without an owner.
    if plan.replaces and await _is_gone(ctx):
        return None
    try:
        if not cluster.refused:
            await _keep_finalizer(ctx, cluster, settings)
            report.head = await apply_objects(ctx, cluster)
            await carry_out(ctx, cluster, plan)
    except ClusterWriteFailed as failed:
        report.write(pods, failed.failure)
        raise
    doomed = {removal.pod.uid for removal in plan.removals}
    report.write([pod for pod in pods if pod.uid not in doomed], failure_in_plan(plan))
    if suspension.again:
        return Result(requeue_after=SOON)
    return None if plan.after is None else Result(requeue_after=plan.after)


def _suspension(ctx: Context[RayCluster], cluster: ClusterView, pods: list[RayPodView]) -> Suspension:
    if cluster.refused:
        return Suspension("running")
    conditions = ctx.object.status.conditions
    return plan_suspension(
        wanted=cluster.suspend,
        suspending=is_true(conditions, SUSPENDING),
        suspended=is_true(conditions, SUSPENDED),
        pods=len(pods_of_cluster(cluster.uid, pods)),
    )


def _plan(
    ctx: Context[RayCluster],
    cluster: ClusterView,
    pods: list[RayPodView],
    suspension: Suspension,
    plan_group: PlanGroup,
) -> RayClusterPlan:
    match suspension.phase:
        case "running":
            provisioned = is_true(ctx.object.status.conditions, "RayClusterProvisioned")
            return plan_cluster(cluster, pods, ctx.clock.now(), plan_group, provisioned=provisioned)
        case "beginning":
            return RayClusterPlan()
        case _:
            return plan_no_pods(cluster, pods, "suspended")


async def _is_gone(ctx: Context[RayCluster]) -> bool:
    live = await ctx.client.find(RayCluster, ctx.object.name, ctx.object.namespace, live=True)
    return live is None or live.uid != ctx.object.uid or live.terminating


async def _keep_finalizer(
    ctx: Context[RayCluster], cluster: ClusterView, settings: WorkerGroupSettings
) -> None:
    """Add our finalizer before there is any state in Redis to delete."""
    needed = cluster.fault_tolerance is not None and settings.redis_cleanup
    finalizers = ctx.object.metadata.finalizers
    if needed and FINALIZER not in finalizers:
        patch = {"metadata": {"finalizers": [*finalizers, FINALIZER]}}
        await ctx.client.raw.merge(ctx.object, patch)


controller = make_controller()
"""The controller that `reconcile run worker-groups` starts."""
