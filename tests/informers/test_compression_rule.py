"""When a store compresses in the background: what begins it, what ends it, and that it never flaps."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from informers.compression_rule import (
    LARGE,
    OFTEN,
    PERIODS,
    SELDOM,
    SMALL,
    CompressionState,
    StorePeriod,
    is_worth_counting,
    next_state,
)

OBJECTS = 20_000
QUIET = StorePeriod(objects=OBJECTS, bytes=LARGE, reads=0)
BUSY = StorePeriod(objects=OBJECTS, bytes=LARGE, reads=OBJECTS)
COMPRESSING = CompressionState(compressing=True)

PERIOD_VALUES = st.builds(
    StorePeriod,
    objects=st.just(OBJECTS),
    bytes=st.sampled_from([0, SMALL - 1, SMALL, LARGE - 1, LARGE, 3 * LARGE]),
    reads=st.sampled_from([0, OBJECTS // 10 - 1, OBJECTS // 10, OBJECTS - 1, OBJECTS, 9 * OBJECTS]),
)
# Runs of like periods, since three in a row that agree are rare among periods chosen one by one.
SEQUENCES = st.lists(st.tuples(PERIOD_VALUES, st.integers(1, PERIODS + 2)), max_size=12).map(
    lambda runs: [period for period, count in runs for _ in range(count)]
)


def states(periods: Sequence[StorePeriod], first: CompressionState) -> Sequence[CompressionState]:
    return [*accumulate(periods, next_state, initial=first)]


def changes(periods: Sequence[StorePeriod], first: CompressionState) -> Sequence[int]:
    """After how many periods the store began or ended to compress, each time."""
    steps = pairwise(states(periods, first))
    return [at for at, (one, other) in enumerate(steps, 1) if one.compressing != other.compressing]


def test_a_large_store_that_is_seldom_read_compresses_after_three_periods() -> None:
    assert [state.compressing for state in states([QUIET] * PERIODS, CompressionState())] == [
        False,
        False,
        False,
        True,
    ]


def test_a_store_that_is_often_read_stops_compressing_after_three_periods() -> None:
    assert changes([BUSY] * (PERIODS - 1), COMPRESSING) == []
    assert changes([BUSY] * PERIODS, COMPRESSING) == [PERIODS]


def test_a_run_of_every_object_once_in_a_while_ends_nothing() -> None:
    assert changes([BUSY, QUIET, QUIET, BUSY, BUSY, QUIET] * 10, COMPRESSING) == []


def test_a_compressed_store_that_takes_less_than_at_the_beginning_goes_on() -> None:
    compressed = StorePeriod(objects=OBJECTS, bytes=LARGE // 6, reads=0)
    assert changes([compressed] * 10, COMPRESSING) == []


def test_a_store_whose_objects_are_gone_stops_compressing() -> None:
    assert changes([StorePeriod(objects=0, bytes=0, reads=0)] * 10, COMPRESSING) == [PERIODS]


@given(periods=SEQUENCES)
def test_between_two_changes_there_are_at_least_three_periods(periods: Sequence[StorePeriod]) -> None:
    for one, other in pairwise(changes(periods, CompressionState())):
        assert other - one >= PERIODS


@given(periods=SEQUENCES, first=st.sampled_from([CompressionState(), COMPRESSING]))
def test_each_change_is_what_the_three_periods_before_it_agree_on(
    periods: Sequence[StorePeriod], first: CompressionState
) -> None:
    reached = states(periods, first)
    for at in changes(periods, first):
        agreed = periods[at - PERIODS : at]
        assert len(agreed) == PERIODS
        if reached[at].compressing:
            assert all(each.bytes >= LARGE and each.reads < SELDOM * each.objects for each in agreed)
        else:
            assert all(each.bytes < SMALL or each.reads >= OFTEN * each.objects for each in agreed)


@given(
    reads=st.lists(st.integers(OBJECTS // 10, OBJECTS - 1), max_size=30),
    first=st.sampled_from([CompressionState(), COMPRESSING]),
)
def test_between_seldom_and_often_nothing_changes(reads: Sequence[int], first: CompressionState) -> None:
    assert changes([StorePeriod(OBJECTS, LARGE, read) for read in reads], first) == []


@given(sizes=st.lists(st.integers(0, LARGE - 1), max_size=30))
def test_a_store_that_is_not_large_never_begins(sizes: Sequence[int]) -> None:
    assert changes([StorePeriod(OBJECTS, size, 0) for size in sizes], CompressionState()) == []
    assert not any(is_worth_counting(CompressionState(), size) for size in sizes)
