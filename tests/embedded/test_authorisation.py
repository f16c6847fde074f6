"""Roles, and what they open: the pure decision, and the server that holds users to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import HttpRequest
from reconcile.embedded import ADMIN, ApiRequest, ApiServer, InProcessTransport, User, service_account
from reconcile.embedded.auth import Attributes, RoleRule, attributes_of, authorize
from reconcile.embedded.auth.impersonation import impersonated, impersonation_acts
from reconcile.embedded.auth.role_rules import allows, uncovered
from reconcile.embedded.protocol.request_info import request_info
from tests.embedded.api_client import CONFIG_MAPS, MERGE, WIDGETS, Api, config_map, widget

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CLUSTER_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ANNA = {"impersonate-user": "anna"}
OPERATOR = service_account("default", "operator")


def role(api: Api, name: str, *rules: dict[str, Any], **headers: str) -> Any:
    return api.send("POST", ROLES, {"metadata": {"name": name}, "rules": list(rules)}, **headers)


def rule(resource: str, *verbs: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


def bind(api: Api, name: str, subject: dict[str, Any], kind: str = "Role", **headers: str) -> Any:
    reference = {"kind": kind, "name": name}
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    return api.send("POST", BINDINGS, body, **headers)


def anna(api: Api, *rules: dict[str, Any]) -> None:
    assert role(api, "annas", *rules).status == 201
    assert bind(api, "annas", {"kind": "User", "name": "anna"}).status == 201


# --- what a request asks ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/pods", {"watch": "true"}, ("watch", "", "pods", "", "", "")),
        ("GET", "/api/v1/watch/pods", {}, ("watch", "", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/b", {}, ("get", "", "pods", "", "a", "b")),
        ("GET", "/api/v1/namespaces/a/pods/b/log", {}, ("get", "", "pods", "log", "a", "b")),
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments", {}, ("deletecollection", "apps", "deployments", "", "a", "")),  # noqa: E501
        ("DELETE", "/apis/apps/v1/namespaces/a/deployments/b", {}, ("delete", "apps", "deployments", "", "a", "b")),  # noqa: E501
        ("PATCH", "/apis/x.io/v1/things/b/status", {}, ("patch", "x.io", "things", "status", "", "b")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, ("update", "", "namespaces", "finalize", "a", "a")),
        ("POST", "/api/v1/namespaces", {}, ("create", "", "namespaces", "", "", "")),
        ("GET", "/api/v1/namespaces/a", {}, ("get", "", "namespaces", "", "a", "a")),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=b"}, ("list", "", "pods", "", "", "b")),
    ],
)  # fmt: skip
def test_a_request_is_read_from_its_method_and_path(
    method: str, path: str, query: dict[str, str], expected: tuple[str, ...]
) -> None:
    asked = attributes_of(ADMIN, request_info(method, path, query), path)
    assert (
        asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace, asked.name
    ) == expected  # fmt: skip


def test_a_path_that_is_not_a_resource_is_authorised_as_a_path() -> None:
    asked = attributes_of(ADMIN, request_info("GET", "/version", {}), "/version")
    assert (asked.verb, asked.path, asked.resource) == ("get", "/version", "")


# --- the decision -----------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b", "*"])
SETS = st.lists(WORDS, min_size=1, max_size=2).map(tuple)
RULES = st.builds(RoleRule, verbs=SETS, groups=SETS, resources=SETS, names=st.just(()) | st.just(("a",)))
PLAIN = st.sampled_from(["a", "b", "c"])
ACTS = st.builds(
    Attributes, st.just(User("u")), verb=PLAIN, group=PLAIN, resource=PLAIN, name=PLAIN | st.just("")
)


@given(st.lists(RULES, max_size=4), ACTS)
def test_a_request_is_allowed_exactly_if_one_rule_allows_it(rules: list[RoleRule], act: Attributes) -> None:
    assert authorize(act, rules).allowed == any(allows(one, act) for one in rules)


@given(st.lists(RULES, max_size=4), RULES, ACTS)
def test_covered_rules_grant_nothing_new(held: list[RoleRule], wanted: RoleRule, act: Attributes) -> None:
    if not uncovered(held, [wanted]) and allows(wanted, act):
        assert authorize(act, held).allowed


@given(RULES)
def test_a_rule_covers_itself(one: RoleRule) -> None:
    assert uncovered([one], [one]) == []


@pytest.mark.parametrize(
    ("resources", "asked", "allowed"),
    [
        (("pods",), ("pods", ""), True),
        (("pods",), ("pods", "log"), False),
        (("pods/log",), ("pods", "log"), True),
        (("pods/*",), ("pods", "log"), False),
        (("*/scale",), ("deployments", "scale"), True),
        (("*/scale",), ("deployments", ""), False),
        (("*",), ("pods", "log"), True),
    ],
)
def test_a_subresource_is_granted_by_its_own_name(
    resources: tuple[str, ...], asked: tuple[str, str], allowed: bool
) -> None:
    act = Attributes(User("u"), "get", resource=asked[0], subresource=asked[1])
    assert allows(RoleRule(("get",), ("",), resources), act) is allowed


# --- the server -------------------------------------------------------------------------------


@pytest.mark.rule("api-29")
def test_a_user_without_a_role_gets_a_403_that_names_verb_and_resource(api: Api) -> None:
    api.ok("POST", CONFIG_MAPS, config_map())
    answer = api.send("GET", f"{CONFIG_MAPS}/a", **ANNA)
    assert answer.status == 403
    assert answer.body["reason"] == "Forbidden"
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}
    assert answer.body["message"] == (
        'configmaps "a" is forbidden: User "anna" cannot get resource "configmaps" in API group "" in the '
        'namespace "default"'
    )
    assert "at the cluster scope" in api.send("GET", "/api/v1/configmaps", **ANNA).body["message"]


def test_a_403_does_not_reveal_whether_an_object_exists(api: Api) -> None:
    there = api.send("GET", f"{WIDGETS}/x", **ANNA)
    nowhere = api.send("GET", "/apis/nowhere.io/v1/namespaces/default/widgets/x", **ANNA)
    assert (there.status, nowhere.status) == (403, 403)
    assert 'widgets.example.com "x" is forbidden' in there.body["message"]


def test_a_role_allows_its_rules_in_its_own_namespace_only(api: Api) -> None:
    anna(api, rule("configmaps", "list", "create"))
    assert api.send("GET", CONFIG_MAPS, **ANNA).status == 200
    assert api.send("POST", CONFIG_MAPS, config_map(), **ANNA).status == 201
    assert api.send("DELETE", f"{CONFIG_MAPS}/a", **ANNA).status == 403
    assert api.send("GET", "/api/v1/configmaps", **ANNA).status == 403
    assert api.send("GET", "/api/v1/namespaces/kube-system/configmaps", **ANNA).status == 403


def test_a_role_is_revoked_with_its_binding(api: Api) -> None:
    anna(api, rule("configmaps", "list"))
    assert api.send("GET", CONFIG_MAPS, **ANNA).status == 200
    api.ok("DELETE", f"{BINDINGS}/annas")
    assert api.send("GET", CONFIG_MAPS, **ANNA).status == 403


def test_a_role_with_a_resource_name_grants_that_object(api: Api) -> None:
    anna(api, rule("configmaps", "get", "watch", resourceNames=["a"]))
    for name in ("a", "b"):
        api.ok("POST", CONFIG_MAPS, config_map(name))
    assert api.send("GET", f"{CONFIG_MAPS}/a", **ANNA).status == 200
    assert api.send("GET", f"{CONFIG_MAPS}/b", **ANNA).status == 403
    watch = api.raw("GET", CONFIG_MAPS, None, {"watch": "1", "fieldSelector": "metadata.name=a"}, **ANNA)
    assert not hasattr(watch, "status")


def test_status_needs_a_separate_rule(api: Api) -> None:
    anna(api, rule("widgets", "patch", "create", group="example.com"))
    api.ok("POST", WIDGETS, widget())
    patch = {"status": {"ready": True}}
    more = {"content_type": MERGE, **ANNA}
    assert api.send("PATCH", f"{WIDGETS}/a", patch, **more).status == 200
    refused = api.send("PATCH", f"{WIDGETS}/a/status", patch, **more)
    assert refused.status == 403
    assert 'cannot patch resource "widgets/status" in API group "example.com"' in refused.body["message"]


def test_an_aggregating_cluster_role_has_the_rules_of_others(api: Api) -> None:
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    rules = [rule("widgets", "list", group="example.com")]
    part = {"metadata": {"name": "widgets-view", "labels": labels}, "rules": rules}
    api.ok("POST", CLUSTER_ROLES, part)
    assert bind(api, "edit", {"kind": "User", "name": "anna"}, "ClusterRole").status == 201
    assert api.send("GET", WIDGETS, **ANNA).status == 200
    assert api.send("POST", CONFIG_MAPS, config_map(), **ANNA).status == 201
    assert api.send("GET", ROLES, **ANNA).status == 403


def test_every_user_may_use_discovery_and_review_their_own_rights(api: Api) -> None:
    for path in ("/api", "/apis", "/apis/apps/v1", "/openapi/v3", "/version", "/healthz"):
        assert api.send("GET", path, **ANNA).status == 200
    refused = api.send("GET", "/metrics", **ANNA)
    assert refused.status == 403
    assert refused.body["message"] == 'forbidden: User "anna" cannot get path "/metrics"'


def test_users_cannot_grant_more_than_they_have(api: Api) -> None:
    anna(
        api,
        rule("roles", "create", group="rbac.authorization.k8s.io"),
        rule("rolebindings", "create", group="rbac.authorization.k8s.io"),
        rule("configmaps", "get"),
    )
    assert role(api, "less", rule("configmaps", "get"), **ANNA).status == 201
    more = role(api, "more", rule("configmaps", "get", "delete"), **ANNA)
    assert more.status == 403
    assert "is attempting to grant RBAC permissions not currently held" in more.body["message"]
    assert '{APIGroups:[""], Resources:["configmaps"], Verbs:["delete"]}' in more.body["message"]
    assert bind(api, "less", {"kind": "User", "name": "bob"}, **ANNA).status == 201
    assert bind(api, "cluster-admin", {"kind": "User", "name": "bob"}, "ClusterRole", **ANNA).status == 403


def test_escalate_and_bind_permit_granting_more_than_one_has(api: Api) -> None:
    group = "rbac.authorization.k8s.io"
    anna(
        api,
        rule("roles", "create", "escalate", group=group),
        rule("rolebindings", "create", group=group),
        rule("roles", "bind", group=group, resourceNames=["more"]),
    )
    assert role(api, "more", rule("configmaps", "delete"), **ANNA).status == 201
    assert role(api, "most", rule("secrets", "delete"), **ANNA).status == 201
    assert bind(api, "more", {"kind": "User", "name": "bob"}, **ANNA).status == 201
    assert bind(api, "most", {"kind": "User", "name": "bob"}, **ANNA).status == 403


def test_creating_an_aggregating_role_requires_all_rights(api: Api) -> None:
    rules = [rule("clusterroles", "create", "update", group="rbac.authorization.k8s.io")]
    assert api.send("POST", CLUSTER_ROLES, {"metadata": {"name": "annas"}, "rules": rules}).status == 201
    reference = {"kind": "ClusterRole", "name": "annas"}
    subjects = [{"kind": "User", "name": "anna"}]
    binding = {"metadata": {"name": "annas"}, "roleRef": reference, "subjects": subjects}
    assert api.send("POST", CLUSTER_BINDINGS, binding).status == 201
    selector = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    aggregating = {"metadata": {"name": "sum"}, "aggregationRule": selector}
    refused = api.send("POST", CLUSTER_ROLES, aggregating, **ANNA)
    assert refused.status == 403
    assert '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}' in refused.body["message"]
    made = api.send("POST", CLUSTER_ROLES, aggregating)
    assert made.status == 201
    made.body["metadata"]["labels"] = {"touched": "yes"}
    assert api.send("PUT", f"{CLUSTER_ROLES}/sum", made.body, **ANNA).status == 200


def test_a_missing_role_cannot_be_bound_without_the_right_to_bind(api: Api) -> None:
    anna(api, rule("rolebindings", "create", group="rbac.authorization.k8s.io"))
    refused = bind(api, "gone", {"kind": "User", "name": "bob"}, **ANNA)
    assert refused.status == 403
    assert 'roles.rbac.authorization.k8s.io "gone" not found' in refused.body["message"]


def test_the_role_of_a_binding_never_changes(api: Api) -> None:
    anna(api, rule("configmaps", "get"))
    other = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}
    answer = api.send("PATCH", f"{BINDINGS}/annas", {"roleRef": other}, content_type=MERGE)
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "roleRef")])


# --- impersonation ----------------------------------------------------------------------------


def test_impersonation_needs_permission(api: Api) -> None:
    anna(api)
    request = ApiRequest("GET", CONFIG_MAPS, headers={"impersonate-user": "bob"}, user=User("anna"))
    answer = api.server.handle(request)
    assert not hasattr(answer, "take")
    assert answer.status == 403
    assert b'users \\"bob\\" is forbidden: User \\"anna\\" cannot impersonate resource' in answer.body


UID = "uids.authentication.k8s.io 7"
EXTRA = "userextras.authentication.k8s.io"


@pytest.mark.parametrize(
    ("headers", "more"),
    [
        ({}, []),
        ({"impersonate-group": "a,b", "impersonate-uid": "7"}, ["groups a", "groups b", UID]),
        ({"impersonate-extra-a%2fb": "x,y"}, [f"{EXTRA}/a/b x", f"{EXTRA}/a/b y"]),
    ],
)
def test_each_part_of_an_impersonation_needs_permission(headers: dict[str, str], more: list[str]) -> None:
    assert impersonations({"impersonate-user": "bob", **headers}) == ["users bob", *more]


def test_a_service_account_is_impersonated_in_its_namespace() -> None:
    headers = {"impersonate-user": "system:serviceaccount:here:robot"}
    assert impersonations(headers) == ["serviceaccounts here/robot"]


def impersonations(headers: dict[str, str]) -> list[str]:
    """What the user anna has to be allowed to impersonate."""
    wanted = impersonated(headers)
    assert wanted is not None
    asked = list(impersonation_acts(User("anna"), headers, wanted))
    assert {act.verb for act in asked} == {"impersonate"}
    return [_thing(act) for act in asked]


def _thing(act: Attributes) -> str:
    kind = f"{act.resource}.{act.group}" if act.group else act.resource
    place = f"{act.namespace}/" if act.namespace else ""
    return f"{kind}{'/' if act.subresource else ''}{act.subresource} {place}{act.name}"


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("bob", {"system:authenticated"}),
        ("system:anonymous", {"system:unauthenticated"}),
        (
            "system:serviceaccount:here:robot",
            {"system:serviceaccounts", "system:serviceaccounts:here", "system:authenticated"},
        ),
    ],
)
def test_the_groups_of_an_impersonated_user_follow_from_its_name(name: str, groups: set[str]) -> None:
    wanted = impersonated({"impersonate-user": name})
    assert wanted is not None
    assert set(wanted.groups) == groups


def test_groups_without_a_user_are_an_error(api: Api) -> None:
    assert api.send("GET", CONFIG_MAPS, **{"impersonate-group": "a"}).status == 500


def test_an_impersonated_group_has_its_roles(api: Api) -> None:
    both = {"impersonate-user": "x", "impersonate-group": "system:masters"}
    assert api.send("GET", "/api/v1/secrets", **both).status == 200


# --- in process -------------------------------------------------------------------------------


def test_a_delegator_may_ask_who_a_token_is_of_and_what_a_user_may_do(api: Api) -> None:
    found = api.ok("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:auth-delegator")
    assert [(rule["verbs"], rule["resources"]) for rule in found["rules"]] == [
        (["create"], ["tokenreviews"]),
        (["create"], ["subjectaccessreviews"]),
    ]


async def test_an_operator_in_process_is_limited_to_its_role(api: Api) -> None:
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": "default"}
    assert role(api, "operator", rule("configmaps", "list")).status == 201
    assert bind(api, "operator", subject).status == 201
    transport = InProcessTransport(api.server, user=OPERATOR)
    assert (await transport.request(HttpRequest("GET", CONFIG_MAPS))).status == 200
    assert (await transport.request(HttpRequest("GET", "/api/v1/namespaces/default/secrets"))).status == 403
    async with transport.stream(HttpRequest("GET", CONFIG_MAPS, {"watch": "1"})) as answer:
        assert answer.status == 403


async def test_without_rbac_every_user_may_do_everything() -> None:
    transport = InProcessTransport(ApiServer(rbac=False), user=OPERATOR)
    assert (await transport.request(HttpRequest("GET", "/api/v1/secrets"))).status == 200


def test_an_aggregating_role_shows_its_collected_rules(api: Api) -> None:
    labels = {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}
    part = {"metadata": {"name": "more", "labels": labels}, "rules": [rule("widgets", "get", group="x.io")]}
    api.settled("POST", CLUSTER_ROLES, part)
    shown = api.ok("GET", f"{CLUSTER_ROLES}/admin")["rules"]
    assert {"verbs": ["get"], "apiGroups": ["x.io"], "resources": ["widgets"]} in shown
    api.settled("DELETE", f"{CLUSTER_ROLES}/more")
    assert api.ok("GET", f"{CLUSTER_ROLES}/admin")["rules"] == [
        one for one in shown if one["apiGroups"] != ["x.io"]
    ]
    before = api.server.version
    api.server.settle()
    assert api.server.version == before
