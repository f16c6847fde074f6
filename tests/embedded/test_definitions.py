"""Which CustomResourceDefinitions are refused, beside those whose schema is."""

from typing import Any

import pytest

from tests.embedded.api_client import DEFINITIONS, Api, definition

REQUIRED, INVALID = "FieldValueRequired", "FieldValueInvalid"
THINGS = {"kind": "Thing", "plural": "things"}
COLUMN = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}


def defined(part: str, value: Any, *, versions: int = 1) -> list[tuple[str, str]]:
    """The causes for a definition whose first version has `value` as this part."""
    made = definition(names=THINGS)
    (first,) = made["spec"]["versions"]
    others = [{**first, "name": f"v{number}", "storage": False} for number in range(2, versions + 1)]
    made["spec"]["versions"] = [{**first, part: value}, *others]
    answer = Api().send("POST", DEFINITIONS, made, query={"dryRun": "All"})
    return [] if answer.status == 201 else answer.causes


@pytest.mark.rule("api-124")
@pytest.mark.parametrize(
    ("column", "reason", "place"),
    [
        ({**COLUMN, "jsonPath": "spec size"}, INVALID, "JSONPath"),
        ({"name": "Size", "type": "integer"}, REQUIRED, "JSONPath"),
        ({**COLUMN, "type": "text"}, INVALID, "type"),
        ({"name": "Size", "jsonPath": ".spec.size"}, REQUIRED, "type"),
        ({**COLUMN, "name": ""}, REQUIRED, "name"),
        ({**COLUMN, "format": "x"}, INVALID, "format"),
    ],
)
def test_a_column_that_cannot_be_printed_is_refused(column: dict[str, Any], reason: str, place: str) -> None:
    assert defined("additionalPrinterColumns", [COLUMN]) == []
    assert defined("additionalPrinterColumns", [COLUMN, column]) == [
        (reason, f"spec.additionalPrinterColumns[1].{place}")
    ]


@pytest.mark.rule("api-124")
def test_a_fault_in_a_column_names_the_version_that_has_it() -> None:
    bad = [{**COLUMN, "jsonPath": "["}]
    assert defined("additionalPrinterColumns", bad, versions=2) == [
        (INVALID, "spec.versions[0].additionalPrinterColumns[0].JSONPath")
    ]


def test_a_version_with_a_malformed_column_shows_the_usual_columns() -> None:
    api = Api()
    made = definition(names=THINGS)
    made["spec"]["versions"][0]["additionalPrinterColumns"] = [{**COLUMN, "jsonPath": ".spec["}]
    api.ok("POST", DEFINITIONS, made)
    path = "/apis/example.com/v1/namespaces/default/things"
    table = api.send("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


@pytest.mark.rule("api-97")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", REQUIRED),
        ("spec.color", INVALID),
        (".spec.nothing", INVALID),
        (".spec", INVALID),
        (".metadata.name", INVALID),
        (".spec.ports[0]", INVALID),
    ],
)
def test_only_a_scalar_field_of_the_schema_can_be_selectable(path: str, reason: str) -> None:
    assert defined("selectableFields", [{"jsonPath": ".spec.color"}]) == []
    assert defined("selectableFields", [{"jsonPath": path}]) == [
        (reason, "spec.selectableFields[0].jsonPath")
    ]


@pytest.mark.rule("api-97")
def test_a_field_is_selectable_only_once_and_at_most_eight_are() -> None:
    color = {"jsonPath": ".spec.color"}
    place = "spec.selectableFields"
    assert defined("selectableFields", [color, color]) == [("FieldValueDuplicate", f"{place}[1].jsonPath")]
    made = definition(names=THINGS)
    (version,) = made["spec"]["versions"]
    members = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    members |= {f"text{number}": {"type": "string"} for number in range(9)}
    version["selectableFields"] = [{"jsonPath": f".spec.text{number}"} for number in range(9)]
    assert Api().send("POST", DEFINITIONS, made).causes == [("FieldValueTooMany", place)]


def test_fields_are_selectable_only_beside_the_schema_that_has_them() -> None:
    # With one schema for all versions, and other fields for each, a real server misses the schema.
    assert defined("selectableFields", [{"jsonPath": ".spec.size"}], versions=2) == [
        (INVALID, "spec.versions[0].selectableFields"),
        (INVALID, "spec.versions[1].selectableFields"),
    ]


@pytest.mark.rule("api-56")
def test_a_scale_reads_from_spec_and_status() -> None:
    assert defined("subresources", {"scale": {"specReplicasPath": ".a", "labelSelectorPath": ".b"}}) == [
        (INVALID, "spec.subresources.scale.specReplicasPath"),
        (REQUIRED, "spec.subresources.scale.statusReplicasPath"),
        (INVALID, "spec.subresources.scale.labelSelectorPath"),
    ]


@pytest.mark.rule("api-136")
def test_an_unknown_schema_keyword_follows_the_field_validation() -> None:
    api = Api()
    made = definition(names=THINGS)
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    size = schema["properties"]["spec"]["properties"]["size"]
    size |= {"maxLenght": 1, "default": {"any": {"thing": 1}}, "x-kubernetes-validations": [{"rul": "self"}]}
    schema["properties"]["spec"]["items"] = [{"tpye": "string"}]
    where = "spec.versions[0].schema.openAPIV3Schema.properties.spec"
    found = [
        f"{where}.properties.size.maxLenght",
        f"{where}.properties.size.x-kubernetes-validations[0].rul",
        f"{where}.items[0].tpye",
    ]
    strict = api.send("POST", DEFINITIONS, made, {"fieldValidation": "Strict"})
    assert strict.status == 400
    assert all(f'unknown field "{path}"' in strict.body["message"] for path in found)


@pytest.mark.rule("api-136")
def test_a_stored_definition_has_only_known_schema_keywords() -> None:
    api = Api()
    made = definition(names=THINGS)
    spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"]["x-vendor"] = 1
    spec["properties"]["color"]["default"] = "x-vendor"
    answer = api.send("POST", DEFINITIONS, made)
    assert answer.status == 201
    assert "openAPIV3Schema.properties.spec.properties.size.x-vendor" in answer.headers["warning"]
    (kept,) = api.ok("GET", f"{DEFINITIONS}/things.example.com")["spec"]["versions"]
    members = kept["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert members["size"] == {"type": "integer", "minimum": 0}
    assert members["color"] == {"type": "string", "default": "x-vendor"}


@pytest.mark.parametrize(
    ("group", "approval", "causes"),
    [
        ("shop.example.com", "", []),
        ("cluster.x-k8s.io", "", []),
        ("gateway.networking.k8s.io", "https://github.com/kubernetes-sigs/gateway-api/pull/1", []),
        ("shop.kubernetes.io", "unapproved, an experiment", []),
        ("shop.k8s.io", "", [(REQUIRED, "metadata.annotations[api-approved.kubernetes.io]")]),
        ("shop.k8s.io", "yes", [(INVALID, "metadata.annotations[api-approved.kubernetes.io]")]),
    ],
)
def test_community_groups_need_an_approval(group: str, approval: str, causes: list[tuple[str, str]]) -> None:
    made = definition(group=group, names=THINGS)
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    answer = Api().send("POST", DEFINITIONS, made)
    assert (answer.causes if answer.status == 422 else []) == causes


def test_unknown_fields_can_be_preserved_only_through_the_schema() -> None:
    made = definition(names=THINGS, preserveUnknownFields=True)
    # Once for itself, once for the defaults in the schema.
    assert Api().send("POST", DEFINITIONS, made).causes == [(INVALID, "spec.preserveUnknownFields")] * 2
    made["spec"]["preserveUnknownFields"] = False
    Api().ok("POST", DEFINITIONS, made)
