"""Objects as their schema types them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.ownership.managed_fields import UPDATE, FieldManager, Ownership, encode, tracked
from reconcile.embedded.ownership.server_side_apply import track_update
from reconcile.embedded.ownership.typed_values import compare, new_fields
from reconcile.embedded.schema import compile_schema
from reconcile.embedded.verbs.bodies import parse_json

ITEM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "value": {"type": "integer"}, "free": {"type": "object"}},
}
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "keyed": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": ITEM,
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "plain": {"type": "array", "items": ITEM},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {}},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "any": {"x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
)
NODE = SCHEMA.whole

words = st.text("abc", max_size=2)
free = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=5,
)
items = st.fixed_dictionaries(
    {"name": words}, optional={"value": st.integers(0, 3), "free": st.dictionaries(words, free, max_size=2)}
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": st.none() | st.integers(),
        "keyed": st.none() | st.lists(items, max_size=3, unique_by=lambda item: item["name"]),
        "tags": st.lists(words, max_size=3, unique=True),
        "plain": st.lists(items, max_size=2),
        "whole": st.dictionaries(words, free, max_size=2),
        "labels": st.none() | st.dictionaries(words, words, max_size=3),
        "any": free,
    },
)


ZERO = {"spec": {"size": 0, "keyed": None, "plain": None, "whole": {}, "labels": {}}}


@pytest.mark.parametrize("zero", [{}, {"spec": {}}, ZERO])
@given(spec=specs)
def test_the_fields_of_a_new_object_are_its_difference_from_its_zero_value(
    zero: dict[str, Any], spec: dict[str, Any]
) -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}
    difference = compare(NODE, zero, obj)
    assert new_fields(NODE, zero, obj) == difference.added.union(difference.modified)


@given(specs, specs)
def test_fields_added_in_one_direction_are_removed_in_the_other(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    there, back = compare(NODE, {"spec": one}, {"spec": other}), compare(NODE, {"spec": other}, {"spec": one})
    assert (there.added, there.modified) == (back.removed, back.modified)


@given(
    specs,
    st.dictionaries(st.sampled_from(["labels", "annotations"]), st.dictionaries(words, words), max_size=2),
)
def test_a_creator_owns_every_field_not_set_by_the_server(
    spec: dict[str, Any], metadata: dict[str, Any]
) -> None:
    obj: dict[str, Any] = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "uid": "u", "generation": 1, **metadata},
        "spec": spec,
    }
    owner = FieldManager("me", UPDATE, "example.com/v1")
    expected = encode(tracked({owner: Ownership(compare(NODE, {}, obj).added, "example.com/v1", "now")}))
    track_update(
        None, obj, schema=SCHEMA, manager="me", subresource="", api_version="example.com/v1", time="now"
    )
    assert obj["metadata"].get("managedFields", []) == expected


def test_compact_and_spaced_bodies_are_read_alike() -> None:
    spaced = parse_json(b'{ "a": 1.0, "b": [1e2, 2.5], "c": "\\u00e4" }')
    compact = parse_json('{"a":1.0,"b":[1e2,2.5],"c":"ä"}'.encode())
    assert spaced == compact == {"a": 1, "b": [100, 2.5], "c": "ä"}
    assert [type(number) for number in (compact["a"], *compact["b"])] == [float, float, float]


def test_duplicate_keys_are_detected_in_compact_bodies_too() -> None:
    doubled: list[str] = []
    assert parse_json(b'{"a":1,"b":{"c":1,"c":2}}', doubled) == {"a": 1, "b": {"c": 2}}
    assert doubled == ["c"]
