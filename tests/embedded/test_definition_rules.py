"""What the server refuses, warns of and fills in of CustomResourceDefinitions."""

from typing import Any

import pytest

from reconcile.embedded.kinds.custom_definitions import default_definition, prepare_definition
from reconcile.embedded.kinds.definition_rules import validate_definition
from tests.embedded.api_client import DEFINITIONS, Api, definition

REQUIRED, INVALID, FORBIDDEN = "FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden"
UNSUPPORTED = "FieldValueNotSupported"
NAMES = {"kind": "Thing", "plural": "things"}
URL = {"url": "https://a.example.com/convert"}


def causes(**spec: Any) -> list[tuple[str, str]]:
    """The sorted causes for a definition with these parts."""
    made = definition(**{"names": NAMES, **spec})
    made["metadata"]["name"] = f"{made['spec']['names'].get('plural', '')}.{made['spec']['group']}"
    default_definition(made)
    prepare_definition(made, None)
    return sorted((cause.reason, cause.field) for cause in validate_definition(made, None))


def version(**parts: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {"name": "v1", "served": True, "storage": True, "schema": schema, **parts}


def spec(member: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": member}}}}
    return version(schema={"openAPIV3Schema": schema})


def named(**names: Any) -> dict[str, Any]:
    return {"names": {**NAMES, **names}}


def converted(strategy: str, **webhook: Any) -> dict[str, Any]:
    return {"conversion": {"strategy": strategy, **({"webhook": webhook} if webhook else {})}}


SECOND = version(name="v2", storage=False)
OTHER = version(name="v2", storage=False, schema={"openAPIV3Schema": {"type": "object", "description": "x"}})


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"group": ""}, [(REQUIRED, "spec.group")]),
        ({"group": "things"}, [(INVALID, "spec.group")]),
        ({"group": "A.b"}, [(INVALID, "spec.group")]),
        ({"scope": ""}, [(REQUIRED, "spec.scope")]),
        ({"scope": "World"}, [(UNSUPPORTED, "spec.scope")]),
        (
            named(kind="Thing!"),
            [(INVALID, f"spec.names.{name}") for name in ("kind", "listKind", "singular")],
        ),
        (named(listKind="Thing"), [(INVALID, "spec.names.listKind")]),
        (named(shortNames=["t", "T"]), [(INVALID, "spec.names.shortNames[1]")]),
        (named(categories=["a b"]), [(INVALID, "spec.names.categories[0]")]),
        (
            {"names": {"plural": "things"}},
            [(REQUIRED, f"spec.names.{name}") for name in ("kind", "listKind", "singular")],
        ),
        ({"versions": []}, [(INVALID, "spec.versions"), (INVALID, "status.storedVersions")]),
        ({"versions": [version(), SECOND]}, []),
        ({"versions": [version(name="V1")]}, [(INVALID, "spec.version"), (INVALID, "spec.versions[0].name")]),
        ({"versions": [version(), version(storage=False)]}, [(INVALID, "spec.versions")]),
        ({"versions": [version(schema={})]}, [(REQUIRED, "spec.versions[0].schema.openAPIV3Schema")]),
        ({"versions": [version(deprecationWarning="x")]}, [(INVALID, "spec.versions[0].deprecationWarning")]),
        ({"versions": [version(deprecated=True, deprecationWarning="x")]}, []),
        (
            {"versions": [version(deprecated=True, deprecationWarning="a\n" * 200)]},
            [(INVALID, "spec.versions[0].deprecationWarning")] * 2,
        ),
        (
            {"versions": [version(subresources={"scale": {}})]},
            [
                (REQUIRED, f"spec.subresources.scale.{name}")
                for name in ("specReplicasPath", "statusReplicasPath")
            ],
        ),
        (
            {"versions": [version(), OTHER, spec({"type": "array"}) | {"name": "v3", "storage": False}]},
            [(REQUIRED, "spec.versions[2].schema.openAPIV3Schema.properties[spec].properties[x].items")],
        ),
        (converted("None", clientConfig=URL), [(FORBIDDEN, "spec.conversion.webhookClientConfig")]),
        (converted("Webhook", clientConfig=URL, conversionReviewVersions=["v1"]), []),
        (
            converted("Webhook"),
            [
                (REQUIRED, "spec.conversion.conversionReviewVersions"),
                (REQUIRED, "spec.conversion.webhookClientConfig"),
            ],
        ),
        (
            converted("Webhook", clientConfig=URL, conversionReviewVersions=["v9"]),
            [(INVALID, "spec.conversion.conversionReviewVersions")],
        ),
        (converted("Odd"), [(UNSUPPORTED, "spec.conversion.strategy")]),
        ({"preserveUnknownFields": True, "versions": [version()]}, [(INVALID, "spec.preserveUnknownFields")]),
    ],
)
def test_each_rule_of_a_definition_names_its_field(
    parts: dict[str, Any], wanted: list[tuple[str, str]]
) -> None:
    assert causes(**parts) == sorted(wanted)


X = "spec.validation.openAPIV3Schema.properties[spec].properties[x]"
RULES = "x-kubernetes-validations"


def ruled(kind: dict[str, Any], rule: str, **more: Any) -> dict[str, Any]:
    return {**kind, RULES: [{"rule": rule, **more}]}


@pytest.mark.parametrize(
    ("member", "wanted"),
    [
        ({"type": "integer", "default": 0, RULES: [{"rule": "self > 0"}]}, [(INVALID, "default")]),
        ({"type": "integer", "default": 1, RULES: [{"rule": "self > 0"}]}, []),
        (
            {"type": "string", "default": "a", RULES: [{"rule": "self == oldSelf"}]},
            [],
        ),
        (ruled({"type": "string"}, "self.size() > 1 &&"), [(INVALID, f"{RULES}[0].rule")]),
        (
            ruled({"type": "string"}, "self.none", messageExpression="1", optionalOldSelf=True),
            [(INVALID, f"{RULES}[0].optionalOldSelf"), (INVALID, f"{RULES}[0].rule")],
        ),
        (
            ruled({"type": "string"}, "self > 'a'", optionalOldSelf=False),
            [(INVALID, f"{RULES}[0].optionalOldSelf")],
        ),
        (ruled({"type": "string"}, ""), [(REQUIRED, f"{RULES}[0].rule")]),
        # What is wrong below a rule keeps it from being compiled.
        (
            ruled({"type": "object", "properties": {"a": {"type": "odd"}}}, "self.none"),
            [(UNSUPPORTED, "properties[a].type")],
        ),
        (
            ruled({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}, "true"),
            [("InternalError", RULES)],
        ),
    ],
)
def test_each_rule_of_a_schema_names_its_place(member: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    assert causes(versions=[spec(member)]) == sorted((why, f"{X}.{place}") for why, place in wanted)


def test_rules_below_an_atomic_map_cannot_compare_with_old_values() -> None:
    inner = {"type": "string", RULES: [{"rule": "self == oldSelf"}]}
    member = {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": inner}}
    assert causes(versions=[spec(member)]) == [(INVALID, f"{X}.properties[a].{RULES}[0].rule")]


def test_a_rule_that_may_run_often_costs_as_often() -> None:
    inner = {"type": "string", "maxLength": 1000, RULES: [{"rule": "self.contains('a')"}]}
    assert causes(versions=[spec({"type": "array", "maxItems": 100, "items": inner})]) == []
    assert causes(versions=[spec({"type": "array", "items": inner})]) == [
        (FORBIDDEN, "spec.validation.openAPIV3Schema"),
        (FORBIDDEN, f"{X}.items.{RULES}[0].rule"),
        (FORBIDDEN, f"{X}.items.{RULES}[0].rule"),
    ]


def test_a_new_definition_is_answered_before_its_names_are_accepted(api: Api) -> None:
    made = api.ok("POST", DEFINITIONS, definition(names=NAMES))
    assert made["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    stored = api.ok("GET", f"{DEFINITIONS}/things.example.com")
    assert {one["type"]: one["status"] for one in stored["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }


def test_a_schema_is_stored_without_what_says_nothing(api: Api) -> None:
    member = {"type": "string", "nullable": False, "description": "", "default": None, "maxLength": 0}
    made = api.ok("POST", DEFINITIONS, definition(names=NAMES, versions=[spec(member)]))
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["x"] == {"type": "string", "maxLength": 0}


def test_a_schema_that_cannot_be_decoded_is_a_bad_request(api: Api) -> None:
    made = definition(names=NAMES, versions=[spec({"type": "string", "maxLength": "5"})])
    assert api.send("POST", DEFINITIONS, made).status == 400


def test_formats_that_nobody_knows_cause_a_warning_once(api: Api) -> None:
    made = definition(names=NAMES, versions=[spec({"type": "string", "format": "odd"})])
    answer = api.send("POST", DEFINITIONS, made)
    assert 'unrecognized format \\"odd\\"' in answer.headers["warning"]
    path = f"{DEFINITIONS}/things.example.com"
    changed = api.ok("GET", path)
    changed["metadata"]["labels"] = {"a": "b"}
    assert "warning" not in api.send("PUT", path, changed).headers
