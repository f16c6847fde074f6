"""A PUT or an apply that finds nothing: which kinds are made by it, and who may."""

from typing import Any

import pytest

from tests.embedded.api_client import CONFIG_MAPS, WIDGETS, Api, config_map, widget

APPLY = "application/apply-patch+yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BOB = {"impersonate-user": "bob"}
REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}

MADE: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/endpoints": {},
    "/api/v1/namespaces/default/limitranges": {"spec": {"limits": []}},
    "/api/v1/namespaces/default/services": {"spec": {"ports": [{"port": 80}]}},
    LEASES: {"spec": {}},
    f"{RBAC}/clusterroles": {"rules": []},
    f"{RBAC}/clusterrolebindings": {"roleRef": REF},
    f"{RBAC}/namespaces/default/roles": {"rules": []},
    f"{RBAC}/namespaces/default/rolebindings": {"roleRef": REF},
}


def allow(api: Api, group: str, resource: str, *verbs: str) -> None:
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": [*verbs]}]
    api.ok("PUT", f"{RBAC}/clusterroles/bobs", {"metadata": {"name": "bobs"}, "rules": rules})
    subject = {"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "bobs"}, "roleRef": {**REF, "name": "bobs"}, "subjects": [subject]}
    api.ok("PUT", f"{RBAC}/clusterrolebindings/bobs", binding)


@pytest.mark.rule("api-52")
@pytest.mark.parametrize("path", MADE)
def test_some_kinds_can_be_created_by_an_update(api: Api, path: str) -> None:
    assert api.send("PUT", f"{path}/a", {"metadata": {"name": "a"}, **MADE[path]}).status == 201


@pytest.mark.rule("api-52")
def test_other_kinds_cannot_be_created_by_an_update(api: Api) -> None:
    for path, body in ((CONFIG_MAPS, config_map()), (WIDGETS, widget(resourceVersion="1"))):
        assert api.send("PUT", f"{path}/a", body).status == 404


@pytest.mark.rule("api-47")
@pytest.mark.parametrize("path", [WIDGETS, LEASES, "/apis/policy/v1/namespaces/default/poddisruptionbudgets"])
def test_custom_kinds_and_some_built_in_ones_require_a_version_on_update(api: Api, path: str) -> None:
    body = widget() if path == WIDGETS else {"metadata": {"name": "a"}, "spec": {}}
    made = api.ok("POST", path, body)
    assert api.send("PUT", f"{path}/a", body).status == 422
    assert api.send("PUT", f"{path}/a", made).status == 200


@pytest.mark.rule("api-29", "api-52", "api-64")
def test_update_and_apply_cannot_create_without_the_right_to_create(api: Api) -> None:
    allow(api, "coordination.k8s.io", "leases", "update")
    refused = api.send("PUT", f"{LEASES}/a", {"metadata": {"name": "a"}, "spec": {}}, **BOB)
    assert (refused.status, refused.body["details"]["name"]) == (403, "a")
    assert "cannot create resource" in refused.body["message"]
    allow(api, "", "configmaps", "patch")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    path, query = f"{CONFIG_MAPS}/a", {"fieldManager": "m"}
    assert api.send("PATCH", path, applied, query, APPLY, **BOB).status == 403
    allow(api, "", "configmaps", "patch", "create")
    assert api.send("PATCH", path, applied, query, APPLY, **BOB).status == 201


@pytest.mark.rule("api-29")
def test_a_right_to_list_does_not_allow_a_watch_in_any_spelling(api: Api) -> None:
    allow(api, "", "configmaps", "list")
    assert api.send("GET", CONFIG_MAPS, **BOB).status == 200
    for spelling in ("true", "1", "yes", ""):
        assert api.send("GET", CONFIG_MAPS, query={"watch": spelling}, **BOB).status == 403
