"""What the server fills in for NetworkPolicies, and what it refuses in them."""

from typing import Any

import pytest

from tests.embedded.api_client import Answer, Api

POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"


def make(api: Api, **spec: Any) -> Answer:
    return api.send("POST", POLICIES, {"metadata": {"name": "a"}, "spec": spec})


def ported(**port: Any) -> dict[str, Any]:
    return {"ingress": [{"ports": [port]}]}


def block(cidr: str, *exceptions: str) -> dict[str, Any]:
    return {"egress": [{"to": [{"ipBlock": {"cidr": cidr, "except": [*exceptions]}}]}]}


PORT = "spec.ingress[0].ports[0]"
PEER = "spec.egress[0].to[0]"


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({}, ["Ingress"]),
        ({"policyTypes": []}, ["Ingress"]),
        ({"egress": [{}]}, ["Ingress", "Egress"]),
        ({"egress": [{}], "policyTypes": ["Egress"]}, ["Egress"]),
    ],
)
def test_a_policy_is_for_what_it_has_rules_for(api: Api, spec: dict[str, Any], types: list[str]) -> None:
    made = make(api, **spec).body["spec"]
    assert (made["policyTypes"], made["podSelector"]) == (types, {})


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (ported(port=0), [f"FieldValueInvalid {PORT}.port"]),
        (ported(port="25%"), [f"FieldValueInvalid {PORT}.port"] * 2),
        (ported(port=80, protocol="x"), [f"FieldValueNotSupported {PORT}.protocol"]),
        (ported(port=80, endPort=79), [f"FieldValueInvalid {PORT}.endPort"]),
        (ported(port=80, endPort=65536), [f"FieldValueInvalid {PORT}.endPort"]),
        (ported(port="http", endPort=80), [f"FieldValueInvalid {PORT}.endPort"]),
        (ported(endPort=80), [f"FieldValueInvalid {PORT}.endPort"]),
        ({"ingress": [{"from": [{}]}]}, ["FieldValueRequired spec.ingress[0].from[0]"]),
        (block(""), [f"FieldValueRequired {PEER}.ipBlock.cidr"]),
        (block("10.0.0.1"), [f"FieldValueInvalid {PEER}.ipBlock.cidr"]),
        (block("10.0.0.1/8"), [f"FieldValueInvalid {PEER}.ipBlock.cidr"]),
        (block("10.0.0.0/08"), [f"FieldValueInvalid {PEER}.ipBlock.cidr"]),
        (block("10.0.0.0/8", "x"), [f"FieldValueInvalid {PEER}.ipBlock.except[0]"]),
        (block("10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/16"), [f"FieldValueInvalid {PEER}.ipBlock.except[1]"]),
        (block("10.0.0.0/8", "10.0.0.0/8"), [f"FieldValueInvalid {PEER}.ipBlock.except[0]"]),
        (block("10.0.0.0/8", "fd00::/16"), [f"FieldValueInvalid {PEER}.ipBlock.except[0]"]),
        (
            {"egress": [{"to": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
            [f"FieldValueForbidden {PEER}"],
        ),
        (
            {"egress": [{"to": [{"podSelector": {"matchLabels": {"a": "b c"}}}]}]},
            [f"FieldValueInvalid {PEER}.podSelector.matchLabels"],
        ),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            ["FieldValueRequired spec.podSelector.matchExpressions[0].values"],
        ),
        ({"policyTypes": ["x"]}, ["FieldValueNotSupported spec.policyTypes[0]"]),
        ({"policyTypes": ["Ingress"] * 3}, ["FieldValueInvalid spec.policyTypes"]),
    ],
)
def test_a_faulty_policy_is_refused(api: Api, spec: dict[str, Any], causes: list[str]) -> None:
    answer = make(api, **spec)
    assert answer.status == 422, answer.body
    assert sorted(f"{reason} {field}" for reason, field in answer.causes) == causes


def test_the_writer_of_a_policy_is_warned_of_oddly_written_networks(api: Api) -> None:
    answer = make(api, **block("2001:DB8::/32", "2001:db8:0:0::/64"))
    assert answer.status == 201, answer.body
    assert answer.headers["warning"].count("299 - ") == 2
