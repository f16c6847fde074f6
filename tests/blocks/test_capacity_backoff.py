"""What sort of failure a request for machines met, which is what a pool is left alone for, and how long."""

import datetime

import pytest

from informers.api_errors import error_from_status
from reconcile.blocks.capacity.pool_backoff import BackoffTerms, PoolBackoff, after_failure, class_of
from reconcile.errors import ApiError, Unreachable


@pytest.mark.parametrize(
    ("code", "reason", "message", "what"),
    [
        (409, "Conflict", "somebody was first", "conflict"),
        (410, "Expired", "too old", "conflict"),
        (429, "TooManyRequests", "slower", "throttled"),
        (500, "InternalError", "oh", "transient"),
        (503, "ServiceUnavailable", "later", "transient"),
        (404, "NotFound", "gone", "gone"),
        (403, "Forbidden", "exceeded quota: machines", "quota"),
        (403, "Forbidden", "no role", "forbidden"),
        (401, "Unauthorized", "who?", "forbidden"),
        (422, "Invalid", "replicas", "invalid"),
        (400, "BadRequest", "what?", "invalid"),
    ],
)
def test_every_error_has_one_class(code: int, reason: str, message: str, what: str) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    assert class_of(error_from_status(status)) == what


def test_a_missing_answer_is_a_transient_error() -> None:
    assert class_of(Unreachable("nobody there")) == "transient"
    assert class_of(ApiError("cut off")) == "transient"


NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.rule("capi-2d-backoff")
def test_the_first_back_off_is_five_minutes_and_the_longest_half_an_hour() -> None:
    backoff, now, lengths = after_failure(None, NOW, "no machines"), NOW, [300.0]
    assert backoff == PoolBackoff(NOW + datetime.timedelta(minutes=5), 300.0, NOW, "no machines")
    for _ in range(4):
        now = backoff.until
        backoff = after_failure(backoff, now)
        lengths.append(backoff.seconds)
    assert lengths == [300, 600, 1200, 1800, 1800]
    assert backoff == PoolBackoff(now + datetime.timedelta(minutes=30), 1800.0, now, "")


@pytest.mark.rule("capi-2d-backoff")
def test_a_back_off_is_forgotten_once_its_time_has_passed_since_the_last_failure() -> None:
    terms = BackoffTerms(first=60, longest=600, forgotten=100)
    backoff = PoolBackoff(NOW, 240.0, NOW, "quota")
    just, over = (NOW + datetime.timedelta(seconds=seconds) for seconds in (100, 100.5))
    assert (backoff.is_stale(just, terms), backoff.is_stale(over, terms)) == (False, True)
    assert (backoff.is_stale(just), backoff.is_stale(NOW + datetime.timedelta(hours=3, seconds=1))) == (
        False,
        True,
    )
    assert after_failure(backoff, just, terms=terms).seconds == 480
    assert after_failure(backoff, over, terms=terms).seconds == 60
