"""Verbs: one reading of a request, by which it is allowed and carried out."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.transport import Response
from reconcile.embedded import ApiRequest, WatchStream
from reconcile.embedded.auth import User
from reconcile.embedded.protocol.request_info import REFUSED, request_info
from tests.embedded.api_client import CONFIG_MAPS, WIDGETS, Api, config_map, pod, widget

CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CLUSTER_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WATCH", "get", "")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
READS = frozenset({"get", "list", "watch"})
PREFIXES = ("", "watch/", "proxy/")
SUBRESOURCES = ("", "/status", "/scale", "/token", "/eviction", "/binding", "/finalize", "/log", "/status/x")
QUERIES: tuple[dict[str, str], ...] = ({}, {"watch": "true"}, {"fieldSelector": "metadata.name=a"})


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "name"),
    [
        ("GET", "/api/v1/pods", {}, "list", ""),
        ("GET", "/api/v1/pods", {"watch": "1"}, "watch", ""),
        ("GET", "/api/v1/pods", {"watch": "False"}, "list", ""),
        ("GET", "/api/v1/pods", {"watch": "0"}, "list", ""),
        ("GET", "/api/v1/namespaces/d/pods/a", {"watch": "1"}, "get", "a"),
        ("HEAD", "/api/v1/namespaces/d/pods/a", {}, "get", "a"),
        ("DELETE", "/api/v1/namespaces/d/pods", {"watch": "1"}, "deletecollection", ""),
        ("DELETE", "/api/v1/namespaces/d/pods", {"fieldSelector": "metadata.name=a"}, "deletecollection", ""),
        ("DELETE", "/api/v1/namespaces/d/pods/a", {}, "delete", "a"),
        ("GET", "/api/v1/watch/namespaces/d/pods/a", {}, "watch", "a"),
        ("POST", "/api/v1/watch/namespaces/d/pods", {}, REFUSED, ""),
        ("DELETE", "/api/v1/watch/namespaces/d/pods", {}, REFUSED, ""),
        ("GET", "/api/v1/proxy/namespaces/d/pods/a", {}, "proxy", "a"),
        ("WATCH", "/api/v1/pods", {}, REFUSED, ""),
        ("get", "/api/v1/pods", {}, REFUSED, ""),
        ("OPTIONS", "/api/v1/pods", {}, REFUSED, ""),
        ("GET", "/healthz", {}, "get", ""),
        ("PROPFIND", "/healthz", {}, "propfind", ""),
        ("GET", "/api/v1", {"watch": "1"}, "get", ""),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=a,spec.x=b"}, "list", "a"),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name!=a"}, "list", ""),
        ("GET", "/api/v1/pods", {"fieldSelector": r"metadata.namespace!=x\,metadata.name=a"}, "list", ""),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=a/b"}, "list", ""),
        ("GET", "/api/v1/pods", {"fieldSelector": "metadata.name=a,nonsense"}, "list", ""),
    ],
)
def test_a_verb_is_derived_from_method_path_and_query(
    method: str, path: str, query: dict[str, str], verb: str, name: str
) -> None:
    info = request_info(method, path, query)
    assert (info.verb, info.name) == (verb, name)


@given(st.text(), st.text("/aw%.:", max_size=30) | st.text(), st.dictionaries(st.text(), st.text()))
def test_any_request_has_a_verb(method: str, path: str, query: dict[str, str]) -> None:
    assert isinstance(request_info(method, path, query).verb, str)


# --- every route, every method ----------------------------------------------------------------


def furnished() -> Api:
    api = Api()
    api.ok("POST", CONFIG_MAPS, config_map("a"))
    api.ok("POST", "/api/v1/namespaces/default/pods", pod("a"))
    api.ok("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "a"}})
    api.ok("POST", WIDGETS, widget("a"))
    return api


def user_with(api: Api, verb: str) -> User:
    """A user who may do `verb` to everything, and nothing else."""
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": [verb]}
    url = {"nonResourceURLs": ["*"], "verbs": [verb]}
    api.ok("POST", CLUSTER_ROLES, {"metadata": {"name": f"only-{verb}"}, "rules": [rule, url]})
    body = {
        "metadata": {"name": f"only-{verb}"},
        "roleRef": {"kind": "ClusterRole", "name": f"only-{verb}"},
        "subjects": [{"kind": "User", "name": f"only-{verb}"}],
    }
    api.ok("POST", CLUSTER_BINDINGS, body)
    return User(f"only-{verb}")


def paths(api: Api) -> Iterator[str]:
    """Every way to every resource that is served: plain and with the old prefixes, with subresources."""
    for resource in api.server.resources:
        start = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        for prefix in PREFIXES:
            for place in ("namespaces/default/", "") if resource.namespaced else ("",):
                collection = f"{start}/{prefix}{place}{resource.plural}"
                yield collection
                yield from (f"{collection}/a{below}" for below in SUBRESOURCES)


def requests(path: str, user: User, *, dry: bool) -> Iterator[ApiRequest]:
    for method in METHODS:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        for query in QUERIES:
            asked = {**query, "dryRun": "All"} if dry and method != "GET" else query
            yield ApiRequest(method, path, asked, {"content-type": kind}, b'{"metadata":{"name":"a"}}', user)


@pytest.mark.rule("api-141")
@pytest.mark.parametrize("verb", VERBS)
def test_no_route_does_more_than_the_allowed_verb(verb: str) -> None:
    api = furnished()
    user = user_with(api, verb)
    version = api.server.version
    carried_out = 0
    for path in list(paths(api)):
        for request in requests(path, user, dry=verb not in READS):
            answer = api.server.handle(request)
            if isinstance(answer, WatchStream):
                answer.close()
                carried_out += 1
                assert verb == "watch", request
            elif answer.status != 403:
                assert request_info(request.method, request.path, request.query).verb == verb, request
                if answer.status < 300:
                    carried_out += 1
                    assert (verb in READS) is (request.method == "GET"), request
    assert carried_out
    assert verb not in READS or api.server.version == version


@pytest.mark.rule("api-141")
def test_a_reader_cannot_create_a_token_through_the_legacy_watch_path() -> None:
    api = furnished()
    for verb in READS:
        user = user_with(api, verb)
        path = "/api/v1/watch/namespaces/default/serviceaccounts/a/token"
        answer = api.server.handle(
            ApiRequest("POST", path, headers={"content-type": "application/json"}, user=user)
        )
        assert isinstance(answer, Response)
        assert answer.status == 403
    assert api.send("POST", "/api/v1/watch/namespaces/default/serviceaccounts/a/token").status == 405
    assert api.send("GET", "/api/v1/watch/namespaces/default/pods/a/status").status == 405
