"""What numbers, quantities and durations are read as: integers in thousandths."""

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from reconcile import Quantity
from reconcile.blocks.autoscaler.readings import ceil_div, milli_of, milliseconds_of


@given(some.integers(0, 10**6), some.integers(0, 2000))
def test_numbers_are_rounded_up_to_thousandths(whole: int, rest: int) -> None:
    assert milli_of(f"{whole}.{rest:04d}") == whole * 1000 + ceil_div(rest, 10)


@pytest.mark.rule("capacity-milli")
@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0.5, 500), (0.0001, 1), (2, 2000), (1e24, 10**27), (Decimal("1.0001"), 1001),
        (Quantity("1.5"), 1500), ("1.0001", 1001), ("10m", 10), ("1n", 1), ("2k", 2_000_000),
        ("1Ki", 1_024_000),
    ],
)  # fmt: skip
def test_numbers_and_quantities_are_thousandths(value: Quantity | str | float | Decimal, want: int) -> None:
    assert milli_of(value) == want


@pytest.mark.rule("capacity-milli")
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("ten", "'ten' is not a quantity: expected a number such as 2, 500m or 5Gi"),
        (True, "expected a quantity such as 2, 500m or 5Gi"),
        (None, "expected a quantity such as 2, 500m or 5Gi"),
        (Decimal(10**24) + 1, "the number is too large"),
        (Decimal("nan"), "the number is too large"),
        (float("inf"), "the number is not finite"),
        (float("nan"), "the number is not finite"),
    ],
)
def test_a_text_that_is_not_a_number_is_refused(value: Any, says: str) -> None:
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
        ("soon", "'soon' is not a quantity: expected a number such as 2, 500m or 5Gi"),
        ("-1ms", "a duration is not negative"),
        ("-1", "a duration is not negative"),
        # Minutes, and never thousandths.
        ("9999999999999999m", "the duration is too long"),
    ],
)
def test_an_invalid_duration_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        milliseconds_of(text)
