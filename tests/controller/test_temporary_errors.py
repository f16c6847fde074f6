"""Failures that say when to try again."""

import copy
import itertools
import math
import pickle
from datetime import timedelta
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller
from reconcile.errors import TemporaryError, TerminalError
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world

pytestmark = pytest.mark.rule("temporary")


async def gaps_of(world: World, *errors: Exception | None, seconds: float = 100.0) -> list[tuple[float, int]]:
    """Seconds from each run to the next, with how often the next had failed; the last error goes on."""
    runs: list[tuple[float, int]] = []

    async def keep(ctx: Context[Toy]) -> None:
        error = errors[min(len(runs), len(errors) - 1)]
        runs.append((anyio.current_time(), ctx.attempt))
        if error is not None:
            raise error

    async with world.running(Controller(Toy, keep)):
        await world.make()
        await anyio.sleep(seconds)
    return [(round(after - before, 3), failed) for (before, _), (after, failed) in itertools.pairwise(runs)]


@in_world(played)
async def test_a_failed_run_is_tried_again_after_the_delay_of_its_error(world: World) -> None:
    gaps = await gaps_of(
        world, TemporaryError("quota", delay=30), TemporaryError("quota", timedelta(seconds=7)), None
    )
    assert gaps == [(30.0, 1), (7.0, 2)]


@in_world(played)
async def test_the_failures_count_for_the_back_off_of_other_errors(world: World) -> None:
    late = TemporaryError("late", 10)
    gaps = await gaps_of(world, *[late] * 6, OSError("down"), None)
    assert [gap for gap, _ in gaps[:6]] == [10.0] * 6
    assert gaps[6][0] >= 0.005 * 2**5  # as the seventh failure in a row


@in_world(played)
async def test_of_several_errors_the_shortest_delay_counts_unless_one_has_none(world: World) -> None:
    both = ExceptionGroup("two", [TemporaryError("a", 30), TemporaryError("b", 20)])
    given_up = ExceptionGroup("two", [TerminalError("a"), TemporaryError("b", 15)])
    mixed = ExceptionGroup("two", [OSError("a"), TemporaryError("b", 50)])
    gaps = await gaps_of(world, both, given_up, mixed, None)
    assert [gap for gap, _ in gaps[:2]] == [20.0, 15.0]
    assert gaps[2][0] < 1.0


@in_world(played)
async def test_a_delay_that_has_passed_is_paced(world: World) -> None:
    gaps = await gaps_of(world, TemporaryError("now", -5), seconds=1)
    assert {gap >= 0.005 for gap, _ in gaps} == {True}


@pytest.mark.parametrize("delay", [math.nan, math.inf, "soon", True])
def test_a_delay_that_is_no_time_is_refused(delay: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"TemporaryError\(delay=\)"):
        TemporaryError("", delay)


@pytest.mark.parametrize("remake", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_has_the_delay(remake: Any) -> None:
    error = remake(TemporaryError("quota", delay=30))
    assert (str(error), error.delay) == ("quota", 30.0)


class Busy(TemporaryError):
    """Does not call `__init__` of its base, which Python allows."""

    def __init__(self, host: str, delay: Any = None) -> None:
        self.host = host
        if delay is not None:
            self.delay = delay


@pytest.mark.parametrize(
    ("error", "gap"),
    [(Busy("a"), 60.0), (Busy("a", 5), 5.0), (Busy("a", "soon"), 0.005), (Busy("a", math.nan), 0.005)],
)
def test_a_subclass_of_whatever_kind_ends_no_manager(error: TemporaryError, gap: float) -> None:
    async def scenario(world: World) -> None:
        (waited, _), *_ = await gaps_of(world, error, None, seconds=100)
        assert waited == pytest.approx(gap, rel=0.5)

    played(scenario)
