"""Differences of JSON: what a write sends, and whether it may be sent blindly."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.client.diff import (
    FreePlaces,
    merge_diff,
    merged,
    needs_version,
    overlaid,
    pointers,
    projected,
    same,
)
from tests.helpers.processor_time import bounded

JSON = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


def applied(document: Any, patch: Any) -> Any:
    """RFC 7386, written again from its text."""
    if not isinstance(patch, dict):
        return patch
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@pytest.mark.rule("K7")
@given(OBJECTS, OBJECTS)
def test_a_diff_applied_to_the_state_before_gives_the_state_after(before: Any, after: Any) -> None:
    assert same(applied(before, merge_diff(before, after)), after)
    assert same(merged(before, merge_diff(before, after)), after)


@given(OBJECTS)
def test_equal_states_have_an_empty_diff(state: Any) -> None:
    assert merge_diff(state, state) == {}


@given(OBJECTS, OBJECTS)
def test_members_that_a_view_does_not_show_survive_at_any_depth(before: Any, after: Any) -> None:
    """What the view changes is changed; each element that was there keeps what the view hides."""
    stored = with_hidden(before)
    assert same(without_hidden(merged(stored, merge_diff(before, after, stored))), after)


def with_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {**{name: with_hidden(inner) for name, inner in value.items()}, "hidden": 1}
    return [with_hidden(inner) for inner in value] if isinstance(value, list) else value


def without_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_hidden(inner) for name, inner in value.items() if name != "hidden"}
    return [without_hidden(inner) for inner in value] if isinstance(value, list) else value


def test_a_changed_element_keeps_its_own_hidden_members_wherever_it_moves() -> None:
    stored = [{"name": "a", "image": "1", "x": 1}, {"name": "b", "image": "1", "x": {"y": None}}]
    before = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]
    after = [{"name": "c", "image": "1"}, {"name": "b", "image": "2"}, {"name": "a", "image": "1"}]
    assert merge_diff({"l": before}, {"l": after}, {"l": stored}) == {
        "l": [
            {"name": "c", "image": "1"},
            {"name": "b", "image": "2", "x": {"y": None}},
            {"name": "a", "image": "1", "x": 1},
        ]
    }


def test_a_new_element_does_not_inherit_from_the_one_it_replaces() -> None:
    stored = [{"name": "a", "secret": "of a"}]
    assert merge_diff({"l": [{"name": "a"}]}, {"l": [{"name": "b"}]}, {"l": stored}) == {"l": [{"name": "b"}]}


def test_hidden_members_of_lists_in_lists_survive() -> None:
    stored = {"l": [{"name": "a", "ports": [{"port": 1, "x": 1}, {"port": 2, "x": 2}]}]}
    before = {"l": [{"name": "a", "ports": [{"port": 1}, {"port": 2}]}]}
    after = {"l": [{"name": "a", "ports": [{"port": 2}, {"port": 3}]}]}
    assert merge_diff(before, after, stored) == {
        "l": [{"name": "a", "ports": [{"port": 2, "x": 2}, {"port": 3}]}]
    }


def test_unchanged_parts_of_an_element_stay_as_they_are_stored_however_the_view_shows_them() -> None:
    """A view may show a number as a text, a default that is not stored, and leave out a null."""
    before = {"a": {"l": ["1", "2", {"name": "p", "cpu": "1", "proto": "TCP", "port": 1}]}}
    changed = {"name": "p", "cpu": "1", "proto": "TCP", "port": 2, "note": "new", "more": {}}
    after = {"a": {"l": ["1", "3", changed]}}
    stored = {"a": {"l": [1, 2, {"name": "p", "cpu": 1, "port": 1, "note": None, "x": "hidden"}]}}
    assert merge_diff(before, after, stored) == {
        "a": {"l": [1, "3", {"name": "p", "cpu": 1, "port": 2, "note": "new", "x": "hidden", "more": {}}]}
    }


@pytest.mark.parametrize(
    ("before", "after", "stored", "written"),
    [
        # Alike ones without a name: those that did not change are known again, wherever they are.
        ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}], "xy", [{"a": 2, "h": "y"}, {"a": 1, "h": "x"}]),
        (
            [{"a": 1}, {"a": 1}], [{"a": 1}, {"a": 3}, {"a": 1}], "xy",
            [{"a": 1, "h": "x"}, {"a": 3}, {"a": 1, "h": "y"}],
        ),
        # What is left is the one in its place, if there are as many as before, and a new one else.
        ([{"a": 1}, {"a": 2}], [{"a": 3}, {"a": 2}], "xy", [{"a": 3, "h": "x"}, {"a": 2, "h": "y"}]),
        ([{"a": 1}], [{"a": 3}, {"a": 4}], "x", [{"a": 3}, {"a": 4}]),
        ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 3}], "xy", [{"a": 2, "h": "y"}, {"a": 3}]),
        ([{"name": "n"}], [{"a": 1}], "x", [{"a": 1, "h": "x"}]),
        # Of namesakes the one that did not change is itself.
        (
            [{"name": "n", "a": 1}, {"name": "n", "a": 2}], [{"name": "n", "a": 1}], "xy",
            [{"name": "n", "a": 1, "h": "x"}],
        ),
    ],
)  # fmt: skip
def test_elements_are_matched_across_changes(before: Any, after: Any, stored: str, written: Any) -> None:
    full = [{**element, "h": hidden} for element, hidden in zip(before, stored, strict=True)]
    assert merge_diff({"l": before}, {"l": after}, {"l": full}) == {"l": written}


@given(OBJECTS, OBJECTS)
def test_an_overlay_changes_what_the_view_changes_and_nothing_else(before: Any, after: Any) -> None:
    stored = with_hidden(before)
    assert overlaid(before, before, stored) == stored
    assert same(without_hidden(overlaid(before, after, stored)), after)


@pytest.mark.parametrize(
    ("before", "after", "stored"),
    [({"a": 1}, {"a": 2}, "text"), ({"a": 1}, 5, {"a": 1}), (5, {"a": 1}, {"a": 1}), ([1], [2], None)],
)
def test_a_value_stored_in_an_unexpected_form_is_written_as_the_view_has_it(
    before: Any, after: Any, stored: Any
) -> None:
    assert overlaid(before, after, stored) == after
    assert merged(
        {"m": {"x": before}}, merge_diff({"m": {"x": before}}, {"m": {"x": after}}, {"m": "?"})
    ) == {"m": {"x": after}}


@pytest.mark.parametrize("zero", [0, False, "", [], {}])
def test_an_explicit_zero_is_a_value_like_any_other(zero: Any) -> None:
    assert merge_diff({}, {"x": zero}) == {"x": zero}
    assert merge_diff({"x": 5}, {"x": zero}) == {"x": zero}
    assert merge_diff({"x": zero}, {}) == {"x": None}


@pytest.mark.rule("write-2")
@pytest.mark.parametrize(
    ("before", "after", "needed"),
    [
        ({"a": 1}, {"a": 2}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ({"a": {"b": 1}}, {"a": {}}, False),
        ({"a": [1]}, {"a": [1, 2]}, True),
        ({"a": {"b": [1]}}, {"a": {}}, True),
        ({"a": {"b": [1]}}, {}, True),
        ({"s": {"type": "Recreate"}}, {"s": {"type": "RollingUpdate"}}, True),
        ({"v": {"emptyDir": {}}}, {"v": {"hostPath": {"path": "/"}}}, True),
    ],
)
def test_a_patch_that_could_undo_changes_of_others_needs_a_version(
    before: Any, after: Any, needed: bool
) -> None:
    assert needs_version(merge_diff(before, after), before) is needed


def test_a_patch_names_the_paths_it_changes() -> None:
    patch = {"a": {"b/c": 1, "d~": None}, "e": [1], "f": {}}
    assert list(pointers(patch)) == ["/a/b~1c", "/a/d~0", "/e", "/f"]


@given(OBJECTS, OBJECTS)
def test_an_intent_merged_into_a_state_equals_the_projection_of_the_result(live: Any, intent: Any) -> None:
    assert same(projected(merged(live, intent), intent), intent)


def test_a_projection_follows_the_intent_and_takes_lists_of_another_length_whole() -> None:
    live = {"a": {"b": 1, "c": 2}, "l": [{"a": 1, "x": 2}], "longer": [{"a": 1, "x": 2}, 3], "text": "t"}
    intent = {"a": {"b": 0}, "l": [{"a": 0}], "longer": [{"a": 0}], "text": {"a": 0}, "absent": 0}
    assert projected(live, intent) == {
        "a": {"b": 1}, "l": [{"a": 1}], "longer": [{"a": 1, "x": 2}, 3], "text": "t"
    }  # fmt: skip


@given(OBJECTS, OBJECTS)
def test_a_projection_has_nothing_outside_the_intent(live: Any, intent: Any) -> None:
    assert projected(live, intent).keys() <= intent.keys()
    assert same(projected({**live, "beside": 1}, intent), projected(live, intent))


VALUES = [0, False, 0.0, 1, True, 1.0, 1.5, 2**70, 2.0**70, 1e300, "1", None, [], {}]
NESTED = [*VALUES, *([one] for one in VALUES), *({"a": one, "b": 1} for one in VALUES), {"b": 1.0, "a": 1}]


@given(st.lists(st.sampled_from(NESTED)), st.lists(st.tuples(st.integers(-1, 5), st.sampled_from(NESTED))))
def test_a_place_is_found_as_by_a_search(elements: Any, values: Any) -> None:
    places = FreePlaces(elements, range(len(elements)))
    free = list(range(len(elements)))
    for place, value in values:
        order = (n for n in (place, *free) if n in free)
        expected = next((n for n in order if same(elements[n], value)), None)
        assert places.take(place, value) == expected
        if expected is not None:
            free.remove(expected)


def test_a_list_of_which_all_elements_changed_is_compared_in_linear_time() -> None:
    before, after, stored = ([{"a": one}] * 10_000 for one in range(3))
    with bounded(10):
        assert overlaid({"l": before}, {"l": after}, {"l": stored}) == {"l": after}


def test_lists_equal_tuples_with_the_same_items() -> None:
    assert same({"l": [1, (2, "3")]}, {"l": (1, [2, "3"])})


@pytest.mark.parametrize(
    ("one", "other"), [(True, 1), (False, 0), (0, ""), ([], {}), (None, False), ([True], [1]), ([1], [1, 1])]
)
def test_json_values_of_different_types_are_not_equal(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert merge_diff({"x": one}, {"x": other}) == {"x": other}


def test_a_merge_keeps_what_the_patch_omits_and_replaces_values_that_are_not_mappings() -> None:
    target = {"kept": 1, "gone": 2, "deep": {"kept": 3, "new": 0}, "text": "a"}
    patch = {"gone": None, "never there": None, "deep": {"new": 4}, "text": {"now": "a mapping"}}
    assert merged(target, patch) == {"kept": 1, "deep": {"kept": 3, "new": 4}, "text": {"now": "a mapping"}}
    assert target["gone"] == 2
