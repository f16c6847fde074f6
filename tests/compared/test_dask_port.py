"""Clusters, jobs and autoscalers of an operator on kopf go on under the port: no pod is restarted."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from dask_world import FakeSchedulers
from daskautoscalers import DaskAutoscaler, dask_autoscalers
from daskclusters import DaskCluster, DaskWorkerGroup, dask_clusters, worker_groups
from daskjobs import DaskJob, dask_jobs

from reconcile import Client, Object
from reconcile.kinds import Deployment, Pod, Service
from reconcile.testing import ListeningServer, ManagerRunner, eventually
from tests.helpers.kopf_process import kopf

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "dask"
MANIFESTS = EXAMPLE / "manifests"
KINDS: tuple[type[Object], ...] = (DaskCluster, DaskWorkerGroup, DaskJob, DaskAutoscaler)
CHILDREN: tuple[type[Object], ...] = (Deployment, Service, Pod)
PATIENCE = 40.0

pytestmark = pytest.mark.timeout(150)


async def status(client: Client, kind: type[Any], name: str, where: str, **of: Any) -> None:
    found = await client.get(kind, name, where)
    await client.raw.merge(found, {"status": of}, subresource="status")


async def versions(client: Client, where: str, cluster: str = "") -> dict[str, int]:
    """What there is for clusters, by uid, each with its generation, which grows when its spec changes."""
    labels = f"dask.org/cluster-name={cluster}" if cluster else None
    found = [one for kind in CHILDREN for one in await client.list(kind, where, labels=labels)]
    return {one.uid: one.metadata.generation for one in found}


async def test_what_users_have_under_kopf_is_taken_over_by_the_port(
    api_server: ListeningServer, manager: ManagerRunner, tmp_path: Path
) -> None:
    where = api_server.namespace
    async with api_server.connect() as client:

        async def job_is(wanted: str) -> bool:
            return (await client.get(DaskJob, "simple-job", where)).status.job_status == wanted

        async def workers(group: str, number: int) -> bool:
            names = [one.name for one in await client.list(Deployment, where)]
            return len([name for name in names if name.startswith(f"{group}-worker-")]) == number

        async def of_kopf() -> bool:
            groups = {"simple-default": 3, "simple-highmem": 2, "simple-job-default": 2}
            made = [await workers(group, number) for group, number in groups.items()]
            return all(made) and await client.find(Pod, "simple-job-runner", where) is not None

        async def of_ours() -> bool:
            metadata = [one.metadata for kind in KINDS for one in await client.list(kind, where)]
            names = [name for one in metadata for name in (*one.annotations, *one.finalizers)]
            return not any("kopf" in name for name in names)

        async def only_the_runner() -> bool:
            return len(await versions(client, where)) == 1

        for definition in yaml.safe_load_all((MANIFESTS / "definitions.yaml").read_text()):
            await client.apply(definition)
        with kopf(api_server, tmp_path / "log", "dask_kopf", "-n", where, DEMAND="3"):
            for made in yaml.safe_load_all((MANIFESTS / "objects.yaml").read_text()):
                await client.apply({**made, "metadata": {**made["metadata"], "namespace": where}})
            await eventually(of_kopf, within=PATIENCE)
            await status(client, Pod, "simple-job-runner", where, phase="Running")
            await eventually(lambda: job_is("Running"), within=PATIENCE)
        before, of_simple = await versions(client, where), await versions(client, where, "simple")
        assert (len(before), len(of_simple)) == (12, 7)
        autoscaler = await client.get(DaskAutoscaler, "simple", where)
        assert autoscaler.metadata.finalizers == ("kopf.zalando.org/KopfFinalizerMarker",)
        schedulers = FakeSchedulers(desired=5)
        controllers = dask_clusters(schedulers), worker_groups(schedulers), dask_jobs
        async with manager(*controllers, dask_autoscalers(schedulers), namespace=where):
            await eventually(of_ours, within=PATIENCE)
            assert await versions(client, where) == before
            assert await job_is("Running")
            await status(client, Deployment, "simple-scheduler", where, replicas=1, readyReplicas=1)
            await eventually(lambda: workers("simple-default", 5), within=PATIENCE)
            await status(client, Pod, "simple-job-runner", where, phase="Succeeded")
            await eventually(lambda: job_is("Successful"), within=PATIENCE)
            await eventually(lambda: workers("simple-job-default", 0), within=PATIENCE)
            assert of_simple.items() < (await versions(client, where, "simple")).items()
            assert [one.name for one in await client.list(Pod, where)] == ["simple-job-runner"]
            await client.delete(await client.get(DaskCluster, "simple", where))
            await eventually(only_the_runner, within=PATIENCE)


def test_the_page_of_the_example_says_how_many_lines_it_has() -> None:
    files = [
        file
        for file in EXAMPLE.glob("*.py")
        if not file.name.startswith("test_") and file.stem != "dask_world"
    ]
    lines = sum(len(file.read_text().splitlines()) for file in files)
    assert f" in {lines} lines;" in (EXAMPLE / "README.md").read_text()
