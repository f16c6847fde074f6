"""Nodes, namespaces, accounts, quotas, limit ranges, priorities, leases and secrets, by their rules."""

import base64
from typing import Any

import pytest
import trustme

from tests.embedded.api_client import MERGE, Answer, Api

NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
LIMITS = "/api/v1/namespaces/default/limitranges"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SECRETS = "/api/v1/namespaces/default/secrets"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
BLUE = {"key": "colour", "value": "blue", "effect": "NoExecute"}


def named(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def faults(answer: Answer) -> list[str]:
    """The causes of a refusal without what all of them share; empty if the write was accepted."""
    if answer.status < 300:
        return []
    assert answer.status == 422, answer.body
    return sorted(f"{reason.removeprefix('FieldValue')} {field}" for reason, field in answer.causes)


def warnings(answer: Answer) -> int:
    assert answer.status < 300, answer.body
    return answer.headers.get("warning", "").count("299 ")


# --- nodes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("taints", "kept"), [([], [NOT_READY]), ([BLUE], [BLUE, NOT_READY]), ([NOT_READY], [NOT_READY])]
)
def test_a_new_node_is_not_ready(api: Api, taints: list[Any], kept: list[Any]) -> None:
    made = api.ok("POST", NODES, named(spec={"taints": taints}))
    assert made["spec"]["taints"] == kept
    assert "taints" not in api.merge(f"{NODES}/a", {"spec": {"taints": None}})["spec"]


@pytest.mark.parametrize(
    "given",
    [
        {"podCIDR": "10.2.0.0/24"},
        {"podCIDRs": ["10.2.0.0/24"]},
        {"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.3.0.0/24"]},
    ],
)
def test_the_address_ranges_of_a_node_agree(api: Api, given: dict[str, Any]) -> None:
    spec = api.ok("POST", NODES, named(spec=given))["spec"]
    assert (spec["podCIDR"], spec["podCIDRs"]) == ("10.2.0.0/24", ["10.2.0.0/24"])


def test_a_new_node_keeps_its_status_and_offers_all_of_it(api: Api) -> None:
    status = api.ok("POST", NODES, named(status={"capacity": {"cpu": "4"}}))["status"]
    assert (status["capacity"], status["allocatable"]) == ({"cpu": "4"}, {"cpu": "4"})


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"spec": {"taints": [{"key": "k", "effect": "Odd"}]}}, ["NotSupported metadata.taints[0].effect"]),
        ({"spec": {"taints": [{"key": "k"}]}}, ["Required metadata.taints[0].effect"]),
        ({"spec": {"taints": [{**BLUE, "value": "a b"}]}}, ["Invalid metadata.taints[0].value"]),
        ({"spec": {"taints": [{**BLUE, "key": "a b"}]}}, ["Invalid metadata.taints[0].key"]),
        ({"spec": {"taints": [BLUE, BLUE]}}, ["Duplicate metadata.taints[1]"]),
        ({"spec": {"podCIDRs": ["odd"]}}, ["Invalid spec.podCIDRs[0]"]),
        ({"spec": {"podCIDRs": ["10.2.0.0/24", "10.3.0.0/24"]}}, ["Invalid spec.podCIDRs"]),
        ({"spec": {"podCIDRs": ["10.2.0.0/24", "fd00::/64"]}}, []),
        ({"spec": {"podCIDRs": ["10.2.0.0/24", "odd"]}},
         ["InternalError spec.podCIDRs", "Invalid spec.podCIDRs", "Invalid spec.podCIDRs[1]"]),
        ({"status": {"capacity": {"pods": "1500m"}}},
         ["Invalid status.allocatable.pods", "Invalid status.capacity.pods"]),
        ({"status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "-1"}}},
         ["Invalid status.allocatable.cpu"]),
    ],
)  # fmt: skip
def test_a_node_that_breaks_a_rule_is_refused(api: Api, more: dict[str, Any], expected: list[str]) -> None:
    assert faults(api.send("POST", NODES, named(**more))) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"providerID": "p2"}, ["Forbidden spec.providerID"]),
        ({"podCIDR": "10.3.0.0/24"}, ["Forbidden spec.podCIDRs"]),
        ({"externalID": "x"}, ["Forbidden spec.externalID"]),
        ({"unschedulable": True}, []),
        ({"taints": [BLUE, BLUE]}, ["Duplicate metadata.taints[1]"] * 2),
    ],
)
def test_what_a_cloud_gave_a_node_is_fixed(api: Api, change: dict[str, Any], expected: list[str]) -> None:
    api.ok("POST", NODES, named(spec={"providerID": "p1", "podCIDR": "10.2.0.0/24"}))
    answer = api.send("PATCH", f"{NODES}/a", {"spec": change}, content_type=MERGE)
    assert faults(answer) == expected


def test_the_status_of_a_node_is_checked(api: Api) -> None:
    api.ok("POST", NODES, named())
    address = {"type": "InternalIP", "address": "1.2.3.4"}
    status = {"addresses": [address, address], "capacity": {"cpu": "-1"}}
    answer = api.send("PATCH", f"{NODES}/a/status", {"status": status}, content_type=MERGE)
    assert faults(answer) == [
        "Duplicate status.addresses[1]", "Invalid status.allocatable.cpu", "Invalid status.capacity.cpu",
    ]  # fmt: skip


def test_what_nodes_had_once_is_dropped_or_warned_of(api: Api) -> None:
    source = {"configMap": {"name": "x"}}
    answer = api.send("POST", NODES, named(spec={"configSource": source, "externalID": "x"}))
    assert "configSource" not in answer.body["spec"]
    assert warnings(answer) == 1


# --- namespaces and accounts ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finalizer", "count"), [("kubernetes", 0), ("example.com/f", 0), ("odd", 1), ("not ok", 2), ("", 3)]
)
def test_the_finalizers_of_a_namespace_are_checked(api: Api, finalizer: str, count: int) -> None:
    answer = api.send("POST", NAMESPACES, named(spec={"finalizers": [finalizer]}))
    assert faults(answer) == ["Invalid spec.finalizers"] * count


@pytest.mark.parametrize("phase", ["Terminating", "Odd", ""])
def test_a_namespace_is_active_until_it_is_deleted(api: Api, phase: str) -> None:
    api.ok("POST", NAMESPACES, named())
    change = {"status": {"phase": phase}}
    answer = api.send("PATCH", f"{NAMESPACES}/a/status", change, content_type=MERGE)
    assert faults(answer) == ["Invalid status.Phase"]


def test_an_account_keeps_the_names_of_its_secrets_only(api: Api) -> None:
    made = api.ok("POST", ACCOUNTS, named(secrets=[{"kind": "Secret", "namespace": "x", "name": "y"}]))
    assert made["secrets"] == [{"name": "y"}]


# --- quotas -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hard": {"requests.cpu": "1", "count/deployments.apps": "3", "requests.ex.io/gpu": "2"}}, []),
        ({"hard": {"configmaps": "-1"}}, ["Invalid spec.hard[configmaps]"]),
        ({"hard": {"configmaps": "1500m"}}, ["Invalid spec.hard[configmaps]"]),
        ({"hard": {"odd": "1"}}, ["Invalid spec.hard[odd]"] * 2),
        ({"hard": {"storage": "1"}}, ["Invalid spec.hard[storage]"]),
        ({"hard": {"pods": "1"}, "scopes": ["Odd"]}, ["Invalid spec.scopes"]),
        ({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}, ["Invalid spec.scopes"]),
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, ["Invalid spec.scopes"]),
        ({"hard": {"requests.storage": "1"}, "scopes": ["VolumeAttributesClass"]}, []),
    ],
)
def test_a_quota_that_breaks_a_rule_is_refused(api: Api, spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(api.send("POST", QUOTAS, named(spec=spec))) == expected


@pytest.mark.parametrize(
    ("scope", "operator", "values", "expected"),
    [
        ("PriorityClass", "In", ["high"], []),
        ("PriorityClass", "In", [], ["Required {}.values"]),
        ("PriorityClass", "Exists", ["high"], ["Invalid {}.values"]),
        ("PriorityClass", "Odd", [], ["Invalid {}.operator"]),
        ("BestEffort", "DoesNotExist", [], ["Invalid {}.operator"]),
        ("Odd", "Exists", [], ["Invalid {}.scopeName"]),
    ],
)
def test_the_selector_of_a_quota_is_checked(
    api: Api, scope: str, operator: str, values: list[str], expected: list[str]
) -> None:
    selector = {"matchExpressions": [{"scopeName": scope, "operator": operator, "values": values}]}
    answer = api.send("POST", QUOTAS, named(spec={"hard": {"pods": "1"}, "scopeSelector": selector}))
    assert faults(answer) == [one.format("spec.scopeSelector.matchExpressions") for one in expected]


def test_the_scopes_of_a_quota_are_fixed(api: Api) -> None:
    api.ok("POST", QUOTAS, named(spec={"hard": {"pods": "1"}}))
    answer = api.send("PATCH", f"{QUOTAS}/a", {"spec": {"scopes": ["BestEffort"]}}, content_type=MERGE)
    assert faults(answer) == ["Invalid spec.scopes"]


# --- limit ranges -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "default", "request_"),
    [
        ({"default": {"cpu": "1"}}, {"cpu": "1"}, {"cpu": "1"}),
        ({"max": {"cpu": "2"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"min": {"cpu": "1"}}, None, {"cpu": "1"}),
        ({"max": {"cpu": "2"}, "min": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "2"}),
        ({"max": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}, {"cpu": "2"}, {"cpu": "1"}),
    ],
)
def test_the_defaults_of_containers_follow_from_their_bounds(
    api: Api, limit: dict[str, Any], default: Any, request_: Any
) -> None:
    body = named(spec={"limits": [{"type": "Container", **limit}]})
    (made,) = api.ok("POST", LIMITS, body)["spec"]["limits"]
    assert (made.get("default"), made.get("defaultRequest")) == (default, request_)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([{"type": "Odd"}], ["Invalid {}.type"]),
        ([{}], ["Invalid {}.type"] * 2),
        ([{"type": "Container"}] * 2, ["Duplicate spec.limits[1].type"]),
        ([{"type": "Pod", "default": {"cpu": "1"}}], ["Forbidden {}.default"]),
        ([{"type": "PersistentVolumeClaim"}], ["Required {}.limits"]),
        ([{"type": "Container", "max": {"pods": "1"}, "default": {"cpu": "1"}}],
         ["Invalid {}.default[pods]", "Invalid {}.defaultRequest[pods]", "Invalid {}.max[pods]"]),
        ([{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}], ["Invalid {}.min[cpu]"]),
        ([{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}],
         ["Invalid {}.defaultRequest[cpu]"]),
        ([{"type": "Container", "default": {"a.io/b": "2"}, "defaultRequest": {"a.io/b": "1"}}],
         ["Invalid {}.defaultRequest[a.io/b]"]),
        ([{"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}],
         ["Invalid {}.maxLimitRequestRatio[cpu]"]),
        ([{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}],
         ["Invalid {}.maxLimitRequestRatio[cpu]"]),
        ([{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}],
         []),
    ],
)  # fmt: skip
def test_a_limit_range_that_breaks_a_rule_is_refused(
    api: Api, limits: list[Any], expected: list[str]
) -> None:
    answer = api.send("POST", LIMITS, named(spec={"limits": limits}))
    assert faults(answer) == sorted(one.format("spec.limits[0]") for one in expected)


def test_a_limit_range_without_a_name_gets_one(api: Api) -> None:
    assert api.ok("POST", LIMITS, {"spec": {"limits": []}})["metadata"]["name"]


# --- priorities and leases --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (named(value=10**9), []),
        (named(value=10**9 + 1), ["Forbidden value"]),
        (named("system-a", value=1), ["Forbidden metadata.name"]),
        (named("system-node-critical", value=2_000_001_000), []),
        (named(value=1, preemptionPolicy="Odd"), ["NotSupported preemptionPolicy"]),
        (named(value=1, preemptionPolicy=""), ["Required preemptionPolicy"]),
    ],
)
def test_a_priority_that_breaks_a_rule_is_refused(
    api: Api, body: dict[str, Any], expected: list[str]
) -> None:
    assert faults(api.send("POST", PRIORITIES, body)) == expected


def test_one_priority_is_the_default(api: Api) -> None:
    api.ok("POST", PRIORITIES, named(value=1, globalDefault=True))
    assert api.send("POST", PRIORITIES, named("b", value=1, globalDefault=True)).status == 403
    assert api.merge(f"{PRIORITIES}/a", {"description": "again"})["globalDefault"] is True


def test_no_update_raises_the_generation_of_a_priority(api: Api) -> None:
    api.ok("POST", PRIORITIES, named(value=1))
    assert api.merge(f"{PRIORITIES}/a", {"description": "x"})["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-01-01T00:00:05.000000Z", "2024-01-01T00:00:05.000000Z"),
        ("2024-01-01T02:00:05.000001+02:00", "2024-01-01T00:00:05.000001Z"),
        ("0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z"),
        ("2024-01-01T00:00:05.000Z", None),
        ("2024-01-01T00:00:05.000000001Z", None),
        ("2024-01-01T00:00:05Z", None),
        ("", None),
    ],
)
def test_a_micro_time_has_six_digits_and_is_shown_in_utc(api: Api, text: str, shown: str | None) -> None:
    answer = api.send("POST", LEASES, named(spec={"renewTime": text}))
    assert (answer.body["spec"]["renewTime"] if answer.status == 201 else None) == shown
    assert answer.status == (201 if shown else 400)


def test_coordinated_election_is_off(api: Api) -> None:
    assert api.ok("POST", LEASES, named(spec={"strategy": "Odd", "preferredHolder": "x"}))["spec"] == {}


# --- secrets ----------------------------------------------------------------------------------


def encoded(**data: str | bytes) -> dict[str, str]:
    texts = {name.replace("_", "."): value for name, value in data.items()}
    return {
        name: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for name, value in texts.items()
    }


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("kubernetes.io/dockerconfigjson", {"_dockerconfigjson": "[]"}, ["Invalid data[.dockerconfigjson]"]),
        ("kubernetes.io/dockerconfigjson", {"_dockerconfigjson": "null"}, []),
        ("kubernetes.io/dockercfg", {}, ["Required data[.dockercfg]"]),
        ("kubernetes.io/ssh-auth", {}, ["Required data[ssh-privatekey]"]),
        ("kubernetes.io/tls", {"tls_key": ""}, ["Required data[tls.crt]"]),
        ("kubernetes.io/basic-auth", {"username": ""}, []),
    ],
)
def test_the_type_of_a_secret_says_what_it_holds(
    api: Api, kind: str, data: dict[str, str], expected: list[str]
) -> None:
    assert faults(api.send("POST", SECRETS, named(type=kind, data=encoded(**data)))) == expected


def test_an_empty_private_key_is_none(api: Api) -> None:
    body = named(type="kubernetes.io/ssh-auth", data={"ssh-privatekey": ""})
    assert faults(api.send("POST", SECRETS, body)) == ["Required data[ssh-privatekey]"]


def test_a_key_that_does_not_fit_its_certificate_causes_a_warning(api: Api) -> None:
    authority = trustme.CA()
    one, other = authority.issue_cert("a.example"), authority.issue_cert("b.example")
    certificate = one.cert_chain_pems[0].bytes()
    for name, key, count in (
        ("fits", one.private_key_pem.bytes(), 0),
        ("other", other.private_key_pem.bytes(), 1),
        ("none", b"x", 1),
    ):
        data = encoded(tls_crt=certificate, tls_key=key)
        assert warnings(api.send("POST", SECRETS, named(name, type="kubernetes.io/tls", data=data))) == count
