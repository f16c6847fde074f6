"""Whose failure it was that a run met in an outage: the server's, the key's own, or another cluster's."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from informers import Unreachable
from reconcile import Backoff, Context, Controller, Manager
from reconcile.client.own_writes import CacheBehind
from reconcile.controller.outage_recovery import is_of_outage
from reconcile.errors import ApiError, TerminalError
from reconcile.kinds import ConfigMap
from tests.controller.outage import World, child, fair, played, refused
from tests.helpers.managers import Toy, idle
from tests.helpers.scenarios import in_world, simulated

AT_REST = 2.0
"""Seconds after an outage within which all is done that takes no time itself."""


class Unhappy(Exception):
    """An author's own."""


async def rewrap(ctx: Context[Toy]) -> None:
    try:
        await ctx.apply(child(ctx, "done"))
    except ApiError as error:
        raise Unhappy("could not be annotated") from error


async def within(ctx: Context[Toy]) -> None:
    try:
        await ctx.apply(child(ctx, "done"))
    except ApiError:
        raise Unhappy("could not be annotated")  # noqa: B904 - as many authors write it


async def together(ctx: Context[Toy]) -> None:
    async with anyio.create_task_group() as group:
        for name in ("one", "two"):
            group.start_soon(ctx.apply, child(ctx, "done", name))


async def lenient(ctx: Context[Toy]) -> None:
    """Catches the error, and says nothing of it."""
    try:
        await ctx.apply(child(ctx, "done"))
    except ApiError:
        return


@pytest.mark.rule("outage-3")
@pytest.mark.parametrize("reconcile", [rewrap, within, together, lenient])
@in_world(partial(played, toys=1))
async def test_an_outage_is_recognised_in_wrapped_grouped_and_caught_errors(
    world: World, reconcile: Callable[[Context[Toy]], Awaitable[Any]]
) -> None:
    runs: list[tuple[float, int]] = []

    async def noted(ctx: Context[Toy]) -> None:
        runs.append((anyio.current_time(), ctx.attempt))
        await anyio.sleep(1)  # the outage begins here
        await reconcile(ctx)

    controller = Controller(Toy, noted, workers=1, backoff=Backoff(base=100), owns=[ConfigMap])
    async with world.running(controller):
        await anyio.sleep(0.5)
        world.line.break_down(refused)
        await anyio.sleep(60)
        assert len(runs) == 1
        world.line.weather = fair
        await anyio.sleep(AT_REST)
        (_, (_, attempt), *_) = runs
        assert attempt == 0


@pytest.mark.rule("outage-3")
@simulated
async def test_a_key_that_failed_on_another_cluster_resumes_when_that_one_answers() -> None:
    runs: list[float] = []

    async def reach_across(ctx: Context[Toy]) -> None:
        runs.append(anyio.current_time())
        await ctx.client_of("west").get(Toy, "toy-0", "default", live=True)

    east, west = World(1), World(2)
    for world in (east, west):
        await world.stock(1)
    manager = Manager(
        Controller(Toy, reach_across, clusters=["east"], backoff=Backoff(base=100)),
        Controller(ConfigMap, idle, clusters=["west"]),
        clusters={"east": east.line, "west": west.line},
        clock=east.clock,
        environ={},
    )
    async with anyio.create_task_group() as group:
        for world in (east, west):
            group.start_soon(world.server.run)
        await group.start(manager.run)
        await anyio.sleep(5)
        runs.clear()
        west.line.break_down(refused)
        await anyio.sleep(1)
        await east.resize(2)
        await anyio.sleep(20)
        assert len(runs) == 1
        assert [cluster.reachable for cluster in manager.status().clusters] == [True, False]
        west.line.weather = fair
        await anyio.sleep(AT_REST)
        assert len(runs) == 2
        manager.stop()
        await anyio.sleep(1)
        group.cancel_scope.cancel()


def raised(raise_it: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - any of them
        raise_it()
    return caught.value


def from_unreachable() -> None:
    raise Unhappy from Unreachable("refused")


def cut_off() -> None:
    try:
        raise Unreachable("refused")
    except Unreachable:
        raise Unhappy from None


def in_a_circle() -> None:
    one, other = Unhappy(), Unhappy()
    one.__cause__, other.__cause__ = other, one
    raise one


@pytest.mark.rule("outage-3")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("refused"), True),
        (CacheBehind("it does not come"), True),
        (raised(from_unreachable), True),
        (raised(cut_off), False),
        (raised(in_a_circle), False),
        (ExceptionGroup("both", [Unreachable("one"), raised(from_unreachable)]), True),
        (ExceptionGroup("one of them", [Unreachable("one"), ValueError("its own")]), False),
        (ConnectionRefusedError("another system"), False),
        (TerminalError("for good"), False),
    ],
)
def test_an_error_belongs_to_an_outage_only_if_all_its_causes_do(
    error: BaseException, expected: bool
) -> None:
    assert is_of_outage(error) is expected
