"""Quantities of built-in kinds, as the server stores and refuses them."""

from tests.embedded.api_client import PODS, Api


def limited(**limits: object) -> dict[str, object]:
    container = {"name": "a", "image": "a:1", "resources": {"limits": limits}}
    return {"metadata": {"name": "a"}, "spec": {"containers": [container]}}


def test_quantities_of_built_in_kinds_are_stored_in_canonical_form() -> None:
    made = Api().ok("POST", PODS, limited(cpu="1000m", memory="1024Mi", **{"hugepages-2Mi": 2097152.0}))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "1",
        "memory": "1Gi",
        "hugepages-2Mi": "2097152",
    }


def test_a_quantity_that_cannot_be_read_is_a_bad_request() -> None:
    answer = Api().send("POST", PODS, limited(cpu="much"))
    assert answer.status == 400
    assert "quantities must match the regular expression" in answer.body["message"]
