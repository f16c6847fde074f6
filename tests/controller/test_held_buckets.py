"""A controller whose objects replicas share by buckets: each works on what it holds, and on nothing else."""

import anyio

from reconcile import Controller
from tests.controller.replicas import FOUR, Replica, Seen, made, working
from tests.helpers.managers import Toy, ToySpec, World, played
from tests.helpers.scenarios import in_world

ALL = range(FOUR.count)


@in_world(played)
async def test_only_objects_in_held_buckets_are_reconciled(world: World) -> None:
    seen = Seen()
    replica = Replica(world, Controller(Toy, seen.keep))
    mine, other = await made(world, 1, "mine"), await made(world, 2, "other")
    async with working(world, replica):
        await anyio.sleep(5)
        assert seen.runs == []
        replica.hold([1])
        await anyio.sleep(5)
        assert seen.runs == ["mine"]
        await world.client.modify(Toy, "mine", "default", lambda toy: toy.replace(spec=ToySpec(size=2)))
        await world.client.modify(Toy, "other", "default", lambda toy: toy.replace(spec=ToySpec(size=2)))
        await anyio.sleep(5)
        assert (seen.count(mine), seen.count(other)) == (2, 0)
        assert set(seen.epochs) == {1}
