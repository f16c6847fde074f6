"""Scalars of YAML as kubectl reads them. The tables are what kubectl 1.32.4 made of these texts, as JSON."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.yaml_scalars import is_plain_text, loader_on, plain_scalar, tagged_scalar

NUMBERS = {
    "08": 8,
    "010": 8,
    "0o17": 15,
    "0O17": 15,
    "0x1F": 31,
    "-0x1f": -31,
    "0B11": 3,
    "+12": 12,
    "1_000": 1000,
    "0_7": 7,
    "1e3": 1000,
    "1e+3": 1000,
    "-1e3": -1000,
    "1.e3": 1000,
    "00e1": 0,
    "1.0": 1,
    "1e-7": 1e-7,
    ".5": 0.5,
    "-.5": -0.5,
    ".5_0": 0.5,
    "685_230.15": 685230.15,
    "9223372036854775807": 9223372036854775807,
    "1234e56": 1.234e59,
}
TEXTS = [
    "12:30",
    "52:54:00:12:34:56",
    "190:20:30.15",
    "2026-01-01",
    "2026-01-01T00:00:00Z",
    "=",
    "1e400",
    "12345e678",
    "0b12",
    "0x",
    "1.5e",
    "1e",
    "._5",
    ".",
    "-",
    "yEs",
    "nULL",
]
TRUE = ["y", "Y", "yes", "YES", "on", "On", "true", "TRUE"]
FALSE = ["n", "N", "no", "No", "off", "OFF", "false", "False"]


@pytest.mark.parametrize(("text", "value"), NUMBERS.items())
def test_a_number_is_read_as_kubectl_reads_it(text: str, value: float) -> None:
    kind, read = plain_scalar(text)
    assert kind in ("int", "float")
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("text", TEXTS)
def test_what_looks_like_a_number_may_be_text(text: str) -> None:
    assert plain_scalar(text) == ("str", text)
    assert is_plain_text(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [*((text, True) for text in TRUE), *((text, False) for text in FALSE), ("", None), ("~", None)],
)
def test_some_words_are_no_text(text: str, value: bool | None) -> None:
    assert plain_scalar(text)[1] is value
    assert not is_plain_text(text)


@pytest.mark.parametrize(("kind", "text"), [("int", "1.5"), ("bool", "maybe"), ("null", "0"), ("float", "x")])
def test_a_tag_that_the_text_does_not_fit_is_an_error(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"expected {kind}, got '{text}'"):
        tagged_scalar(kind, text)
    with pytest.raises(yaml.YAMLError, match=f"expected {kind}"):
        yaml.load(f"!!{kind} {text}", Loader=loader_on(yaml.SafeLoader))


@pytest.mark.parametrize("base", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_a_loader_reads_what_kubectl_reads(base: Any) -> None:
    loader = loader_on(base)
    text = "".join(f"- {text}\n" for text in NUMBERS)
    assert yaml.load(text, Loader=loader) == list(NUMBERS.values())
    assert yaml.load("[12:30, y, '08', !!str 08, !!float 8, \"1e3\"]", Loader=loader) == [
        "12:30",
        True,
        "08",
        "08",
        8,
        "1e3",
    ]


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_of_very_many_digits_is_an_error_and_not_slow(sign: str) -> None:
    with pytest.raises(yaml.YAMLError, match="JSON has no number for"):
        yaml.load(sign + "9" * 100_000, Loader=loader_on(yaml.SafeLoader))


@given(st.text("0123456789eExob+-._:yn~", max_size=8) | st.text())
def test_every_text_is_read_without_a_crash(text: str) -> None:
    kind, value = plain_scalar(text)
    assert (kind == "str") == (value == text and kind != "merge")
