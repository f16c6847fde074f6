"""Finalizes a cluster with its state in Redis: delete its pods, run a job, then release the cluster."""

from collections.abc import Mapping
from typing import Any

from reconcile import Context, Result
from reconcile.errors import AlreadyExists
from reconcile.kinds import Job
from reconcile.models import encode

from .cluster_writes import delete_pod, failing_with, owned_pods
from .fault_tolerance import (
    FINALIZER,
    CleanupStep,
    cleanup_job,
    cleanup_name,
    deletion_timeout,
    job_state,
    plan_cleanup,
    storage_namespace,
)
from .field_types import type_faults
from .models import RayCluster
from .pod_plan import plan_no_pods
from .ray_pod_view import Object, RayPodView, pods_of_cluster
from .ray_pods import head_pod
from .raycluster_spec import cluster_view, is_managed, within_bounds
from .raycluster_view import ClusterView

RECHECK_SECONDS = 10.0
"""Seconds until the next check for the end of pods or job, if no event comes before."""


async def finalize(ctx: Context[RayCluster], *, redis_cleanup: bool = True) -> Result | None:
    """One run for a cluster that is being deleted. Without our finalizer it does nothing."""
    manifest = encode(ctx.object)
    if FINALIZER not in ctx.object.metadata.finalizers or not is_managed(manifest["spec"]):
        return None
    cluster = cluster_view(within_bounds(manifest))
    if cluster.fault_tolerance is None or not redis_cleanup or not _has_head(cluster, manifest["spec"]):
        await _release(ctx)
        return None
    pods = await owned_pods(ctx)
    next_step = await _plan(ctx, cluster, pods)
    match next_step.action:
        case "release":
            await _release(ctx)
            return None
        case "give-up":
            advice = f"delete the namespace {storage_namespace(cluster)} there"
            ctx.event(
                "RedisCleanupTimedOut", f"the state in Redis was not deleted in time; {advice}", warning=True
            )
            await _release(ctx)
            return None
        case "delete-pods":
            for removal in plan_no_pods(cluster, pods, "cluster-deleted").removals:
                await delete_pod(ctx, removal)
        case "create-job":
            await _create_job(ctx, cluster)
    return Result(requeue_after=max(1.0, min(RECHECK_SECONDS, next_step.seconds)))


async def _plan(ctx: Context[RayCluster], cluster: ClusterView, pods: list[RayPodView]) -> CleanupStep:
    own = pods_of_cluster(cluster.uid, pods)
    jobs = [job for job in await ctx.owned(Job) if job.name == cleanup_name(cluster)]
    since, now = ctx.object.metadata.deletion_timestamp, ctx.clock.now()
    return plan_cleanup(
        live=sum(not pod.terminating for pod in own),
        heads=sum(pod.node_type == "head" for pod in own),
        job=job_state(encode(jobs[0]) if jobs else None),
        since=since or now,
        now=now,
        timeout=deletion_timeout(cluster.annotations),
    )


async def _create_job(ctx: Context[RayCluster], cluster: ClusterView) -> None:
    job: Mapping[str, Any] = cleanup_job(cluster, head_pod(cluster))
    with failing_with("FailedCreateRedisCleanupJob"):
        try:
            await ctx.create(job)
        except AlreadyExists:
            return
    ctx.event("CreatedRedisCleanupJob", f"created job {cleanup_name(cluster)}")


def _has_head(cluster: ClusterView, spec: Object) -> bool:
    """Whether there is a template to create the job from; a refused cluster may have none."""
    return not type_faults(spec) and bool((cluster.head.template.get("spec") or {}).get("containers"))


async def _release(ctx: Context[RayCluster]) -> None:
    rest = [name for name in ctx.object.metadata.finalizers if name != FINALIZER]
    await ctx.client.raw.merge(ctx.object, {"metadata": {"finalizers": rest}})
