"""Controllers that come, rest and go while their manager runs."""

import asyncio
from functools import partial

import anyio
import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import CacheSyncFailed
from reconcile import Context, Controller, LeaderElection, Object, ObjectMeta, Watch, resource
from reconcile.kinds import ConfigMap, Secret
from tests.helpers.managers import Toy, ToySpec, World, idle, keep_size, played
from tests.helpers.scenarios import in_world


@frozen
class NothingSpec:
    size: int = 0


@resource("nothings.example.com/v1")
class Nothing(Object):
    """A kind that no server knows."""

    spec: NothingSpec = NothingSpec()


async def touch(ctx: Context[ConfigMap]) -> None:
    seen.append(ctx.object.name)


async def never(ctx: Context[Nothing]) -> None:
    """Never called."""


seen: list[str] = []


@pytest.mark.rule("M1")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_an_added_controller_reconciles_existing_and_new_objects(world: World, seed: int) -> None:
    seen.clear()
    await world.client.create(ConfigMap(metadata=ObjectMeta("before", "default")))
    async with world.running(Controller(Toy, keep_size)) as manager:
        await manager.add(Controller(ConfigMap, touch))
        await anyio.sleep(2)
        await world.client.create(ConfigMap(metadata=ObjectMeta("after", "default")))
        await anyio.sleep(2)
        assert seen == ["before", "after"]
        assert [c.name for c in manager.status().controllers] == ["toy", "configmap"]


@in_world(played)
async def test_a_controller_can_be_added_before_the_start(world: World) -> None:
    manager = world.manager(Controller(Toy, keep_size))
    await manager.add(Controller(Toy, keep_size, name="second"))
    assert [controller.name for controller in manager.controllers] == ["toy", "second"]
    with pytest.raises(ValueError, match="two controllers are named 'second'"):
        await manager.add(Controller(Toy, keep_size, name="second"))
    with pytest.raises(RuntimeError, match="does not run"):
        manager.pause("toy")


@in_world(played)
async def test_a_name_in_use_is_refused_and_becomes_free_after_removal(world: World) -> None:
    watches: list[Watch[Toy, Secret]] = [Watch(Secret, by=lambda toy: toy.spec.secret)]
    async with world.running(Controller(Toy, keep_size)) as manager:
        for _ in range(3):
            await manager.add(Controller(Toy, idle, name="second", watches=watches))
            with pytest.raises(ValueError, match="two controllers are named 'second'"):
                await manager.add(Controller(Toy, idle, name="second"))
            await manager.remove("second")
        with pytest.raises(LookupError, match="no controller 'second' runs here; there are: toy"):
            await manager.remove("second")
        await world.make(size=3)
        await anyio.sleep(2)
        assert (await world.client.get(Toy, "a", "default")).status.size == 3


@in_world(played)
async def test_a_controller_whose_kind_is_not_served_is_refused_and_leaves_the_cache_unchanged(
    world: World,
) -> None:
    async with world.running(Controller(Toy, keep_size), sync_seconds=20) as manager:
        controller = Controller(Nothing, never)
        with pytest.raises(CacheSyncFailed, match=r"no nothings\.nothings\.example\.com"):
            await manager.add(controller)
        status = manager.status()
        assert [c.name for c in status.controllers] == ["toy"]
        assert [i.resource for i in status.informers] == ["toys.toys.example.com"]
        with pytest.raises(LookupError, match="no controller 'nothing' runs here"):
            manager.trigger(controller, "default/a")
        await world.make(size=3)
        await anyio.sleep(2)
        assert (await world.client.get(Toy, "a", "default")).status.size == 3


@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_paused_controller_starts_no_run_and_catches_up_when_resumed(world: World, seed: int) -> None:
    runs: list[int] = []

    async def note(ctx: Context[Toy]) -> None:
        runs.append(ctx.object.spec.size)
        await anyio.sleep(1)

    async with world.running(Controller(Toy, note)) as manager:
        await world.make(size=1)
        await anyio.sleep(0.5)
        manager.pause("toy")
        for size in (2, 3, 4):
            await world.client.modify(Toy, "a", "default", partial(Toy.replace, spec=ToySpec(size=size)))
        await anyio.sleep(100)
        assert runs == [1]
        assert manager.status().controllers[0].paused
        manager.resume("toy")
        await anyio.sleep(5)
        assert runs == [1, 4]
        assert not manager.status().controllers[0].paused


@in_world(played)
async def test_a_manager_stops_while_a_controller_is_paused(world: World) -> None:
    async with world.running(Controller(Toy, idle)) as manager:
        manager.pause("toy")
        await world.make()
        await anyio.sleep(2)
        before = anyio.current_time()
    assert anyio.current_time() - before < 1


@in_world(played)
async def test_removal_awaits_runs_in_progress_cancels_late_ones_and_releases_kinds(world: World) -> None:
    ended: list[str] = []

    async def slow(ctx: Context[ConfigMap]) -> None:
        try:
            await anyio.sleep(2 if ctx.object.name == "short" else 1000)
            ended.append(ctx.object.name)
        except BaseException:
            ended.append(f"{ctx.object.name} cancelled")
            raise

    async with world.running(Controller(Toy, keep_size)) as manager:
        await manager.add(Controller(ConfigMap, slow))
        for name in ("short", "long"):
            await world.client.create(ConfigMap(metadata=ObjectMeta(name, "default")))
        await anyio.sleep(1)
        await manager.remove("configmap")
        assert ended == ["short", "long cancelled"]
        assert [i.resource for i in manager.status().informers] == ["toys.toys.example.com"]


@pytest.mark.rule("M1")
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), delay=st.floats(0, 3))
@in_world(played)
async def test_a_controller_added_while_the_manager_stops_is_awaited_or_refused(
    world: World, seed: int, delay: float
) -> None:
    log: list[str] = []

    async def slow(ctx: Context[ConfigMap]) -> None:
        log.append("begun")
        await anyio.sleep(1)
        log.append("ended")

    tasks = asyncio.all_tasks()
    await world.client.create(ConfigMap(metadata=ObjectMeta("c", "default")))
    manager = world.manager(Controller(Toy, idle))
    controller = Controller(ConfigMap, slow)

    async def add() -> None:
        try:
            await manager.add(controller)
        except RuntimeError:
            log.append("refused")

    async with anyio.create_task_group() as adding:
        async with manager:
            adding.start_soon(add)
            await anyio.sleep(delay)
        stopped = list(log)
    assert log.count("begun") == log.count("ended")
    assert [line for line in log if line != "refused"] == [line for line in stopped if line != "refused"]
    assert "refused" in log or controller.name in [one.name for one in manager.status().controllers]
    assert asyncio.all_tasks() == tasks


@pytest.mark.rule("M1")
@pytest.mark.parametrize("ending", ["stop", "cancel"])
@in_world(played)
async def test_a_controller_that_waits_to_be_added_is_refused_as_soon_as_the_manager_ends(
    world: World, ending: str
) -> None:
    refused: list[float] = []
    manager = world.manager(Controller(Toy, idle))

    async def add() -> None:
        await anyio.sleep(3)
        with pytest.raises(RuntimeError, match="the manager is stopping"):
            await manager.add(Controller(Nothing, never))
        refused.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        group.start_soon(add)
        with anyio.move_on_after(10) as scope:
            if ending == "stop":
                asyncio.get_running_loop().call_later(10, manager.stop)
                scope.deadline = float("inf")
            await manager.run()
    assert 10 <= refused[0] < 11


@in_world(played)
async def test_after_the_stop_no_controller_is_added(world: World) -> None:
    async with world.running(Controller(Toy, idle)) as manager:
        pass
    with pytest.raises(RuntimeError, match="the manager is stopping"):
        await manager.add(Controller(ConfigMap, touch))


@in_world(played)
async def test_a_controller_added_to_a_standby_starts_with_leadership(world: World) -> None:
    seen.clear()
    await world.client.create(ConfigMap(metadata=ObjectMeta("c", "default")))
    first = LeaderElection("toys", "default", identity="first")
    second = LeaderElection("toys", "default", identity="second")
    async with world.running(Controller(Toy, idle), leader_election=first) as leader:
        await anyio.sleep(5)
        async with world.running(Controller(Toy, idle), leader_election=second) as standby:
            await standby.add(Controller(ConfigMap, touch))
            await anyio.sleep(30)
            assert seen == []
            leader.stop()
            await anyio.sleep(30)
            assert seen == ["c"]
