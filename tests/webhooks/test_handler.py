"""What a call of a webhook is answered, whatever its body is and whatever the author's function does."""

import logging
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Controller
from reconcile.webhooks import Admission, AdmissionRequest, Refusal
from reconcile.webhooks.handler import MAX_BODY, answer
from reconcile.webhooks.routes import Route, routes_of
from tests.webhooks.boxes import BOXES, Box, box, review
from tests.webhooks.shops import BETA, V1, Shop, conversion_review, shop


async def keep(box: Box) -> None: ...


async def keep_shop(shop: Shop) -> None: ...


DEFAULTS, REFUSES = routes_of([Controller(Box, keep, admission=BOXES)])
(CONVERT,) = routes_of([Controller(Shop, keep_shop)])
SECRET = "hunter2"


def route_of(function: Callable[[Box, Box | None, AdmissionRequest], list[Refusal]]) -> Route:
    return routes_of([Controller(Box, keep, admission=Admission(Box, refuses=function))])[0]


def test_an_accepted_and_a_refused_write_are_both_answered_with_200() -> None:
    good = answer(DEFAULTS, review("CREATE", box()))
    bad = answer(REFUSES, review("CREATE", box({"size": 10})))
    assert (good.status, good.result) == (200, "allowed")
    assert (bad.status, bad.result) == (200, "refused")
    assert msgspec.json.decode(bad.body)["response"]["status"]["code"] == 422


@pytest.mark.parametrize("route", [DEFAULTS, REFUSES, CONVERT])
@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{}", 400), (b"", 400), (b"[" * 100_000, 400), (b" " * (MAX_BODY + 1), 413)],
    ids=["not a review", "empty", "deep", "large"],
)
def test_what_is_not_a_review_is_refused(route: Route, body: bytes, status: int) -> None:
    got = answer(route, body)
    assert (got.status, got.result) == (status, "bad-request")
    assert got.body.startswith(b"expected ")


@pytest.mark.parametrize("depth", [100, 300, 900, 5_000])
@pytest.mark.parametrize("route", [DEFAULTS, REFUSES])
def test_an_object_of_any_depth_gets_an_answer(route: Route, depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    body = review("CREATE", box({"size": 1, "more": "here"})).replace(b'"here"', deep)
    assert answer(route, body).status in (200, 400)


@pytest.mark.parametrize("depth", [100, 300, 900, 5_000])
def test_a_conversion_of_any_depth_gets_an_answer(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    body = conversion_review(shop(BETA, {"more": "here"}), desired=V1).replace(b'"here"', deep)
    assert answer(CONVERT, body).status in (200, 400)


@given(body=st.binary(max_size=200))
def test_any_bytes_get_an_answer(body: bytes) -> None:
    for route in (DEFAULTS, REFUSES, CONVERT):
        assert answer(route, body).status == 400


def test_a_function_that_raises_is_a_500_and_named_in_the_log_without_the_object(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def judge(one: Box, old: Box | None, request: AdmissionRequest) -> list[Refusal]:
        raise LookupError(one.spec.color)

    with caplog.at_level(logging.ERROR):
        got = answer(route_of(judge), review("CREATE", box({"color": SECRET})))
    assert (got.status, got.result) == (500, "failed")
    assert b"LookupError" in got.body
    (record,) = caplog.records
    line = record.getMessage()
    assert "webhook=refuses.boxes.shop.example.com" in line
    assert "judge" in line
    assert "raise LookupError(one.spec.color)" in line
    assert SECRET not in line
    assert SECRET not in got.body.decode()


def test_a_conversion_that_fails_is_answered_with_the_reason_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        got = answer(CONVERT, conversion_review(shop(BETA, {"size": SECRET}), desired=V1))
    assert (got.status, got.result) == (200, "not-converted")
    assert msgspec.json.decode(got.body)["response"]["result"]["status"] == "Failure"
    assert len(caplog.records) == 1
    line = caplog.records[0].getMessage()
    assert 'object="Shop default/a"' in line
    assert "traceback=" in line
    assert SECRET not in line
