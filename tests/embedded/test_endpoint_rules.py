"""What the server refuses in Endpoints and EndpointSlices, and what it warns of."""

from typing import Any

import pytest

from tests.embedded.api_client import MERGE, Answer, Api

ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
GOOD = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}
WEB = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]}


def refused(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.body
    return sorted(f"{reason} {field}" for reason, field in answer.causes)


def warnings(answer: Answer) -> int:
    return answer.headers.get("warning", "").count("299 - ")


def write(api: Api, *subsets: dict[str, Any], **metadata: Any) -> Answer:
    return api.send("POST", ENDPOINTS, {"metadata": {"name": "a", **metadata}, "subsets": [*subsets]})


def address(**more: Any) -> dict[str, Any]:
    return {**GOOD, "addresses": [{"ip": "10.1.2.3", **more}]}


def ported(*ports: dict[str, Any]) -> dict[str, Any]:
    return {**GOOD, "ports": [*ports]}


@pytest.mark.parametrize(
    ("subset", "causes"),
    [
        ({"ports": [{"port": 80}]}, ["FieldValueRequired subsets[0]"]),
        (address(ip="127.0.0.1"), ["FieldValueInvalid subsets[0].addresses[0].ip"]),
        (address(ip="169.254.0.1"), ["FieldValueInvalid subsets[0].addresses[0].ip"]),
        (address(ip="224.0.0.1"), ["FieldValueInvalid subsets[0].addresses[0].ip"]),
        (address(ip="01.2.3.4"), ["FieldValueInvalid subsets[0].addresses[0].ip"]),
        (address(hostname="A_"), ["FieldValueInvalid subsets[0].addresses[0].hostname"]),
        (address(nodeName="a/b"), ["FieldValueInvalid subsets[0].addresses[0].nodeName"]),
        (
            {"notReadyAddresses": [{"ip": "10.1.2.3", "nodeName": "a/b"}]},
            ["FieldValueInvalid subsets[0].notReadyAddresses[0].nodeName"],
        ),
        (ported({"port": 0}), ["FieldValueInvalid subsets[0].ports[0].port"]),
        (ported({}), ["FieldValueInvalid subsets[0].ports[0].port"]),
        (ported({"port": 80, "name": "A"}), ["FieldValueInvalid subsets[0].ports[0].name"]),
        (ported({"port": 80, "protocol": "x"}), ["FieldValueNotSupported subsets[0].ports[0].protocol"]),
        (ported({"port": 80, "appProtocol": "a b"}), ["FieldValueInvalid subsets[0].ports[0].appProtocol"]),
        (
            ported({"port": 80}, {"port": 81}),
            ["FieldValueRequired subsets[0].ports[0].name", "FieldValueRequired subsets[0].ports[1].name"],
        ),
    ],
)
def test_faulty_endpoints_are_refused(api: Api, subset: dict[str, Any], causes: list[str]) -> None:
    assert refused(write(api, subset)) == causes


def test_endpoints_may_have_no_subsets_and_name_an_address_twice(api: Api) -> None:
    assert write(api, {**GOOD, "addresses": GOOD["addresses"] * 2}).status == 201
    assert write(api, name="b").status == 201


@pytest.mark.parametrize(
    ("time", "status"), [("2026-01-02T03:04:05.678Z", 201), ("2026-01-02", 422), ("x", 422)]
)
def test_the_time_of_the_last_change_is_a_timestamp(api: Api, time: str, status: int) -> None:
    note = "endpoints.kubernetes.io/last-change-trigger-time"
    answer = write(api, GOOD, annotations={note: time})
    assert answer.status == status
    if status == 422:
        assert refused(answer) == [f"FieldValueInvalid annotations[{note}]"]


def test_every_answer_about_endpoints_warns_that_they_are_deprecated(api: Api) -> None:
    assert warnings(write(api, GOOD)) == 1
    assert warnings(api.send("GET", f"{ENDPOINTS}/a")) == 1
    assert warnings(write(api, {})) == 1
    assert warnings(write(api, GOOD)) == 1  # taken
    assert warnings(write(api, address(ip="2001:DB8::1"), name="b")) == 2


def slice_of(api: Api, name: str = "a", **more: Any) -> Answer:
    return api.send("POST", SLICES, {"metadata": {"name": name}, **WEB, **more})


def endpoint(**more: Any) -> dict[str, Any]:
    return {"endpoints": [{"addresses": ["10.1.2.3"], **more}]}


def hints(name: str, *values: str) -> dict[str, Any]:
    return endpoint(hints={name: [{"name": value} for value in values]})


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        ({"addressType": ""}, ["FieldValueRequired addressType"]),
        ({"addressType": "x"}, ["FieldValueNotSupported addressType"]),
        (endpoint(addresses=[]), ["FieldValueRequired endpoints[0].addresses"]),
        (endpoint(addresses=["x"]), ["FieldValueInvalid endpoints[0].addresses[0]"]),
        (endpoint(addresses=["127.0.0.1"]), ["FieldValueInvalid endpoints[0].addresses[0]"]),
        (endpoint(addresses=["2001:db8::1"]), ["FieldValueInvalid endpoints[0].addresses"]),
        (endpoint(addresses=["10.0.0.1"] * 101), ["FieldValueTooMany endpoints[0].addresses"]),
        ({"endpoints": endpoint()["endpoints"] * 1001}, ["FieldValueTooMany endpoints"]),
        (endpoint(hostname="A"), ["FieldValueInvalid endpoints[0].hostname"]),
        (endpoint(nodeName="A"), ["FieldValueInvalid endpoints[0].nodeName"]),
        (hints("forZones", "a", "a"), ["FieldValueDuplicate endpoints[0].hints.forZones[1].name"]),
        (hints("forZones", "a b"), ["FieldValueInvalid endpoints[0].hints.forZones[0].name"]),
        (hints("forZones", *"abcdefghi"), ["FieldValueTooMany endpoints[0].hints.forZones"]),
        (hints("forNodes", "A"), ["FieldValueInvalid endpoints[0].hints.forNodes[0].name"]),
        ({"ports": [{"port": 1}, {"port": 2}]}, ["FieldValueDuplicate ports[1].name"]),
        ({"ports": [{"name": "A"}]}, ["FieldValueInvalid ports[0].name"]),
        ({"ports": [{"protocol": "x"}]}, ["FieldValueNotSupported ports[0].protocol"]),
        ({"ports": [{"appProtocol": "a b"}]}, ["FieldValueInvalid ports[0].appProtocol"]),
        ({"ports": [{"name": f"p{n}"} for n in range(101)]}, ["FieldValueTooMany ports"]),
        (
            {"addressType": "FQDN", **endpoint(addresses=[""])},
            ["FieldValueRequired endpoints[0].addresses[0]"],
        ),
        (
            {"addressType": "FQDN", **endpoint(addresses=["a"])},
            ["FieldValueInvalid endpoints[0].addresses[0]"],
        ),
        (
            {"addressType": "FQDN", **endpoint(addresses=["A.b"])},
            ["FieldValueInvalid endpoints[0].addresses[0]"],
        ),
    ],
)
def test_a_faulty_slice_is_refused(api: Api, change: dict[str, Any], causes: list[str]) -> None:
    assert refused(slice_of(api, **change)) == causes


def test_the_writer_of_a_slice_is_warned_of_domain_names_and_odd_addresses(api: Api) -> None:
    assert warnings(slice_of(api, addressType="FQDN", **endpoint(addresses=["a.b."]))) == 1
    odd = {"addressType": "IPv6", **endpoint(addresses=["2001:DB8::1"])}
    assert warnings(slice_of(api, "b", **odd)) == 1
    labels = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    managed = {"metadata": {"name": "c", "labels": labels}, **WEB, **odd}
    assert warnings(api.send("POST", SLICES, managed)) == 0
    change = {"ports": []}
    assert warnings(api.send("PATCH", f"{SLICES}/a", change, content_type=MERGE)) == 0


def test_a_slice_counts_changes_of_its_labels_and_drops_topology(api: Api) -> None:
    made = slice_of(api, **endpoint(deprecatedTopology={"a": "b"})).body
    assert "deprecatedTopology" not in made["endpoints"][0]
    assert made["metadata"]["generation"] == 1
    assert api.merge(f"{SLICES}/a", {"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 2
    assert api.merge(f"{SLICES}/a", {"ports": []})["metadata"]["generation"] == 3
    assert api.merge(f"{SLICES}/a", {"metadata": {"annotations": {"a": "b"}}})["metadata"]["generation"] == 3


def test_the_address_type_of_a_slice_stays(api: Api) -> None:
    slice_of(api)
    change = {"addressType": "FQDN", "endpoints": []}
    answer = api.send("PATCH", f"{SLICES}/a", change, content_type=MERGE)
    assert refused(answer) == ["FieldValueInvalid addressType"]
