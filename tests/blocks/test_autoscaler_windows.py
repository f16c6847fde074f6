"""Windows of time: the numbers of Knative's own tests, and what no window may do."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import asdict
from hypothesis import given
from hypothesis import strategies as some

from reconcile.blocks.autoscaler.sample_windows import (
    AverageWindow,
    MaxWindow,
    Recommendations,
    smoothing_share,
)

START = 1_700_000_000_000


def at(seconds: float) -> int:
    return START + round(seconds * 1000)


def fives() -> AverageWindow:
    """Five seconds, 1 to 5 written in one each. Thousandths, so that a third can be told."""
    window = AverageWindow(5_000)
    for second in range(5):
        window = window.write(at(second), (second + 1) * 1000)
    return window


@pytest.mark.rule("kpa-4d-20")
@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([5, 6, 5, 5, 5, 5, 5], [5, 6, 6, 6, 6, 6, 5]),
        (
            [5, 8, 5, 7, 5, 5, 1, 4, 4, 4, 4, 9, 3, 4, 2, 1, 0],
            [5, 8, 8, 8, 8, 8, 7, 7, 5, 5, 4, 9, 9, 9, 9, 9, 4],
        ),
    ],
)
def test_the_highest_value_of_the_last_five_seconds_counts(values: list[int], want: list[int]) -> None:
    window, seen = MaxWindow(5), []
    for second, value in enumerate(values):
        window = window.write(at(second), value)
        seen.append(window.highest(at(second)))
    assert seen == want


@pytest.mark.rule("kpa-4d-21")
def test_the_first_write_counts_from_its_own_second() -> None:
    assert AverageWindow(5_000).write(at(0), 1000).average(at(0)) == 1000


@pytest.mark.rule("kpa-4d-21")
def test_the_average_is_of_the_last_five_seconds() -> None:
    window = fives()
    assert window.average(at(4)) == 3000
    assert window.average(at(3.6)) == 3000
    assert window.average(at(6)) == (15 - 1 - 2) * 1000 // 3
    assert window.average(at(6.9)) == (15 - 1 - 2) * 1000 // 3
    assert window.average(at(8.9)) == 5000
    assert window.average(at(9)) == 0
    assert window.average(at(10)) == 0
    assert window.write(at(6), 91_000).average(at(6)) == (12 + 91) * 1000 // 5


@pytest.mark.rule("kpa-4d-22")
def test_late_writes_count_if_they_are_within_the_window() -> None:
    window = fives().write(at(6), 91_000).write(at(66), 1_984_000)
    assert window.average(at(66)) == 1_984_000
    window = window.write(at(63), 4_000)
    assert window.average(at(66)) == 1_988_000 // 4
    window = window.write(at(67), 5_000)
    assert window.average(at(67)) == 1_993_000 // 5
    window = window.write(at(64), 10_000)
    assert window.average(at(67)) == 2_003_000 // 5
    assert window.write(at(62), 7_000).write(at(61), 7_000) == window
    assert window.write(at(72), 10_000).average(at(72)) == 10_000


@pytest.mark.rule("kpa-4d-23")
@pytest.mark.parametrize(("steps", "want"), [(6, 784_560), (40, 205_670), (60, 200_000), (600, 200_000)])
def test_the_newest_second_weighs_as_much_as_in_knative(steps: int, want: int) -> None:
    assert abs(smoothing_share(steps) - want) <= 10


def test_a_smoothed_average_favours_newer_values() -> None:
    window = AverageWindow(6_000, silence="unknown")
    for second, value in enumerate([0, 0, 0, 0, 0, 60_000]):
        window = window.write(at(second), value)
    plain, smoothed = window.average(at(5)), window.smoothed(at(5))
    assert plain == 10_000
    assert 40_000 < smoothed < 60_000


@pytest.mark.rule("autoscale-expire")
def test_a_window_of_any_length_has_a_smoothed_value_for_its_content() -> None:
    window = AverageWindow(3_600_000, silence="unknown").write(at(0), 7)
    assert window.smoothed(at(3_599.9)) == window.average(at(3_599.9)) == 7
    assert window.smoothed(at(3_600)) is window.average(at(3_600)) is None


STEPS, STEP = 6, 500


def by_definition(writes: Sequence[tuple[int, int]], now: int, silence: str, share: float) -> float | None:
    """The average of steps, of which each weighs `share` of what the newer ones leave (0: all alike)."""
    steps: dict[int, list[int]] = {}
    for when, value in writes:
        if steps and when // STEP - max(steps) >= STEPS:
            steps = {}
        steps.setdefault(when // STEP, []).append(value)
    first, last, newest = min(steps), max(steps), now // STEP
    kept = {index: values for index, values in steps.items() if newest - index < STEPS}
    if not kept:
        return 0 if silence == "zero" else None
    if silence == "zero":
        totals = {index: sum(values) for index, values in kept.items()}
        if share:
            return sum(share * (1 - share) ** (newest - index) * total for index, total in totals.items())
        return sum(totals.values()) / (last - max(first, newest - STEPS + 1) + 1)
    if not share:
        return statistics.fmean(value for values in kept.values() for value in values)
    weights = [(1 - share) ** (newest - index) for index in kept]
    return statistics.fmean((round_half_up(values) for values in kept.values()), weights)


def round_half_up(values: Sequence[int]) -> int:
    return math.floor(statistics.fmean(values) + 0.5)


@pytest.mark.parametrize("silence", ["zero", "unknown"])
@given(
    some.lists(
        some.tuples(some.integers(0, STEPS * STEP - 1), some.integers(0, 10**6)), min_size=1, max_size=12
    ),
    some.integers(0, 2 * STEPS * STEP),
)
def test_averages_are_computed_over_the_steps_of_the_window(
    silence: Any, steps: list[tuple[int, int]], wait: int
) -> None:
    window, now, writes = AverageWindow(STEPS * STEP, STEP, silence), START, []
    for passed, value in steps:
        now += passed
        window = window.write(now, value)
        writes.append((now, value))
    now += wait
    share = smoothing_share(STEPS) / 10**6
    for found, want in (
        (window.average(now), by_definition(writes, now, silence, 0)),
        (window.smoothed(now), by_definition(writes, now, silence, share)),
    ):
        assert found == (want if want is None else pytest.approx(want, abs=2))


def test_an_empty_window_has_no_value() -> None:
    for window in (AverageWindow(5_000), AverageWindow(5_000, silence="unknown")):
        assert window.average(at(0)) is window.smoothed(at(0)) is None
    assert MaxWindow(5).highest(at(0)) is None


@pytest.mark.rule("autoscale-expire")
def test_a_maximum_expires_exactly_with_its_window() -> None:
    window = MaxWindow(5).write(at(0), 9)
    assert window.highest(at(4.999)) == 9
    assert window.highest(at(5)) is None


def test_an_average_stores_no_more_steps_than_its_window_has() -> None:
    window = AverageWindow(5_000)
    for second in range(100):
        window = window.write(at(second), second)
    assert len(asdict(window)["_buckets"]) == 5
    assert window.average(at(99)) == 97


def test_values_that_can_no_longer_be_the_maximum_are_not_stored() -> None:
    window = MaxWindow(5)
    for second in range(100):
        window = window.write(at(second), 1_000 - second)
    assert window.write(at(104), 5) == MaxWindow(5).write(at(104), 5)
    assert window.write(at(99), 901) == window
    assert window.write(at(99), 2_000) == MaxWindow(5).write(at(99), 2_000)


def delayed(steps: list[tuple[float, int]]) -> list[int]:
    wishes, seen = Recommendations.of(up=0, down=300_000), []
    for seconds, value in steps:
        wishes = wishes.add(at(seconds), value)
        seen.append(wishes.within(100, at(seconds)))
    return seen


@pytest.mark.rule("kpa-4d-24")
def test_the_highest_proposal_within_the_delay_is_kept() -> None:
    assert delayed([(2, 4), (300, 0), (302, 0)]) == [4, 4, 0]
    minutes = [(9, 4), (10, 3), (11, 0), (14, 0), (15, 0)]
    assert delayed([(60 * minute, value) for minute, value in minutes]) == [4, 4, 4, 3, 0]


@pytest.mark.rule("autoscale-expire")
@given(some.integers(1, 100), some.integers(0, 10**6), some.integers(0, 10**6))
def test_without_recent_writes_the_average_is_unknown(length: int, value: int, later: int) -> None:
    window = AverageWindow(length * 1000, silence="unknown").write(at(0), value)
    assert window.average(at(0) + later) == (value if later < length * 1000 else None)


@pytest.mark.rule("autoscale-silence")
@given(some.lists(some.tuples(some.integers(0, 20_000), some.integers(0, 10**6)), min_size=1, max_size=30))
def test_an_average_lies_between_the_written_values_unless_silence_counts_as_zero(
    writes: list[tuple[int, int]],
) -> None:
    window, now = AverageWindow(10_000, silence="unknown"), START
    for wait, value in writes:
        now += wait
        window = window.write(now, value)
    average = window.average(now)
    assert min(value for _, value in writes) <= average <= max(value for _, value in writes)


# --- stabilisation --------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-stabilise")
def test_scaling_down_uses_the_highest_proposal_and_scaling_up_the_lowest() -> None:
    seen = Recommendations.of(up=30_000, down=60_000).add(at(0), 8).add(at(20), 4)
    assert seen.within(10, at(20)) == 8
    assert seen.within(10, at(70)) == 4
    seen = Recommendations.of(up=30_000, down=60_000).add(at(0), 6).add(at(20), 9)
    assert seen.within(5, at(20)) == 6
    assert seen.within(5, at(40)) == 9


def test_without_windows_the_newest_proposal_counts_at_once() -> None:
    seen = Recommendations.of(up=0, down=0).add(START, 8).add(START + 1, 2)
    assert seen.within(10, START + 1) == 2
    assert seen.add(START + 2, 20).within(10, START + 2) == 20


@pytest.mark.rule("autoscale-stabilise")
def test_changed_windows_apply_at_once_to_earlier_proposals() -> None:
    seen = Recommendations.of(up=30_000, down=60_000).add(at(0), 8).add(at(20), 4)
    assert seen.over(up=30_000, down=20_001).within(10, at(20)) == 8
    assert seen.over(up=30_000, down=20_000).within(10, at(20)) == 4
    assert seen.over(up=20_001, down=0).add(at(20), 12).within(6, at(20)) == 6
    assert seen.over(up=20_000, down=0).add(at(20), 12).within(2, at(20)) == 4
    none = Recommendations.of(up=5, down=5).over(up=0, down=0).add(START, 8)
    assert none.add(START + 1, 2).within(10, START + 1) == 2
    assert none.add(START + 1, 9).within(5, START + 1) == 9


@pytest.mark.rule("autoscale-stabilise")
def test_windows_are_exact_to_the_millisecond() -> None:
    low = Recommendations.of(up=3, down=3).add(START, 8).add(START + 2, 2)
    assert low.within(10, START + 2) == 8
    assert low.within(10, START + 3) == 2
    high = Recommendations.of(up=3, down=3).add(START, 6).add(START + 2, 9)
    assert high.within(5, START + 2) == 6
    assert high.within(5, START + 3) == 9
    assert high.within(5, START + 5) == 9


@given(
    some.lists(some.tuples(some.integers(0, 100_000), some.integers(0, 100)), min_size=1, max_size=20),
    some.integers(0, 100),
    some.integers(0, 200_000),
    some.integers(0, 200_000),
)
def test_stabilised_proposals_lie_between_the_current_and_the_newest_number(
    wishes: list[tuple[int, int]], current: int, up: int, down: int
) -> None:
    seen, now = Recommendations.of(up=up, down=down), START
    for wait, wish in wishes:
        now += wait
        seen = seen.add(now, wish)
    newest = wishes[-1][1]
    assert min(current, newest) <= seen.within(current, now) <= max(current, newest)
