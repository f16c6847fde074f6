"""A manager from start to stop, in virtual time, on late watches and a server in process."""

import anyio
import pytest

from informers import CacheSyncFailed
from reconcile import Context, Controller, Key, Manager, ObjectMeta, Result
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient
from tests.helpers.managers import Toy, ToySpec, World, keep_size, played
from tests.helpers.scenarios import in_world, simulated


@pytest.mark.rule("inv-36")
@pytest.mark.parametrize("seed", range(10))
@in_world(played)
async def test_a_run_sees_the_writes_of_the_previous_run_however_late_the_watch_is(
    world: World, seed: int
) -> None:
    async def make_one(ctx: Context[Toy]) -> Result:
        if not await ctx.owned(ConfigMap):
            await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="child-")))
        return Result()

    runs = 0

    async def limited(ctx: Context[Toy]) -> Result:
        nonlocal runs
        runs += 1
        await make_one(ctx)
        return Result(requeue_after=0.001 if runs < 20 else None)

    async with world.running(Controller(Toy, limited, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(30)
        assert runs >= 20
        assert len(await world.client.list(ConfigMap, "default")) == 1


@pytest.mark.parametrize("seed", range(10))
@in_world(played)
async def test_a_deletion_counts_as_done_in_the_next_run_however_late_the_watch_is(
    world: World, seed: int
) -> None:
    runs = 0

    async def keep_three(ctx: Context[Toy]) -> Result:
        nonlocal runs
        runs += 1
        children = [child for child in await ctx.owned(ConfigMap) if not child.terminating]
        if not children and runs <= 2:  # the first is repeated before a name is generated
            for _ in range(5):
                await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="c-", finalizers=("x.io/y",))))
        elif len(children) > 3:
            await ctx.delete(children[0])
        return Result(requeue_after=0.001 if runs < 20 else None)

    async with world.running(Controller(Toy, keep_three, owns=[ConfigMap])):
        await world.make()
        await anyio.sleep(60)
        left = await world.client.list(ConfigMap, "default")
        assert [child.terminating for child in left].count(True) == 2


@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_cleanup_runs_before_an_object_is_removed_and_exactly_until_it_succeeds(
    world: World, seed: int
) -> None:
    calls: list[str] = []

    async def clean(ctx: Context[Toy]) -> None:
        calls.append(ctx.object.name)
        if len(calls) < 3:
            raise RuntimeError("not yet")

    async with world.running(Controller(Toy, keep_size, cleanup=clean)):
        await world.make()
        await anyio.sleep(2)
        assert len((await world.client.get(Toy, "a", "default")).metadata.finalizers) == 1
        await world.client.delete(await world.client.get(Toy, "a", "default"))
        await anyio.sleep(10)
        assert await world.client.find(Toy, "a", "default") is None
    assert calls == ["a"] * 3


@simulated
async def test_a_kind_that_the_server_does_not_serve_fails_the_start_with_a_hint() -> None:
    manager = World().manager(Controller(Toy, keep_size))
    with pytest.raises(CacheSyncFailed, match=r"no toys\.toys\.example\.com.*install its CustomResource"):
        await manager.run()


@in_world(played)
async def test_a_clean_stop_lets_a_run_finish_and_cancels_a_late_one(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    async def slow(ctx: Context[Toy]) -> None:
        await anyio.sleep(2 if ctx.object.name == "short" else 1000)
        ended.append(ctx.object.name)

    async with world.running(Controller(Toy, slow)):
        await world.make("short")
        await world.make("long")
        await anyio.sleep(1)
    assert ended == ["short"]
    (said,) = [vars(record) for record in caplog.records if "did not end in time" in record.getMessage()]
    assert (said["seconds"], said["keys"]) == (5, ["toy default/long"])


@in_world(played)
async def test_a_manager_limited_to_a_namespace_leaves_others_alone(world: World) -> None:
    async with world.running(Controller(Toy, keep_size), namespace="default"):
        await world.make(size=4)
        await world.client.create(Toy(metadata=ObjectMeta("b", "kube-system"), spec=ToySpec(size=4)))
        await anyio.sleep(5)
        assert (await world.client.get(Toy, "a", "default")).status.size == 4
        assert (await world.client.get(Toy, "b", "kube-system")).status.size == 0


@simulated
async def test_a_manager_on_a_fake_client_gets_late_watch_events() -> None:
    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")), seed=3)
    async with Manager(Controller(Toy, keep_size), transport=client.transport, clock=client.clock) as manager:
        client.add(Toy(metadata=ObjectMeta("b", "default"), spec=ToySpec(size=2)))
        assert await manager.client.find(Toy, "b", "default") is None
        await anyio.sleep(2)
        assert (await manager.client.get(Toy, "b", "default")).status.size == 2


async def test_a_manager_is_an_async_context_with_an_embedded_server() -> None:
    async with Manager(Controller(Toy, keep_size), embedded=True) as manager:
        made = await manager.client.create(Toy(metadata=ObjectMeta("a", "default"), spec=ToySpec(size=3)))
        with anyio.fail_after(10):
            while (await manager.client.get(Toy, "a", "default", live=True)).status.size != 3:
                await anyio.sleep(0.01)
        assert made.key == Key("default", "a")
