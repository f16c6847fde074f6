"""Children carry the bucket of the object whose run made them, so that its holder can follow them."""

import anyio
import pytest

from reconcile import Context, Controller, Intent, ObjectMeta
from reconcile.client.buckets import BUCKET_LABEL
from reconcile.kinds import ConfigMap, Secret
from reconcile.owners import with_owner
from tests.controller.replicas import Replica, made, working
from tests.helpers.managers import Toy, ToyStatus, World, played
from tests.helpers.scenarios import in_world


async def bucket_of(world: World, name: str = "c", kind: type = ConfigMap) -> str | None:
    child = await world.client.get(kind, name, "default")
    return child.metadata.labels.get(BUCKET_LABEL)


async def apply_intent(ctx: Context[Toy]) -> None:
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("c"), data={"a": "1"}))


async def apply_own_label(ctx: Context[Toy]) -> None:
    meta = ObjectMeta("c", labels={BUCKET_LABEL: "mine", "app": "toy"})
    await ctx.apply(Intent(ConfigMap, metadata=meta, data={"a": "1"}))


async def apply_manifest(ctx: Context[Toy]) -> None:
    await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}})


async def create(ctx: Context[Toy]) -> None:
    if not await ctx.owned(ConfigMap):
        await ctx.create(ConfigMap(metadata=ObjectMeta("c"), data={"a": "1"}))


async def create_with_client(ctx: Context[Toy]) -> None:
    if not await ctx.owned(ConfigMap):
        made = ConfigMap(metadata=ObjectMeta("c", "default"), data={"a": "1"})
        await ctx.client.create(with_owner(made, ctx.object, controller=True))


async def adopt(ctx: Context[Toy]) -> None:
    found = await ctx.client.find(ConfigMap, "c", "default")
    if found is None:
        found = await ctx.client.create(ConfigMap(metadata=ObjectMeta("c", "default"), data={"a": "1"}))
    await ctx.client.modify(
        ConfigMap, "c", "default", lambda child: with_owner(child, ctx.object, controller=True)
    )


WAYS = [apply_intent, apply_own_label, apply_manifest, create, create_with_client, adopt]


async def write_status(ctx: Context[Toy]) -> None:
    await ctx.client.modify(
        Toy, "child", "default", lambda child: child.replace(status=ToyStatus(size=1)), subresource="status"
    )


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("way", WAYS)
@in_world(played)
async def test_each_child_gets_the_label_and_a_second_run_writes_nothing(
    world: World, way: object, debug: bool
) -> None:
    replica = Replica(world, Controller(Toy, way, owns=[ConfigMap]), debug=debug)
    await made(world, 3)
    async with working(world, replica):
        replica.hold([3])
        await anyio.sleep(5)
        assert await bucket_of(world) == "3"
        child = await world.client.get(ConfigMap, "c", "default")
        await replica.release([3])
        replica.hold([3], epoch=2)
        await anyio.sleep(5)
        after = await world.client.get(ConfigMap, "c", "default")
        assert after.metadata.resource_version == child.metadata.resource_version
        assert all(not run.error for _, runs in replica.runner.history.recent() for run in runs)
        if way is apply_own_label:
            assert after.metadata.labels["app"] == "toy"


@in_world(played)
async def test_children_with_generated_names_and_secrets_that_are_made_once_get_the_label(
    world: World,
) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.generate_once("password", lambda: "x")
        if not await ctx.owned(ConfigMap):
            await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="c-")))

    replica = Replica(world, Controller(Toy, keep, owns=[ConfigMap], writes=[Secret]))
    await made(world, 3)
    async with working(world, replica):
        replica.hold([3])
        await anyio.sleep(5)
        [child] = await world.client.list(ConfigMap, labels={BUCKET_LABEL: "3"})
        assert child.name.startswith("c-")
        assert await bucket_of(world, "a-generated", Secret) == "3"


@in_world(played)
async def test_what_the_object_does_not_control_gets_no_label(world: World) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.client.apply(Intent(ConfigMap, metadata=ObjectMeta("c", "default"), data={"a": "1"}))
        owned = with_owner(ConfigMap(metadata=ObjectMeta("d", "default")), ctx.object)
        await ctx.client.apply(Intent(lambda: owned))

    replica = Replica(world, Controller(Toy, keep, writes=[ConfigMap], operator="toys.example.com"))
    await made(world, 3)
    async with working(world, replica):
        replica.hold([3])
        await anyio.sleep(5)
        assert (await bucket_of(world), await bucket_of(world, "d")) == (None, None)


@in_world(played)
async def test_the_status_of_a_child_without_the_label_can_be_written(world: World) -> None:
    replica = Replica(world, Controller(Toy, write_status))
    toy, child = await made(world, 3), await made(world, 2, "child")
    owned = with_owner(child, toy, controller=True)
    await world.client.modify(Toy, "child", "default", lambda _: owned)
    async with working(world, replica):
        replica.hold([3])
        await anyio.sleep(5)
        assert (await world.client.get(Toy, "child", "default")).status.size == 1


@in_world(played)
async def test_without_buckets_children_get_no_label(world: World) -> None:
    async with world.running(Controller(Toy, apply_intent, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(5)
        assert await bucket_of(world) is None


@in_world(played)
async def test_a_child_from_before_the_buckets_is_labelled_by_the_next_apply(world: World) -> None:
    await made(world, 3)
    async with world.running(Controller(Toy, apply_intent, owns=[ConfigMap])):
        await anyio.sleep(5)
    replica = Replica(world, Controller(Toy, apply_intent, owns=[ConfigMap]))
    async with working(world, replica):
        replica.hold([3])
        await anyio.sleep(5)
        assert await bucket_of(world) == "3"
