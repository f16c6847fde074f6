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


def cache_with(informers: dict[type[Object], InformerOptions]) -> Cache:
    manager = Manager(informers=informers, namespace="default", environ={})
    return cache_of(manager.options, FakeClient().transport)


@pytest.mark.rule("K5")
def test_what_is_said_of_a_kind_goes_before_what_is_said_of_all_others() -> None:
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


def test_nothing_said_is_everything_kept() -> None:
    assert not cache_with({}).declare(kind_of(Secret).resource).store.lacks("/data")


@pytest.mark.rule("inv-36")
def test_children_that_the_cache_does_not_follow_hold_up_no_run() -> None:
    runs: list[float] = []

    async def keep(ctx: Context[Toy]) -> None:
        runs.append(anyio.current_time())
        data = {"a": str(ctx.object.spec.size)}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=data))
        ctx.status(size=ctx.object.spec.size)

    async def scenario(world: World) -> None:
        followed = {ConfigMap: InformerOptions(labels="app=other")}
        async with world.running(Controller(Toy, keep, owns=[ConfigMap]), informers=followed):
            made = await world.make(size=1)
            for size in (2, 3):
                await anyio.sleep(1)
                await world.client.raw.merge(made, {"spec": {"size": size}})
            await anyio.sleep(30)
        child = await world.client.get(ConfigMap, "child", "default")
        assert child.data == {"a": "3"}
        assert len(runs) == 3
        assert all(later - earlier < 2 for earlier, later in itertools.pairwise(runs))

    played(scenario)


@pytest.mark.rule("write-3")
def test_what_is_not_kept_survives_an_edit_of_what_is() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        child = await ctx.client.get(ConfigMap, "child", "default")
        async with ctx.client.editing(child) as draft:
            draft.data["seen"] = str(ctx.object.spec.size)

    async def scenario(world: World) -> None:
        await world.client.create(ConfigMap(metadata=ObjectMeta("child", "default"), data={"mine": "x"}))
        kept = {ConfigMap: InformerOptions(drop=["/metadata/managedFields", "/data"])}
        controller = Controller(Toy, keep, reads=[ConfigMap], writes=[ConfigMap])
        async with world.running(controller, informers=kept):
            await world.make(size=7)
            await anyio.sleep(5)
        child = await world.client.get(ConfigMap, "child", "default")
        assert child.data == {"mine": "x", "seen": "7"}

    played(scenario)
