"""What is wrong with a label selector inside an object."""

from typing import Any

import pytest

from reconcile.embedded.kinds.label_selectors import (
    has_odd_value,
    is_empty,
    is_parsable,
    selector_causes,
    selects,
)


def expression(operator: str | None, *values: str, key: str = "a") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


def causes(selector: Any, **options: bool) -> list[str]:
    return [f"{cause.reason} {cause.field}" for cause in selector_causes(selector, "s", **options)]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, []),
        ({}, []),
        ({"matchLabels": {"a": "b"}}, []),
        ({"matchLabels": {"a": "x y"}}, ["FieldValueInvalid s.matchLabels"]),
        ({"matchLabels": {"x y": "b"}}, ["FieldValueInvalid s.matchLabels"]),
        (expression("In", "b"), []),
        (expression("In"), ["FieldValueRequired s.matchExpressions[0].values"]),
        (expression("NotIn"), ["FieldValueRequired s.matchExpressions[0].values"]),
        (expression("Exists"), []),
        (expression("Exists", "b"), ["FieldValueForbidden s.matchExpressions[0].values"]),
        (expression("DoesNotExist", "b"), ["FieldValueForbidden s.matchExpressions[0].values"]),
        (expression(None), ["FieldValueInvalid s.matchExpressions[0].operator"]),
        (expression("Is", "b"), ["FieldValueInvalid s.matchExpressions[0].operator"]),
        (expression("In", "b", "x y"), ["FieldValueInvalid s.matchExpressions[0].values[1]"]),
        (expression("Exists", key="x y"), ["FieldValueInvalid s.matchExpressions[0].key"]),
    ],
)
def test_each_fault_of_a_selector_is_named(selector: Any, wanted: list[str]) -> None:
    assert causes(selector) == wanted
    assert is_parsable(selector) == (not wanted)


def test_values_that_no_label_can_have_may_be_tolerated() -> None:
    odd = expression("In", "x y")
    assert (has_odd_value(odd), causes(odd, any_value=True)) == (True, [])
    assert not has_odd_value(expression("In", "b"))
    assert not has_odd_value(None)


def test_an_empty_selector_selects_all_and_an_absent_one_nothing() -> None:
    assert (selects({}, {"a": "b"}), selects(None, {"a": "b"})) == (True, False)
    assert selects({"matchLabels": {"a": "b"}}, {"a": "b"})
    assert is_empty({"matchLabels": {}, "matchExpressions": []})
    assert not is_empty({"matchLabels": {"a": "b"}})
    assert not is_empty(expression("Exists"))
