"""Tests of a good operator, which every type checker must accept without a word."""

from typing import assert_type

from good import Site, SiteSpec, keep_site, sites

from reconcile import Controller, Manager, ObjectMeta, Snapshot
from reconcile.errors import Conflict
from reconcile.kinds import ConfigMap, Deployment
from reconcile.simulation import Delays
from reconcile.testing import (
    Apply,
    CrashAfter,
    Delete,
    FakeClient,
    Fault,
    FaultControl,
    FaultPlan,
    ListeningServer,
    ManagerRunner,
    NodesRunner,
    PodPages,
    RunReport,
    Scenario,
    ScenarioReport,
    ScenarioRun,
    VirtualCluster,
    When,
    World,
    consistently,
    eventually,
    fuzz,
    replay,
    run_once,
    sweep,
)

WEB = Site(metadata=ObjectMeta("web", "default"), spec=SiteSpec("nginx:1.29"))


async def test_one_pass() -> None:
    client = FakeClient(WEB, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    client.fail("patch", Deployment, Conflict, times=2)
    client.fail("*", "*/sites/*", 503, times=None)
    done = await run_once(sites, WEB, client)
    assert_type(done, RunReport)
    assert list(done.writes) == []


async def test_a_manager(
    cluster: VirtualCluster, manager: ManagerRunner, nodes: NodesRunner, faults: FaultControl
) -> None:
    faults.add(Fault(When("create"), CrashAfter()))
    faults.fail("delete", ConfigMap, 500)
    async with nodes(2, Delays(start=3)), manager(sites, workers=1) as running:
        assert_type(running, Manager)
        found = await eventually(lambda: cluster.client.find(ConfigMap, "web", "default"), within=5)
        assert_type(found, ConfigMap)
        assert_type(await eventually(lambda: len(faults.writes)), int)
        await consistently(lambda: faults.applied == [], during=3)


async def test_a_server(api_server: ListeningServer, nodes: NodesRunner) -> None:
    async with nodes(pages=PodPages(lambda pod: pod.name)), api_server.connect() as client:
        assert_type(await client.find(ConfigMap, "web", api_server.namespace), ConfigMap | None)


def wakes(old: Snapshot, new: Snapshot) -> bool:
    return old.uid != new.uid


def one_deployment(world: World) -> None:
    assert len(world.objects(Deployment)) <= 1


async def somebody_leaves(world: World) -> None:
    await world.user.delete(WEB)


def test_a_scenario() -> None:
    scenario = Scenario(
        controllers=lambda: Controller(Site, keep_site, owns=[Deployment], wakes=wakes),
        steps=[Apply(WEB), somebody_leaves, Delete(WEB)],
        invariants=[one_deployment],
    )
    assert_type(sweep(scenario), ScenarioReport)
    assert_type(fuzz(scenario, seconds=1), ScenarioReport)
    assert_type(replay(scenario, FaultPlan()), ScenarioRun)
