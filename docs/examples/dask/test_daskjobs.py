"""Jobs: the manifest of users, each end of a runner, what the original left, and every single fault."""

from collections import Counter
from typing import Any

import pytest
import yaml
from attrs import evolve
from dask_world import (
    DEFINITIONS,
    HANDLED,
    KOPF,
    MANIFESTS,
    RUNS,
    SERVICE,
    FakeSchedulers,
    a_cluster,
    pod,
    ran,
    run_both,
)
from daskclusters import DaskCluster, DaskClusterSpec, Names, Scheduler, Workers, dask_clusters, worker_groups
from daskjobs import (
    DaskJob,
    DaskJobSpec,
    DaskJobStatus,
    JobCluster,
    Runner,
    cluster_for,
    dask_jobs,
    runner_for,
)

from reconcile import Controller, ObjectMeta
from reconcile.kinds import Deployment, Pod
from reconcile.owners import is_owned, with_owner
from reconcile.simulation import Delays
from reconcile.testing import Apply, Delete, Edit, FakeClient, Scenario, World, explore, run_once, sweep

CLUSTER = DaskClusterSpec(Scheduler(pod("scheduler"), SERVICE), Workers(pod("worker"), 1))
BEHAVIOUR = "simulated.reconcile-runtime/pod"


def a_job(how: str = "succeed") -> DaskJob:
    """One whose simulated runner ends so."""
    runner = Runner(pod("job"), Names(annotations={BEHAVIOUR: how}))
    spec = DaskJobSpec(runner, JobCluster(CLUSTER))
    return DaskJob(metadata=ObjectMeta("fit", "default"), spec=spec)


async def run_all(client: FakeClient) -> list[Any]:
    """Runs for each job, cluster and group, until nothing is written."""
    writes: list[Any] = []
    while True:
        made = [one for job in await client.list(DaskJob) for one in await ran(dask_jobs, job, client)]
        made += await run_both(client)
        if not made:
            return writes
        writes += made


async def runner_is(client: FakeClient, phase: str, name: str = "fit") -> None:
    runner = await client.get(Pod, f"{name}-runner", "default")
    await client.raw.merge(runner, {"status": {"phase": phase}}, subresource="status")
    await run_all(client)


async def status_of(client: FakeClient, name: str = "fit") -> DaskJobStatus:
    return (await client.get(DaskJob, name, "default")).status


# --- the life of a job ------------------------------------------------------------------------------


async def test_the_manifest_of_users_runs_to_its_end_and_then_its_cluster_goes() -> None:
    client = a_cluster()
    manifests = yaml.safe_load_all((MANIFESTS / "objects.yaml").read_text())
    client.add(next(one for one in manifests if one["kind"] == "DaskJob"))
    done = await run_once(dask_jobs, "default/simple-job", client)
    assert (done.error, done.undeclared) == (None, [])
    assert await status_of(client, "simple-job") == DaskJobStatus("ClusterCreated", "simple-job")
    await run_all(client)
    runner = await client.get(Pod, "simple-job-runner", "default")
    (container,) = runner.spec.containers
    environment = {one.name: one.value for one in container.env}
    assert environment == {"DASK_SCHEDULER_ADDRESS": "tcp://simple-job-scheduler.default.svc:8786"}
    assert runner.spec.restart_policy == "OnFailure"
    assert len(await client.list(Deployment)) == 3
    await runner_is(client, "Running", "simple-job")
    running = await status_of(client, "simple-job")
    assert (running.job_status, running.job_runner_pod_name) == ("Running", runner.name)
    client.clock.advance(60)
    await runner_is(client, "Succeeded", "simple-job")
    ended = await status_of(client, "simple-job")
    assert ended.job_status == "Successful"
    assert ended.start_time == running.start_time
    assert ended.start_time is not None
    assert ended.end_time is not None
    assert (ended.end_time - ended.start_time).total_seconds() == 60
    assert await client.list(DaskCluster) == []
    assert await client.list(Deployment) == []
    assert [one.name for one in await client.list(Pod)] == ["simple-job-runner"]


async def test_a_job_whose_runner_fails_has_failed_and_its_cluster_goes() -> None:
    client = a_cluster(a_job())
    await run_all(client)
    await runner_is(client, "Failed")
    assert (await status_of(client)).job_status == "Failed"
    assert await client.list(DaskCluster) == []
    assert len(await client.list(Pod)) == 1


async def test_the_cluster_stays_until_the_end_of_the_runner_is_recorded() -> None:
    client = a_cluster(a_job())
    await run_all(client)
    runner = await client.get(Pod, "fit-runner", "default")
    await client.raw.merge(runner, {"status": {"phase": "Succeeded"}}, subresource="status")
    assert await ran(dask_jobs, a_job(), client) == ["patch daskjobs/status default/fit"]
    await client.delete(runner)  # it counts no more
    assert await ran(dask_jobs, a_job(), client) == ["delete daskclusters default/fit"]
    assert (await status_of(client)).job_status == "Successful"


async def test_a_runner_that_was_deleted_is_not_started_again() -> None:
    client = a_cluster(a_job())
    await run_all(client)
    await client.delete(await client.get(Pod, "fit-runner", "default"))
    done = await run_once(dask_jobs, a_job(), client)
    assert done.events == ["Warning RunnerGone: pod fit-runner was deleted before it had ended"]
    await run_all(client)
    assert (await status_of(client)).job_status == "Failed"
    assert await client.list(Pod) == []
    assert await client.list(DaskCluster) == []


async def test_names_are_passed_on_from_the_job_to_its_cluster_and_its_runner() -> None:
    part = Names(labels={"team": "fit"}, annotations={"note": "r"})
    job = a_job().replace(spec=DaskJobSpec(Runner(pod("job"), part), JobCluster(CLUSTER)))
    labels, annotations = {"team": "all", "top": "yes"}, {"hello": "world", HANDLED: "{}"}
    client = a_cluster(job.with_metadata(labels=labels, annotations=annotations))
    await run_all(client)
    cluster = (await client.get(DaskCluster, "fit", "default")).metadata
    assert (cluster.labels["team"], dict(cluster.annotations)) == ("all", {"hello": "world"})
    runner = (await client.get(Pod, "fit-runner", "default")).metadata
    assert (runner.labels["team"], runner.labels["top"]) == ("fit", "yes")
    assert dict(runner.annotations) == {"hello": "world", "note": "r"}
    worker = (await client.list(Deployment))[-1]
    assert worker.spec.template.metadata.labels["team"] == "all"


async def test_a_job_takes_everything_with_it() -> None:
    client = a_cluster(a_job())
    await run_all(client)
    await client.delete(await client.get(DaskJob, "fit", "default"))
    for kind in (DaskCluster, Deployment, Pod):
        assert await client.list(kind) == []


# --- the switch from kopf ---------------------------------------------------------------------------


async def as_kopf_left(status: DaskJobStatus, phase: str | None, *, cluster: bool = True) -> FakeClient:
    """A job at some moment of its life under the original: its status, its runner's phase, its cluster."""
    client = a_cluster()
    marks = {"finalizers": (f"{KOPF}KopfFinalizerMarker",), "annotations": {HANDLED: "{}"}}
    client.add(a_job().replace(status=status).with_metadata(**marks))
    job = await client.get(DaskJob, "fit", "default")
    if cluster:
        made = cluster_for(job).with_metadata(annotations={HANDLED: "{}"})
        client.add(with_owner(made, job, controller=True))
    if phase is not None:
        runner = await client.raw.unstructured(runner_for(job, cluster_for(job)))
        client.add(with_owner(runner.with_metadata(namespace="default"), job, controller=True))
        stored = await client.get(Pod, "fit-runner", "default")
        await client.raw.merge(stored, {"status": {"phase": phase}}, subresource="status")
    return client


BEGUN = DaskJobStatus("ClusterCreated", "fit")
RUNNING = DaskJobStatus("Running", "fit", "fit-runner")


@pytest.mark.parametrize(
    ("left", "phase", "after"),
    [
        (DaskJobStatus("JobCreated"), None, "ClusterCreated"),
        (BEGUN, None, "ClusterCreated"),
        (BEGUN, "Pending", "ClusterCreated"),
        (BEGUN, "Running", "Running"),
        (RUNNING, "Running", "Running"),
        (RUNNING, "Succeeded", "Successful"),
        (evolve(RUNNING, job_runner_pod_name=None), None, "Failed"),
    ],
)
async def test_a_job_of_the_original_goes_on_where_it_was(
    left: DaskJobStatus, phase: str | None, after: str
) -> None:
    client = await as_kopf_left(left, phase)
    before = {one.uid for one in await client.list(Pod)}
    uid = (await client.get(DaskCluster, "fit", "default")).uid
    await run_all(client)
    assert (await status_of(client)).job_status == after
    pods = {one.uid for one in await client.list(Pod)}
    assert pods >= before
    assert len(pods) == (after != "Failed")
    ended = after in ("Successful", "Failed")
    assert [one.uid for one in await client.list(DaskCluster)] == ([] if ended else [uid])
    metadata = (await client.get(DaskJob, "fit", "default")).metadata
    assert (metadata.finalizers, dict(metadata.annotations)) == ((), {})


async def test_a_job_that_ended_under_the_original_is_left_as_it_is() -> None:
    done = DaskJobStatus("Successful", "fit", "fit-runner")
    client = await as_kopf_left(done, None, cluster=False)
    await run_all(client)
    assert await status_of(client) == done
    assert await client.list(DaskCluster) == []
    assert await client.list(Pod) == []


# --- every fault ------------------------------------------------------------------------------------


def no_runner_is_started_twice(world: World) -> None:
    """A job has one runner in its life, whatever becomes of it."""
    made = [one.change for one in world.changes if one.change.old is None]
    jobs = Counter(f"{one.key.name}-runner" for one in made if one.resource[1] == "daskjobs")
    assert Counter(one.key.name for one in made if one.key.name.endswith("-runner")) <= jobs


def a_job_that_has_ended_has_no_cluster(world: World) -> None:
    for job in world.objects(DaskJob):
        clusters = [one for one in world.objects(DaskCluster) if is_owned(one, job)]
        assert len(clusters) == (job.status.job_status == "Running")


def all_three(schedulers: FakeSchedulers) -> list[Controller[Any]]:
    return [dask_jobs, dask_clusters(schedulers), worker_groups(schedulers)]


def jobs_alone(_: FakeSchedulers) -> list[Controller[Any]]:
    return [dask_jobs]


def scenario(*steps: Any) -> Scenario:
    return Scenario(
        controllers=all_three,
        outside=FakeSchedulers,
        definitions=DEFINITIONS,
        steps=steps,
        nodes=Delays(),
        workloads=True,
        invariants=[no_runner_is_started_twice, a_job_that_has_ended_has_no_cluster],
        without=["creates", "deletes"],  # by name, and those of workers are random
    )


def test_jobs_survive_every_fault_and_no_runner_is_started_twice() -> None:
    fit, lost = a_job(), a_job("").with_metadata(name="lost")
    steps = Apply(fit), Apply(lost), Delete((Pod, "default/lost-runner")), Delete(fit)
    print(sweep(scenario(*steps), most=RUNS))


def test_a_job_survives_every_order_of_what_happens_with_a_crash() -> None:
    job, running, ended = a_job(), {"status": {"phase": "Running"}}, {"status": {"phase": "Succeeded"}}
    made = Edit((DaskCluster, "default/fit"), running)
    runner = Pod, "default/fit-runner"
    steps = Apply(job), made, Edit(runner, running, "status"), Edit(runner, ended, "status")
    alone = evolve(scenario(*steps), controllers=jobs_alone, nodes=None, workloads=False)
    print(explore(evolve(alone, invariants=[no_runner_is_started_twice]), objects=2))
