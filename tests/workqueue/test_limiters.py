"""Limits on all keys together, and the longest of several delays."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workqueue import Backoff, KeyBackoff, MaxOf, TokenBucket

RATES = st.floats(1e-3, 1e6)
STEPS = st.lists(st.floats(0, 10), min_size=1, max_size=200)


@pytest.mark.rule("queue-bucket")
def test_a_bucket_admits_a_burst_and_then_its_rate_per_second() -> None:
    bucket = TokenBucket(rate=2, burst=3)
    assert [bucket.next_delay("a", 10.0) for _ in range(6)] == pytest.approx([0, 0, 0, 0.5, 1, 1.5])


@pytest.mark.rule("queue-bucket")
def test_a_bucket_fills_up_to_its_burst_and_no_further() -> None:
    bucket = TokenBucket(rate=1, burst=2)
    for _ in range(2):
        bucket.next_delay("a", 0.0)
    assert [bucket.next_delay("a", 1000.0) for _ in range(3)] == pytest.approx([0, 0, 1])


@pytest.mark.rule("queue-bucket")
@given(rate=RATES, burst=st.integers(1, 50), steps=STEPS)
def test_no_period_exceeds_its_tokens(rate: float, burst: int, steps: list[float]) -> None:
    bucket, now, passed = TokenBucket(rate, burst), 0.0, []
    for step in steps:
        now += step / rate
        passed.append(now + bucket.next_delay("a", now))
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            allowed = burst + (passed[last] - passed[first]) * rate
            assert last - first + 1 <= allowed + 1e-6 * len(passed)


@pytest.mark.rule("queue-bucket")
@given(rate=RATES, burst=st.integers(1, 50), steps=STEPS)
def test_a_bucket_is_as_exact_as_one_that_counts_its_tokens(
    rate: float, burst: int, steps: list[float]
) -> None:
    bucket, now, tokens = TokenBucket(rate, burst), 0.0, float(burst)
    for step in steps:
        now += step / rate
        tokens = min(burst, tokens + step) - 1
        assert bucket.next_delay("a", now) == pytest.approx(max(0, -tokens / rate), abs=1e-6 / rate)


@pytest.mark.rule("queue-bucket")
def test_a_long_overdrawn_bucket_stays_finite() -> None:
    bucket = TokenBucket(rate=1e-9)
    for _ in range(10_000):
        delay = bucket.next_delay("a", 0.0)
    assert delay == pytest.approx(9999e9)
    bucket.forget("a")
    assert bucket.retries("a") == 0


@pytest.mark.rule("queue-arguments")
@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf])
def test_an_invalid_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="expected a positive, finite rate per second"):
        TokenBucket(rate)


@pytest.mark.rule("queue-arguments")
@pytest.mark.parametrize("burst", [0, -3])
def test_a_burst_of_zero_is_refused(burst: int) -> None:
    with pytest.raises(ValueError, match="expected a burst of 1 or more"):
        TokenBucket(1, burst)


@pytest.mark.rule("inv-09")
def test_the_longest_delay_counts_and_every_limiter_is_consulted() -> None:
    backoff = KeyBackoff[str](Backoff(1, 100, jitter=0))
    limiter = MaxOf(backoff, TokenBucket(rate=0.1))
    assert [limiter.next_delay("a", 0.0), limiter.next_delay("b", 0.0)] == [1, 10]
    assert limiter.next_delay("b", 1000.0) == 2
    assert limiter.next_delay("c", 1000.0) == 10  # the token that "b" took, though its back-off was longer
    assert (limiter.retries("a"), limiter.retries("b")) == (1, 2)
    for key in "abc":
        limiter.forget(key)
    assert limiter.retries("b") == 0
    assert len(backoff) == 0


@pytest.mark.rule("inv-09", "queue-memory")
def test_every_limiter_forgets() -> None:
    backoffs = [KeyBackoff[str](Backoff(1, 100)), KeyBackoff[str](Backoff(2, 100))]
    limiter = MaxOf(*backoffs)
    limiter.next_delay("a", 0.0)
    assert [len(backoff) for backoff in backoffs] == [1, 1]
    limiter.forget("a")
    assert [len(backoff) for backoff in backoffs] == [0, 0]


@pytest.mark.rule("queue-arguments")
def test_a_maximum_of_no_limiters_is_refused() -> None:
    nothing: tuple[Any, ...] = ()
    with pytest.raises(ValueError, match="MaxOf needs at least one limiter"):
        MaxOf(*nothing)
