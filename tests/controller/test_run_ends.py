"""When each key ran last, and who is told of runs."""

import pytest

from reconcile.controller import run_ends
from reconcile.controller.run_ends import LastRun, RunEnds
from reconcile.runs.run_request import Request


def key(number: int) -> Request:
    return Request("default", f"a{number}")


def test_the_last_end_counts_and_whether_it_failed() -> None:
    ends = RunEnds()
    assert ends.last(key(1)) is None
    ends.ended(key(1), 0.0, failed=True)
    assert ends.last(key(1)) == LastRun(0.0, True)
    ends.ended(key(1), 7.5, failed=False)
    ends.ended(key(2), 8.0, failed=True)
    assert (ends.last(key(1)), ends.last(key(2))) == (LastRun(7.5, False), LastRun(8.0, True))
    assert ends.of_last_minute(8.0) == 3
    assert ends.of_last_minute(100.0) == 0


def test_a_cancelled_run_has_no_end() -> None:
    ends = RunEnds()
    ends.began(key(1))
    ends.cancelled(key(1))
    assert ends.last(key(1)) is None
    assert ends.of_last_minute(0.0) == 0


def test_memory_is_bounded_and_the_keys_that_ran_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_ends, "KEYS_OF_A_GENERATION", 10)
    ends = RunEnds()
    for number in range(100):
        ends.ended(key(number), float(number), failed=False)
        ends.ended(key(0), float(number), failed=False)
        kept = [one for one in range(number + 1) if ends.last(key(one)) is not None]
        assert len(kept) <= 20
        assert {0, *range(max(0, number - 8), number + 1)} <= set(kept)


def test_onlookers_are_told_of_begins_and_ends_until_they_leave() -> None:
    ends, seen = RunEnds(), []
    ends.began(key(0))
    leave = ends.follow(seen.append)
    other = ends.follow(lambda request: None)
    ends.began(key(1))
    ends.ended(key(1), 1.0, failed=False)
    ends.cancelled(key(2))
    leave()
    ends.began(key(3))
    other()
    assert seen == [key(1), key(1), key(2)]
