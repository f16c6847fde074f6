"""The fixtures of the plugin: a cluster in virtual time, a server that listens, managers, nodes, faults."""

import asyncio
import datetime

import aiohttp
import anyio
import pytest

from reconcile import ObjectMeta
from reconcile.errors import CacheSyncFailed, Forbidden, ServerError
from reconcile.kinds import ConfigMap, Deployment, DeploymentSpec, LabelSelector, Pod
from reconcile.simulation import Delays
from reconcile.testing import (
    CrashAfter,
    Fault,
    FaultControl,
    ListeningServer,
    ManagerRunner,
    Meanwhile,
    NodesRunner,
    PodPages,
    Touch,
    VirtualClock,
    VirtualCluster,
    VirtualTimeLoop,
    When,
    consistently,
    eventually,
)
from reconcile.testing.polling import NotYet
from tests.helpers.pods import pod
from tests.testing.site_operator import Site, site, sites

CONTAINERS = ({"name": "c", "image": "i", "ports": [{"name": "metrics", "containerPort": 9123}]},)


@pytest.mark.rule("kit-virtual")
async def test_an_operator_runs_on_a_cluster_in_virtual_time(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    began = anyio.current_time()
    assert began < 1
    async with manager(sites()):
        cluster.client.add(site())
        page = await eventually(lambda: cluster.client.find(ConfigMap, "web", "default"))
        assert page.data == {"text": "hello"}
        await anyio.sleep(1800)
    assert anyio.current_time() - began > 1800


@pytest.mark.rule("kit-crash")
async def test_a_crash_ends_the_manager_and_another_continues(
    cluster: VirtualCluster, manager: ManagerRunner, faults: FaultControl
) -> None:
    faults.add(Fault(When("patch", "*/configmaps/*"), CrashAfter()))
    cluster.client.add(site())
    async with manager(sites()):
        await eventually(lambda: faults.crashed)
        await consistently(lambda: faults.writes == ["apply configmaps default/web"])
    async with manager(sites()):
        shown = await eventually(lambda: cluster.client.get(Site, "web", "default"))
        await eventually(lambda: faults.writes[-1] == "patch sites/status default/web")
    assert shown.spec.text == "hello"
    assert len(faults.applied) == 1


@pytest.mark.rule("kit-crash")
async def test_a_manager_can_die_at_any_moment(
    cluster: VirtualCluster, manager: ManagerRunner, faults: FaultControl
) -> None:
    async with manager(sites()):
        faults.crash()
        cluster.client.add(site())
        await consistently(lambda: faults.writes == [])
    async with manager(sites()):
        await eventually(lambda: faults.writes)


async def test_a_failed_assertion_of_a_test_is_not_wrapped(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    with pytest.raises(NotYet, match="within 5 s"):
        async with manager(sites()):
            await eventually(lambda: cluster.client.find(ConfigMap, "nobody", "default"), within=5)


async def test_an_error_of_a_manager_is_raised_where_its_context_is_left(
    cluster: VirtualCluster, manager: ManagerRunner, faults: FaultControl
) -> None:
    faults.fail("list", ConfigMap, Forbidden, times=None)
    faults.fail("watch", ConfigMap, Forbidden, times=None)
    with pytest.raises(CacheSyncFailed):
        async with manager(sites(), sync_seconds=20):
            raise AssertionError("it began")


async def test_pages_are_refused_in_virtual_time(cluster: VirtualCluster, nodes: NodesRunner) -> None:
    with pytest.raises(ValueError, match="real time"):
        async with nodes(1, pages=PodPages()):
            raise AssertionError("it began")


async def test_a_failed_run_is_retried(
    cluster: VirtualCluster, manager: ManagerRunner, faults: FaultControl
) -> None:
    faults.fail("patch", ConfigMap, ServerError, times=3)
    cluster.client.add(site())
    async with manager(sites()):
        await eventually(lambda: cluster.client.get(ConfigMap, "web", "default"))
    assert faults.writes.count("apply configmaps default/web") == 4


@pytest.mark.rule("workloads-scenario")
async def test_a_deployment_has_pods_with_workloads(cluster: VirtualCluster, nodes: NodesRunner) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    async with nodes(1, workloads=True):
        cluster.client.add(
            Deployment(
                metadata=ObjectMeta("web", "default"), spec=DeploymentSpec(LabelSelector(labels), template, 2)
            )
        )

        async def rolled_out() -> bool:
            return (await cluster.client.get(Deployment, "web", "default")).rolled_out

        assert await eventually(rolled_out)
        assert len(await cluster.client.list(Pod)) == 2


async def test_pods_run_on_simulated_nodes(cluster: VirtualCluster, nodes: NodesRunner) -> None:
    async with nodes(2, Delays(start=60)):
        cluster.client.add(pod())

        async def ready() -> bool:
            return (await cluster.client.get(Pod, "p", "default")).ready

        await eventually(ready, within=120)
        assert 60 <= anyio.current_time() < 70


async def test_the_clock_is_that_of_the_cluster(cluster: VirtualCluster, clock: VirtualClock) -> None:
    before = clock.now()
    clock.advance(86_400)
    cluster.client.add(site())
    made = (await cluster.client.get(Site, "web", "default")).metadata.creation_timestamp
    assert made is not None
    assert made - before >= datetime.timedelta(days=1)


@pytest.mark.parametrize("seed", [3, 4])
async def test_a_parameter_called_seed_is_the_seed(seed: int, cluster: VirtualCluster) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    assert (loop.seed, cluster.seed, cluster.clock.seed) == (seed, seed, seed)


def test_a_plain_function_runs_an_async_one_in_virtual_time(cluster: VirtualCluster) -> None:
    async def test() -> float:
        await anyio.sleep(10_000)
        return anyio.current_time()

    assert cluster.run(test, limit_seconds=20_000) == 10_000


@pytest.mark.rule("kit-listening")
async def test_an_operator_runs_on_a_server_that_listens(
    api_server: ListeningServer, manager: ManagerRunner, faults: FaultControl
) -> None:
    faults.fail("patch", ConfigMap, ServerError)
    async with manager(sites(), namespace=api_server.namespace), api_server.connect() as client:
        await client.create(Site(metadata=ObjectMeta("web", api_server.namespace)))
        page = await eventually(lambda: client.get(ConfigMap, "web", api_server.namespace))
        assert page.metadata.owner_references[0].kind == "Site"
        assert api_server.url.startswith("https://127.0.0.1:")
    assert len(faults.applied) == 1


@pytest.mark.rule("kit-pods")
async def test_meanwhile_is_refused_on_a_listening_server(
    api_server: ListeningServer, faults: FaultControl
) -> None:
    with pytest.raises(ValueError, match="need an embedded server"):
        faults.add(Fault(When("write"), Meanwhile(Touch())))


async def test_pods_answer_on_loopback_addresses_with_a_page_of_metrics(
    api_server: ListeningServer, nodes: NodesRunner
) -> None:
    well = True
    pages = PodPages(lambda pod: f'queue{{pod="{pod.name}"}} 3\n' if well else None)
    async with nodes(1, Delays(0.05, 0.05), pages=pages), api_server.connect() as client:
        made = await client.create(pod(namespace=api_server.namespace, containers=CONTAINERS))

        async def address() -> str | None:
            found = await client.get(Pod, "p", api_server.namespace)
            return found.status.pod_ip if found.ready else None

        host = await eventually(address)
        assert host.startswith("127.")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://{host}:9123/metrics") as answer:
                assert (answer.status, await answer.text()) == (200, 'queue{pod="p"} 3\n')
            well = False
            async with session.get(f"http://{host}:9123/metrics") as answer:
                assert answer.status == 503
            await client.delete(made)
            await eventually(lambda: refused(session, f"http://{host}:9123/metrics"))


async def refused(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(1)):
            return False
    except aiohttp.ClientError:
        return True
