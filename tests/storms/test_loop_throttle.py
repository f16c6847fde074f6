"""How far apart the runs of a key in a loop are, when it springs back, and when the loop is over."""

import pytest

from reconcile.storms.loop_throttle import LoopThrottle


@pytest.mark.rule("storm-slowed")
def test_the_interval_grows_to_five_minutes_while_the_loop_continues() -> None:
    throttle, now, seen = LoopThrottle(300.0), 0.0, []
    throttle.begin(now)
    for _ in range(6):
        seen.append(throttle.seconds)
        assert throttle.wait(now) == throttle.seconds
        assert throttle.wait(now + throttle.seconds / 2) == throttle.seconds / 2
        now = throttle.held_until
        assert throttle.wait(now) == 0
        assert throttle.wait(now + 1) == 0
        throttle.note_run(True, now)
        assert throttle.wait(now) == 0  # one more, which shows whether it goes on
        throttle.note_run(True, now)
    assert seen == [20.0, 60.0, 180.0, 300.0, 300.0, 300.0]


@pytest.mark.rule("storm-recovers")
def test_a_run_without_writes_of_the_loop_resets_the_interval_and_ends_it_after_a_minute() -> None:
    throttle = LoopThrottle(300.0)
    throttle.begin(0.0)
    throttle.note_run(True, 20.0)
    assert not throttle.over(1000.0)
    throttle.note_run(False, 21.0)
    throttle.note_run(False, 50.0)
    assert throttle.wait(51.0) == 0
    assert not throttle.over(80.0)
    assert throttle.over(81.0)


@pytest.mark.rule("storm-recovers")
def test_a_loop_ends_no_later_than_its_longest_interval_after_a_run_without_its_writes() -> None:
    throttle = LoopThrottle(7.0)
    throttle.begin(0.0)
    assert throttle.wait(0.0) == 7.0
    throttle.note_run(False, 7.0)
    assert not throttle.over(13.0)
    assert throttle.over(14.0)


@pytest.mark.rule("storm-recovers")
def test_a_loop_that_returns_within_that_minute_is_the_same_one() -> None:
    throttle = LoopThrottle(300.0)
    throttle.begin(0.0)
    throttle.note_run(True, 20.0)
    throttle.note_run(False, 21.0)
    throttle.note_run(True, 22.0)
    assert not throttle.over(500.0)
    assert throttle.seconds == 60.0
    assert throttle.wait(22.0) == 58.0  # since 20, when it was due
    throttle.note_run(False, 80.0)
    throttle.note_run(True, 139.0)
    assert throttle.wait(139.0) == 0.0  # its interval is over: the next run shows whether it goes on
    throttle.note_run(True, 139.0)
    throttle.note_run(True, 139.0)
    assert throttle.wait(139.0) == 180.0


@pytest.mark.rule("storm-slowed")
def test_an_early_run_does_not_change_the_interval() -> None:
    throttle = LoopThrottle(300.0)
    throttle.begin(0.0)
    throttle.note_run(True, 5.0)
    assert throttle.wait(6.0) == 14.0
