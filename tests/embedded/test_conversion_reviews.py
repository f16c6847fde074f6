"""ConversionReviews: the version of the review, and answers that are not what they should be.

The messages are those of webhook_converter.go, as recorded from kube-apiserver 1.36.2 (`conversion`).
"""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded import ConversionFailed, ConversionRequest
from reconcile.embedded.conversion_reviews import converted_objects, review_of, review_version

OBJECTS = [{"kind": "Thing", "metadata": {"name": "a"}}]
EXPECTED = "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got "


def answer(**response: Any) -> dict[str, Any]:
    good = {"uid": "u", "convertedObjects": OBJECTS, "result": {"status": "Success"}}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return {**kind, "response": good | response}


def read(review: Any, version: str = "v1") -> list[dict[str, Any]]:
    return converted_objects(msgspec.json.encode(review), version, "u")


def test_the_first_review_version_that_the_server_knows_is_sent() -> None:
    assert review_version({"conversionReviewVersions": ["v2", "v1beta1", "v1"]}) == "v1beta1"
    with pytest.raises(ConversionFailed, match="no supported conversion review versions"):
        review_version({"conversionReviewVersions": ["v2"]})
    request = ConversionRequest({}, "g.dev/v1", OBJECTS)
    assert review_of(request, "v1beta1", "u") == {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "request": {"uid": "u", "desiredAPIVersion": "g.dev/v1", "objects": OBJECTS},
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }


def test_a_good_answer_gives_its_objects_and_unknown_members_do_not_matter() -> None:
    assert read({**answer(more=1), "other": 2}) == OBJECTS
    assert read(answer(convertedObjects=None)) == []


@pytest.mark.parametrize(
    ("review", "why"),
    [
        ({}, f"{EXPECTED}/, Kind="),
        ({**answer(), "kind": None}, f"{EXPECTED}apiextensions.k8s.io/v1, Kind="),
        ({**answer(), "response": None}, "no response provided"),
        (answer(uid="other"), 'expected response.uid="u", got "other"'),
        (answer(uid=None), 'expected response.uid="u", got ""'),
        (answer(result=None), "response.result.status was '', not 'Success'"),
        (answer(result={"status": "success"}), "response.result.status was 'success', not 'Success'"),
        (answer(result={"status": "Failed", "message": "no", "reason": "x"}), "no"),
    ],
)
def test_an_answer_that_does_not_fit_says_what_a_real_server_says(review: Any, why: str) -> None:
    with pytest.raises(ConversionFailed) as failed:
        read(review)
    assert str(failed.value) == why


def test_a_review_of_the_first_version_needs_neither_kind_nor_uid() -> None:
    review = answer(uid="other")
    assert read({"response": review["response"]}, "v1beta1") == OBJECTS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
MEMBERS = ["apiVersion", "kind", "response"]
PARTS = ["uid", "convertedObjects", "result"]


@given(st.dictionaries(st.sampled_from(MEMBERS), JSON), st.dictionaries(st.sampled_from(PARTS), JSON))
def test_any_json_is_read_or_refused(members: dict[str, Any], parts: dict[str, Any]) -> None:
    for review in ({**answer(**parts), **members}, members, list(parts)):
        with suppress(ConversionFailed):
            assert isinstance(read(review), list)


@pytest.mark.parametrize("text", [b"", b"hello", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(ConversionFailed):
        converted_objects(text, "v1", "u")
