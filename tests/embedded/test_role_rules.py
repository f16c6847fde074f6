"""What the server refuses and fills in of roles and their bindings."""

from typing import Any

import pytest

from tests.embedded.api_client import Api

BASE = "/apis/rbac.authorization.k8s.io/v1"
ROLES, CLUSTER_ROLES = f"{BASE}/namespaces/default/roles", f"{BASE}/clusterroles"
BINDINGS, CLUSTER_BINDINGS = f"{BASE}/namespaces/default/rolebindings", f"{BASE}/clusterrolebindings"
INVALID, REQUIRED, UNSUPPORTED = "FieldValueInvalid", "FieldValueRequired", "FieldValueNotSupported"
RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
URLS = {"verbs": ["get"], "nonResourceURLs": ["/a"]}
REFERENCE = {"kind": "ClusterRole", "name": "a"}
SELECTORS = "aggregationRule.clusterRoleSelectors"

Causes = list[tuple[str, str]]


def refusal(api: Api, path: str, **parts: Any) -> Causes:
    answer = api.send("POST", path, {"metadata": {"name": "a"}, **parts})
    assert answer.status in (201, 422), answer.body
    return [] if answer.status == 201 else sorted(answer.causes)


@pytest.mark.parametrize(
    ("path", "rule", "wanted"),
    [
        (ROLES, RULE, []),
        (ROLES, {**RULE, "verbs": []}, [(REQUIRED, "verbs")]),
        (ROLES, {"verbs": ["get"]}, [(REQUIRED, "apiGroups"), (REQUIRED, "resources")]),
        (ROLES, {**RULE, "resourceNames": ["a"]}, []),
        (
            ROLES,
            {**RULE, "resources": ["pods", "nodes"], "resourceNames": ["a"]},
            [(REQUIRED, "resourceNames")],
        ),
        (ROLES, URLS, [(INVALID, "nonResourceURLs")]),
        (ROLES, RULE | URLS, [(INVALID, "nonResourceURLs")] * 2),
        (CLUSTER_ROLES, URLS, []),
        (CLUSTER_ROLES, RULE | URLS, [(INVALID, "nonResourceURLs")]),
    ],
)
def test_each_rule_of_a_role_names_its_field(api: Api, path: str, rule: Any, wanted: Causes) -> None:
    assert refusal(api, path, rules=[rule]) == [(why, f"rules[0].{field}") for why, field in wanted]


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({}, [(REQUIRED, SELECTORS)]),
        ({"clusterRoleSelectors": [{}]}, []),
        (
            {"clusterRoleSelectors": [{"matchLabels": {"a": "b c"}}]},
            [(INVALID, f"{SELECTORS}[0]"), (INVALID, f"{SELECTORS}[0].matchLabels")],
        ),
    ],
)
def test_an_aggregating_role_needs_selectors_that_select(api: Api, rule: Any, wanted: Causes) -> None:
    assert refusal(api, CLUSTER_ROLES, rules=[RULE], aggregationRule=rule) == wanted


@pytest.mark.parametrize(
    ("path", "reference", "wanted"),
    [
        (BINDINGS, {"kind": "Role", "name": "a"}, []),
        (CLUSTER_BINDINGS, {"kind": "Role", "name": "a"}, [(UNSUPPORTED, "roleRef.kind")]),
        (BINDINGS, {**REFERENCE, "apiGroup": "apps"}, [(UNSUPPORTED, "roleRef.apiGroup")]),
        (BINDINGS, {**REFERENCE, "name": "a/b"}, [(INVALID, "roleRef.name")]),
        (BINDINGS, {"kind": "ClusterRole"}, [(REQUIRED, "roleRef.name")]),
    ],
)
def test_each_rule_of_what_a_binding_refers_to_names_its_field(
    api: Api, path: str, reference: Any, wanted: Causes
) -> None:
    assert refusal(api, path, roleRef=reference) == wanted


def test_a_binding_without_a_reference_lacks_its_kind_and_name(api: Api) -> None:
    assert refusal(api, BINDINGS) == [(UNSUPPORTED, "roleRef.kind"), (REQUIRED, "roleRef.name")]


@pytest.mark.parametrize(
    ("path", "subject", "wanted"),
    [
        (BINDINGS, {"kind": "User", "name": "A b"}, []),
        (BINDINGS, {"kind": "User"}, [(REQUIRED, "name")]),
        (BINDINGS, {"kind": "Group", "name": "a", "apiGroup": "apps"}, [(UNSUPPORTED, "apiGroup")]),
        (BINDINGS, {"kind": "ServiceAccount", "name": "a"}, []),
        (BINDINGS, {"kind": "ServiceAccount", "name": "A b"}, [(INVALID, "name")]),
        (BINDINGS, {"kind": "ServiceAccount", "name": "a", "apiGroup": "v1"}, [(UNSUPPORTED, "apiGroup")]),
        (CLUSTER_BINDINGS, {"kind": "ServiceAccount", "name": "a"}, [(REQUIRED, "namespace")]),
        (BINDINGS, {"kind": "Odd", "name": "a"}, [(UNSUPPORTED, "kind")]),
    ],
)
def test_each_rule_of_a_subject_names_its_field(api: Api, path: str, subject: Any, wanted: Causes) -> None:
    found = refusal(api, path, roleRef=REFERENCE, subjects=[subject])
    assert found == [(why, f"subjects[0].{field}") for why, field in wanted]


def test_a_rule_that_is_null_is_an_empty_rule(api: Api) -> None:
    fields = ("apiGroups", "resources", "verbs")
    assert refusal(api, ROLES, rules=[None]) == [(REQUIRED, f"rules[0].{field}") for field in fields]
