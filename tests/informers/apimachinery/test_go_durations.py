"""Durations as Go writes and reads them."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.go_durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1h30m", 5400.0),
        ("-1.5s", -1.5),
        ("+.5s", 0.5),
        ("1.s", 1.0),
        ("250ms", 0.25),
        ("3us", 3e-6),
        ("3µs2μs", 5e-6),
        ("600ns", 1e-6),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1d", "2w", "1h 5m", "1h??5m", "1H", "-", "1.2.3s", "\u0665s"]
)
def test_text_that_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 1h30m or 500ms, got "):
        parse_duration(text)


@pytest.mark.parametrize("text", ["99999999999999h", "-99999999999999h", "9" * 500 + "s"])
def test_a_duration_too_long_for_a_timedelta_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^the duration is too long$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (5400, "1h30m0s"),
        (61.5, "1m1.5s"),
        (0.25, "250ms"),
        (-2.5, "-2.5s"),
        (0.000003, "3µs"),
        (-120, "-2m0s"),
        (100, "1m40s"),
    ],
)
def test_a_duration_is_written_as_go_writes_it(seconds: float, text: str) -> None:
    assert format_duration(datetime.timedelta(seconds=seconds)) == text


@given(st.timedeltas())
def test_every_duration_round_trips(duration: datetime.timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
