"""Replicas of one ring that differ in their number of buckets."""

import anyio
import pytest

from reconcile import Controller, Manager
from reconcile.manager.option_list import ConfigurationError
from reconcile.sharding import Sharding
from reconcile.sharding.assignment import AssignmentError
from tests.helpers.managers import Toy, World, keep_size, played
from tests.helpers.scenarios import in_world


def replica(world: World, identity: str, buckets: int) -> Manager:
    ring = Sharding("ring", buckets=buckets, identity=identity)
    return world.manager(Controller(Toy, keep_size), sharding=ring, stop_seconds=5)


def held(manager: Manager) -> int:
    status = manager.status().sharding
    assert status is not None
    return len(status.held)


@in_world(played)
async def test_a_replica_with_another_number_of_buckets_ends_and_takes_nothing(world: World) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        first = replica(world, "b", 16)
        await group.start(first.run)
        await anyio.sleep(5)
        with pytest.raises(
            ConfigurationError, match="the ring default/ring has 16 buckets, and this replica"
        ):
            await replica(world, "a", 32).run()
        await anyio.sleep(30)
        assert held(first) == 16
        group.cancel_scope.cancel()


@in_world(played)
async def test_of_two_first_replicas_with_different_numbers_of_buckets_one_works(world: World) -> None:
    managers = {"a": replica(world, "a", 16), "b": replica(world, "b", 32)}
    ended: set[str] = set()

    async def run(name: str) -> None:
        try:
            await managers[name].run()
        except (AssignmentError, ConfigurationError):
            ended.add(name)

    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        for name in managers:
            group.start_soon(run, name)
        await anyio.sleep(60)
        assert len(ended) == 1
        (works,) = managers.keys() - ended
        assert held(managers[works]) == {"a": 16, "b": 32}[works]
        group.cancel_scope.cancel()
