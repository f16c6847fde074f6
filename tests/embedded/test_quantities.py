"""Quantities: what they are worth, and how they are stored."""

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconcile.embedded.schema.quantities import canonical_quantity, quantity_value
from tests.embedded.api_client import PODS, Api

quantities = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**7),
    st.sampled_from(["", ".", ".5", ".25", ".000"]),
    st.sampled_from(
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
    ),
)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("0", "0"),
        ("0.0Gi", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.5", "1500m"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1000k", "1M"),
        ("1024", "1024"),
        ("1Gi", "1Gi"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Mi", "1000Mi"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E", "1E"),
        ("-1000m", "-1"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
    ],
)
def test_a_quantity_is_stored_in_one_form(text: str, stored: str) -> None:
    assert canonical_quantity(text) == stored


@given(quantities)
@example("62.5Ki")
def test_the_stored_form_is_worth_the_same_and_stays_as_it_is(text: str) -> None:
    stored = canonical_quantity(text)
    assert quantity_value(stored) == quantity_value(text)
    again = canonical_quantity(stored)
    # 62.5Ki is stored as 64000, no longer binary: apimachinery writes it as 64k the next time.
    assert again == stored or (text.endswith("i") and stored.lstrip("-").isdigit())
    assert canonical_quantity(again) == again


@pytest.mark.parametrize(
    "text", ["", "a", "1 Gi", "1gi", "1KI", "--1", "1..2", "e3", "1e", "1e9999", "5\u0663"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity_value(text)


def test_fractions_are_exact() -> None:
    assert quantity_value("0.1") + quantity_value("0.2") == Decimal("0.3")


def limited(**limits: object) -> dict[str, object]:
    container = {"name": "a", "image": "a:1", "resources": {"limits": limits}}
    return {"metadata": {"name": "a"}, "spec": {"containers": [container]}}


def test_quantities_of_built_in_kinds_are_stored_in_one_form() -> None:
    made = Api().ok("POST", PODS, limited(cpu="1000m", memory="1024Mi", gpu=0.5))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "1",
        "memory": "1Gi",
        "gpu": "500m",
    }


def test_a_quantity_that_cannot_be_read_is_a_bad_request() -> None:
    answer = Api().send("POST", PODS, limited(cpu="much"))
    assert answer.status == 400
    assert "quantities must match the regular expression" in answer.body["message"]
