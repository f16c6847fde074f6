"""The virtual clock: wall time that follows the loop, chance and identity that follow the seed."""

import asyncio
import datetime

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.clock import Clock
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import simulate

SEEDS = st.integers(0, 2**32)


def test_a_virtual_clock_is_a_clock() -> None:
    clock: Clock = VirtualClock()
    assert clock.now() == datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def test_outside_a_loop_the_clock_stands_still_and_can_be_advanced() -> None:
    clock = VirtualClock()
    assert clock.now() == clock.now() == clock.start
    clock.advance(61.5)
    assert clock.now() == clock.start + datetime.timedelta(seconds=61.5)


def test_the_clock_never_goes_back() -> None:
    with pytest.raises(ValueError, match="never goes back"):
        VirtualClock().advance(-1)


def test_a_start_without_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        VirtualClock(start=datetime.datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_start_in_another_time_zone_is_converted_to_utc() -> None:
    east = datetime.timezone(datetime.timedelta(hours=2))
    clock = VirtualClock(start=datetime.datetime(2026, 1, 1, 2, tzinfo=east))
    assert clock.now().isoformat() == "2026-01-01T00:00:00+00:00"


async def test_the_clock_shows_its_start_plus_the_virtual_time_whenever_it_is_first_read() -> None:
    began = anyio.current_time()
    await anyio.sleep(3600)
    clock = VirtualClock()
    assert clock.now() == clock.start + datetime.timedelta(seconds=began + 3600)


def test_a_jump_in_a_simulation_moves_the_wall_time_but_no_timer() -> None:
    clock = VirtualClock()

    async def main() -> float:
        clock.advance(3600)
        await anyio.sleep(1)
        return anyio.current_time()

    assert simulate(main) == 1
    assert clock.now() == clock.start + datetime.timedelta(seconds=3601)


def test_one_clock_continues_from_loop_to_loop() -> None:
    clock = VirtualClock()

    async def wait() -> None:
        clock.now()
        await anyio.sleep(10)

    for loops in (1, 2, 3):
        simulate(wait)
        assert clock.now() == clock.start + datetime.timedelta(seconds=10 * loops)


def test_under_a_real_loop_the_clock_runs_at_the_pace_of_that_loop() -> None:
    clock = VirtualClock()

    async def wait() -> datetime.timedelta:
        before = clock.now()
        await asyncio.sleep(0.02)
        return clock.now() - before

    passed = asyncio.run(wait())
    assert datetime.timedelta(seconds=0.019) < passed < datetime.timedelta(seconds=10)


@given(SEEDS)
def test_the_same_seed_gives_the_same_numbers_and_uuids(seed: int) -> None:
    one, two = VirtualClock(seed), VirtualClock(seed)
    assert [one.random() for _ in range(20)] == [two.random() for _ in range(20)]
    assert [one.uuid() for _ in range(20)] == [two.uuid() for _ in range(20)]
    assert all(0 <= one.random() < 1 for _ in range(20))


@given(SEEDS)
def test_uuids_are_distinct_and_of_version_four(seed: int) -> None:
    clock = VirtualClock(seed)
    uuids = [clock.uuid() for _ in range(200)]
    assert len(set(uuids)) == 200
    assert {uuid.version for uuid in uuids} == {4}


def test_another_seed_gives_other_numbers_and_uuids() -> None:
    assert VirtualClock(1).uuid() != VirtualClock(2).uuid()
    assert VirtualClock(1).random() != VirtualClock(2).random()


def test_requesting_a_uuid_does_not_change_the_random_numbers() -> None:
    plain, asked = VirtualClock(1), VirtualClock(1)
    asked.uuid()
    assert plain.random() == asked.random()
