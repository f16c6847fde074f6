"""Quantities, as the API server reads and writes them."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.workergroups.quantity import Format, InvalidQuantity, Quantity, parse_quantity, total


@pytest.mark.parametrize(
    ("text", "amount", "form"),
    [
        ("0", "0", "decimal"),
        ("+1", "1", "decimal"),
        ("-1", "-1", "decimal"),
        ("1.", "1", "decimal"),
        (".5", "0.5", "decimal"),
        ("3n", "0.000000003", "decimal"),
        ("3u", "0.000003", "decimal"),
        ("3m", "0.003", "decimal"),
        ("3k", "3000", "decimal"),
        ("3M", "3e6", "decimal"),
        ("3G", "3e9", "decimal"),
        ("3T", "3e12", "decimal"),
        ("3P", "3e15", "decimal"),
        ("3E", "3e18", "decimal"),
        ("3Ki", "3072", "binary"),
        ("3Mi", "3145728", "binary"),
        ("3Gi", "3221225472", "binary"),
        ("3Ti", "3298534883328", "binary"),
        ("3Pi", "3377699720527872", "binary"),
        ("3Ei", "3458764513820540928", "binary"),
        ("1.5Ki", "1536", "binary"),
        ("0.0000000000001Ki", "0.000000001", "binary"),
        ("3e2", "300", "exponent"),
        ("3E+2", "300", "exponent"),
        ("3e-2", "0.03", "exponent"),
        ("1e-12", "0.000000001", "exponent"),
        ("1.2n", "0.000000002", "decimal"),
        ("-1.2n", "-0.000000001", "decimal"),
        (7, "7", "decimal"),
        (0.25, "0.25", "decimal"),
        (1e-07, "0.0000001", "exponent"),
    ],
)
def test_a_quantity_is_read_exactly_and_finer_ones_are_rounded_up(
    text: str | float, amount: str, form: Format
) -> None:
    assert parse_quantity(text) == Quantity(Decimal(amount), form)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("1", "1"),
        (2, "2"),
        (0.5, "500m"),
        ("0.5", "500m"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("100M", "100M"),
        ("1e3", "1e3"),
        ("12E", "12E"),
        ("-1Gi", "-1Gi"),
        ("1023", "1023"),
        ("0.75Ki", "768"),
        ("1.0009765625Ki", "1025"),
        ("1024Ei", "1024Ei"),
        ("0Gi", "0"),
        ("9000000000000000000000.000000001", "9000000000000000000000000000001n"),
        ("0.5e1", "5"),
        ("1e4", "10e3"),
        ("15e-4", "1500e-6"),
        ("1n", "1n"),
        ("0.1n", "1n"),
    ],
)
def test_a_quantity_is_written_in_its_canonical_form(text: str | float, canonical: str) -> None:
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "1gi", "Gi", "--1", "1e", "1e99999", "5\u0663", True])
def test_what_is_no_quantity_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(InvalidQuantity) as raised:
        parse_quantity(text)
    said = f"{text!r} is not a quantity; write a number with an optional suffix, such as 500m or 5Gi"
    assert (str(raised.value), raised.value.text) == (said, text)


def test_a_sum_keeps_the_format_of_its_first_part_that_is_not_zero() -> None:
    assert str(total([Quantity(), parse_quantity("1Gi"), parse_quantity("1G")])) == "2073741824"
    assert total([parse_quantity("1"), parse_quantity("1Ki")]) == Quantity(Decimal(1025), "decimal")
    assert total([Quantity(Decimal(0), "binary"), parse_quantity("2e1")]) == Quantity(Decimal(20), "exponent")
    assert total([]) == Quantity(Decimal(0), "decimal")


def test_a_sum_and_a_multiple_of_the_largest_amounts_are_exact() -> None:
    large, small = parse_quantity("8000000Ei"), parse_quantity("1n")
    assert large + small == Quantity(Decimal("9223372036854775808000000.000000001"), "binary")
    assert (large + small).times(3) == Quantity(Decimal("27670116110564327424000000.000000003"), "binary")
    assert (large + small).ceiling() == 9223372036854775808000001


@pytest.mark.parametrize(
    ("text", "whole"),
    [("500m", 1), ("1500m", 2), ("1100m", 2), ("1Gi", 1 << 30), ("3", 3), ("-1500m", -1), ("0", 0)],
)
def test_whole_units_are_rounded_up(text: str, whole: int) -> None:
    assert parse_quantity(text).ceiling() == whole


@given(st.decimals(-(10**12), 10**12, places=9), st.sampled_from(["decimal", "exponent"]))
def test_the_canonical_form_means_the_same_amount(amount: Decimal, form: Any) -> None:
    assert parse_quantity(str(Quantity(amount, form))).amount == amount


@given(st.integers(0, 1 << 60))
def test_the_canonical_form_of_bytes_means_the_same_amount(amount: int) -> None:
    assert parse_quantity(str(Quantity(Decimal(amount), "binary"))).amount == amount


@given(st.lists(st.integers(0, 10**15), max_size=5), st.integers(0, 1000))
def test_so_many_times_is_the_same_as_adding_so_often(amounts: list[int], count: int) -> None:
    parts = [Quantity(Decimal(amount)) for amount in amounts]
    assert total(parts).times(count).amount == sum(amounts) * count
