"""The time of a server, from the Date of an answer."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.doctor.clocks import WARN_SECONDS, check_clocks, server_time


@given(st.floats(-1e6, 1e6), st.floats(0, 4))
def test_a_clock_counts_as_wrong_beyond_what_dates_and_slow_answers_explain(
    ahead: float, took: float
) -> None:
    true = datetime(2026, 1, 1, tzinfo=UTC)
    sent = true + timedelta(seconds=ahead)
    stamp = format_datetime((true + timedelta(seconds=took / 2)).replace(microsecond=0), usegmt=True)
    time = server_time(stamp, sent, sent + timedelta(seconds=took))
    assert time is not None
    assert abs(time.ahead - ahead) <= 0.51
    if abs(ahead) < WARN_SECONDS - 1:
        assert list(check_clocks(time, [])) == []
    if abs(ahead) > WARN_SECONDS + 1:
        assert len(list(check_clocks(time, []))) == 1


@pytest.mark.parametrize(
    "text", ["", "yesterday", "Thu, 01 Jan 2026 00:00:00", "Thu, 99 Jan 2026 00:00:00 GMT"]
)
def test_text_that_is_not_a_date_gives_no_time(text: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert server_time(text, now, now) is None
