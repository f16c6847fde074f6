"""The configurations of webhooks: exact, bounded, and safe while no replica answers."""

from typing import Any

import pytest

from reconcile import Controller, LabelSelector
from reconcile.kinds import Namespace, Pod
from reconcile.models import definition_of
from reconcile.models.versions import definition_to_install
from reconcile.webhooks import Admission, AdmissionRequest, Refusal
from reconcile.webhooks.configurations import Installed, Url, WebhookService, configurations_of, conversion_of
from reconcile.webhooks.routes import routes_of
from tests.webhooks.boxes import BOXES, Box, bounds
from tests.webhooks.shops import Shop, ShopAlpha, ShopBeta

AT = WebhookService("shop-system", "shop-webhooks", ca_bundle="Q0E=")
INSTALLED = Installed(AT, "shop-system", "shop")
OWN_WRITES = {
    "name": "not-the-operator",
    "expression": 'request.userInfo.username != "system:serviceaccount:shop-system:shop"',
}


async def keep(obj: Box) -> None: ...


async def keep_shop(obj: Shop) -> None: ...


def no_pods(pod: Any, old: Any, request: AdmissionRequest) -> list[Refusal]:
    return []


def webhooks(*admissions: Admission[Any], installed: Installed = INSTALLED) -> list[dict[str, Any]]:
    routes = routes_of([Controller(Box, keep, admission=admissions)])
    return [webhook for one in configurations_of(routes, installed) for webhook in one["webhooks"]]


def test_each_operator_has_a_configuration_of_each_sort_named_by_its_domain() -> None:
    pods = Admission(Pod, refuses=no_pods, operator="other.example.com")
    routes = routes_of([Controller(Box, keep, admission=[BOXES, pods]), Controller(Shop, keep_shop)])
    heads = [(one["kind"], one["metadata"]["name"]) for one in configurations_of(routes, INSTALLED)]
    assert heads == [
        ("MutatingWebhookConfiguration", "shop.example.com"),
        ("ValidatingWebhookConfiguration", "other.example.com"),
        ("ValidatingWebhookConfiguration", "shop.example.com"),
    ]


def test_a_webhook_is_called_for_exactly_the_writes_of_its_function() -> None:
    mutating, validating = webhooks(
        Admission(Box, defaults=lambda box, request: box, refuses=bounds, operations=("CREATE", "DELETE"))
    )
    assert mutating == {
        "name": "defaults.boxes.shop.example.com",
        "clientConfig": {
            "service": {
                "namespace": "shop-system",
                "name": "shop-webhooks",
                "path": "/defaults/boxes.shop.example.com",
                "port": 443,
            },
            "caBundle": "Q0E=",
        },
        "rules": [
            {
                "apiGroups": ["shop.example.com"],
                "apiVersions": ["v1"],
                "resources": ["boxes"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        "matchPolicy": "Equivalent",
        "matchConditions": [OWN_WRITES],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
        "reinvocationPolicy": "IfNeeded",
    }
    assert validating["rules"][0]["operations"] == ["CREATE", "DELETE"]
    assert "reinvocationPolicy" not in validating


def test_a_webhook_for_a_built_in_kind_may_fail_and_leaves_the_operators_namespace_alone() -> None:
    (pods,) = webhooks(
        Admission(
            Pod,
            refuses=no_pods,
            operator="shop.example.com",
            labels=LabelSelector({"shop": "yes"}),
            namespaces=LabelSelector({"team": "a"}),
            conditions={"with-node": "has(object.spec.nodeName)"},
            timeout=2,
        )
    )
    assert pods["failurePolicy"] == "Ignore"
    assert pods["timeoutSeconds"] == 2
    assert pods["objectSelector"] == {"matchLabels": {"shop": "yes"}}
    own = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["shop-system"]}
    assert pods["namespaceSelector"] == {"matchLabels": {"team": "a"}, "matchExpressions": [own]}
    assert pods["matchConditions"] == [
        OWN_WRITES,
        {"name": "with-node", "expression": "has(object.spec.nodeName)"},
    ]


def test_a_kind_without_a_namespace_is_matched_in_the_cluster() -> None:
    (found,) = webhooks(Admission(Namespace, refuses=no_pods, operator="shop.example.com", required=True))
    assert (found["rules"][0]["scope"], found["failurePolicy"]) == ("Cluster", "Fail")


def test_without_a_service_account_and_a_bundle_nothing_is_said_of_them() -> None:
    found = webhooks(BOXES, installed=Installed(Url("https://192.0.2.1:9443")))[0]
    assert found["clientConfig"] == {"url": "https://192.0.2.1:9443/defaults/boxes.shop.example.com"}
    assert "matchConditions" not in found
    assert "namespaceSelector" not in found


# --- conversion ---------------------------------------------------------------------------------------


def stanza() -> dict[str, Any]:
    (route,) = routes_of([Controller(Shop, keep_shop)])
    return conversion_of(route, AT)


def test_a_definition_with_conversion_has_versions_that_differ() -> None:
    spec = definition_of(Shop, ShopBeta, ShopAlpha, conversion=stanza())["spec"]
    assert spec["conversion"]["strategy"] == "Webhook"
    webhook = spec["conversion"]["webhook"]
    assert webhook["conversionReviewVersions"] == ["v1"]
    assert webhook["clientConfig"]["service"]["path"] == "/convert/shops.shop.example.com"
    assert [version["name"] for version in spec["versions"]] == ["v1", "v1beta1", "v1alpha1"]


def test_versions_that_are_converted_are_refused_without_a_webhook_with_the_next_step() -> None:
    with pytest.raises(TypeError, match="reconcile crds --webhook-service NAMESPACE/NAME"):
        definition_of(Shop, ShopBeta, ShopAlpha)
    with pytest.raises(TypeError, match="with @converts, or leave it out"):
        definition_of(Box, conversion=stanza())


def test_an_installed_webhook_of_conversion_stays() -> None:
    installed = definition_of(Shop, ShopBeta, ShopAlpha, conversion=stanza())
    older = installed["spec"]["versions"][1:]
    older[0]["storage"] = True
    before = {**installed, "spec": {**installed["spec"], "versions": older}}
    spec = definition_to_install(Shop, before)["spec"]
    assert spec["conversion"] == stanza()
    assert [(one["name"], one["storage"]) for one in spec["versions"]] == [
        ("v1beta1", True),
        ("v1alpha1", False),
        ("v1", False),
    ]
    with pytest.raises(TypeError, match="give conversion="):
        definition_to_install(Shop, {**before, "spec": {**before["spec"], "conversion": None}})
