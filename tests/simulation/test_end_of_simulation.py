"""How a simulation ends: what it leaves behind, and what it says of that."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator

import anyio
import pytest

from reconcile.testing import FaultPlan
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.virtual_time import simulate
from tests.helpers.tasks import beside
from tests.simulation.toys import scenario


def test_a_simulation_within_an_event_loop_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="within an event loop"):
            simulate(anyio.sleep, 1)

    simulate(main)


def test_an_error_of_a_task_that_is_cancelled_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse_to_go() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise KeyError("gone with the rest")

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(refuse_to_go())
        await asyncio.sleep(0)
        return task

    assert isinstance(simulate(main).exception(), KeyError)
    assert "was cancelled at the end of a simulation" in caplog.text


def test_an_unfinished_async_generator_is_closed_at_the_end() -> None:
    ended: list[str] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            ended.append("closed")

    async def main() -> AsyncGenerator[int, None]:
        left = numbers()
        await anext(left)
        return left

    assert simulate(main) is not None
    assert ended == ["closed"]


def test_a_cancelled_task_keeps_nothing_alive() -> None:
    class Held:
        pass

    seen: list[weakref.ref[Held]] = []

    async def hold() -> None:
        held = Held()
        seen.append(weakref.ref(held))
        await anyio.sleep_forever()

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(hold())
        async with beside(hold):
            await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task

    gc.disable()
    try:
        task = simulate(main)
        with pytest.raises(asyncio.CancelledError):
            task.exception()
        assert [one() for one in seen] == [None, None]
    finally:
        gc.enable()


def test_a_run_leaves_no_garbage_and_its_world_none_when_it_is_dropped() -> None:
    runner = ScenarioRunner(scenario())
    runner.run(FaultPlan())
    gc.collect()
    gc.disable()
    try:
        run = runner.run(FaultPlan(seed=3))
        assert gc.collect() == 0
        assert run.world.requests
        assert run.world.processes[0].manager is None
        del run
        assert gc.collect() == 0
    finally:
        gc.enable()
