"""Objects with anything where something is expected: refused or taken, never a crash, now or later."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from informers.transport import Response
from reconcile.embedded import ADMIN, ApiRequest, ApiServer, User
from tests.embedded.api_client import PODS, pod
from tests.embedded.kind_examples import OBJECTS

JSON = {"content-type": "application/json"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "50%", "Role", "*", "1.5"])
)
KEYS = st.sampled_from(
    [
        "name", "kind", "verbs", "matchLabels", "matchExpressions", "operator", "values", "pods", "count/a",
        "resource", "verb", "path", "template", "spec", "containers", "clientConfig", "port", "rules", "uid",
    ]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
FIELDS: dict[str, tuple[str, ...]] = {
    f"{RBAC}/namespaces/default/roles": ("rules",),
    f"{RBAC}/clusterroles": ("rules", "aggregationRule"),
    f"{RBAC}/namespaces/default/rolebindings": ("subjects", "roleRef"),
    f"{RBAC}/clusterrolebindings": ("subjects", "roleRef"),
    "/api/v1/namespaces/default/resourcequotas": ("spec",),
    "/api/v1/namespaces/default/serviceaccounts/robot/token": ("spec",),
    "/api/v1/namespaces/default/pods/lonely/eviction": ("deleteOptions", "metadata"),
    "/api/v1/namespaces/default/pods/lonely/binding": ("target", "metadata"),
    "/api/v1/namespaces/a/finalize": ("spec", "status"),
    "/api/v1/namespaces/default/endpoints": ("subsets",),
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": ("spec",),
    "/apis/apps/v1/namespaces/default/statefulsets": ("spec",),
    "/apis/apps/v1/namespaces/default/daemonsets": ("spec",),
    "/apis/batch/v1/namespaces/default/jobs": ("spec",),
    "/apis/batch/v1/namespaces/default/cronjobs": ("spec",),
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses": ("spec",),
    "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies": ("spec",),
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": ("endpoints", "ports"),
    "/apis/scheduling.k8s.io/v1/priorityclasses": ("value",),
    "/apis/storage.k8s.io/v1/storageclasses": ("provisioner", "parameters"),
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": ("webhooks",),
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": ("spec",),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": ("spec",),
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews": ("spec",),
    "/apis/authentication.k8s.io/v1/tokenreviews": ("spec",),
}


def ask(server: ApiServer, method: str, path: str, body: Any = None, user: User = ADMIN) -> Response:
    encoded = b"" if body is None else msgspec.json.encode(body)
    answer = server.handle(ApiRequest(method, path, {}, JSON, encoded, user))
    assert isinstance(answer, Response)
    return answer


RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
ASKED = {"verb": "get", "resource": "pods", "namespace": "default", "group": "", "name": "a"}
WHOLE: dict[str, dict[str, Any]] = {
    **OBJECTS,
    f"{RBAC}/namespaces/default/roles": {"rules": [RULE]},
    f"{RBAC}/clusterroles": {"aggregationRule": {"clusterRoleSelectors": [SELECTOR]}, "rules": [RULE]},
    f"{RBAC}/namespaces/default/rolebindings": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        "subjects": [{"kind": "User", "name": "anna"}, {"kind": "ServiceAccount", "name": "a"}],
    },
    "/api/v1/namespaces/default/resourcequotas": {
        "spec": {"hard": {"pods": "3", "count/jobs.batch": "1"}, "scopes": ["BestEffort"]}
    },
    "/api/v1/namespaces/default/serviceaccounts/robot/token": {
        "spec": {
            "audiences": ["a"],
            "expirationSeconds": 700,
            "boundObjectRef": {"kind": "Pod", "name": "lonely", "uid": "u", "apiVersion": "v1"},
        }
    },
    "/api/v1/namespaces/default/pods/lonely/eviction": {
        "deleteOptions": {"gracePeriodSeconds": 1, "preconditions": {"uid": "a"}, "dryRun": ["All"]}
    },
    "/api/v1/namespaces/default/pods/lonely/binding": {"target": {"kind": "Node", "name": "a"}},
    "/api/v1/namespaces/a/finalize": {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "spec": {"selector": SELECTOR, "minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    },
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {
        "spec": {"user": "a", "groups": ["b"], "extra": {"k": ["v"]}, "resourceAttributes": ASKED}
    },
    "/apis/authentication.k8s.io/v1/tokenreviews": {"spec": {"token": "a.b.c", "audiences": ["a"]}},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something else could stand."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, inner in items for place in places(inner, (*path, key))]


def spoilt(body: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(body))
    parent: Any = copy
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = value
    return copy


@pytest.mark.parametrize("path", list(WHOLE))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_complete_object_with_one_odd_value_does_no_harm(path: str, data: st.DataObject) -> None:
    body = {"metadata": {"name": "a", "labels": {"a": "b"}}, **WHOLE[path]}
    send_and_go_on(path, spoilt(body, data.draw(st.sampled_from(places(body))), data.draw(VALUES)))


@pytest.mark.parametrize("path", list(FIELDS))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_bytes_get_an_answer_and_the_server_continues(path: str, data: st.DataObject) -> None:
    body: dict[str, Any] = {"metadata": {"name": "a"}}
    send_and_go_on(path, body | {field: data.draw(VALUES, label=field) for field in FIELDS[path]})


def send_and_go_on(path: str, body: dict[str, Any]) -> None:
    """The body is answered, and so is what comes after it."""
    server = ApiServer()
    ask(server, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    ask(server, "POST", PODS, pod("lonely"))
    ask(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    assert ask(server, "PUT" if path.endswith("/finalize") else "POST", path, body).status < 500
    server.settle()
    assert ask(server, "GET", PODS, user=User("anna")).status == 403
    assert ask(server, "POST", f"{PODS}/lonely/eviction", {}).status in (201, 404, 429)
    ask(server, "POST", PODS, pod("next"))
    table = ApiRequest("GET", path, {}, {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    answer = server.handle(table)
    assert isinstance(answer, Response)
    assert answer.status < 500
