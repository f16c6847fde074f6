"""What clients find out about the server before they use it."""

from typing import Any

import pytest

from reconcile.embedded.kubectl.discovery_documents import (
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    by_priority,
    groups_of,
)
from reconcile.embedded.schema import EMPTY
from reconcile.embedded.served import ScalePaths, ServedResource

SCALE = ScalePaths(".spec.replicas", ".status.replicas")


def served(group: str, version: str, kind: str, **more: Any) -> ServedResource:
    plural = f"{kind.lower()}s"
    return ServedResource(group, version, kind, plural, kind.lower(), f"{kind}List", EMPTY, **more)


PODS = served("", "v1", "Pod", has_status=True, short_names=("po",), categories=("all",))
WIDGETS = served(
    "example.com", "v1", "Widget", custom=True, has_status=True, scale=SCALE, short_names=("wd",)
)
OLD_WIDGETS = served("example.com", "v1beta1", "Widget", custom=True)
TOOLS = served("example.com", "v1", "Tool", custom=True, namespaced=False)
GROUPS = groups_of([PODS, OLD_WIDGETS, WIDGETS, TOOLS])


def test_versions_are_in_the_order_that_clients_prefer() -> None:
    mixed = ["v1alpha1", "v10", "foo", "v1", "v2beta1", "v2", "v1beta2", "v2beta2", "bar"]
    wanted = ["v10", "v2", "v1", "v2beta2", "v2beta1", "v1beta2", "v1alpha1", "bar", "foo"]
    assert sorted(mixed, key=by_priority) == wanted


@pytest.mark.rule("api-4")
def test_a_group_names_its_preferred_version() -> None:
    group = api_group(GROUPS["example.com"])
    assert group["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}
    assert [entry["version"] for entry in group["versions"]] == ["v1", "v1beta1"]
    assert "kind" not in api_group_list([GROUPS["example.com"]])["groups"][0]


@pytest.mark.rule("api-5")
def test_a_subresource_is_listed_with_its_own_kind() -> None:
    entries = {entry["name"]: entry for entry in api_resource_list([WIDGETS, TOOLS])["resources"]}
    assert set(entries) == {"widgets", "widgets/scale", "widgets/status", "tools"}
    scale = entries["widgets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert entries["widgets/status"]["kind"] == "Widget"
    assert entries["widgets"]["shortNames"] == ["wd"]
    assert entries["tools"]["namespaced"] is False


def test_pods_can_be_bound() -> None:
    entries = {entry["name"]: entry for entry in api_resource_list([PODS])["resources"]}
    assert entries["pods/binding"] == {
        "name": "pods/binding",
        "singularName": "",
        "namespaced": True,
        "kind": "Binding",
        "verbs": ["create"],
    }


@pytest.mark.rule("api-3")
def test_aggregated_discovery_has_everything_in_one_document() -> None:
    document = aggregated(GROUPS.values(), "v2")
    assert document["apiVersion"] == "apidiscovery.k8s.io/v2"
    core, custom = document["items"]
    assert core["metadata"] == {}
    assert custom["metadata"] == {"name": "example.com"}
    tools, widgets = custom["versions"][0]["resources"]
    assert widgets["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert [entry["subresource"] for entry in widgets["subresources"]] == ["scale", "status"]
    assert widgets["subresources"][0]["responseKind"]["group"] == "autoscaling"
    assert tools["scope"] == "Cluster"
    assert "subresources" not in tools
