"""Windows of time: the numbers of Knative's own tests, and what no window may do."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from reconcile.blocks.autoscaler_windows import AverageWindow, MaxWindow, Recommendations, smoothing_share

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
def test_the_highest_of_the_last_five_counts(values: list[int], want: list[int]) -> None:
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
    assert window.average(at(10)) == 0
    assert window.write(at(6), 91_000).average(at(6)) == (12 + 91) * 1000 // 5


@pytest.mark.rule("kpa-4d-22")
def test_late_writes_count_as_long_as_they_are_within_the_window() -> None:
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


def test_a_smoothed_average_leans_to_what_is_newer() -> None:
    window = AverageWindow(6_000, silence="unknown")
    for second, value in enumerate([0, 0, 0, 0, 0, 60_000]):
        window = window.write(at(second), value)
    plain, smoothed = window.average(at(5)), window.smoothed(at(5))
    assert plain == 10_000
    assert smoothed is not None
    assert 40_000 < smoothed < 60_000


def delayed(steps: list[tuple[float, int]]) -> list[int]:
    wishes, seen = Recommendations.of(down=300_000), []
    for seconds, value in steps:
        wishes = wishes.add(at(seconds), value)
        seen.append(wishes.within(100, at(seconds)))
    return seen


@pytest.mark.rule("kpa-4d-24")
def test_what_was_wanted_within_the_delay_still_is() -> None:
    assert delayed([(2, 4), (300, 0), (302, 0)]) == [4, 4, 0]
    minutes = [(9, 4), (10, 3), (11, 0), (14, 0), (15, 0)]
    assert delayed([(60 * minute, value) for minute, value in minutes]) == [4, 4, 4, 3, 0]


@pytest.mark.rule("autoscale-expire")
@given(some.integers(1, 100), some.integers(0, 10**6), some.integers(0, 10**6))
def test_what_was_not_written_lately_is_not_known(length: int, value: int, later: int) -> None:
    window = AverageWindow(length * 1000, silence="unknown").write(at(0), value)
    known = window.average(at(0) + later)
    assert known == (value if later < length * 1000 else None)


@pytest.mark.rule("autoscale-silence")
@given(some.lists(some.tuples(some.integers(0, 20_000), some.integers(0, 10**6)), min_size=1, max_size=30))
def test_where_silence_is_not_zero_an_average_is_between_what_was_written(
    writes: list[tuple[int, int]],
) -> None:
    window, now = AverageWindow(10_000, silence="unknown"), START
    for wait, value in writes:
        now += wait
        window = window.write(now, value)
    average = window.average(now)
    assert average is not None
    assert min(value for _, value in writes) <= average <= max(value for _, value in writes)


# --- stabilisation --------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-stabilise")
def test_going_down_the_highest_wish_counts_and_going_up_the_lowest() -> None:
    seen = Recommendations.of(up=30_000, down=60_000).add(at(0), 8).add(at(20), 4)
    assert seen.within(10, at(20)) == 8
    assert seen.within(10, at(70)) == 4
    seen = Recommendations.of(up=30_000, down=60_000).add(at(0), 6).add(at(20), 9)
    assert seen.within(5, at(20)) == 6
    assert seen.within(5, at(40)) == 9


def test_without_windows_the_newest_wish_counts_at_once() -> None:
    seen = Recommendations.of().add(at(0), 8).add(at(0.5), 2)
    assert seen.within(10, at(0.5)) == 2
    assert seen.add(at(1), 20).within(10, at(1)) == 20


@given(
    some.lists(some.tuples(some.integers(0, 100_000), some.integers(0, 100)), min_size=1, max_size=20),
    some.integers(0, 100),
    some.integers(0, 200_000),
    some.integers(0, 200_000),
)
def test_stabilised_wishes_lie_between_what_is_there_and_the_newest_wish(
    wishes: list[tuple[int, int]], current: int, up: int, down: int
) -> None:
    seen, now = Recommendations.of(up=up, down=down), START
    for wait, wish in wishes:
        now += wait
        seen = seen.add(now, wish)
    newest = wishes[-1][1]
    assert min(current, newest) <= seen.within(current, now) <= max(current, newest)
