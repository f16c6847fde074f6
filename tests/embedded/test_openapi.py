"""The schemas that kubectl downloads before it writes."""

from typing import Any

import msgspec
import pytest
from attrs import evolve

from reconcile.embedded.api import STRATEGIC_MERGE_PATCH
from reconcile.embedded.kinds import BUILT_IN, Catalogue
from reconcile.embedded.kubectl.openapi import OpenApi, group_document, schema_name
from reconcile.embedded.schema import EMPTY
from reconcile.embedded.served import ScalePaths, ServedResource

SPEC = {"type": "object", "description": "What is wanted.", "properties": {"size": {"type": "integer"}}}
OPENAPI = {"type": "object", "description": "A thing.", "properties": {"spec": SPEC}}
SCALE = ScalePaths(".spec.replicas", ".status.replicas")
NAMES = ("Widget", "widgets", "widget", "WidgetList")
WIDGETS = ServedResource(
    "example.com", "v1", *NAMES, EMPTY, custom=True, has_status=True, scale=SCALE, openapi=OPENAPI
)
PODS = ServedResource("", "v1", "Pod", "pods", "pod", "PodList", EMPTY, has_status=True)
ITEM = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"


APPS = [resource for resource in Catalogue(BUILT_IN).resources if resource.group == "apps"]


def document() -> dict[str, Any]:
    return group_document("apis/example.com/v1", [WIDGETS])


@pytest.mark.rule("api-8")
def test_a_patch_operation_names_its_kind_and_accepts_field_validation() -> None:
    patch = document()["paths"][ITEM]["patch"]
    kind = {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert patch["x-kubernetes-group-version-kind"] == kind
    assert {"fieldValidation", "dryRun"} <= {parameter["name"] for parameter in patch["parameters"]}


@pytest.mark.rule("api-8")
def test_only_the_patch_of_the_object_itself_names_its_kind() -> None:
    kinds = [
        path
        for path, item in document()["paths"].items()
        if "x-kubernetes-group-version-kind" in item.get("patch", {})
    ]
    assert kinds == [ITEM]
    assert f"{ITEM}/scale" in document()["paths"]


@pytest.mark.rule("api-9")
def test_a_strategic_merge_patch_is_offered_for_built_in_kinds_only() -> None:
    custom = document()["paths"][ITEM]["patch"]["requestBody"]["content"]
    pods = group_document("api/v1", [PODS])["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    assert STRATEGIC_MERGE_PATCH not in custom
    assert STRATEGIC_MERGE_PATCH in pods["patch"]["requestBody"]["content"]


@pytest.mark.rule("api-10")
def test_a_schema_is_found_by_its_kind_and_has_the_descriptions_of_the_definition() -> None:
    schema = document()["components"]["schemas"]["com.example.v1.Widget"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Widget"}
    ]
    assert schema["description"] == "A thing."
    assert schema["properties"]["spec"] == SPEC
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec"}


def test_publishing_a_schema_does_not_modify_the_definition() -> None:
    before = msgspec.json.encode(WIDGETS.openapi)
    document()
    assert msgspec.json.encode(WIDGETS.openapi) == before


def test_built_in_schemas_have_the_names_that_tools_expect() -> None:
    assert schema_name(PODS) == "io.k8s.api.core.v1.Pod"


@pytest.mark.rule("api-7")
def test_the_hash_changes_with_the_schema_and_only_then() -> None:
    openapi = OpenApi()

    def url(resource: ServedResource) -> str:
        index = openapi.index({"apis/example.com/v1": [resource]})
        return str(index["paths"]["apis/example.com/v1"]["serverRelativeURL"])

    first = url(WIDGETS)
    assert first.startswith("/openapi/v3/apis/example.com/v1?hash=")
    assert url(evolve(WIDGETS)) == first
    assert url(evolve(WIDGETS, openapi={"type": "object"})) != first


@pytest.mark.parametrize("which", ["custom", "built-in"])
def test_every_reference_in_a_document_resolves(which: str) -> None:
    made = document() if which == "custom" else group_document("apis/apps/v1", APPS)

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for inner in value.values() for found in references(inner)]
        return [found for inner in value for found in references(inner)] if isinstance(value, list) else []

    found = references(made)
    assert found
    assert {reference.rpartition("/")[2] for reference in found} <= set(made["components"]["schemas"])


@pytest.mark.rule("api-10")
def test_fields_of_built_in_kinds_are_described_and_each_type_appears_once() -> None:
    schemas = group_document("apis/apps/v1", APPS)["components"]["schemas"]
    pod = schemas["io.k8s.api.v1.PodSpec"]["properties"]
    assert pod["activeDeadlineSeconds"]["description"].startswith("Optional duration in seconds")
    assert pod["containers"]["items"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.v1.Container"}]
    assert pod["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert sum(name.endswith(".PodSpec") for name in schemas) == 1


def test_without_the_models_fields_are_published_without_descriptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconcile.embedded.schema.builtin_schemas.field_descriptions", lambda name: {})
    schemas = group_document("apis/apps/v1", APPS)["components"]["schemas"]
    assert "description" not in schemas["io.k8s.api.v1.PodSpec"]["properties"]["activeDeadlineSeconds"]
