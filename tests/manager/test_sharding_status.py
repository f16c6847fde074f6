"""What replicas that share the objects say of themselves."""

import json

import anyio
import pytest
from anyio.abc import TaskGroup

from reconcile import Controller, Manager
from reconcile.client.buckets import Buckets, in_ranges
from reconcile.commands.explain_command import head
from reconcile.commands.top_command import _share
from reconcile.kinds import ConfigMap, Lease
from reconcile.ops.debug_actions import DebugActions
from reconcile.ops.manager_status import ShardingStatus
from reconcile.sharding import Sharding
from reconcile.sharding.assignment import Orders
from reconcile.sharding.ring import ORDERS
from tests.helpers.managers import Toy, World, idle, keep_size, played
from tests.helpers.scenarios import in_world


async def started(world: World, group: TaskGroup, *identities: str) -> list[Manager]:
    managers = []
    for identity in identities:
        toys = Controller(Toy, keep_size, owns=[ConfigMap])
        maps = Controller(Toy, idle, name="all", sharded=False)
        ring = Sharding("ring", buckets=16, identity=identity)
        manager = world.manager(toys, maps, sharding=ring, stop_seconds=5, ready_when="leading")
        await group.start(manager.run)
        managers.append(manager)
    return managers


def sharding(manager: Manager) -> ShardingStatus:
    status = manager.status().sharding
    assert status is not None
    return status


@in_world(played)
async def test_the_status_of_replicas_adds_up(world: World) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        a, b = await started(world, group, "a", "b")
        await anyio.sleep(30)
        of_a, of_b = sharding(a), sharding(b)
        assert sorted([*of_a.held, *of_b.held]) == list(range(16))
        assert of_a.members == of_b.members == {"a": 8, "b": 8}
        assert (of_a.ring, of_a.identity, of_a.buckets) == ("default/ring", "a", 16)
        assert of_a.leads != of_b.leads
        assert 0 < of_b.epochs[0] <= of_b.epochs[1]
        assert (of_a.warming, of_a.closing) == ([], [])
        assert of_a.followed == {"toys.toys.example.com": "whole", "configmaps": "label"}
        assert a.status().leading
        state = json.loads(json.dumps(a.state()))["sharding"]
        assert (state["holds"], state["held"]) == (8, in_ranges(of_a.held))
        assert _share(state).startswith("a holds 8 of 16 buckets of the ring default/ring, of 2 replicas")
        group.cancel_scope.cancel()


@in_world(played)
async def test_a_key_of_another_replica_is_answered_with_its_name(world: World) -> None:
    for number in range(16):
        await world.make(f"t{number}")
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        a, _ = await started(world, group, "a", "b")
        await anyio.sleep(30)
        held = set(sharding(a).held)
        buckets = a._replica.work.held.buckets if a._replica is not None else None
        assert buckets is not None
        toys = await world.client.list(Toy, "default")
        other = next(toy for toy in toys if buckets.of(toy.uid) not in held)
        toys = [one for one in a._runners if one.name == "toy"]
        actions = DebugActions(lambda: toys, lambda: a._replica, a._why)
        with pytest.raises(LookupError, match=f"the replica b holds Toy default/{other.name}: ask that one"):
            actions.act("trigger", "Toy", f"default/{other.name}")
        with pytest.raises(LookupError, match="reconcile shards default/ring of Toy/default/none names"):
            actions.explain("Toy", "default/none")
        (told,) = actions.explain("Toy", f"default/{other.name}")["controllers"]
        assert told["held_by"] == "b", "it had all of them before there was another"
        where = "the replica b works on it: look there"
        assert next(head(told)) == f"Toy default/{other.name}, controller toy: {where}"
        group.cancel_scope.cancel()


@in_world(played)
async def test_a_key_is_triggered_in_the_controllers_that_this_replica_has_it_in(world: World) -> None:
    toy = await world.make("t")
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        (a,) = await started(world, group, "a")
        await anyio.sleep(10)
        orders = Orders({Buckets(16).of(toy.uid): "a", 16: "b"})
        lease = await world.client.get(Lease, "ring-assignment", "default", live=True)
        await world.client.raw.merge(lease, {"metadata": {"annotations": {ORDERS: orders.to_text()}}})
        await started(world, group, "b")
        await anyio.sleep(30)
        assert not sharding(a).leads
        actions = DebugActions(lambda: a._runners, lambda: a._replica)
        assert actions.act("trigger", "Toy", "default/t")["controllers"] == ["toy"]
        group.cancel_scope.cancel()


@in_world(played)
async def test_a_replica_is_ready_once_it_holds_a_bucket(world: World) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        (a,) = await started(world, group, "a")
        with pytest.raises(RuntimeError, match="this replica holds no bucket"):
            a._check_leader()
        await anyio.sleep(10)
        a._check_leader()
        group.cancel_scope.cancel()


def test_numbers_of_buckets_are_told_as_ranges() -> None:
    assert in_ranges([]) == ""
    assert in_ranges([3]) == "3"
    assert in_ranges([9, 1, 0, 2, 11, 10]) == "0-2, 9-11"
