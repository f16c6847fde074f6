"""Scopes that are cancelled when their time is over, in the order in which they began, by one timer."""

import anyio

from reconcile.deadlines import Deadlines
from reconcile.testing import simulate


def test_each_scope_is_cancelled_when_its_own_time_is_over() -> None:
    ended: list[tuple[str, float]] = []

    async def hold(deadlines: Deadlines, name: str, seconds: float) -> None:
        with anyio.CancelScope() as scope:
            assert deadlines.watch(scope) == anyio.current_time() + 10
            await anyio.sleep(seconds)
        deadlines.forget(scope)
        ended.append((f"{name} {'late' if scope.cancelled_caught else 'done'}", anyio.current_time()))

    async def run() -> None:
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

    simulate(run)
    assert ended == [
        ("first done", 3),
        ("second late", 11),
        ("third done", 14),
        ("fourth late", 15),
        ("fifth late", 125),
    ]


def test_after_the_end_nothing_strikes() -> None:
    async def run() -> None:
        deadlines = Deadlines(10)
        with anyio.CancelScope() as scope:
            deadlines.watch(scope)
            deadlines.close()
            await anyio.sleep(20)
        assert not scope.cancelled_caught

    simulate(run)
