"""What ValidatingAdmissionPolicies allow, beyond what is recorded of a real server."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers.apimachinery.label_selectors import selector_matches
from reconcile.embedded.admission.request_matching import RequestMatcher
from reconcile.embedded.admission.stored_policies import StoredPolicies
from reconcile.embedded.schema.cel.admission_expressions import Expressions
from tests.embedded.api_client import CONFIG_MAPS, DEFINITIONS, WIDGETS, Api, StillClock, config_map, widget
from tests.embedded.durable_worlds import kept
from tests.embedded.policies import BINDINGS, POLICIES, enforce, rule, validating
from tests.helpers import definitions
from tests.helpers.definitions import INTEGER, object_of

pytestmark = pytest.mark.rule("api-145")

NAMESPACES = "/api/v1/namespaces"
DENIED = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "


def denial(answer: Any) -> str:
    """What a policy says; empty if nothing is denied."""
    if answer.status < 300:
        return ""
    assert answer.status in (403, 422), answer.body
    text: str = answer.body["message"].partition(" is forbidden: ")[2]
    return text.removeprefix(DENIED)


def test_a_policy_counts_for_the_next_request_and_no_longer_without_its_binding(api: Api) -> None:
    enforce(api, validating("object.data.size() < 2"))
    assert denial(api.send("POST", CONFIG_MAPS, config_map(data={"a": "1", "b": "2"})))
    api.ok("DELETE", f"{BINDINGS}/p")
    api.ok("POST", CONFIG_MAPS, config_map(data={"a": "1", "b": "2"}))


def test_a_copy_of_a_server_keeps_its_policies(api: Api) -> None:
    enforce(api, validating("false"))
    api.server = api.server.copy(StillClock())
    assert denial(api.send("POST", CONFIG_MAPS, config_map())) == "failed expression: false"


def test_a_deletion_is_denied_of_one_object_and_of_each_in_a_collection(api: Api) -> None:
    for name in ("a", "kept"):
        api.ok("POST", CONFIG_MAPS, config_map(name))
    enforce(
        api,
        validating(
            {
                "expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'",
                "messageExpression": "has(request.name) ? request.name + ' stays' : 'it stays'",
            }
        ),
    )
    assert denial(api.send("DELETE", f"{CONFIG_MAPS}/kept")) == "kept stays"
    assert denial(api.send("DELETE", CONFIG_MAPS)) == "it stays"
    assert not api.gone(f"{CONFIG_MAPS}/kept")


def test_an_error_is_overlooked_with_ignore_and_what_is_false_is_not(api: Api) -> None:
    enforce(api, validating("object.nothing == 1", "object.data.size() < 2", failurePolicy="Ignore"))
    api.ok("POST", CONFIG_MAPS, config_map(data={"a": "1"}))
    answer = api.send("POST", CONFIG_MAPS, config_map("b", {"a": "1", "b": "2"}))
    assert denial(answer) == "failed expression: object.data.size() < 2"


def test_a_warning_tells_of_errors_too(api: Api) -> None:
    enforce(api, validating("object.nothing == 1", {"expression": "false", "message": "no"}), "Warn")
    warned = api.send("POST", CONFIG_MAPS, config_map())
    assert warned.status == 201
    start = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': "
    assert (
        f"{start}expression 'object.nothing == 1' resulted in error: no such key" in warned.headers["warning"]
    )
    assert f"{start}no" in warned.headers["warning"]


def test_an_audit_annotation_that_fails_refuses_whatever_the_action(api: Api) -> None:
    annotation = [{"key": "who", "valueExpression": "string(object.nothing)"}]
    enforce(api, validating(auditAnnotations=annotation), "Audit")
    assert "resulted in error: no such key: nothing" in denial(api.send("POST", CONFIG_MAPS, config_map()))
    enforce(api, validating(auditAnnotations=annotation, failurePolicy="Ignore", name="q"), "Audit")
    assert "'p'" in api.send("POST", CONFIG_MAPS, config_map()).body["message"]


def test_an_expression_that_costs_too_much_refuses_the_request(api: Api) -> None:
    enforce(api, validating("object.data.all(a, object.data.all(b, object.data.all(c, a != b || b != c)))"))
    many = {f"k{number}": "" for number in range(400)}
    assert "cost limit exceeded" in denial(api.send("POST", CONFIG_MAPS, config_map(data=many)))


def test_the_authorizer_asks_what_the_user_of_the_request_may_do(api: Api) -> None:
    enforce(api, validating("authorizer.requestResource.check('approve').allowed()"))
    api.ok("POST", CONFIG_MAPS, config_map())
    role = {
        "metadata": {"name": "writer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}],
    }
    api.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    bound = {
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }
    api.ok("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", bound)
    refused = api.send("POST", CONFIG_MAPS, config_map("b"), **{"impersonate-user": "jane"})
    assert denial(refused).startswith("failed expression: authorizer.requestResource")
    role["rules"][0]["verbs"].append("approve")  # type: ignore[index]
    api.ok("PUT", "/apis/rbac.authorization.k8s.io/v1/clusterroles/writer", role)
    api.ok("POST", CONFIG_MAPS, config_map("b"), **{"impersonate-user": "jane"})


def test_the_namespace_is_that_of_the_object_and_null_for_objects_of_the_cluster(api: Api) -> None:
    expression = (
        "namespaceObject == null ? !has(request.namespace) : namespaceObject.metadata.name == 'default'"
    )
    nodes = "/api/v1/nodes"
    enforce(api, validating(expression, resources=[rule("configmaps", "nodes")]))
    api.ok("POST", CONFIG_MAPS, config_map())
    api.ok("POST", nodes, {"metadata": {"name": "n"}})
    assert denial(api.send("POST", CONFIG_MAPS.replace("default", "kube-public"), config_map()))


def test_policies_are_asked_neither_about_policies_nor_about_reviews(api: Api) -> None:
    enforce(api, validating("false", resources=[rule("*", apiGroups=["*"], apiVersions=["*"])]))
    api.ok("POST", POLICIES, validating("true", name="q"))
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    api.ok("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert denial(api.send("POST", WIDGETS, widget())) == "failed expression: false"
    api.ok("DELETE", f"{BINDINGS}/p")


# --- matching -----------------------------------------------------------------------------------


def test_a_rule_for_another_version_counts_unless_the_match_is_exact(api: Api) -> None:
    shape = {"openAPIV3Schema": object_of(spec=object_of(size=INTEGER))}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": shape} for name in ("v1", "v1beta1")
    ]
    made = definitions.definition("Gear", object_of(spec=object_of(size=INTEGER)))
    api.ok("POST", DEFINITIONS, {**made, "spec": {**made["spec"], "versions": versions}})
    path = "/apis/example.com/v1beta1/namespaces/default/gears"
    gear = {"apiVersion": "example.com/v1beta1", "kind": "Gear", "metadata": {"name": "a"}}
    rules = [rule("gears", group="example.com")]
    seen = "object.apiVersion + ' ' + request.resource.version + ' ' + request.requestResource.version"
    policy = validating({"expression": "false", "messageExpression": seen}, resources=rules)
    enforce(api, policy)
    assert denial(api.send("POST", path, gear)) == "example.com/v1 v1 v1beta1"
    api.ok("DELETE", f"{BINDINGS}/p")
    exact = validating("false", resources=rules, name="exact", match={"matchPolicy": "Exact"})
    enforce(api, exact)
    api.ok("POST", path, gear)


LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]))
SELECTORS = st.builds(
    lambda equal, key, operator: {
        "matchLabels": equal,
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": ["1"]} if "In" in operator else {})}
        ],
    },
    LABELS,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
)


@settings(max_examples=25)  # each takes a server
@given(SELECTORS, LABELS)
def test_a_selector_of_objects_decides_by_their_labels(
    selector: dict[str, Any], labels: dict[str, str]
) -> None:
    api = Api()
    enforce(api, validating("false", match={"objectSelector": selector}))
    denied = denial(api.send("POST", CONFIG_MAPS, config_map(labels=labels)))
    assert bool(denied) == selector_matches(selector, labels)


def test_an_update_is_selected_by_its_old_labels_too(api: Api) -> None:
    api.ok("POST", CONFIG_MAPS, config_map(labels={"a": "1"}))
    enforce(api, validating("false", match={"objectSelector": {"matchLabels": {"a": "1"}}}))
    unlabelled = {"metadata": {"labels": None}}
    content_type = "application/merge-patch+json"
    assert denial(api.send("PATCH", f"{CONFIG_MAPS}/a", unlabelled, content_type=content_type))


# --- parameters ---------------------------------------------------------------------------------


def limited(**spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    return validating("object.metadata.name.size() <= params.spec.size", paramKind=kind, **spec)


def reference(**more: Any) -> dict[str, Any]:
    return {"paramRef": {"parameterNotFoundAction": "Deny", **more}}


def test_parameters_are_looked_up_in_the_namespace_of_the_request(api: Api) -> None:
    elsewhere = WIDGETS.replace("default", "kube-public")
    api.ok("POST", WIDGETS, widget("limit", spec={"size": 2}))
    api.ok("POST", elsewhere, {**widget("limit", spec={"size": 4})})
    enforce(api, limited(), **reference(name="limit"))
    assert denial(api.send("POST", CONFIG_MAPS, config_map("abc")))
    api.ok("POST", CONFIG_MAPS.replace("default", "kube-public"), config_map("abc"))


def test_parameters_in_namespaces_refuse_objects_of_the_cluster(api: Api) -> None:
    enforce(api, limited(resources=[rule("nodes")]), **reference(name="limit"))
    answer = api.send("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    assert denial(answer) == (
        "failed to configure binding: cannot use namespaced paramRef in policy binding that matches "
        "cluster-scoped resources"
    )


def test_parameters_of_the_cluster_have_no_namespace(api: Api) -> None:
    kind = {"apiVersion": "v1", "kind": "Namespace"}
    policy = validating("params.metadata.name == 'default'", paramKind=kind)
    enforce(api, policy, **reference(name="default", namespace="default"))
    assert "must not be provided for a cluster-scoped `paramKind`" in denial(
        api.send("POST", CONFIG_MAPS, config_map())
    )
    enforce(api, {**policy, "metadata": {"name": "q"}}, **reference(selector={}))
    api.ok("DELETE", f"{BINDINGS}/p")
    assert "'q'" in api.send("POST", CONFIG_MAPS, config_map()).body["message"]


# --- what it costs ------------------------------------------------------------------------------


def test_a_policy_is_compiled_once_for_each_version_of_its_spec(api: Api) -> None:
    stored = StoredPolicies(api.server.log, "validating")
    assert stored.bound() == ()
    enforce(api, validating("true"))
    (first,) = stored.bound()
    assert stored.bound()[0] is first
    api.merge(f"{POLICIES}/p", {"metadata": {"labels": {"a": "1"}}})
    api.server.settle()  # which writes its status
    assert stored.bound()[0].policy is first.policy
    api.merge(f"{POLICIES}/p", {"spec": {"validations": [{"expression": "false"}]}})
    assert stored.bound()[0].policy is not first.policy


def test_without_bindings_no_policy_is_asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a request was compared with a policy")

    api.ok("POST", POLICIES, validating("false"))
    monkeypatch.setattr(RequestMatcher, "match", fail)
    api.ok("POST", CONFIG_MAPS, config_map())


# --- the check of types -------------------------------------------------------------------------


def test_the_status_names_expressions_that_fit_no_object_of_the_matched_kinds(api: Api) -> None:
    def of(*expressions: Any, **spec: Any) -> list[str]:
        api.settled("POST", POLICIES, validating(*expressions, **spec))
        checked = api.ok("GET", f"{POLICIES}/p")["status"]["typeChecking"]
        api.ok("DELETE", f"{POLICIES}/p")
        return [warning["fieldRef"] for warning in checked.get("expressionWarnings", ())]

    widgets = [rule("widgets", group="example.com")]
    assert of("object.data.a == 1", "object.spec == 1") == [
        "spec.validations[0].expression",
        "spec.validations[1].expression",
    ]
    good = "object.spec.size > 1 && has(object.metadata.labels) && object.status.x == object.metadata.name"
    assert of(good, "object.spec.color > 1", resources=widgets) == ["spec.validations[1].expression"]
    limits = "object.spec.containers.all(c, c.resources.limits['cpu'] == '1' && c.name != '')"
    assert of(limits, "oldObject == null || oldObject.spec.nodeName == ''", resources=[rule("pods")]) == []
    anything = [rule("*", apiGroups=["*"])]
    assert of("has(object.no.such.field)", resources=anything) == []


def test_variables_and_parameters_have_types_too(api: Api) -> None:
    policy = validating(
        "variables.size > 'x'",
        "params.spec.nothing == 1",
        resources=[rule("widgets", group="example.com")],
        variables=[{"name": "size", "expression": "object.spec.size"}],
        paramKind={"apiVersion": "example.com/v1", "kind": "Widget"},
    )
    api.settled("POST", POLICIES, policy)
    warned = api.ok("GET", f"{POLICIES}/p")["status"]["typeChecking"]["expressionWarnings"]
    assert [warning["fieldRef"] for warning in warned] == [
        "spec.validations[0].expression",
        "spec.validations[1].expression",
    ]
    assert warned[0]["warning"].startswith("example.com/v1, Kind=Widget: ERROR: <input>:1:")


# --- servers that start again -------------------------------------------------------------------


def test_a_server_that_starts_again_goes_on_with_its_policies(tmp_path: Path) -> None:
    with kept(tmp_path) as api:
        enforce(api, validating("object.data.size() < 2"))
    with kept(tmp_path) as api:
        assert denial(api.send("POST", CONFIG_MAPS, config_map(data={"a": "1", "b": "2"})))
        api.ok("POST", CONFIG_MAPS, config_map(data={"a": "1"}))


# --- many variables -----------------------------------------------------------------------------


def test_each_variable_may_read_the_one_before_and_more_than_a_server_can_check_are_refused(api: Api) -> None:
    chain = [{"name": "v0", "expression": "object.data.size()"}]
    chain += [{"name": f"v{n}", "expression": f"variables.v{n - 1} + 1"} for n in range(1, 40)]
    enforce(api, validating("variables.v39 < 41", variables=chain))
    api.ok("POST", CONFIG_MAPS, config_map(data={"a": "1"}))
    assert denial(api.send("POST", CONFIG_MAPS, config_map("b", {"a": "1", "b": "2"})))
    many = [{"name": f"v{n}", "expression": "true"} for n in range(2000)]
    answer = api.send("POST", POLICIES, validating("true", variables=many, name="many"))
    (cause,) = answer.body["details"]["causes"]
    assert (cause["field"], cause["message"]) == (
        "spec.variables",
        "Too many: 2000: must have at most 256 items",
    )


def test_a_variable_is_compiled_once_and_with_those_that_it_reads(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[int]()
    declared = Expressions._declared

    def counted(self: Expressions, read: Any, authorizer: bool) -> Any:
        made.append(len(read))
        return declared(self, read, authorizer)

    monkeypatch.setattr(Expressions, "_declared", counted)
    chain = [{"name": "v0", "expression": "1"}]
    chain += [{"name": f"v{n}", "expression": f"variables.v{n - 1} + 1"} for n in range(1, 20)]
    api.ok("POST", POLICIES, validating("variables.v19 > 1", variables=chain))
    assert (len(made), max(made)) == (21, 1)
