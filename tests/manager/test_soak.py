"""Hours of random faults leave no tasks, streams, files, objects or memory behind."""

import sys

import pytest
from attrs import evolve

from tests.manager.soak import HOURS, WARM_UP, Count, grown, play

PLAYED = WARM_UP + 1


@pytest.mark.rule("outage-2")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_hours_of_faults_leak_nothing() -> None:
    counts = play(PLAYED, seed=1)
    print(f"hours played: {PLAYED}, in full (make soak): {HOURS}")
    assert grown(counts) == []
    assert counts[-1].starts > 1  # it lost its lease at times, and came back


def test_growth_is_detected() -> None:
    one = Count(tasks=10, streams=3, files=5, objects=10_000, megabytes=50.0, starts=1, requests=0)
    assert grown([one] * 3) == []
    for more in ({"tasks": 11}, {"streams": 4}, {"files": 6}, {"objects": 11_300}, {"megabytes": 60.0}):
        assert len(grown([one, one, evolve(one, **more)])) == 1
