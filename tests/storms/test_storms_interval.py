"""How far apart the runs of a key in a loop are, when it springs back, and when the loop is over."""

import pytest

from reconcile.storms.interval import Stretch


@pytest.mark.rule("storm-slowed")
def test_the_interval_grows_to_five_minutes_while_the_loop_goes_on() -> None:
    stretch, now, seen = Stretch(300.0), 0.0, []
    stretch.begin(now)
    for _ in range(6):
        seen.append(stretch.seconds)
        assert stretch.wait(now) == stretch.seconds
        assert stretch.wait(now + stretch.seconds / 2) == stretch.seconds / 2
        now = stretch.held_until
        assert stretch.wait(now) == 0
        assert stretch.wait(now + 1) == 0
        stretch.ran(True, now)
        assert stretch.wait(now) == 0  # one more, which shows whether it goes on
        stretch.ran(True, now)
    assert seen == [20.0, 60.0, 180.0, 300.0, 300.0, 300.0]


@pytest.mark.rule("storm-recovers")
def test_a_run_without_the_writes_of_the_loop_springs_back_and_ends_it_after_a_minute() -> None:
    stretch = Stretch(300.0)
    stretch.begin(0.0)
    stretch.ran(True, 20.0)
    assert not stretch.over(1000.0)
    stretch.ran(False, 21.0)
    stretch.ran(False, 50.0)
    assert stretch.wait(51.0) == 0
    assert not stretch.over(80.0)
    assert stretch.over(81.0)


@pytest.mark.rule("storm-recovers")
def test_a_loop_ends_no_later_than_its_longest_interval_after_a_run_without_its_writes() -> None:
    stretch = Stretch(7.0)
    stretch.begin(0.0)
    assert stretch.wait(0.0) == 7.0
    stretch.ran(False, 7.0)
    assert not stretch.over(13.0)
    assert stretch.over(14.0)


@pytest.mark.rule("storm-recovers")
def test_a_loop_that_comes_back_within_that_minute_is_the_same_one() -> None:
    stretch = Stretch(300.0)
    stretch.begin(0.0)
    stretch.ran(True, 20.0)
    stretch.ran(False, 21.0)
    stretch.ran(True, 22.0)
    assert not stretch.over(500.0)
    assert stretch.seconds == 60.0
    assert stretch.wait(22.0) == 58.0  # since 20, when it was due
    stretch.ran(False, 80.0)
    stretch.ran(True, 139.0)
    assert stretch.wait(139.0) == 0.0  # its interval is over: the next run shows whether it goes on
    stretch.ran(True, 139.0)
    stretch.ran(True, 139.0)
    assert stretch.wait(139.0) == 180.0


@pytest.mark.rule("storm-slowed")
def test_a_run_before_its_time_changes_nothing_of_the_interval() -> None:
    stretch = Stretch(300.0)
    stretch.begin(0.0)
    stretch.ran(True, 5.0)
    assert stretch.wait(6.0) == 14.0
