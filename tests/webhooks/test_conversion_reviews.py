"""What a conversion webhook answers to a review."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.webhooks.conversion_reviews import convert_review
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
