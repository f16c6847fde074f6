"""Quantities added up and multiplied: exact, and in the format that an API server would store."""

import functools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Quantity

amounts = st.builds("{}{}".format, st.integers(0, 10**15), st.sampled_from(["", "m", "k", "Ki", "Mi", "e2"]))


@pytest.mark.parametrize(
    ("text", "rounded"),
    [("0.1n", "1n"), ("-1.2n", "-2n"), ("0.0000000000001Ki", "1n"), ("1024Ei", 2**63 - 1)],
)
def test_a_value_that_no_server_stores_is_rounded_to_the_nearest_one(text: str, rounded: str | int) -> None:
    assert Quantity(text) == Quantity(rounded)
    assert Quantity(text).canonical == Quantity(rounded).canonical


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        (["1Gi", "1G"], "2073741824"),
        (["0", "1Gi", "1Gi"], "2Gi"),
        (["1", "1Ki"], "1025"),
        (["0.5Ki", "1.5Ki"], "2Ki"),
        (["0Gi", "2e1"], "20"),
        (["500m", "1500m"], "2"),
    ],
)
def test_a_sum_keeps_the_format_of_its_first_non_zero_part(parts: list[str], total: str) -> None:
    assert functools.reduce(operator.add, map(Quantity, parts)).canonical == total


@given(st.lists(amounts, min_size=1, max_size=5), st.integers(0, 1000))
def test_multiplication_equals_repeated_addition(parts: list[str], count: int) -> None:
    total = functools.reduce(operator.add, map(Quantity, parts))
    assert total.value == min(sum(Quantity(part).value for part in parts), 2**63 - 1)
    assert (total * count).value == min(total.value * count, 2**63 - 1)
    assert Quantity(total.canonical) == total
