"""From schemas: values of every class that keywords admit, invalid ones, and their places in an object."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconcile.embedded.schema import compile_schema
from reconcile.embedded.schema.json_values import copied
from reconcile.testing.spec_transitions.change_acts import acts_of
from reconcile.testing.spec_transitions.covering_rows import CoveringRows, pairs_of
from reconcile.testing.spec_transitions.sample_values import full_of, least_of
from reconcile.testing.spec_transitions.spec_slots import name_of, slots_of, value_at, with_value
from reconcile.testing.spec_transitions.value_classes import ABSENT, classes_of, refused_of

PATTERNS_TOO = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.nested_given])
"""Texts for a pattern that nobody knows are searched by hypothesis itself."""

# --- schemas ------------------------------------------------------------------------------------------

small = st.integers(0, 4)


def limits(least: str, most: str, extra: Any = None) -> st.SearchStrategy[dict[str, Any]]:
    made = st.tuples(small, small).map(lambda pair: {least: min(pair), most: max(pair)})
    return st.one_of(st.just({}), made)


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda found: {k: v for one in found for k, v in one.items()})


scalars = st.one_of(
    merged(st.just({"type": "integer"}), limits("minimum", "maximum")),
    merged(st.just({"type": "number"}), limits("minimum", "maximum")),
    merged(st.just({"type": "string"}), limits("minLength", "maxLength")),
    st.just({"type": "string", "pattern": "^[a-z][0-9]{2,3}$"}),
    st.just({"type": "string", "pattern": r"^(rolling|recreate)-\d$"}),
    st.just({"type": "string", "format": "date-time"}),
    st.just({"type": "boolean"}),
    st.just({"type": "string", "enum": ["one", "two", "three"]}),
    st.just({"type": "integer", "enum": [1, 5]}),
    st.just({"x-kubernetes-int-or-string": True}),
)
schemas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        merged(inner.map(lambda item: {"type": "array", "items": item}), limits("minItems", "maxItems")),
        merged(inner.map(lambda item: {"type": "object", "additionalProperties": item})),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).flatmap(
            lambda parts: st.sets(st.sampled_from(sorted(parts))).map(
                lambda needed: {"type": "object", "properties": parts, "required": sorted(needed)}
            )
        ),
    ),
    max_leaves=5,
)


def root(schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    whole: dict[str, Any] = {"type": "object", "properties": {"spec": schema}}
    return {**whole, "required": ["spec"]} if required else whole


def faults(schema: dict[str, Any], obj: dict[str, Any]) -> list[str]:
    compiled = compile_schema(schema)
    body = copied(obj)
    compiled.prune(body)
    compiled.default(body)
    return [f"{cause.field}: {cause.message}" for cause in compiled.validate(body)]


def as_object(value: Any) -> dict[str, Any]:
    return {} if value is ABSENT else {"spec": value}


# --- classes ------------------------------------------------------------------------------------------


@pytest.mark.rule("transitions-classes")
@PATTERNS_TOO
@given(schemas)
def test_the_value_of_each_class_is_admitted(schema: dict[str, Any]) -> None:
    found = classes_of(schema, required=False)
    assert len({one.identity for one in found}) == len(found)
    for one in found:
        assert faults(root(schema), as_object(one.value)) == [], one


@pytest.mark.rule("transitions-classes")
@PATTERNS_TOO
@given(schemas)
def test_no_invalid_value_is_admitted(schema: dict[str, Any]) -> None:
    for one in refused_of(schema, required=True):
        assert faults(root(schema, required=True), as_object(one.value)), one


@PATTERNS_TOO
@given(schemas)
def test_the_least_and_the_fullest_value_are_admitted(schema: dict[str, Any]) -> None:
    for made in (least_of(schema), full_of(schema)):
        assert faults(root(schema), {"spec": made}) == []


def names(schema: dict[str, Any], sample: Any = ABSENT, *, required: bool = False) -> dict[str, Any]:
    return {one.name: one.value for one in classes_of(schema, required=required, sample=sample)}


def test_a_list_of_a_sample_shrinks_from_its_beginning_and_grows() -> None:
    schema = {"type": "array", "maxItems": 4, "items": {"type": "string"}}
    assert names(schema, ["x", "y"]) == {
        "as in the sample": ["x", "y"],
        "absent": ABSENT,
        "without the first": ["y"],
        "one more": ["x", "y", "y1"],
        "many": ["x", "y", "y1", "y2"],
        "empty": [],
    }


def test_a_number_of_ten_or_more_has_a_few_and_one_of_fewer_has_not() -> None:
    assert names({"type": "integer", "minimum": 0, "maximum": 10})["a few"] == 3
    assert names({"type": "integer", "minimum": 1})["a few"] == 3
    assert "a few" not in names({"type": "integer", "minimum": 4})
    assert "a few" not in names({"type": "integer", "minimum": 0, "maximum": 9})
    assert "a few" not in names({"type": "number"})


def test_a_number_has_its_limits_and_one_without_is_below_zero_and_not_huge() -> None:
    assert names({"type": "integer", "minimum": 2, "maximum": 5}) == {"absent": ABSENT, "least": 2, "most": 5}
    unlimited = {"absent": ABSENT, "below zero": -1, "zero": 0, "one": 1, "a few": 3, "many": 12}
    assert names({"type": "integer"}) == unlimited


def test_null_is_a_class_where_a_field_is_nullable() -> None:
    assert None in names({"type": "integer", "nullable": True}).values()


def test_true_and_one_are_different_values() -> None:
    choices = {"x-kubernetes-int-or-string": True}
    assert {0, 2}.issubset(value for value in names(choices).values() if isinstance(value, int))
    assert len(classes_of({"type": "boolean"}, required=True, sample=True)) == 2


# --- places -------------------------------------------------------------------------------------------

PAGES = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "pages": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "text": {"type": "string"}},
                    },
                },
                "sizes": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"cpu": {"type": "string"}}},
                },
            },
        },
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    },
}


def test_fields_are_found_in_lists_and_maps_and_not_in_the_status() -> None:
    found = [slot.name for slot in slots_of(PAGES, {"spec": {"sizes": {"web": {}}}})]
    assert found == [
        "metadata.labels",
        "spec",
        "spec.pages",
        "spec.sizes",
        "spec.pages[0].name",
        "spec.pages[0].text",
        "spec.sizes.web.cpu",
    ]


def test_what_is_missing_above_a_value_is_made_as_small_as_it_may_be() -> None:
    path = ("spec", "pages", 0, "text")
    assert with_value({}, PAGES, path, "x") == {"spec": {"pages": [{"name": "a", "text": "x"}]}}
    assert name_of(path) == "spec.pages[0].text"


@PATTERNS_TOO
@given(schemas)
def test_a_value_that_is_set_is_the_one_that_is_found(schema: dict[str, Any]) -> None:
    whole = root(schema)
    for slot in slots_of(whole, {}):
        for one in classes_of(slot.schema, required=slot.required):
            made = with_value({}, whole, slot.path, one.value)
            assert value_at(made, slot.path) == one.value


# --- changes ------------------------------------------------------------------------------------------


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merge(made.get(name), value)
    return made


bodies = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=4,
    ),
)


@given(st.lists(bodies, min_size=2, max_size=4), st.data())
def test_each_patch_makes_its_spec_whatever_was_refused_before(specs: list[Any], data: st.DataObject) -> None:
    manifests = [{"metadata": {"name": "one"}, "spec": spec} for spec in specs]
    _, *edits = acts_of("/one", manifests)
    stored: Any = manifests[0]
    for manifest, edit in zip(manifests[1:], edits, strict=True):
        if data.draw(st.booleans()):
            continue  # the server has refused this one
        stored = merge(stored, edit.patch)  # type: ignore[union-attr]
        assert stored["spec"] == manifest["spec"]


# --- pairs --------------------------------------------------------------------------------------------


@pytest.mark.rule("transitions-pairs")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=6), st.data())
def test_every_possible_pair_of_values_occurs(sizes: list[int], data: st.DataObject) -> None:
    every = {
        (left, one, right, other)
        for left in range(len(sizes))
        for right in range(left + 1, len(sizes))
        for one in range(sizes[left])
        for other in range(sizes[right])
    }
    impossible = data.draw(st.sets(st.sampled_from(sorted(every)), max_size=4))
    rows = CoveringRows(sizes, lambda row: not impossible.intersection(pairs_of(row)))
    found = list(rows)
    assert {pair for row in found for pair in pairs_of(row)} == every - impossible
    assert (rows.pairs, rows.impossible) == (len(every), len(impossible))


@pytest.mark.rule("transitions-pairs")
def test_ten_fields_of_four_values_need_few_of_a_million_combinations() -> None:
    rows = list(CoveringRows([4] * 10, lambda row: True))
    assert len(rows) <= 40
