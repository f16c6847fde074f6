"""Lists at the edges of their options, and what a Scale writes."""

from typing import Any

import pytest

from tests.embedded.api_client import DEFINITIONS, WIDGETS, Api, definition, widget

APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/a"


@pytest.fixture
def api() -> Api:
    made = Api()
    for name in "abc":
        made.ok("POST", WIDGETS, widget(name, labels={"n": name}))
    return made


def listed(api: Api, **query: str) -> list[str]:
    return [item["metadata"]["name"] for item in api.ok("GET", WIDGETS, query=query)["items"]]


@pytest.mark.rule("api-91")
def test_a_limit_with_a_version_requests_exactly_that_version(api: Api) -> None:
    version = api.ok("GET", WIDGETS)["metadata"]["resourceVersion"]
    api.ok("POST", WIDGETS, widget("d"))
    assert listed(api, resourceVersion=version) == ["a", "b", "c", "d"]
    assert listed(api, resourceVersion=version, resourceVersionMatch="NotOlderThan", limit="9")[-1] == "d"
    page = api.ok("GET", WIDGETS, query={"resourceVersion": version, "limit": "2"})
    assert page["metadata"]["resourceVersion"] == version
    assert page["metadata"]["remainingItemCount"] == 1
    assert api.send("GET", WIDGETS, query={"resourceVersion": "1", "limit": "2"}).status == 410


@pytest.mark.rule("api-93", "api-95")
def test_remaining_items_are_counted_only_without_selectors_and_limit_zero_is_unlimited(api: Api) -> None:
    whole = api.ok("GET", WIDGETS, query={"limit": "2"})["metadata"]
    assert whole["remainingItemCount"] == 1
    last = api.ok("GET", WIDGETS, query={"limit": "2", "continue": whole["continue"]})["metadata"]
    assert (last["continue"], last.get("remainingItemCount")) == ("", None)
    chosen = api.ok("GET", WIDGETS, query={"limit": "2", "labelSelector": "n"})["metadata"]
    assert chosen["continue"]
    assert "remainingItemCount" not in chosen
    assert len(listed(api, limit="2", resourceVersion="0")) == 3


@pytest.mark.rule("api-27", "api-89")
@pytest.mark.parametrize("version", ["x", "-1", "9" * 40, "\u0663"])
def test_a_malformed_version_is_400_for_a_list_and_500_for_an_object_and_a_watch(
    api: Api, version: str
) -> None:
    query = {"resourceVersion": version}
    assert api.send("GET", WIDGETS, query=query).status == 400
    for path, more in ((f"{WIDGETS}/a", {}), (WIDGETS, {"watch": "true"})):
        answer = api.send("GET", path, query={**query, **more})
        assert (answer.status, answer.body.get("reason")) == (500, None)


@pytest.mark.rule("api-124")
def test_the_description_of_a_column_defaults_to_its_path(api: Api) -> None:
    version = definition()["spec"]["versions"][0]
    version["additionalPrinterColumns"] = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": "what it shines in"},
    ]
    api.merge(f"{DEFINITIONS}/widgets.example.com", {"spec": {"versions": [version]}})
    columns = api.ok("GET", WIDGETS, accept=TABLE)["columnDefinitions"]
    assert [column["description"] for column in columns[1:]] == [
        "Custom resource definition column (in JSONPath format): .spec.size",
        "what it shines in",
    ]


@pytest.mark.rule("api-64")
def test_an_apply_to_an_existing_object_may_omit_the_name(api: Api) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 1}}
    query = {"fieldManager": "m"}
    assert api.send("PATCH", f"{WIDGETS}/a", body, query, APPLY).status == 200
    assert api.send("PATCH", f"{WIDGETS}/new", body, query, APPLY).status == 400


# --- scale ------------------------------------------------------------------------------------


def entry_of(api: Api, manager: str) -> dict[str, Any]:
    entries = api.ok("GET", DEPLOYMENT)["metadata"]["managedFields"]
    [found] = [entry for entry in entries if entry["manager"] == manager]
    return {name: found.get(name) for name in ("operation", "subresource", "apiVersion", "fieldsV1")}


@pytest.fixture
def scaled(api: Api) -> Api:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "replicas": 1}
    api.ok("POST", DEPLOYMENT.rpartition("/")[0], {"metadata": {"name": "a"}, "spec": spec})
    return api


REPLICAS = {"f:spec": {"f:replicas": {}}}


@pytest.mark.rule("api-57", "api-45")
def test_scaling_owns_the_replicas_through_the_subresource(scaled: Api) -> None:
    scaled.merge(f"{DEPLOYMENT}/scale", {"spec": {"replicas": 3}}, query={"fieldManager": "k"})
    assert entry_of(scaled, "k") == {
        "operation": "Update",
        "subresource": "scale",
        "apiVersion": "apps/v1",
        "fieldsV1": REPLICAS,
    }


@pytest.mark.rule("api-69", "api-66")
def test_the_scale_of_a_built_in_object_can_be_applied_and_can_conflict(scaled: Api) -> None:
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    wanted = {**scale, "spec": {"replicas": 5}}
    path, query = f"{DEPLOYMENT}/scale", {"fieldManager": "hpa"}
    refused = scaled.send("PATCH", path, wanted, query, APPLY)
    assert (refused.status, refused.causes) == (409, [("FieldManagerConflict", ".spec.replicas")])
    applied = scaled.send("PATCH", path, wanted, {**query, "force": "true"}, APPLY)
    assert (applied.body["kind"], applied.body["spec"]) == ("Scale", {"replicas": 5})
    assert entry_of(scaled, "hpa") == {
        "operation": "Apply",
        "subresource": "scale",
        "apiVersion": "apps/v1",
        "fieldsV1": REPLICAS,
    }
    assert scaled.send("PATCH", f"{WIDGETS}/a/scale", wanted, query, APPLY).status == 500


@pytest.mark.rule("api-56")
@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Widget"},
        {"spec": 1},
        {"metadata": []},
        {"spec": {"replicas": "3"}},
        {"spec": {"replicas": 2**31}},
    ],
)
def test_a_malformed_scale_is_a_bad_request(scaled: Api, change: dict[str, Any]) -> None:
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}, **change}
    assert scaled.send("PUT", f"{DEPLOYMENT}/scale", scale).status == 400
