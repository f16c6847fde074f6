"""Which schemas a CustomResourceDefinition may have."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.schema import check_structural, compile_schema
from reconcile.embedded.schema.wellformed import decoded

PATH = "spec.validation.openAPIV3Schema"
STRING = {"type": "string"}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE = "x-kubernetes-list-type"
MAP_TYPE = "x-kubernetes-map-type"
MAP_KEYS = "x-kubernetes-list-map-keys"
REQUIRED, INVALID, FORBIDDEN, UNSUPPORTED, WRONG_TYPE = (
    "FieldValueRequired",
    "FieldValueInvalid",
    "FieldValueForbidden",
    "FieldValueNotSupported",
    "FieldValueTypeInvalid",
)


def keyed(keys: list[str], **items: Any) -> dict[str, Any]:
    return {"type": "array", LIST_TYPE: "map", MAP_KEYS: keys, "items": {"type": "object", **items}}


def rooted(name: str, member: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: member}}


def faults(schema: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause.reason, cause.field) for cause in check_structural(schema, PATH)]


@pytest.mark.rule("api-118")
@pytest.mark.parametrize(
    "member",
    [
        STRING,
        {"x-kubernetes-int-or-string": True},
        {"x-kubernetes-int-or-string": True, "type": "string"},
        {"type": "object", "additionalProperties": False},
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        {PRESERVE: True},
        {"type": "object", "additionalProperties": STRING},
        {"type": "object", "properties": {"a": STRING}, "oneOf": [{"required": ["a"]}]},
        {"type": "object", "properties": {"a": STRING}, "not": {"properties": {"a": {"enum": ["x"]}}}},
        keyed(["name"], required=["name"], properties={"name": STRING}),
        keyed(["name"], properties={"name": {**STRING, "default": ""}}),
        {"type": "array", LIST_TYPE: "set", "items": STRING},
        {"type": "object", "default": {"a": "x"}, "properties": {"a": STRING}},
        {"type": "object", EMBEDDED: True, PRESERVE: True},
    ],
)
def test_a_structural_schema_has_no_fault(member: dict[str, Any]) -> None:
    assert faults(rooted("spec", member)) == []


@pytest.mark.rule("api-118")
@pytest.mark.parametrize(
    ("member", "reason", "place"),
    [
        ({"properties": {}}, REQUIRED, ".type"),
        ({"type": "text"}, UNSUPPORTED, ".type"),
        ({"type": "integer", "default": "x"}, WRONG_TYPE, ".default"),
        ({"type": "object", "properties": {}, "default": {"b": 1}}, INVALID, ".default"),
        ({"type": "array"}, REQUIRED, ".items"),
        ({"type": "array", "items": {}}, REQUIRED, ".items.type"),
        (
            {"type": "object", "additionalProperties": STRING, "properties": {"a": STRING}},
            FORBIDDEN,
            ".additionalProperties",
        ),
        ({"type": "array", "items": STRING, "uniqueItems": True}, FORBIDDEN, ".uniqueItems"),
        ({"type": "object", "$ref": "#/x"}, FORBIDDEN, ".$ref"),
        ({"type": "string", "pattern": "("}, INVALID, ".pattern"),
        ({"type": "string", "pattern": "(?=a)"}, INVALID, ".pattern"),
        ({"type": "object", "anyOf": [{"type": "object"}]}, FORBIDDEN, ".anyOf[0].type"),
        ({"type": "object", "not": {"description": "x"}}, FORBIDDEN, ".not.description"),
        ({"x-kubernetes-int-or-string": True, PRESERVE: True}, INVALID, f".{PRESERVE}"),
        (
            {
                "type": "object",
                "anyOf": [{"properties": {"metadata": {}}}],
                "properties": {"metadata": {"type": "object"}},
            },
            FORBIDDEN,
            ".anyOf[0].properties[metadata]",
        ),
        ({EMBEDDED: True, PRESERVE: True}, REQUIRED, ".type"),
        (
            {"type": "object", EMBEDDED: True, "properties": {"kind": {"type": "integer"}}},
            INVALID,
            ".properties[kind].type",
        ),
        ({"type": "array", "items": None}, REQUIRED, ".items"),
        ({"type": "string", MAP_TYPE: "atomic"}, INVALID, ".type"),
        (
            keyed(["a"], required=["a"], properties={"a": {**STRING, "nullable": True}}),
            FORBIDDEN,
            ".items.properties[a].nullable",
        ),
        (
            {"type": "array", "items": {**STRING, "nullable": True}, LIST_TYPE: "set"},
            FORBIDDEN,
            ".items.nullable",
        ),
        ({"type": "object", PRESERVE: False}, INVALID, f".{PRESERVE}"),
        ({"type": "object", EMBEDDED: True}, REQUIRED, ".properties"),
        ({"type": "object", MAP_TYPE: "set"}, UNSUPPORTED, f".{MAP_TYPE}"),
        ({"type": "array", "items": STRING, LIST_TYPE: "bag"}, UNSUPPORTED, f".{LIST_TYPE}"),
        (keyed([], properties={}), REQUIRED, f".{MAP_KEYS}"),
        (keyed(["b"], properties={"a": STRING}), INVALID, f".{MAP_KEYS}"),
        (keyed(["a"], properties={"a": STRING}), REQUIRED, ".items.properties[a].default"),
        (
            keyed(["a"], required=["a"], properties={"a": {"type": "object"}}),
            INVALID,
            ".items.properties[a].type",
        ),
        ({"type": "array", "items": {"type": "object"}, LIST_TYPE: "set"}, INVALID, f".items.{MAP_TYPE}"),
        ({"type": "array", "items": STRING, MAP_KEYS: ["a"]}, REQUIRED, f".{LIST_TYPE}"),
    ],
)
def test_a_fault_is_reported_with_its_path(member: dict[str, Any], reason: str, place: str) -> None:
    assert faults(rooted("spec", member)) == [(reason, f"{PATH}.properties[spec]{place}")]


@pytest.mark.rule("api-118")
@pytest.mark.parametrize(
    ("schema", "reason", "place"),
    [
        ({"properties": {"spec": {"type": "object"}}}, REQUIRED, ".type"),
        ({"type": "array", "items": STRING}, INVALID, ".type"),
        ({"type": "object", "nullable": True}, FORBIDDEN, ".nullable"),
        (
            rooted("metadata", {"type": "object", "properties": {"a": STRING}}),
            FORBIDDEN,
            ".properties[metadata]",
        ),
        (rooted("kind", {"type": "integer"}), INVALID, ".properties[kind].type"),
        (rooted("kind", {**STRING, "default": "X"}), FORBIDDEN, ".properties[kind].default"),
        ({"type": "object", "additionalProperties": STRING}, FORBIDDEN, ".additionalProperties"),
        ({"type": "object", "$schema": "x"}, INVALID, ""),
        ({"type": "object", "allOf": [{"properties": {"a": {}}}]}, REQUIRED, ".properties[a]"),
    ],
)
def test_the_root_is_an_object_with_ordinary_metadata(
    schema: dict[str, Any], reason: str, place: str
) -> None:
    assert faults(schema) == [(reason, f"{PATH}{place}")]


@pytest.mark.parametrize(
    ("member", "place"),
    [
        ([], ""),
        ({"type": ["string", "null"]}, ".type"),
        ({"type": "object", "properties": []}, ".properties"),
        ({"type": "object", "properties": {"a": "string"}}, ".properties[a]"),
        ({"type": "object", "required": "a"}, ".required"),
        ({"type": "object", "required": [1]}, ".required[0]"),
        ({"type": "string", "pattern": 1}, ".pattern"),
        ({"type": "string", "maxLength": "5"}, ".maxLength"),
        ({"type": "string", "enum": "a"}, ".enum"),
        ({"type": "object", "oneOf": {"required": ["a"]}}, ".oneOf"),
        ({"type": "object", "oneOf": [1]}, ".oneOf[0]"),
        ({"type": "object", "not": True}, ".not"),
        ({"type": "object", PRESERVE: "true"}, f".{PRESERVE}"),
    ],
)
def test_a_malformed_schema_is_reported_and_not_compiled(member: Any, place: str) -> None:
    assert faults(rooted("spec", member)) == [(WRONG_TYPE, f"{PATH}.properties[spec]{place}")]


def test_multiple_of_zero_is_not_a_valid_rule() -> None:
    schema = rooted("spec", {"type": "integer", "multipleOf": 0})
    assert faults(schema) == [(INVALID, f"{PATH}.properties[spec].multipleOf")]


KEYWORD_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 2), st.sampled_from(["object", "array", "string", "a", "("])
)
SCHEMAS = st.recursive(
    st.dictionaries(st.sampled_from(["type", "nullable", "pattern", "minLength", "default"]), KEYWORD_VALUES),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array", "string"])},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2) | KEYWORD_VALUES,
            "items": inner | KEYWORD_VALUES,
            "additionalProperties": inner | KEYWORD_VALUES,
            "oneOf": st.lists(inner, max_size=2) | KEYWORD_VALUES,
            "not": inner,
            "x-kubernetes-list-type": st.sampled_from(["map", "set", 1]),
            "x-kubernetes-list-map-keys": st.lists(st.sampled_from(["a", 1]), max_size=2),
        },
    ),
    max_leaves=6,
)


@given(SCHEMAS)
def test_any_schema_is_either_refused_or_usable(schema: dict[str, Any]) -> None:
    obj = {"a": {"b": [1, "x"]}, "b": None}
    faulty = bool(check_structural(schema, PATH))
    assert faulty or isinstance(compile_schema(decoded(schema)).validate(obj), list)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "object", "x-kubernetes-map-type": "atomic"}, ""),
        ({"type": "object", "properties": {"a": STRING}, "anyOf": [{"required": ["a"]}]}, ""),
        ({"type": "object", "description": "x", PRESERVE: True, "required": ["spec"]}, None),
    ],
)
def test_beside_a_status_the_root_says_only_what_can_be_split(
    schema: dict[str, Any], place: str | None
) -> None:
    assert faults(schema) == []
    found = [(cause.reason, cause.field) for cause in check_structural(schema, PATH, status=True)]
    assert found == ([] if place is None else [(INVALID, f"{PATH}{place}")])


def test_empty_values_that_say_nothing_are_no_part_of_a_schema() -> None:
    empty = {"nullable": False, "description": "", "required": [], "properties": {"a": None}, "enum": None}
    assert decoded({"type": "object", **empty, "maxLength": 0}) == {
        "type": "object",
        "properties": {"a": {}},
        "maxLength": 0,
    }
