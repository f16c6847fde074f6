"""Scopes that are cancelled when their time is over, in the order in which they began, by one timer."""

import asyncio
from contextlib import closing

import anyio
import pytest

from reconcile.controller.deadlines import Deadlines, RunLimit
from tests.helpers.scenarios import simulated


@simulated
async def test_each_scope_is_cancelled_at_its_own_deadline() -> None:
    ended: list[tuple[str, float]] = []

    async def hold(deadlines: Deadlines, name: str, seconds: float) -> None:
        with anyio.CancelScope() as scope:
            assert deadlines.watch(scope, asyncio.get_running_loop()) == anyio.current_time() + 10
            await anyio.sleep(seconds)
        deadlines.forget(scope)
        ended.append((f"{name} {'late' if scope.cancelled_caught else 'done'}", anyio.current_time()))

    deadlines = Deadlines(10)
    async with anyio.create_task_group() as group:
        group.start_soon(hold, deadlines, "first", 3)
        await anyio.sleep(1)
        group.start_soon(hold, deadlines, "second", 100)
        await anyio.sleep(4)
        group.start_soon(hold, deadlines, "third", 9)
        group.start_soon(hold, deadlines, "fourth", 100)
    await anyio.sleep(100)
    async with anyio.create_task_group() as group:
        group.start_soon(hold, deadlines, "fifth", 100)
    deadlines.close()
    assert not deadlines._ends
    assert ended == [
        ("first done", 3),
        ("second late", 11),
        ("third done", 14),
        ("fourth late", 15),
        ("fifth late", 125),
    ]


@simulated
async def test_no_deadline_fires_after_closing() -> None:
    deadlines = Deadlines(10)
    with anyio.CancelScope() as scope:
        deadlines.watch(scope, asyncio.get_running_loop())
        deadlines.close()
        await anyio.sleep(20)
    assert not scope.cancelled_caught


@simulated
async def test_a_limit_cancels_only_the_blocks_of_a_task_that_exceed_it() -> None:
    lengths = [3.0, 100.0, 9.0, 100.0, 4.0]
    done: list[float] = []

    deadlines = Deadlines(10)
    with closing(RunLimit(deadlines)) as limit:
        for seconds in lengths:
            began = anyio.current_time()
            with limit:
                assert limit.deadline == began + 10
                await anyio.sleep(seconds)
                done.append(seconds)
            assert anyio.current_time() == began + min(seconds, 10)
            await anyio.sleep(20)  # what follows a block is none of its business
    deadlines.close()
    assert not deadlines._ends
    assert done == [3.0, 9.0, 4.0]


@simulated
async def test_a_limit_passes_on_errors_and_foreign_cancellations() -> None:
    with closing(RunLimit(Deadlines(10))) as limit:
        with pytest.raises(LookupError), limit:
            raise LookupError
        with anyio.move_on_after(5) as outer, closing(RunLimit(limit.deadlines)) as inner, inner:
            await anyio.sleep(100)
        assert outer.cancelled_caught
        assert anyio.current_time() == 5
        with limit:
            await anyio.sleep(100)
        assert anyio.current_time() == 15
