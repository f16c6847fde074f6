"""What numbers, quantities and durations are read as: integers in thousandths."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from reconcile.blocks.autoscaler.readings import ceil_div, milli_of, milliseconds_of


@given(some.integers(0, 10**6), some.integers(0, 2000))
def test_numbers_are_rounded_up_to_thousandths(whole: int, rest: int) -> None:
    assert milli_of(f"{whole}.{rest:04d}") == whole * 1000 + ceil_div(rest, 10)


@pytest.mark.parametrize(
    ("value", "want"),
    [(0.5, 500), (0.0001, 1), (Decimal("1.0001"), 1001), ("10m", 10), ("2k", 2_000_000), ("1e24", 10**27)],
)
def test_numbers_and_quantities_are_thousandths(value: str | float | Decimal, want: int) -> None:
    assert milli_of(value) == want


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "a quantity is written like 500m or 1.5Gi"),
        ("ten", "a quantity is written like 500m or 1.5Gi"),
        ("nan", "a quantity is written like 500m or 1.5Gi"),
        ("--1", "a quantity is written like 500m or 1.5Gi"),
        ("5\u0663", "a quantity is written like 500m or 1.5Gi"),
        ("1e999", "the number is too large"),
        (Decimal(10**24) + 1, "the number is too large"),
        (Decimal("nan"), "the number is too large"),
        (float("inf"), "it is not a finite number"),
        (float("nan"), "it is not a finite number"),
    ],
)
def test_what_is_no_number_is_refused(value: str | float | Decimal, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        milli_of(value)


@pytest.mark.parametrize(
    ("text", "want"),
    [("0", 0), ("1ms", 1), ("90", 90_000), ("1.5", 1_500), ("10m", 600_000), ("1h30m", 5_400_000)],
)
def test_durations_are_milliseconds_and_a_bare_number_is_seconds(text: str, want: int) -> None:
    assert milliseconds_of(text) == want


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("soon", "a quantity is written like 500m or 1.5Gi"),
        ("-1ms", "a duration is not negative"),
        ("-1", "a duration is not negative"),
        # Minutes, and never thousandths.
        ("9999999999999999m", "the duration is too long"),
    ],
)
def test_what_is_no_duration_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        milliseconds_of(text)
