"""DaskJobs: a pod that runs to its end, and a cluster that is there as long as the pod runs."""

from datetime import datetime

from attrs import frozen
from daskclusters import (
    API,
    CLUSTER,
    PART,
    PREDECESSOR,
    DaskCluster,
    DaskClusterSpec,
    Manifest,
    Names,
    address_of,
    names_for,
    with_environment,
)

from reconcile import Context, Controller, Object, ObjectMeta, Result, resource
from reconcile.kinds import Pod

ENDED = {"Succeeded": "Successful", "Failed": "Failed"}
"""How a job has ended, by the phase of its runner."""


@frozen
class Runner:
    spec: Manifest  # of a pod
    metadata: Names = Names()  # noqa: RUF009 - it is immutable


@frozen
class JobCluster:
    spec: DaskClusterSpec


@frozen
class DaskJobSpec:
    job: Runner
    cluster: JobCluster


@frozen
class DaskJobStatus:
    job_status: str = ""  # JobCreated, ClusterCreated, Running, Successful or Failed
    cluster_name: str = ""
    job_runner_pod_name: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None


@resource(
    API,
    short_names=("djb",),
    columns={"Status": ".status.jobStatus", "Number Of Workers": ".spec.cluster.spec.worker.replicas"},
)
class DaskJob(Object):
    spec: DaskJobSpec
    status: DaskJobStatus = DaskJobStatus()


def cluster_for(job: DaskJob) -> DaskCluster:
    names = names_for(job, Names(), {CLUSTER: job.name})
    metadata = ObjectMeta(job.name, job.namespace, labels=names["labels"], annotations=names["annotations"])
    return DaskCluster(metadata=metadata, spec=job.spec.cluster.spec)


def runner_of(job: str) -> str:
    return f"{job}-runner"


def runner_for(job: DaskJob, cluster: DaskCluster) -> Manifest:
    part = job.spec.job
    names = names_for(job, part.metadata, {CLUSTER: cluster.name, PART: "job-runner"})
    pod = with_environment(part.spec, {"DASK_SCHEDULER_ADDRESS": address_of(cluster)})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": runner_of(job.name), **names},
        "spec": {"restartPolicy": "OnFailure", **pod},
    }


async def keep_job(ctx: Context[DaskJob]) -> Result | None:
    job, status = ctx.object, ctx.object.status
    cluster = next(iter(await ctx.owned(DaskCluster)), None)
    if status.job_status in ENDED.values():
        if cluster is not None:
            await ctx.delete(cluster)
        return None
    runner = next(iter(await ctx.owned(Pod)), None)
    if runner is not None:
        return follow(ctx, runner)
    if status.job_runner_pod_name or status.job_status == "Running":
        return await without_runner(ctx, status.job_runner_pod_name or runner_of(job.name))
    ctx.status(job_status=status.job_status or "JobCreated")
    if cluster is None:
        cluster = await ctx.create(cluster_for(job))
    ctx.status(job_status="ClusterCreated", cluster_name=cluster.name)
    if cluster.status.phase == "Running" and not cluster.terminating:
        await ctx.create(runner_for(job, cluster))
        ctx.status(job_runner_pod_name=runner_of(job.name))
    return None


def follow(ctx: Context[DaskJob], runner: Pod) -> Result | None:
    """Report how far the runner is. The cluster goes in another run, when it is recorded that it may."""
    phase, started = runner.status.phase, ctx.object.status.start_time or ctx.clock.now()
    ctx.status(job_runner_pod_name=runner.name)
    if phase == "Running":
        ctx.status(job_status="Running", start_time=started)
    if phase not in ENDED:
        return None
    ctx.status(job_status=ENDED[phase], start_time=started, end_time=ctx.clock.now())
    return Result(requeue=True)


async def without_runner(ctx: Context[DaskJob], name: str) -> Result | None:
    """Call the job failed, as its runner has been deleted: what it has done must not be done twice."""
    runner = await ctx.client.find(Pod, name, ctx.object.namespace, live=True)
    if runner is not None:
        return follow(ctx, runner)  # the cache of pods is behind that of jobs
    ctx.event("RunnerGone", f"pod {name} was deleted before it had ended", warning=True)
    ctx.status(job_status="Failed", end_time=ctx.clock.now())
    return Result(requeue=True)


dask_jobs = Controller(DaskJob, keep_job, owns=[DaskCluster, Pod], predecessor=PREDECESSOR)
