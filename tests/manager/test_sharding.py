"""Replicas that share the objects of an operator, in one process and in virtual time."""

from collections import defaultdict
from typing import Any

import anyio
from anyio.abc import TaskGroup

from reconcile import Context, Controller, Manager
from reconcile.client.buckets import BUCKET_LABEL, Buckets
from reconcile.kinds import ConfigMap
from reconcile.models import Intent, ObjectMeta
from reconcile.owners import with_owner
from reconcile.sharding import Sharding
from reconcile.testing import Drop, Fault, FaultPlan, FaultyTransport, When
from tests.helpers.managers import Toy, ToySpec, World, played
from tests.helpers.scenarios import in_world

OBJECTS = 30


def grown(toy: Toy) -> Toy:
    return toy.replace(spec=ToySpec(toy.spec.size + 1))


class Replicas:
    """Managers of one ring; which runs which object, and who ran it in which epochs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.running: dict[str, str] = {}
        self.runs: dict[str, list[str]] = defaultdict(list)
        self.epochs: dict[str, int] = defaultdict(int)
        self.managers: dict[str, Manager] = {}

    def controller(self, identity: str, **options: Any) -> Controller[Toy]:
        async def keep(ctx: Context[Toy]) -> None:
            name = ctx.object.name
            assert name not in self.running, f"{name} runs in {identity} and in {self.running[name]}"
            assert ctx.epoch >= self.epochs[name] > -1
            self.epochs[name] = ctx.epoch
            self.running[name] = identity
            try:
                size = str(ctx.object.spec.size)
                await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"of-{name}"), data={"size": size}))
                await anyio.sleep(0.01)
                self.runs[name].append(identity)
            finally:
                del self.running[name]

        return Controller(Toy, keep, owns=[ConfigMap], **options)

    async def start(self, identity: str, group: TaskGroup, **options: Any) -> Manager:
        ring = Sharding("ring", buckets=16, identity=identity)
        manager = self.world.manager(self.controller(identity, **options), sharding=ring, stop_seconds=10)
        self.managers[identity] = manager
        await group.start(manager.run)
        return manager

    async def touch_all(self) -> dict[str, str]:
        """Change every object, and say who worked on it then."""
        before = {name: len(runs) for name, runs in self.runs.items()}
        for number in range(OBJECTS):
            await self.world.client.modify(Toy, f"t{number}", "default", change=grown)
        await anyio.sleep(2)
        late = [name for name, runs in self.runs.items() if len(runs) == before[name]]
        assert not late, f"not run: {late}"
        return {name: runs[-1] for name, runs in self.runs.items()}


@in_world(played)
async def test_replicas_share_all_objects_and_each_object_has_one_owner(world: World) -> None:
    replicas = Replicas(world)
    for number in range(OBJECTS):
        await world.make(f"t{number}", size=number)
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        await replicas.start("a", group)
        await anyio.sleep(5)
        assert set(replicas.runs) == {f"t{number}" for number in range(OBJECTS)}
        await replicas.start("b", group)
        await replicas.start("c", group)
        await anyio.sleep(30)
        owners = await replicas.touch_all()
        assert set(owners.values()) == {"a", "b", "c"}
        for child in await world.client.list(ConfigMap, "default"):
            (owner,) = child.metadata.owner_references
            assert child.metadata.labels[BUCKET_LABEL] == Buckets(16).label(Buckets(16).of(owner.uid))
        replicas.managers["b"].stop()
        await anyio.sleep(12)
        assert set((await replicas.touch_all()).values()) == {"a", "c"}
        group.cancel_scope.cancel()


@in_world(played)
async def test_a_replica_that_is_stopped_before_it_has_joined_just_ends(world: World) -> None:
    world.transport = FaultyTransport(
        world.transport, FaultPlan((Fault(When("create", "*/leases", times=None), Drop()),))
    )
    replicas = Replicas(world)
    async with anyio.create_task_group() as group:
        manager = world.manager(replicas.controller("a"), sharding=Sharding("ring", identity="a"))
        group.start_soon(world.server.run)
        async with anyio.create_task_group() as managers:
            managers.start_soon(manager.run)
            await anyio.sleep(5)
            manager.stop()
        group.cancel_scope.cancel()


@in_world(played)
async def test_children_without_the_right_label_get_it_before_a_replica_works_on_their_owner(
    world: World,
) -> None:
    replicas = Replicas(world)
    toys = [await world.make(f"t{number}", size=number) for number in range(4)]
    wrong = {BUCKET_LABEL: "none"}
    for toy, labels in zip(toys, ({}, wrong, {}, wrong), strict=True):
        child = ConfigMap(metadata=ObjectMeta(f"old-{toy.name}", "default", labels=labels))
        await world.client.create(with_owner(child, toy, controller=True))
    foreign = await world.client.create(ConfigMap(metadata=ObjectMeta("foreign", "default")))
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        await replicas.start("a", group)
        await anyio.sleep(5)
        for toy in toys:
            assert await label_of(world, f"old-{toy.name}") == bucket_of(toy)
        assert (await world.client.get(ConfigMap, "foreign", "default")).metadata == foreign.metadata
        group.cancel_scope.cancel()


@in_world(played)
async def test_a_child_that_another_owner_adopts_moves_to_the_replica_of_that_owner(world: World) -> None:
    replicas = Replicas(world)
    toys = [await world.make(f"t{number}", size=number) for number in range(4)]
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        await replicas.start("a", group)
        await replicas.start("b", group)
        await anyio.sleep(10)
        old, new = toys[0], next(toy for toy in toys[1:] if bucket_of(toy) != bucket_of(toys[0]))

        def adopted(child: ConfigMap) -> ConfigMap:
            return with_owner(child.with_metadata(owner_references=()), new, controller=True)

        assert await label_of(world, f"of-{old.name}") == bucket_of(old)
        await world.client.modify(ConfigMap, f"of-{old.name}", "default", adopted)
        await anyio.sleep(1)
        assert await label_of(world, f"of-{old.name}") == bucket_of(new)
        group.cancel_scope.cancel()


def bucket_of(toy: Toy) -> str:
    return Buckets(16).label(Buckets(16).of(toy.uid))


async def label_of(world: World, child: str) -> str:
    return (await world.client.get(ConfigMap, child, "default")).metadata.labels.get(BUCKET_LABEL, "")
