"""What the server refuses and fills in of admission webhooks, policies and their bindings."""

from typing import Any

import pytest

from tests.embedded.api_client import Api
from tests.embedded.kind_examples import OBJECTS, RULE, WEBHOOK

BASE = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS, VALIDATING_WEBHOOKS = (
    f"{BASE}/mutatingwebhookconfigurations",
    f"{BASE}/validatingwebhookconfigurations",
)
POLICIES, MUTATING = f"{BASE}/validatingadmissionpolicies", f"{BASE}/mutatingadmissionpolicies"
BINDINGS, MUTATING_BINDINGS = (
    f"{BASE}/validatingadmissionpolicybindings",
    f"{BASE}/mutatingadmissionpolicybindings",
)
URL = "https://a.example.com/b"
INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"
UNSUPPORTED, DUPLICATE, MANY = "FieldValueNotSupported", "FieldValueDuplicate", "FieldValueTooMany"

Causes = list[tuple[str, str]]


def refusal(api: Api, path: str, **more: Any) -> Causes:
    """The sorted causes for an object with these parts; none if it is accepted."""
    answer = api.send("POST", path, {"metadata": {"name": "a"}, **more})
    assert answer.status in (201, 422), answer.body
    return [] if answer.status == 201 else sorted(answer.causes)


def webhook(**parts: Any) -> dict[str, Any]:
    return {name: value for name, value in {**WEBHOOK, **parts}.items() if value is not ...}


def of_rule(**parts: Any) -> dict[str, Any]:
    return webhook(rules=[{**RULE, **parts}])


def reached_by(**client: Any) -> dict[str, Any]:
    return webhook(clientConfig=client)


def service(**parts: Any) -> dict[str, Any]:
    return reached_by(service={"name": "a", "namespace": "b", **parts})


def condition(expression: str, name: str = "a") -> dict[str, Any]:
    return webhook(matchConditions=[{"name": name, "expression": expression}])


# --- webhooks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        (webhook(name="a.b"), [(INVALID, "name")]),
        (webhook(name="A.b.c"), [(INVALID, "name")]),
        (webhook(name=""), [(REQUIRED, "name")]),
        (webhook(sideEffects=...), [(REQUIRED, "sideEffects")]),
        (webhook(sideEffects=""), [(UNSUPPORTED, "sideEffects")]),
        (webhook(sideEffects="Some"), [(UNSUPPORTED, "sideEffects")]),
        (webhook(failurePolicy="Odd"), [(UNSUPPORTED, "failurePolicy")]),
        (webhook(matchPolicy="Odd"), [(UNSUPPORTED, "matchPolicy")]),
        (webhook(reinvocationPolicy="Odd"), [(UNSUPPORTED, "reinvocationPolicy")]),
        (webhook(reinvocationPolicy="IfNeeded"), []),
        (webhook(timeoutSeconds=0), [(INVALID, "timeoutSeconds")]),
        (webhook(timeoutSeconds=30), []),
        (webhook(timeoutSeconds=31), [(INVALID, "timeoutSeconds")]),
        (
            webhook(namespaceSelector={"matchLabels": {"a": "-"}}),
            [(INVALID, "namespaceSelector.matchLabels")],
        ),
        (webhook(admissionReviewVersions=...), [(REQUIRED, "admissionReviewVersions")]),
        (webhook(admissionReviewVersions=["v1", "v9"]), []),
        (webhook(admissionReviewVersions=["v9"]), [(INVALID, "admissionReviewVersions")]),
        (webhook(admissionReviewVersions=["v1", "v1"]), [(INVALID, "admissionReviewVersions[1]")]),
        (webhook(admissionReviewVersions=["v1", "V/1"]), [(INVALID, "admissionReviewVersions[1]")]),
        (webhook(clientConfig=...), [(REQUIRED, "clientConfig")]),
        (reached_by(url=URL), []),
        (reached_by(url=URL, service={"name": "a", "namespace": "b"}), [(REQUIRED, "clientConfig")]),
        (reached_by(url="http://a.example.com"), [(INVALID, "clientConfig.url")]),
        (reached_by(url="https://"), [(INVALID, "clientConfig.url")]),
        (reached_by(url="https://u@a.example.com"), [(INVALID, "clientConfig.url")]),
        (reached_by(url="https://a.example.com?b=c#d"), [(INVALID, "clientConfig.url")] * 2),
        (reached_by(url="https://a.example.com:b"), [(REQUIRED, "clientConfig.url")]),
        (service(port=0), [(INVALID, "clientConfig.service.port")]),
        (service(port=65536), [(INVALID, "clientConfig.service.port")]),
        (service(path="/"), []),
        (service(path="//"), [(INVALID, "clientConfig.service.path")]),
        (service(path="/a//b/"), [(INVALID, "clientConfig.service.path")]),
        (service(path="/a/B"), [(INVALID, "clientConfig.service.path")]),
        (of_rule(operations=[]), [(REQUIRED, "rules[0].operations")]),
        (of_rule(operations=["*", "CREATE"]), [(INVALID, "rules[0].operations")]),
        (of_rule(operations=["GET"]), [(UNSUPPORTED, "rules[0].operations[0]")]),
        (of_rule(apiGroups=[]), [(REQUIRED, "rules[0].apiGroups")]),
        (of_rule(apiGroups=["*", "a"]), [(INVALID, "rules[0].apiGroups")]),
        (of_rule(apiVersions=["*", "v1"]), [(INVALID, "rules[0].apiVersions")]),
        (of_rule(apiVersions=[""]), [(REQUIRED, "rules[0].apiVersions[0]")]),
        (of_rule(resources=[]), [(REQUIRED, "rules[0].resources")]),
        (of_rule(resources=["", "pods"]), [(REQUIRED, "rules[0].resources[0]")]),
        (of_rule(resources=["*", "pods"]), [(INVALID, "rules[0].resources")]),
        (of_rule(resources=["pods", "*"]), []),
        (of_rule(resources=["*", "pods/status"]), []),
        (of_rule(resources=["*/*", "pods"]), [(INVALID, "rules[0].resources")]),
        (of_rule(resources=["pods/*", "pods/status"]), [(INVALID, "rules[0].resources[1]")]),
        (of_rule(resources=["*/status", "pods/status"]), [(INVALID, "rules[0].resources[1]")]),
        (of_rule(scope="Cluster"), []),
        (of_rule(scope="Odd"), [(UNSUPPORTED, "rules[0].scope")]),
        (condition("object.a == oldObject.a && request.namespace == 'b'"), []),
        (condition("authorizer.group('').resource('pods').check('get').allowed()"), []),
        (condition("object."), [(INVALID, "matchConditions[0].expression")]),
        (condition("params.a == 1"), [(INVALID, "matchConditions[0].expression")]),
        (condition("variables.a == 1"), [(INVALID, "matchConditions[0].expression")]),
        (condition("'a'"), [(INVALID, "matchConditions[0].expression")]),
        (condition(" "), [(REQUIRED, "matchConditions[0].expression")]),
        (condition("true", ""), [(REQUIRED, "matchConditions[0].name")]),
        (condition("true", "a/b/c"), [(INVALID, "matchConditions[0].name")]),
        (
            webhook(matchConditions=[{"name": "a", "expression": "true"}] * 2),
            [(DUPLICATE, "matchConditions[1].name")],
        ),
        (
            webhook(matchConditions=[{"name": f"a{n}", "expression": "true"} for n in range(65)]),
            [(MANY, "matchConditions")],
        ),
    ],
)
def test_each_rule_of_a_webhook_names_its_field(api: Api, changed: dict[str, Any], wanted: Causes) -> None:
    assert refusal(api, WEBHOOKS, webhooks=[changed]) == [
        (why, f"webhooks[0].{field}") for why, field in wanted
    ]


def test_a_service_without_a_name_is_said_to_lack_a_namespace_as_on_a_real_server(api: Api) -> None:
    assert refusal(api, WEBHOOKS, webhooks=[reached_by(service={"namespace": "b"})]) == [
        (REQUIRED, "webhooks[0].clientConfig.service.namespace")
    ]


def test_webhooks_of_one_configuration_need_different_names(api: Api) -> None:
    assert refusal(api, VALIDATING_WEBHOOKS, webhooks=[WEBHOOK, WEBHOOK]) == [(DUPLICATE, "webhooks[1].name")]


def test_new_match_conditions_are_compiled_when_a_configuration_changes(api: Api) -> None:
    made = api.ok("POST", WEBHOOKS, {"metadata": {"name": "a"}, "webhooks": [condition("true")]})
    made["webhooks"][0]["timeoutSeconds"] = 7
    assert api.ok("PUT", f"{WEBHOOKS}/a", made)["metadata"]["generation"] == 2
    changed = api.ok("GET", f"{WEBHOOKS}/a")
    changed["webhooks"][0]["matchConditions"][0]["expression"] = "object."
    answer = api.send("PUT", f"{WEBHOOKS}/a", changed)
    assert answer.causes == [(INVALID, "webhooks[0].matchConditions[0].expression")]


# --- policies -----------------------------------------------------------------------------------


def spec_of(path: str, **parts: Any) -> dict[str, Any]:
    spec = {**OBJECTS[path]["spec"], **parts}
    return {name: value for name, value in spec.items() if value is not ...}


def matching(**parts: Any) -> dict[str, Any]:
    return {"matchConstraints": {"resourceRules": [{**RULE, **parts}]}}


def validating(expression: str = "true", **parts: Any) -> dict[str, Any]:
    return {"validations": [{"expression": expression, **parts}]}


VARIABLE = {"name": "a", "expression": "1"}
PARAMS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
FIRST = "validations[0]"


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"failurePolicy": "Odd"}, [(UNSUPPORTED, "failurePolicy")]),
        ({"matchConstraints": ...}, [(REQUIRED, "matchConstraints")]),
        ({"matchConstraints": {}}, [(REQUIRED, "matchConstraints.resourceRules")]),
        (matching(operations=[]), [(REQUIRED, "matchConstraints.resourceRules[0].operations")]),
        (matching(operations=["DELETE"]), []),
        (
            matching(resourceNames=["a", "a"]),
            [(DUPLICATE, "matchConstraints.resourceRules[0].resourceNames[1]")],
        ),
        (matching(resourceNames=["a/b"]), [(INVALID, "matchConstraints.resourceRules[0].resourceNames[0]")]),
        ({"paramKind": {}}, [(REQUIRED, "paramKind.apiVersion"), (REQUIRED, "paramKind.kind")]),
        ({"paramKind": {"apiVersion": "a/b/c", "kind": "A"}}, [(INVALID, "paramKind.apiVersion")]),
        ({"paramKind": {"apiVersion": "a/", "kind": "A"}}, [(INVALID, "paramKind.apiVersion")]),
        ({"paramKind": {"apiVersion": "A/v1", "kind": "A"}}, [(INVALID, "paramKind.apiVersion")]),
        ({"paramKind": {"apiVersion": "v1", "kind": "A b"}}, [(INVALID, "paramKind.kind")]),
        ({"validations": ...}, [(REQUIRED, "auditAnnotations"), (REQUIRED, "validations")]),
        ({"validations": [{}]}, [(REQUIRED, f"{FIRST}.expression")]),
        (validating("'a'"), [(INVALID, f"{FIRST}.expression")]),
        (validating("object.spec.replicas"), [(INVALID, f"{FIRST}.expression")]),
        (validating("request.userInfo.groups.exists(g, g == 'a')"), []),
        (validating("request.odd == 'a'"), [(INVALID, f"{FIRST}.expression")]),
        (validating("namespaceObject.metadata.labels['a'] == 'b'"), []),
        (validating("namespaceObject.metadata.labels == 'b'"), [(INVALID, f"{FIRST}.expression")]),
        (validating("params.data.a == 'b'"), [(INVALID, f"{FIRST}.expression")]),
        (PARAMS | validating("params.data.a == 'b'"), []),
        (validating("variables.a == 1"), [(INVALID, f"{FIRST}.expression")]),
        ({"variables": [VARIABLE]} | validating("variables.a == 1 && has(variables.a)"), []),
        ({"variables": [VARIABLE]} | validating("variables.a == 'b'"), [(INVALID, f"{FIRST}.expression")]),
        ({"variables": [VARIABLE]} | validating("variables.b == 1"), [(INVALID, f"{FIRST}.expression")]),
        ({"variables": [VARIABLE, {"name": "b", "expression": "variables.a"}]}, []),
        (
            {"variables": [{"name": "b", "expression": "variables.a"}, VARIABLE]},
            [(INVALID, "variables[0].expression")],
        ),
        ({"variables": [{"name": "in", "expression": "1"}]}, [(INVALID, "variables[0].name")]),
        ({"variables": [{}]}, [(REQUIRED, "variables[0].expression"), (REQUIRED, "variables[0].name")]),
        (validating(messageExpression="'a' + string(object.b)"), []),
        (validating(messageExpression="1"), [(INVALID, f"{FIRST}.messageExpression")]),
        (validating(messageExpression=" "), [(INVALID, f"{FIRST}.messageExpression")]),
        (
            validating(messageExpression="authorizer.path('/a').check('get').reason()"),
            [(INVALID, f"{FIRST}.messageExpression")],
        ),
        (validating(message=" "), [(INVALID, f"{FIRST}.message")]),
        (validating(message="a\nb"), [(INVALID, f"{FIRST}.message")]),
        (validating(reason="Invalid"), []),
        (validating(reason="Odd"), [(UNSUPPORTED, f"{FIRST}.reason")]),
        ({"auditAnnotations": [{"key": "a", "valueExpression": "null"}]}, []),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "1"}]},
            [(INVALID, "auditAnnotations[0].valueExpression")],
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": f"'{'a' * 5120}'"}]},
            [(REQUIRED, "auditAnnotations[0].valueExpression")],
        ),
        (
            {"auditAnnotations": [{"key": "a", "valueExpression": "'b'"}] * 2},
            [(DUPLICATE, "auditAnnotations[1].key")],
        ),
        (
            {"auditAnnotations": [{"key": f"a{n}", "valueExpression": "'b'"} for n in range(21)]},
            [(INVALID, "auditAnnotations")],
        ),
        (
            {"auditAnnotations": [{"key": "a b", "valueExpression": "'b'"}]},
            [(INVALID, "auditAnnotations[0].key")],
        ),
    ],
)
def test_each_rule_of_a_validating_policy_names_its_field(
    api: Api, parts: dict[str, Any], wanted: Causes
) -> None:
    found = refusal(api, POLICIES, spec=spec_of(POLICIES, **parts))
    assert found == [(why, f"spec.{field}") for why, field in wanted]


def patching(kind: str, expression: str, field: str = "") -> dict[str, Any]:
    field = field or {"JSONPatch": "jsonPatch"}.get(kind, "applyConfiguration")
    return {"mutations": [{"patchType": kind, field: {"expression": expression}}]}


APPLIED, PATCHED = "mutations[0].applyConfiguration", "mutations[0].jsonPatch"


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        (matching(operations=["CREATE", "CONNECT"]), []),
        (matching(operations=["DELETE"]), [(UNSUPPORTED, "matchConstraints.resourceRules.operations")]),
        ({"reinvocationPolicy": ...}, [(REQUIRED, "reinvocationPolicy")]),
        ({"reinvocationPolicy": "Odd"}, [(UNSUPPORTED, "reinvocationPolicy")]),
        ({"mutations": []}, [(REQUIRED, "mutations")]),
        ({"mutations": [{}]}, [(REQUIRED, "mutations[0].patchType")]),
        (patching("Odd", "1"), [(UNSUPPORTED, "mutations[0].patchType")]),
        ({"mutations": [{"patchType": "JSONPatch"}]}, [(REQUIRED, PATCHED)]),
        (
            patching("JSONPatch", "[]", "applyConfiguration"),
            [(INVALID, APPLIED), (REQUIRED, PATCHED)],
        ),
        (patching("ApplyConfiguration", ""), [(REQUIRED, f"{APPLIED}.expression")]),
        (patching("ApplyConfiguration", "Object{spec: Object.spec{a: [1], b: {'c': object.d}}}"), []),
        (patching("ApplyConfiguration", "object.a ? Object{spec: Object.spec{}} : Object{}"), []),
        (patching("ApplyConfiguration", "Object.spec{}"), [(INVALID, f"{APPLIED}.expression")]),
        (patching("ApplyConfiguration", "object"), [(INVALID, f"{APPLIED}.expression")]),
        (patching("JSONPatch", "[JSONPatch{op: 'add', path: '/a', value: 1}]"), []),
        (patching("JSONPatch", "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c')}]"), []),
        (patching("JSONPatch", "[JSONPatch{op: 'add', value: Object.spec{a: 1}}]"), []),
        (patching("JSONPatch", "[JSONPatch{op: 1}]"), [(INVALID, f"{PATCHED}.expression")]),
        (patching("JSONPatch", "[JSONPatch{odd: 1}]"), [(INVALID, f"{PATCHED}.expression")]),
        (patching("JSONPatch", "Object{}"), [(INVALID, f"{PATCHED}.expression")]),
        ({"variables": [VARIABLE]} | patching("ApplyConfiguration", "Object{a: variables.a}"), []),
        (patching("ApplyConfiguration", "Object{a: variables.a}"), [(INVALID, f"{APPLIED}.expression")]),
    ],
)
def test_each_rule_of_a_mutating_policy_names_its_field(
    api: Api, parts: dict[str, Any], wanted: Causes
) -> None:
    found = refusal(api, MUTATING, spec=spec_of(MUTATING, **parts))
    assert found == [(why, f"spec.{field}") for why, field in wanted]


def test_a_policy_is_completed_with_what_it_matches_by_default(api: Api) -> None:
    made = api.ok("POST", POLICIES, {"metadata": {"name": "a"}, "spec": spec_of(POLICIES)})
    assert made["spec"]["failurePolicy"] == "Fail"
    assert made["spec"]["matchConstraints"] == {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": [{**RULE, "scope": "*"}],
    }


def test_the_status_of_a_policy_is_checked_on_its_own(api: Api) -> None:
    made = api.ok("POST", POLICIES, {"metadata": {"name": "a"}, "spec": spec_of(POLICIES)})
    warning = {"fieldRef": "spec.validations[0].expression", "warning": ""}
    made["status"] = {"typeChecking": {"expressionWarnings": [warning]}}
    answer = api.send("PUT", f"{POLICIES}/a/status", made)
    assert answer.causes == [(REQUIRED, "status.typeChecking.expressionWarnings[0].warning")]


# --- bindings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"policyName": ...}, [(REQUIRED, "policyName")]),
        ({"policyName": "A b"}, [(INVALID, "policyName")]),
        ({"validationActions": ...}, [(REQUIRED, "validationActions")]),
        ({"validationActions": ["Odd"]}, [(UNSUPPORTED, "validationActions[0]")]),
        ({"validationActions": ["Deny", "Warn"]}, [(INVALID, "validationActions")]),
        ({"validationActions": ["Audit", "Audit"]}, [(DUPLICATE, "validationActions[1]")]),
        ({"paramRef": {"name": "a", "parameterNotFoundAction": "Allow"}}, []),
        ({"paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"}}, []),
        ({"paramRef": {"parameterNotFoundAction": "Deny"}}, [(REQUIRED, "paramRef")]),
        ({"paramRef": {"name": "a"}}, [(REQUIRED, "paramRef.parameterNotFoundAction")]),
        (
            {"paramRef": {"name": "a/b", "parameterNotFoundAction": "Odd"}},
            [(INVALID, "paramRef.name"), (UNSUPPORTED, "paramRef.parameterNotFoundAction")],
        ),
        (
            {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
            [(FORBIDDEN, "paramRef.name"), (FORBIDDEN, "paramRef.selector")],
        ),
        ({"matchResources": {}}, []),
        ({"matchResources": {"matchPolicy": "Odd"}}, [(UNSUPPORTED, "matchResources.matchPolicy")]),
        ({"matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}}, []),
    ],
)
def test_each_rule_of_a_binding_names_its_field(api: Api, parts: dict[str, Any], wanted: Causes) -> None:
    found = refusal(api, BINDINGS, spec=spec_of(BINDINGS, **parts))
    assert found == [(why, f"spec.{field}") for why, field in wanted]


def test_a_binding_of_a_mutating_policy_cannot_be_for_deletions(api: Api) -> None:
    match = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    assert refusal(api, MUTATING_BINDINGS, spec={"policyName": "a", "matchResources": match}) == [
        (UNSUPPORTED, "spec.matchResources.resourceRules.operations")
    ]
