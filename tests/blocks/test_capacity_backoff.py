"""What sort of failure a request for machines met, which is what a pool is left alone for."""

import pytest

from informers.errors import error_from_status
from reconcile import ApiError, Unreachable
from reconcile.blocks.capacity_backoff import class_of


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
def test_an_answer_is_of_one_sort(code: int, reason: str, message: str, what: str) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    assert class_of(error_from_status(status)) == what


def test_no_answer_passes_by_itself() -> None:
    assert class_of(Unreachable("nobody there")) == "transient"
    assert class_of(ApiError("cut off")) == "transient"
