"""Groups in one cluster, their nodes and pods in another."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from controllers.nodegroups import NodeGroupSettings, make_controller
from reconcile import Manager, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import NotFound
from reconcile.kinds import Namespace, Node, Pod
from reconcile.models import encode
from reconcile.simulation import Delays
from reconcile.testing import Drop, Fault, FaultPlan, FaultyTransport, When
from tests.controllers.nodegroups import (
    API,
    MACHINES,
    OFFER,
    QUICK,
    SOON,
    ask,
    autoscaler,
    bind,
    condition,
    definitions,
    group,
    nodes,
    size_of,
)
from tests.controllers.world import NAMESPACE, World, world
from tests.helpers.scenarios import simulated


@pytest.mark.rule("node-groups-clusters")
@simulated
async def test_groups_of_a_management_cluster_are_sized_by_the_pods_of_another() -> None:
    async with world(1, *definitions(), delays=Delays()) as here:
        server = ApiServer(clock=here.clock)
        workload = InProcessTransport(server)
        there = World(1, here.clock, workload, type(here.user)(workload, clock=here.clock))
        await there.user.create(Namespace(metadata=ObjectMeta(NAMESPACE)))
        await here.user.create(group("g", 0, ("0", "10"), **OFFER))
        await here.user.create(autoscaler(workload="work"))
        ours = make_controller(NodeGroupSettings(API), management="manage")
        manager = Manager(ours, clusters={"manage": here.transport, "work": workload}, clock=here.clock)
        async with manager:
            await ask(here, "not-this-one")
            await ask(there, "a", "b")
            await anyio.sleep(60)
            assert await size_of(here.user, "g") == 2
        with pytest.raises(NotFound):
            await there.user.get(API.kind("MachineDeployment"), "g", NAMESPACE)


@asynccontextmanager
async def two_clusters(*faults: Fault) -> AsyncIterator[tuple[World, World]]:
    """A group of two machines in one cluster, and their nodes in another, on a way with faults."""
    async with world(1, *definitions(), delays=Delays()) as here:
        server = ApiServer(clock=here.clock)
        workload = InProcessTransport(server)
        there = World(1, here.clock, workload, type(here.user)(workload, clock=here.clock))
        await there.user.create(Namespace(metadata=ObjectMeta(NAMESPACE)))
        await here.user.create(group("g", 2, ("0", "10"), **OFFER, **SOON))
        ours = make_controller(NodeGroupSettings(API), management="manage")
        ways = {"manage": here.transport, "work": FaultyTransport(workload, FaultPlan(faults))}
        async with Manager(MACHINES.controller, transport=here.transport, clock=here.clock):
            await anyio.sleep(30)
            for node in await here.user.list(Node):
                await copied(there, node)
            await here.user.create(autoscaler(workload="work", scale_down=QUICK))
            async with Manager(ours, clusters=ways, clock=here.clock):
                yield here, there


async def copied(there: World, node: Node) -> None:
    plain = encode(node)
    metadata = {"name": node.name, "labels": plain["metadata"]["labels"]}
    made = await there.user.create({**plain, "metadata": metadata})
    await there.user.raw.merge(made, {"status": plain["status"]}, guard={}, subresource="status")


@pytest.mark.rule("node-groups-clusters")
@simulated
async def test_an_idle_node_in_another_cluster_has_its_machine_deleted_in_this_one() -> None:
    async with two_clusters() as (here, there):
        busy, _ = await nodes(here)
        await bind(there, "b1", busy, owned=False, cpu="3")
        await anyio.sleep(300)
        assert await size_of(here.user, "g") == 1
        assert await nodes(here) == [busy]
        assert await there.user.find(Pod, "b1", NAMESPACE) is not None


@pytest.mark.rule("node-groups-clusters")
@simulated
async def test_nothing_is_sized_and_a_condition_says_why_while_the_other_clusters_nodes_are_unreadable() -> (
    None
):
    unread = Fault(When(path="*/nodes", times=None), Drop())
    async with two_clusters(unread) as (here, there):
        await ask(there, "a", "b")
        await anyio.sleep(900)
        assert await size_of(here.user, "g") == 2
        assert await condition(here, "Ready") == (
            "False",
            "GET /api/v1/nodes: the connection was refused (a planned fault)",
        )
        assert len(await nodes(here)) == 2
