"""What a schema removes from, adds to and says about an object."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.schema import EMPTY, ResourceSchema, compile_schema
from reconcile.embedded.schema.patterns import compile_pattern

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "size": {"type": "integer", "minimum": 0, "maximum": 10, "exclusiveMaximum": True},
        "count": {"type": "integer", "format": "int32"},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "step": {"type": "integer", "multipleOf": 5},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "mode": {"type": "string", "nullable": True, "default": "auto"},
        "maybe": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "flag": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "args": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "opt": {"type": "object", "properties": {"level": {"type": "integer", "default": 4}}},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string", "maxLength": 3},
                },
            },
        },
        "a": {"type": "string"},
        "b": {"type": "string"},
        "c": {"type": "string"},
    },
    "not": {"required": ["a", "b"]},
}
THING = compile_schema({"type": "object", "properties": {"spec": SPEC}})


def thing(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a"},
        "spec": {"id": "ab", **spec},
    }


def faults(
    obj: dict[str, Any], old: dict[str, Any] | None = None, schema: ResourceSchema = THING
) -> list[tuple[str, str]]:
    return [(cause.reason, cause.field) for cause in schema.validate(obj, old)]


@pytest.mark.rule("api-118")
def test_unknown_fields_are_removed_and_reported() -> None:
    obj = thing(bogus=1, ports=[{"port": 1, "x": {"y": 2}}], limits={"any": 1}, free={"kept": {"too": 1}})
    obj["extra"] = True
    assert sorted(THING.prune(obj)) == ["extra", "spec.bogus", "spec.ports[0].x"]
    assert obj == thing(ports=[{"port": 1}], limits={"any": 1}, free={"kept": {"too": 1}})


@pytest.mark.rule("api-118")
def test_an_embedded_resource_keeps_the_fields_of_every_object() -> None:
    template = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "labels": {}},
        "spec": {"a": "1"},
    }
    obj = thing(template={**template, "data": 1})
    assert THING.prune(obj) == ["spec.template.data"]
    assert obj["spec"]["template"] == template


def test_a_schema_never_removes_type_and_metadata() -> None:
    obj = {"kind": "Thing", "metadata": {"name": "a", "labels": {"a": "b"}}, "apiVersion": "v1"}
    assert compile_schema({"type": "object"}).prune(obj) == []
    assert obj == {"kind": "Thing", "metadata": {"name": "a", "labels": {"a": "b"}}, "apiVersion": "v1"}


@pytest.mark.rule("api-119")
def test_defaults_are_filled_in_only_where_their_parent_exists() -> None:
    obj = thing(opt={}, ports=[{"port": 1}])
    THING.default(obj)
    assert obj == thing(opt={"level": 4}, ports=[{"port": 1, "protocol": "TCP"}], color="red", mode="auto")
    bare: dict[str, Any] = {"metadata": {"name": "a"}}
    THING.default(bare)
    assert bare == {"metadata": {"name": "a"}}


@pytest.mark.rule("api-119")
def test_null_is_replaced_by_a_default_dropped_or_kept() -> None:
    obj = thing(color=None, mode=None, maybe=None, flag=None)
    THING.default(obj)
    assert obj == thing(color="red", mode=None, maybe=None)


def test_defaults_are_not_shared_between_objects() -> None:
    schema = compile_schema(
        {"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {}}}}
    )
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    schema.default(first)
    schema.default(second)
    first["spec"]["changed"] = True
    assert second == {"spec": {}}


def test_a_whole_float_is_an_integer() -> None:
    obj = thing(size=2.0)
    THING.default(obj)
    assert repr(obj["spec"]["size"]) == "2"
    assert faults(obj) == []


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"id": "A1"}, [("FieldValueInvalid", "spec.id")]),
        ({"id": "ab\n"}, [("FieldValueInvalid", "spec.id")]),
        ({"id": "a"}, [("FieldValueInvalid", "spec.id")]),
        ({"id": "abcdef"}, [("FieldValueTooLong", "spec.id")]),
        ({"size": -1}, [("FieldValueInvalid", "spec.size")]),
        ({"size": 10}, [("FieldValueInvalid", "spec.size")]),
        ({"size": "1"}, [("FieldValueTypeInvalid", "spec.size")]),
        ({"size": True}, [("FieldValueTypeInvalid", "spec.size")]),
        ({"size": 1.5}, [("FieldValueTypeInvalid", "spec.size"), ("FieldValueInvalid", "<nil>")]),
        ({"count": 2**31}, [("FieldValueInvalid", "<nil>")]),
        ({"ratio": 0}, [("FieldValueInvalid", "spec.ratio")]),
        ({"ratio": 1}, []),
        ({"step": 7}, [("FieldValueInvalid", "spec.step")]),
        ({"color": "pink"}, [("FieldValueNotSupported", "spec.color")]),
        ({"maybe": None}, []),
        ({"a": None}, [("FieldValueTypeInvalid", "spec.a")]),
        ({"when": "soon"}, [("FieldValueTypeInvalid", "spec.when")]),
        ({"when": "2024-02-30T00:00:00Z"}, [("FieldValueTypeInvalid", "spec.when")]),
        ({"when": "2024-01-02T03:04:05.678+01:00"}, []),
        ({"flag": "true"}, [("FieldValueTypeInvalid", "spec.flag")]),
        ({"port": 80}, []),
        ({"port": "http"}, []),
        ({"port": 1.5}, [("FieldValueTypeInvalid", "spec.port")]),
        ({"args": []}, [("FieldValueInvalid", "spec.args")]),
        ({"args": ["a", "b", "c"]}, [("FieldValueTooMany", "spec.args")]),
        ({"args": ["a", 1]}, [("FieldValueTypeInvalid", "spec.args[1]")]),
        ({"args": {"a": "b"}}, [("FieldValueTypeInvalid", "spec.args")]),
        ({"limits": {"a": "x"}}, [("FieldValueTypeInvalid", "spec.limits.a")]),
        ({"limits": {"a": 1, "b": 2}}, [("FieldValueTooMany", "spec.limits")]),
        ({"ports": [{"name": "x"}]}, [("FieldValueRequired", "spec.ports[0].port")]),
        ({"a": "1", "b": "2"}, [("FieldValueInvalid", "<nil>")]),
        (
            {"template": {"spec": {}}},
            [
                ("FieldValueRequired", "spec.template.apiVersion"),
                ("FieldValueRequired", "spec.template.kind"),
            ],
        ),
    ],
)
def test_a_value_that_breaks_a_rule_is_a_cause_at_its_path(
    spec: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert sorted(faults(thing(**spec))) == sorted(expected)


@pytest.mark.rule("api-120")
def test_a_missing_field_is_required_only_where_its_parent_exists() -> None:
    assert faults({"spec": {}}) == [("FieldValueRequired", "spec.id")]
    assert faults({}) == []


@pytest.mark.rule("api-121")
def test_items_of_sets_and_keys_of_maps_are_unique() -> None:
    assert faults(thing(tags=["a", "b", "a"])) == [("FieldValueDuplicate", "spec.tags[2]")]
    twice = [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}, {"port": 1, "protocol": "TCP"}]
    assert faults(thing(ports=twice)) == [("FieldValueDuplicate", "spec.ports[2]")]
    assert faults(thing(ports=twice[:2])) == []


def test_uniqueness_checks_can_be_left_to_apply() -> None:
    lists = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    openapi = {"type": "object", "properties": {"list": lists}}
    assert faults({"list": ["a", "a"]}, schema=compile_schema(openapi)) == [
        ("FieldValueDuplicate", "list[1]")
    ]
    assert faults({"list": ["a", "a"]}, schema=compile_schema(openapi, unique_lists=False)) == []


@pytest.mark.rule("api-123")
def test_a_value_that_was_already_invalid_is_tolerated_until_it_changes() -> None:
    old = thing(size=20, ports=[{"port": 1, "name": "long"}, {"port": 2}], tags=["a", "a"])
    assert faults(thing(size=20, a="new", tags=["a", "a", "b"]), old) == []
    assert faults(thing(size=21), old) == [("FieldValueInvalid", "spec.size")]
    assert faults(thing(ports=[{"port": 2}, {"port": 1, "name": "long"}]), old) == []
    changed = [{"port": 1, "name": "other"}]
    assert faults(thing(ports=changed), old) == [("FieldValueTooLong", "spec.ports[0].name")]


def test_one_and_true_are_different_values_to_an_update() -> None:
    assert faults(thing(flag=1), thing(flag=True)) == [("FieldValueTypeInvalid", "spec.flag")]


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("keyword", "value", "valid"),
    [
        ("anyOf", {"a": "1"}, True),
        ("anyOf", {"a": "1", "b": "1"}, True),
        ("anyOf", {}, False),
        ("oneOf", {"a": "1"}, True),
        ("oneOf", {"a": "1", "b": "1"}, False),
        ("oneOf", {}, False),
        ("allOf", {"a": "1", "b": "1"}, True),
        ("allOf", {"a": "1"}, False),
    ],
)
def test_any_of_one_of_and_all_of_are_validated(keyword: str, value: dict[str, str], valid: bool) -> None:
    schema = compile_schema({"type": "object", keyword: [{"required": ["a"]}, {"required": ["b"]}]})
    assert (schema.validate(value) == []) is valid


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("^a$", "a", "a\n"),
        (r"^\d$", "1", "٣"),
        ("^[[:alpha:]]+$", "ab", "a1"),
        (r"^a\z", "a", "ab"),
        ("^[$]$", "$", "a"),
        (r"^\$[^]]$", "$a", "$]"),
    ],
)
def test_patterns_have_the_semantics_of_re2(pattern: str, fits: str, fails: str) -> None:
    compiled = compile_pattern(pattern)
    assert compiled is not None
    assert compiled.search(fits)
    assert not compiled.search(fails)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "fd00::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("email", "a@example.com", "example.com"),
        ("hostname", "a.example.com", "-a"),
        ("uri", "https://example.com/a", "no uri"),
        ("mac", "00:00:5e:00:53:01", "00:00"),
        ("uuid", "5f0c7a52-0d4c-4b5e-9f57-2a3b6c7d8e9f", "5f0c"),
        ("uuid4", "5f0c7a52-0d4c-4b5e-9f57-2a3b6c7d8e9f", "5f0c7a52-0d4c-1b5e-9f57-2a3b6c7d8e9f"),
        ("byte", "aGk=", "a"),
        ("date", "2024-02-29", "2023-02-29"),
        ("duration", "1h30m", "soon"),
        ("duration", "3s", "\u0663s"),
        ("date-time", "2024-02-29T03:00:00Z", "2024-02-29T0\u0663:00:00Z"),
        ("ssn", "111-22-3333", "111-22-333\u0663"),
        ("rgbcolor", "rgb(10,0,255)", "rgb(1\u0660,0,255)"),
        ("hexcolor", "#fff", "red"),
        ("not-a-format", "anything", ""),
    ],
)
def test_known_formats_are_checked(name: str, good: str, bad: str) -> None:
    schema = compile_schema({"type": "object", "properties": {"x": {"type": "string", "format": name}}})
    assert schema.validate({"x": good}) == []
    if bad:
        assert faults({"x": bad}, schema=schema) == [("FieldValueTypeInvalid", "x")]


@pytest.mark.rule("api-122")
def test_formats_that_cannot_be_checked_are_reported() -> None:
    book = {"type": "object", "properties": {"book": {"type": "string", "format": "isbn"}}}
    schema = compile_schema({"type": "object", "properties": {"spec": book}})
    assert schema.unevaluated_rules == ("spec.book: format isbn",)
    assert THING.unevaluated_rules == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4))
def test_the_empty_schema_keeps_and_accepts_everything(obj: dict[str, Any]) -> None:
    before = deepcopy(obj)
    assert EMPTY.prune(obj) == []
    EMPTY.default(obj)
    assert obj == before
    assert EMPTY.validate(obj) == []


@given(st.dictionaries(st.sampled_from([*SPEC["properties"], "bogus"]), JSON, max_size=5))
def test_pruning_and_defaulting_are_idempotent(spec: dict[str, Any]) -> None:
    obj = thing(**spec)
    THING.prune(obj)
    THING.default(obj)
    once = deepcopy(obj)
    assert THING.prune(obj) == []
    THING.default(obj)
    assert obj == once


@given(st.dictionaries(st.sampled_from([*SPEC["properties"]]), JSON, max_size=5))
def test_an_unchanged_object_is_always_tolerated(spec: dict[str, Any]) -> None:
    assert THING.validate(thing(**spec), thing(**deepcopy(spec))) == []


def test_null_is_no_value_of_an_enumeration() -> None:
    schema = compile_schema({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}})
    reasons = [cause.reason for cause in schema.validate({"a": None})]
    assert reasons == ["FieldValueTypeInvalid", "FieldValueNotSupported"]
