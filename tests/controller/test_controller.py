"""When a controller runs a key, and what a failure of one run does to the rest."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from attrs import evolve

from reconcile import Context, Controller, Manager, ObjectMeta, Result, Watch
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import Delay, Fault, FaultPlan, When
from tests.helpers.managers import Toy, World, keep_size, played
from tests.helpers.scenarios import in_world


def sized(size: int) -> Callable[[Toy], Toy]:
    return lambda toy: evolve(toy, spec=evolve(toy.spec, size=size))


@pytest.mark.rule("inv-12")
@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_a_key_requeued_at_once_runs_after_itself_and_never_beside_itself(
    world: World, seed: int
) -> None:
    running: set[str] = set()
    runs: list[str] = []

    async def slow(ctx: Context[Toy]) -> Result:
        assert ctx.object.name not in running
        running.add(ctx.object.name)
        await anyio.sleep(0.5)
        running.discard(ctx.object.name)
        runs.append(ctx.object.name)
        return Result(requeue=runs.count(ctx.object.name) < 5)

    async with world.running(Controller(Toy, slow, workers=4)):
        for name in ("a", "b"):
            await world.make(name)
        for size in range(20):
            await world.client.modify(Toy, "a", "default", sized(size))
            await anyio.sleep(0.05)
        await anyio.sleep(10)
    assert runs.count("b") == 5
    assert runs.count("a") >= 5


@pytest.mark.rule("inv-13")
@in_world(played)
async def test_an_exception_fails_its_own_key_and_nothing_else(world: World) -> None:
    async def fail_one(ctx: Context[Toy]) -> None:
        if ctx.object.name == "bad":
            raise ZeroDivisionError
        ctx.status(size=ctx.object.spec.size)

    async with world.running(Controller(Toy, fail_one, workers=1)) as manager:
        await world.make("bad", size=1)
        await anyio.sleep(5)
        await world.make("good", size=7)
        await anyio.sleep(5)
        assert (await world.client.get(Toy, "good", "default")).status.size == 7
        assert (await world.client.get(Toy, "bad", "default")).status.size == 0
        assert manager.status().controllers[0].failures > 3


@pytest.mark.rule("inv-14")
@in_world(played)
async def test_no_key_runs_before_the_first_lists_of_all_sources_are_complete(world: World) -> None:
    runs: list[float] = []

    async def note(ctx: Context[Toy]) -> None:
        runs.append(anyio.current_time())
        assert [secret.name for secret in await ctx.client.list(Secret, "default")] == ["s"]

    world.transport.plan = FaultPlan([Fault(When("watch", "*/secrets"), Delay(30))])
    world.transport._counts = [0]
    await world.client.create(Secret(metadata=ObjectMeta("s", "default")))
    await world.make()
    begun = anyio.current_time()
    async with world.running(Controller(Toy, note, watches=[Watch(Secret, by=lambda _: None)])):
        await anyio.sleep(10)
    assert runs
    assert min(runs) >= begun + 30


class BrokenTransport(InProcessTransport):
    """Fails in a way that no transport may: with an error that is none of the API's."""

    def stream(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError


@pytest.mark.rule("M2")
@in_world(played)
async def test_an_error_of_a_component_reaches_the_caller_and_leaves_no_task(world: World) -> None:
    before = asyncio.all_tasks()
    controller = Controller(Toy, keep_size, owns=[ConfigMap])
    with pytest.raises(ZeroDivisionError):
        await Manager(controller, transport=BrokenTransport(world.server), clock=world.clock).run()
    assert asyncio.all_tasks() == before
