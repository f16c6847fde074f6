"""Delays grow with failures that count, stay finite, and are forgotten."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workqueue import Backoff, KeyBackoff


def exact(base: float = 1.0, limit: float = 100.0) -> KeyBackoff[str]:
    return KeyBackoff(Backoff(base, limit, jitter=0.0))


@pytest.mark.rule("inv-09")
def test_a_delay_doubles_with_each_failure_up_to_the_limit() -> None:
    backoff, now, delays = exact(), 0.0, []
    for _ in range(9):
        delays.append(backoff.next_delay("a", now))
        now += delays[-1]
    assert delays == [1, 2, 4, 8, 16, 32, 64, 100, 100]


@pytest.mark.rule("inv-09")
@given(failures=st.integers(0, 10**9), chance=st.floats(0, 1, exclude_max=True))
def test_a_delay_is_finite_after_any_number_of_failures(failures: int, chance: float) -> None:
    assert 0.005 <= Backoff(0.005, 1000.0, jitter=0.1).delay(failures, chance) <= 1100.0


@pytest.mark.rule("inv-09")
def test_jitter_lengthens_a_delay_by_a_random_share() -> None:
    backoff = Backoff(1, 10, jitter=0.5)
    assert [backoff.delay(2), backoff.delay(2, 0.5), backoff.delay(20, 0.5)] == [4, 5, 12.5]


@pytest.mark.rule("inv-09")
def test_the_delays_of_a_key_have_random_jitter() -> None:
    backoff: KeyBackoff[str] = KeyBackoff(Backoff(1, 10, jitter=0.5), chance=iter([0.5, 0.0, 0.8]).__next__)
    assert [backoff.next_delay(key, 0.0) for key in ("a", "b", "c")] == [1.25, 1.0, 1.4]


@pytest.mark.rule("queue-backoff")
def test_a_failure_within_a_running_delay_does_not_count() -> None:
    backoff = exact()
    assert backoff.next_delay("a", 0.0) == 1.0
    assert backoff.next_delay("a", 0.4) == pytest.approx(0.6)
    assert backoff.retries("a") == 1
    assert backoff.next_delay("a", 1.0) == 2.0


@pytest.mark.rule("inv-09")
def test_forget_resets_the_back_off_and_frees_memory() -> None:
    backoff = exact()
    backoff.next_delay("a", 0.0)
    backoff.next_delay("b", 0.0)
    backoff.forget("a")
    backoff.forget("never seen")
    assert (backoff.retries("a"), backoff.retries("b"), len(backoff)) == (0, 1, 1)
    assert backoff.next_delay("a", 50.0) == 1.0


def test_keys_fail_independently() -> None:
    backoff = exact()
    for now in (0.0, 10.0, 20.0):
        backoff.next_delay("a", now)
    assert backoff.next_delay("b", 20.0) == 1.0


@pytest.mark.rule("queue-arguments")
@pytest.mark.parametrize(
    ("base", "limit"),
    [(0, 1), (-1, 1), (2, 1), (math.nan, 1), (1, math.inf), (math.inf, math.inf), (1, math.nan)],
)
def test_an_invalid_back_off_is_refused(base: float, limit: float) -> None:
    said = f"^expected 0 < base <= limit, got base={base} and limit={limit}$"
    with pytest.raises(ValueError, match=said):
        Backoff(base, limit)
    assert Backoff(1, 1, jitter=0).delay(3) == 1


@pytest.mark.rule("queue-arguments")
@pytest.mark.parametrize("jitter", [-0.1, math.inf, math.nan])
def test_an_invalid_jitter_is_refused(jitter: float) -> None:
    with pytest.raises(
        ValueError, match=f"^expected a jitter of 0 or more, as a share of the delay, got {jitter}$"
    ):
        Backoff(1, 2, jitter)
