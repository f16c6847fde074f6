"""Label selectors of budgets and of aggregated roles: what they choose."""

from typing import Any

import pytest

from reconcile.embedded.protocol.label_selectors import selects

LABELS = {"app": "web", "tier": "front"}


def expression(operator: str, *values: str, key: str = "app") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"app": "web", "tier": "front"}}, True),
        ({"matchLabels": {"app": "web", "tier": "back"}}, False),
        (expression("In", "db", "web"), True),
        (expression("In", "db"), False),
        (expression("In", "web", key="zone"), False),
        (expression("NotIn", "db"), True),
        (expression("NotIn", "db", "web"), False),
        (expression("NotIn", "web", key="zone"), True),
        (expression("Exists"), True),
        (expression("Exists", key="zone"), False),
        (expression("DoesNotExist", key="zone"), True),
        (expression("DoesNotExist"), False),
        (expression("Like", "w"), False),
        ({"matchLabels": {"app": "web"}, **expression("In", "back", key="tier")}, False),
    ],
)
def test_a_selector_chooses_what_holds_to_all_of_it(selector: dict[str, Any], chosen: bool) -> None:
    assert selects(selector, LABELS) is chosen
