"""A manager that follows and keeps less of a kind works as one that keeps all."""

import itertools

import anyio
import pytest

from informers import Cache, InformerOptions
from reconcile import Context, Controller, Intent, Manager, Object, ObjectMeta, kind_of
from reconcile.kinds import ConfigMap, Pod, Secret
from reconcile.manager.assembly import cache_of
from reconcile.testing import FakeClient
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world


def cache_with(informers: dict[type[Object], InformerOptions]) -> Cache:
    manager = Manager(informers=informers, namespace="default", environ={})
    return cache_of(manager.options, FakeClient().transport)


@pytest.mark.rule("K5")
def test_informer_options_of_a_kind_override_those_of_all_others() -> None:
    cache = cache_with(
        {Object: InformerOptions(drop=["/data", "/spec"]), Secret: InformerOptions(drop=["/type"])}
    )
    lacks = {
        kind: [place for place in ("/data", "/spec", "/type") if store.lacks(place)]
        for kind in (Pod, Secret)
        for store in [cache.declare(kind_of(kind).resource).store]
    }
    assert lacks == {Pod: ["/data", "/spec"], Secret: ["/type"]}
    assert all([*informer.namespaces] == ["default"] for informer in cache)


@pytest.mark.rule("inv-36")
@in_world(played)
async def test_children_outside_the_cache_delay_no_run(world: World) -> None:
    runs: list[float] = []

    async def keep(ctx: Context[Toy]) -> None:
        runs.append(anyio.current_time())
        data = {"a": str(ctx.object.spec.size)}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=data))
        ctx.status(size=ctx.object.spec.size)

    followed = {ConfigMap: InformerOptions(labels="app=other")}
    async with world.running(Controller(Toy, keep, owns=[ConfigMap]), informers=followed):
        made = await world.make(size=1)
        for size in (2, 3):
            await anyio.sleep(1)
            await world.client.raw.merge(made, {"spec": {"size": size}})
        await anyio.sleep(30)
    assert (await world.client.get(ConfigMap, "child", "default")).data == {"a": "3"}
    assert len(runs) == 3
    assert all(later - earlier < 2 for earlier, later in itertools.pairwise(runs))


@pytest.mark.rule("write-3")
@in_world(played)
async def test_fields_dropped_from_the_cache_survive_an_edit_of_others(world: World) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        child = await ctx.client.get(ConfigMap, "child", "default")
        async with ctx.client.editing(child) as draft:
            draft.data["seen"] = str(ctx.object.spec.size)

    await world.client.create(ConfigMap(metadata=ObjectMeta("child", "default"), data={"mine": "x"}))
    kept = {ConfigMap: InformerOptions(drop=["/metadata/managedFields", "/data"])}
    controller = Controller(Toy, keep, reads=[ConfigMap], writes=[ConfigMap])
    async with world.running(controller, informers=kept):
        await world.make(size=7)
        await anyio.sleep(5)
    child = await world.client.get(ConfigMap, "child", "default")
    assert child.data == {"mine": "x", "seen": "7"}
