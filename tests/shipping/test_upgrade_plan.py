"""What a new version of an operator lacks in a cluster: rights and webhooks."""

from typing import Any

import pytest

from reconcile.shipping.upgrade_plan import missing_rights, webhook_changes


def rule(groups: str, resources: str, verbs: str, *names: str) -> dict[str, Any]:
    named = {"resourceNames": list(names)} if names else {}
    return {
        "apiGroups": [groups],
        "resources": resources.split(),
        "verbs": verbs.split(),
        **named,
    }


def role(*rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": {"name": "sites", **place},
        "rules": rules,
    }


@pytest.mark.parametrize(
    ("wanted", "installed", "missing"),
    [
        (rule("", "pods", "get list"), rule("", "pods", "get list watch"), []),
        (rule("", "pods", "get list"), rule("", "pods", "get"), ["list pods"]),
        (rule("apps", "deployments", "get"), rule("", "deployments", "get"), ["get deployments.apps"]),
        (rule("apps", "deployments", "get"), rule("*", "*", "*"), []),
        (
            rule("apps", "deployments/scale", "get"),
            rule("apps", "deployments", "get"),
            ["get deployments/scale.apps"],
        ),
        (rule("apps", "deployments/scale", "get"), rule("apps", "*/scale", "get"), []),
        (rule("", "secrets", "get", "a"), rule("", "secrets", "get"), []),
        (rule("", "secrets", "get"), rule("", "secrets", "get", "a"), ["get secrets"]),
        (rule("", "secrets", "get", "a", "b"), rule("", "secrets", "get", "a"), ["get secrets b"]),
    ],
)
def test_what_the_installed_role_does_not_grant_is_missing(
    wanted: dict[str, Any], installed: dict[str, Any], missing: list[str]
) -> None:
    found = map(str, missing_rights(role(wanted), role(installed)))
    assert list(found) == [f"ClusterRole sites: {one}" for one in missing]


def test_a_role_that_is_not_installed_lacks_everything() -> None:
    (missing,) = missing_rights(role(rule("", "pods", "get list"), namespace="shop"), None)
    assert str(missing) == "Role shop/sites: get, list pods"


def test_paths_without_objects_are_rights_too() -> None:
    wanted = role({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})
    assert list(map(str, missing_rights(wanted, None))) == ["ClusterRole sites: get /metrics"]
    assert missing_rights(wanted, wanted) == []


def test_webhooks_come_and_go_by_their_names() -> None:
    def configuration(*names: str) -> dict[str, Any]:
        webhooks = [{"name": name} for name in names]
        return {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "x"}, "webhooks": webhooks}

    changes = webhook_changes([configuration("a", "b")], [configuration("b", "c")])
    assert changes.come == ["ValidatingWebhookConfiguration x: a"]
    assert changes.go == ["ValidatingWebhookConfiguration x: c"]
