"""The JSON patch of a difference, as the embedded server applies it."""

import copy
from typing import Any

import pytest
from hypothesis import given

from reconcile.client.diff import same
from reconcile.client.json_patch import json_patch
from reconcile.embedded.verbs.patches import json_patch as apply_json_patch
from tests.helpers.json_values import documents


@given(before=documents, after=documents)
def test_the_patch_of_a_difference_leads_from_one_document_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    kept = copy.deepcopy(before)
    assert same(apply_json_patch(copy.deepcopy(before), json_patch(before, after)), after)
    assert before == kept


@given(documents)
def test_the_patch_of_no_difference_is_empty(document: dict[str, Any]) -> None:
    assert json_patch(document, copy.deepcopy(document)) == []


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, [{"op": "add", "path": "/a/2", "value": 3}]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [{"op": "remove", "path": "/a/1"}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        (
            {"a": [{"x": 1, "y": 1}, {"z": 1}]},
            {"a": [{"x": 1, "y": 2}, {"z": 1}]},
            [{"op": "replace", "path": "/a/0/y", "value": 2}],
        ),
        ({}, {"a/b": None}, [{"op": "add", "path": "/a~1b", "value": None}]),
    ],
)
def test_the_patch_changes_no_more_than_it_must(before: Any, after: Any, patch: Any) -> None:
    assert json_patch(before, after) == patch
