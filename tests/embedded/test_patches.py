"""JSON patches and merge patches."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.schema.json_patches import FailedTest, InapplicablePatch, apply_operations
from reconcile.embedded.verbs.patches import json_patch, merge_into, merge_patch, without_nulls

DOC: dict[str, Any] = {
    "metadata": {"name": "a"},
    "spec": {"size": 1, "tags": ["a", "b"], "settings": {"x": "1", "y": "2"}, "a/b": {"~": 1}},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)
POINTERS = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
    optional={"from": POINTERS, "value": JSON},
)


def diff(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before or type(before[name]) is not type(value):
            patch[name] = value
        elif isinstance(value, dict):
            patch[name] = diff(before[name], value)
        elif before[name] != value:
            patch[name] = value
    return patch


def refused(doc: dict[str, Any], *ops: Any) -> int:
    with pytest.raises(ApiFailure) as caught:
        json_patch(doc, list(ops))
    return caught.value.code


@pytest.mark.rule("api-61")
def test_a_merge_patch_removes_nulls_merges_maps_and_replaces_lists() -> None:
    patch = {"spec": {"size": None, "tags": ["c"], "settings": {"x": None, "z": "3"}, "nothing": None}}
    assert merge_patch(DOC, patch)["spec"] == {
        "tags": ["c"],
        "settings": {"y": "2", "z": "3"},
        "a/b": {"~": 1},
    }
    assert merge_patch({}, {"spec": {"a": None, "b": {"c": None}}}) == {"spec": {"b": {}}}
    assert merge_patch({"a": [1]}, {"a": [None, {"b": None, "c": 1}]}) == {"a": [{"c": 1}]}


@pytest.mark.parametrize("patch", [[], "x", None, 1])
def test_a_merge_patch_that_is_not_an_object_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(ApiFailure) as caught:
        merge_patch(DOC, patch)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@pytest.mark.rule("api-61")
@given(OBJECTS.map(without_nulls), OBJECTS.map(without_nulls))
def test_merging_a_difference_gives_the_newer_object(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge_patch(before, diff(before, after)) == after


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_changes_neither_argument_and_shares_nothing(
    doc: dict[str, Any], patch: dict[str, Any]
) -> None:
    before, patch_before = deepcopy(doc), deepcopy(patch)
    scribble(merge_patch(doc, patch))
    assert (doc, patch) == (before, patch_before)


@given(OBJECTS, OBJECTS)
def test_a_merge_in_place_gives_the_same_result(doc: dict[str, Any], patch: dict[str, Any]) -> None:
    merged = merge_patch(doc, patch)
    assert merge_into(doc, patch) is doc
    assert doc == merged


def scribble(value: Any) -> None:
    if isinstance(value, dict):
        for member in value.values():
            scribble(member)
        value["scribbled"] = True
    elif isinstance(value, list):
        for item in value:
            scribble(item)
        value.append("scribbled")


@pytest.mark.rule("api-62")
@pytest.mark.parametrize(
    ("op", "path", "expected"),
    [
        ({"op": "add", "path": "/spec/size", "value": 2}, "size", 2),
        ({"op": "add", "path": "/spec/tags/0", "value": "c"}, "tags", ["c", "a", "b"]),
        ({"op": "add", "path": "/spec/tags/2", "value": "c"}, "tags", ["a", "b", "c"]),
        ({"op": "add", "path": "/spec/tags/-", "value": "c"}, "tags", ["a", "b", "c"]),
        ({"op": "remove", "path": "/spec/tags/0"}, "tags", ["b"]),
        ({"op": "remove", "path": "/spec/settings/x"}, "settings", {"y": "2"}),
        ({"op": "replace", "path": "/spec/tags/1", "value": "c"}, "tags", ["a", "c"]),
        ({"op": "replace", "path": "/spec/new", "value": 1}, "new", 1),
        (
            {"op": "move", "from": "/spec/size", "path": "/spec/settings/size"},
            "settings",
            {"x": "1", "y": "2", "size": 1},
        ),
        ({"op": "copy", "from": "/spec/tags", "path": "/spec/more"}, "more", ["a", "b"]),
        ({"op": "replace", "path": "/spec/a~1b/~0", "value": 2}, "a/b", {"~": 2}),
        ({"op": "test", "path": "/spec/size", "value": 1.0}, "size", 1),
        ({"op": "test", "path": "/spec/absent", "value": None}, "size", 1),
    ],
)
def test_each_operation_has_its_defined_effect(op: dict[str, Any], path: str, expected: Any) -> None:
    assert json_patch(DOC, [op])["spec"][path] == expected


@pytest.mark.rule("api-62")
@pytest.mark.parametrize(
    "op",
    [
        {"op": "remove", "path": "/spec/nothing"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "/metadata/labels/a", "value": "b"},
        {"op": "add", "path": "/spec/tags/9", "value": "x"},
        {"op": "add", "path": "/spec/tags/x", "value": "x"},
        {"op": "add", "path": "spec", "value": "x"},
        {"op": "add", "path": "/spec/size"},
        {"op": "add", "path": "/spec/size/x", "value": 1},
        {"op": "add", "path": "", "value": []},
        {"op": "replace", "path": "/spec/tags/2", "value": "x"},
        {"op": "replace", "path": "/spec/{}/{x}/{0}", "value": "x"},
        {"op": "move", "from": "/spec", "path": "/spec/inside"},
        {"op": "copy", "path": "/spec/x"},
        {"op": "test", "path": "/spec/size", "value": 2},
        {"op": "test", "path": "/spec/size", "value": True},
        {"op": "increase", "path": "/spec/size", "value": 1},
        {"path": "/spec/size", "value": 1},
    ],
)
def test_an_operation_that_cannot_be_applied_is_invalid(op: dict[str, Any]) -> None:
    assert refused(DOC, {"op": "replace", "path": "/spec/size", "value": 5}, op) == 422


@pytest.mark.rule("api-62")
@pytest.mark.parametrize(
    "ops",
    [
        *({"spec": {}}, "x", None, [1], [[]]),
        *([{"op": ["add"], "path": "/a"}], [{"op": "add", "path": 1}], [{"op": "copy", "from": {}}]),
    ],
)
def test_a_json_patch_that_is_not_a_list_of_operations_is_a_bad_request(ops: Any) -> None:
    with pytest.raises(ApiFailure) as caught:
        json_patch(DOC, ops)
    assert caught.value.code == 400


@pytest.mark.rule("api-23")
def test_a_json_patch_has_at_most_ten_thousand_operations() -> None:
    op = {"op": "test", "path": "/spec/size", "value": 1}
    assert json_patch(DOC, [op] * 10_000) == DOC
    assert refused(DOC, *[op] * 10_001) == 413


@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_a_json_patch_never_changes_its_input(doc: dict[str, Any], ops: list[dict[str, Any]]) -> None:
    before, ops_before = deepcopy(doc), deepcopy(ops)
    with suppress(ApiFailure):
        scribble(json_patch(doc, ops))
    assert (doc, ops) == (before, ops_before)


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (
            {"op": "remove", "path": "/none/x"},
            'remove operation does not apply: doc is missing path: "/none/x": missing value',
        ),
        (
            {"op": "remove", "path": "/data/none"},
            "error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            {"op": "add", "path": "/data/a/b", "value": 1},
            'add operation does not apply: doc is missing path: "/data/a/b": missing value',
        ),
        (
            {"op": "add", "path": "/list/7", "value": 1},
            "error in add for path: '/list/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            {"op": "copy", "from": "/none/x", "path": "/data/x"},
            "copy operation does not apply: doc is missing from path: /none/x: missing value",
        ),
        ({"op": "test", "path": "/data/a", "value": "2"}, "testing value /data/a failed: test failed"),
    ],
)
def test_an_operation_that_does_not_apply_says_so_as_a_real_server_does(op: dict[str, Any], why: str) -> None:
    doc = {"data": {"a": "1"}, "list": [1]}
    with pytest.raises(InapplicablePatch) as raised:
        apply_operations(doc, [op])
    assert str(raised.value) == why
    assert isinstance(raised.value, FailedTest) is (op["op"] == "test")
    assert doc == {"data": {"a": "1"}, "list": [1]}
