"""Sets of fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.ownership.field_sets import NO_FIELDS, FieldSet, key_element, path_text, value_element

ELEMENTS = st.sampled_from(
    ["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80,"protocol":"TCP"}', 'v:"x"', "v:1", "i:0"]
)
PATHS = st.sets(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=6)


def members(fields: FieldSet) -> set[tuple[str, ...]]:
    return set(fields.paths())


@given(PATHS, PATHS)
def test_field_sets_are_sets_of_paths(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> None:
    a, b = FieldSet.of(*left), FieldSet.of(*right)
    assert members(a.union(b)) == left | right
    assert members(a.intersection(b)) == left & right
    assert members(a.difference(b)) == left - right
    assert bool(a) is bool(left)
    assert (a == b) is (left == right)


@given(PATHS)
def test_the_serialised_form_is_the_same_set(paths: set[tuple[str, ...]]) -> None:
    fields = FieldSet.of(*paths)
    assert FieldSet.from_json(fields.to_json()) == fields


def test_the_serialised_form_is_that_of_the_api_server() -> None:
    item = 'k:{"port":80,"protocol":"TCP"}'
    fields = FieldSet.of(("f:spec",), ("f:spec", "f:size"), ("f:spec", "f:ports", item), ("f:data", "f:k"))
    assert fields.to_json() == {
        "f:data": {"f:k": {}},
        "f:spec": {".": {}, "f:ports": {item: {}}, "f:size": {}},
    }


def test_keys_are_read_in_any_notation() -> None:
    spelled = FieldSet.from_json({"f:ports": {'k:{"protocol": "TCP", "port": 80}': {}}})
    assert members(spelled) == {("f:ports", key_element({"port": 80, "protocol": "TCP"}))}


@pytest.mark.parametrize("fields", [[], {"f:a": 1}, {"nothing": {}}, {"x:a": {}}, {"k:{": {}}])
def test_malformed_field_sets_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match=r"FieldsV1|element of a path"):
        FieldSet.from_json(fields)


def test_a_path_is_written_as_in_the_messages_of_the_api_server() -> None:
    path = ("f:spec", "f:ports", key_element({"protocol": "TCP", "port": 80}), "f:name")
    assert path_text(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert path_text(("f:tags", value_element("a"))) == '.tags[="a"]'
    assert path_text(("f:args", "i:3")) == ".args[3]"


def test_a_difference_keeps_nested_paths() -> None:
    fields = FieldSet.of(("f:a",), ("f:a", "f:b"))
    assert members(fields.difference(FieldSet.of(("f:a",)))) == {("f:a", "f:b")}
    assert fields.difference(fields) == NO_FIELDS


@given(PATHS, PATHS)
def test_a_difference_is_the_set_itself_exactly_when_nothing_was_removed(
    left: set[tuple[str, ...]], right: set[tuple[str, ...]]
) -> None:
    fields = FieldSet.of(*left)
    assert (fields.difference(FieldSet.of(*right)) is fields) is left.isdisjoint(right)
