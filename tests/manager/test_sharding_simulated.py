"""Replicas that share objects, under schedules of deaths, freezes, partitions, rollouts and lost answers.

`SHARD_SCHEDULES` says how many are played, `SHARD_FIRST` from which number on: `make shards`.
"""

import os

import pytest

from reconcile.testing.run_trace import format_trace
from tests.manager.shard_schedules import IN_FULL, broken, play

SCHEDULES = int(os.environ.get("SHARD_SCHEDULES", "24"))
FIRST = int(os.environ.get("SHARD_FIRST", "0"))

pytestmark = pytest.mark.timeout(max(120, 2 * SCHEDULES))


@pytest.mark.rule("sim-one-owner", "sim-owned")
def test_each_object_has_one_owner_under_every_schedule() -> None:
    played = 0
    for _, run in broken(FIRST, SCHEDULES):
        assert run is None, format_trace(run)
        played += 1
    print(f"\nreplicas that share objects: {played} schedules of {IN_FULL}")
    assert played == SCHEDULES


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(23029, id="a list fails for longer than the world is quiet"),
        pytest.param(81547, id="a person deletes the Lease of a member that drains"),
        pytest.param(35764, id="the same, and the assignment cannot be listed once"),
        pytest.param(38224, id="the same, without any fault"),
        pytest.param(82742, id="a child is deleted before a list after a refused watch"),
        pytest.param(99734, id="a child is deleted before a list after a late watch"),
    ],
)
@pytest.mark.rule("sim-one-owner", "sim-owned")
def test_schedules_that_broke_once_hold(number: int) -> None:
    run = play(number)
    assert not run.failed, format_trace(run)
