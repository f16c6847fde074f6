"""What a conversion webhook answers to a review."""

import datetime
from typing import Any

import msgspec
import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Object, resource
from reconcile.webhooks import converts
from reconcile.webhooks.conversion_reviews import convert_review
from reconcile.webhooks.object_conversion import VersionedKind
from reconcile.webhooks.reviews import ReviewError
from tests.webhooks.shops import ALPHA, BETA, SHOPS, V1, conversion_review, shop


def response(body: bytes) -> dict[str, Any]:
    answer, _ = convert_review(SHOPS, body)
    read = msgspec.json.decode(answer)
    assert (read["apiVersion"], read["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert read["response"]["uid"] == "u-1"
    found: dict[str, Any] = read["response"]
    return found


def test_objects_of_several_versions_are_converted_in_their_order() -> None:
    sent = [shop(BETA, {"size": 2}, name="a"), shop(ALPHA, {"count": 3}, name="b"), shop(V1, {}, name="c")]
    read = response(conversion_review(*sent))
    assert read["result"] == {"status": "Success"}
    names = [(obj["apiVersion"], obj["metadata"]["name"]) for obj in read["convertedObjects"]]
    assert names == [(V1, "a"), (V1, "b"), (V1, "c")]
    assert [obj["spec"].get("replicas") for obj in read["convertedObjects"]] == [2, 3, None]


def test_an_object_that_cannot_be_converted_is_named_in_the_result() -> None:
    sent = [shop(BETA, {"size": 2}), shop(BETA, {"size": "many"}, name="odd")]
    answer, failure = convert_review(SHOPS, conversion_review(*sent))
    read = msgspec.json.decode(answer)["response"]
    assert read["convertedObjects"] == []
    assert read["result"]["status"] == "Failure"
    assert read["result"]["message"].startswith("Shop default/odd: the object is not a valid")
    assert str(failure) == read["result"]["message"]


@pytest.mark.parametrize("name", [{"secret": "s"}, "n" * 1000])
def test_the_place_of_an_object_has_nothing_but_its_names(name: Any) -> None:
    _, failure = convert_review(SHOPS, conversion_review(shop(BETA, {"size": "many"}, name=name)))
    assert failure is not None
    assert failure.place in ("Shop default", f"Shop default/{'n' * 253}")


def test_an_empty_list_is_converted_to_an_empty_list() -> None:
    assert response(conversion_review())["convertedObjects"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}',
        conversion_review().replace(b"u-1", b""),
        b'{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}',
        conversion_review(3),
        b'{"apiVersion":' * 100_000,
    ],
)
def test_a_body_that_is_no_review_is_reported(body: bytes) -> None:
    with pytest.raises(ReviewError, match=r"^expected kind ConversionReview of apiextensions.k8s.io/v1: "):
        convert_review(SHOPS, body)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "apiVersion": st.sampled_from([V1, BETA, "v1", 3]),
            "metadata": st.sampled_from([None, 3, {}, {"annotations": None}, {"name": 3}]),
            "spec": st.sampled_from([None, 3, [], {}]),
        },
    )
)
def test_an_object_of_any_shape_is_converted_or_named(obj: dict[str, Any]) -> None:
    assert response(conversion_review(obj))["result"]["status"] in ("Success", "Failure")


@frozen
class LogSpec:
    at: datetime.datetime | None = None
    odd: bool = False


@resource("logs.example.com/v1", kind="Log")
class Log(Object):
    spec: LogSpec = LogSpec()


@resource("logs.example.com/v1beta1", kind="Log")
class LogBeta(Object):
    spec: LogSpec = LogSpec()


@converts(LogBeta, Log)
def log_up(old: LogBeta) -> Log:
    if old.spec.at is None or not old.spec.odd:
        return Log(spec=old.spec)
    return Log(spec=evolve(old.spec, at=old.spec.at.replace(tzinfo=None)))  # which nothing can write


@converts(Log, LogBeta)
def log_down(new: Log) -> LogBeta:
    return LogBeta(spec=new.spec)


LOGS = VersionedKind([Log, LogBeta])


def log(version: str, at: str, **more: Any) -> dict[str, Any]:
    head = {"apiVersion": f"logs.example.com/{version}", "kind": "Log"}
    return {**head, "metadata": {"name": "odd", "namespace": "default"}, "spec": {"at": at, **more}}


def test_an_object_that_cannot_be_written_is_named_too() -> None:
    sent = conversion_review(log("v1beta1", "2026-01-01T00:00:00Z", odd=True), desired="logs.example.com/v1")
    answer, failure = convert_review(LOGS, sent)
    assert msgspec.json.decode(answer)["response"]["result"]["status"] == "Failure"
    assert failure is not None
    assert failure.place == "Log default/odd"


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "0999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_the_first_and_last_times_of_go_survive(at: str) -> None:
    answer, failure = convert_review(
        LOGS, conversion_review(log("v1", at), desired="logs.example.com/v1beta1")
    )
    assert failure is None
    (converted,) = msgspec.json.decode(answer)["response"]["convertedObjects"]
    assert converted["spec"]["at"] == at
