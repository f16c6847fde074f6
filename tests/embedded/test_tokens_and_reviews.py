"""Tokens of service accounts, and the reviews that say who one is and what one may."""

from typing import Any

import aiohttp
import pytest

from reconcile.embedded import ApiServer, User
from reconcile.embedded.http import serve
from tests.embedded.api_client import CONFIG_MAPS, PODS, Api, pod

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
ANNA = {"impersonate-user": "anna", "impersonate-group": "staff"}


@pytest.fixture
def api() -> Api:
    api = Api()
    api.ok("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    return api


def token(api: Api, **spec: Any) -> str:
    made: str = api.ok("POST", f"{ACCOUNTS}/robot/token", {"spec": spec})["status"]["token"]
    return made


def review(api: Api, path: str, spec: dict[str, Any], **headers: str) -> Any:
    answer = api.send("POST", path, {"spec": spec}, **headers)
    assert answer.status == 201, answer.body
    return answer.body["status"]


# --- tokens -----------------------------------------------------------------------------------


def test_a_token_names_its_account_and_its_expiry(api: Api) -> None:
    answer = api.ok("POST", f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 1200}})
    assert answer["status"]["expirationTimestamp"] == "2026-01-02T03:24:05Z"
    assert answer["spec"]["audiences"] == ["https://kubernetes.default.svc.cluster.local"]
    user = api.server.tokens.user_of(answer["status"]["token"])
    assert user is not None
    assert user.name == "system:serviceaccount:default:robot"
    assert set(user.groups) == {
        "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"
    }  # fmt: skip


def test_a_token_expires(api: Api) -> None:
    made = token(api, expirationSeconds=600)
    api.clock.advance(599)
    assert api.server.tokens.user_of(made) is not None
    api.clock.advance(1)
    assert api.server.tokens.user_of(made) is None


def test_a_token_is_revoked_with_its_account_even_if_another_takes_the_name(api: Api) -> None:
    made = token(api)
    api.ok("DELETE", f"{ACCOUNTS}/robot")
    api.ok("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    assert api.server.tokens.user_of(made) is None


def test_a_token_bound_to_a_pod_is_revoked_with_it(api: Api) -> None:
    api.ok("POST", PODS, pod())
    made = token(api, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "a"})
    user = api.server.tokens.user_of(made)
    assert user is not None
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("a",)
    api.ok("DELETE", f"{PODS}/a")
    assert api.server.tokens.user_of(made) is None


@pytest.mark.parametrize("spoil", [lambda t: t + "x", lambda t: t[1:], lambda t: "", lambda t: "a.b.c"])
def test_a_truncated_token_is_unknown(api: Api, spoil: Any) -> None:
    assert api.server.tokens.user_of(spoil(token(api))) is None


def test_a_token_of_another_server_is_unknown(api: Api) -> None:
    other = Api()
    other.clock.chance.seed(99)
    other.ok("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    made = token(other)
    assert other.server.tokens.user_of(made) is not None
    assert api.server.tokens.user_of(made) is None


@pytest.mark.parametrize(
    ("spec", "status", "field"),
    [
        ({"expirationSeconds": 599}, 422, "spec.expirationSeconds"),
        ({"expirationSeconds": 1 << 33}, 422, "spec.expirationSeconds"),
        ({"expirationSeconds": "x"}, 400, ""),
        ({"audiences": "x"}, 400, ""),
        ({"boundObjectRef": {"kind": "Node", "name": "a"}}, 400, ""),
        ({"boundObjectRef": {"kind": "Pod", "name": "nobody"}}, 404, ""),
    ],
)
def test_a_token_request_that_cannot_be_met_is_refused(
    api: Api, spec: dict[str, Any], status: int, field: str
) -> None:
    answer = api.send("POST", f"{ACCOUNTS}/robot/token", {"spec": spec})
    assert answer.status == status
    if field:
        assert answer.causes == [("FieldValueInvalid", field)]


def test_a_token_cannot_be_created_without_an_account(api: Api) -> None:
    assert api.send("POST", f"{ACCOUNTS}/nobody/token", {}).status == 404


# --- reviews ----------------------------------------------------------------------------------


def test_every_user_may_review_their_own_rights(api: Api) -> None:
    spec = {"resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": "default"}}
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    assert review(api, path, spec) == {"allowed": True}
    assert review(api, path, spec, **ANNA) == {"allowed": False}
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "Group", "name": "staff"}],
    }
    api.ok("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    status = review(api, path, spec, **ANNA)
    assert status == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "b/default" of ClusterRole "edit" to Group "staff"',
    }


def test_a_user_allowed_to_review_others_gets_their_answer(api: Api) -> None:
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}, "user": "bob"}
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    assert review(api, path, spec)["allowed"] is False
    assert review(api, path, {**spec, "groups": ["system:masters"]})["allowed"] is True
    assert api.send("POST", path, {"spec": spec}, **ANNA).status == 403


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"user": "a"}, "spec.resourceAttributes"),
        ({"user": "a", "resourceAttributes": {}, "nonResourceAttributes": {}}, "spec.nonResourceAttributes"),
        ({"resourceAttributes": {"verb": "get"}}, "spec.user"),
    ],
)
def test_a_review_without_attributes_is_invalid(api: Api, spec: dict[str, Any], field: str) -> None:
    answer = api.send("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": spec})
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", field)])


def test_a_local_review_covers_only_its_namespace(api: Api) -> None:
    path = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
    spec = {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}
    assert api.send("POST", path, {"spec": spec}).causes == [
        ("FieldValueInvalid", "spec.resourceAttributes.namespace")
    ]
    spec["resourceAttributes"] = {"verb": "get", "resource": "pods", "namespace": "default"}
    assert review(api, path, spec) == {"allowed": False}


def test_the_rules_of_a_user_are_listed(api: Api) -> None:
    status = review(api, f"{AUTHORIZATION}/selfsubjectrulesreviews", {"namespace": "default"}, **ANNA)
    resources = [name for rule in status["resourceRules"] for name in rule["resources"]]
    assert "selfsubjectaccessreviews" in resources
    assert "pods" not in resources
    assert any("/version" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])


def test_a_user_can_query_their_own_name(api: Api) -> None:
    answer = api.ok("POST", f"{AUTHENTICATION}/selfsubjectreviews", {}, **ANNA)
    assert answer["status"]["userInfo"] == {"username": "anna", "groups": ["staff", "system:authenticated"]}


def test_a_token_review_recognises_the_tokens_of_accounts(api: Api) -> None:
    path = f"{AUTHENTICATION}/tokenreviews"
    status = review(api, path, {"token": token(api)})
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:default:robot"
    assert review(api, path, {"token": "nonsense"})["error"] == "[invalid bearer token]"
    elsewhere = review(api, path, {"token": token(api), "audiences": ["elsewhere"]})
    assert "authenticated" not in elsewhere


def test_reviews_are_answered_and_never_stored(api: Api) -> None:
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    before = api.server.version
    review(api, path, {"resourceAttributes": {"verb": "get", "resource": "pods"}})
    assert api.server.version == before
    assert api.send("GET", path).status == 405
    listed = api.ok("GET", AUTHORIZATION)["resources"]
    assert {tuple(entry["verbs"]) for entry in listed} == {("create",)}


# --- over HTTP --------------------------------------------------------------------------------


async def test_a_service_account_is_authenticated_over_http(api: Api) -> None:
    robot = token(api)
    users = {"bobs-token": User("bob", ("system:authenticated",))}
    async with (
        serve(api.server, tls=False, token="t", users=users) as face,
        aiohttp.ClientSession(face.url) as session,
    ):
        for given, name in ((robot, "system:serviceaccount:default:robot"), ("bobs-token", "bob")):
            async with session.get(CONFIG_MAPS, headers=bearer(given)) as answer:
                assert answer.status == 403
                assert f'User "{name}" cannot list' in (await answer.json())["message"]
        for given, status in (("t", 200), (f"{robot}x", 401)):
            async with session.get(CONFIG_MAPS, headers=bearer(given)) as answer:
                assert answer.status == status


def bearer(given: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {given}"}


async def test_an_invalid_token_of_an_account_does_not_authenticate_as_the_administrator() -> None:
    async with serve(ApiServer(), tls=False) as face, aiohttp.ClientSession() as session:
        async with session.get(face.url + CONFIG_MAPS, headers=bearer("a.b.c")) as answer:
            assert answer.status == 401
        async with session.get(face.url + CONFIG_MAPS) as answer:
            assert answer.status == 200


async def test_a_token_review_recognises_the_tokens_configured_on_the_http_server() -> None:
    spec = {"spec": {"token": "t"}}
    server = ApiServer()
    async with (
        serve(server, tls=False, token="t") as face,
        aiohttp.ClientSession(face.url, headers=bearer("t")) as session,
        session.post(f"{AUTHENTICATION}/tokenreviews", json=spec) as answer,
    ):
        assert (await answer.json())["status"]["user"]["username"] == "system:admin"
    assert server.tokens.user_of("t") is None


@pytest.mark.parametrize("given", ["\udcff", "caf\u00e9", "\udcff.\udcff.\udcff"])
def test_a_token_that_is_not_text_is_unknown(api: Api, given: str) -> None:
    with api.server.tokens.knowing({"known": User("a")}):
        assert api.server.tokens.user_of(given) is None
