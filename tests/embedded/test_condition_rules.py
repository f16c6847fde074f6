"""The rules for conditions, and for what else a PodDisruptionBudget's writer may get wrong."""

from typing import Any

import pytest

from tests.embedded.api_client import MERGE, Answer, Api

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
GOOD = {"type": "A", "status": "True", "reason": "B", "lastTransitionTime": "2026-01-02T03:04:05Z"}
AT = "status.conditions[0]"


def refused(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.body
    return sorted(f"{reason} {field}" for reason, field in answer.causes)


def make(api: Api, name: str = "a", **spec: Any) -> Answer:
    return api.send("POST", BUDGETS, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, ["FieldValueInvalid spec"]),
        ({"minAvailable": "50"}, ["FieldValueInvalid spec.minAvailable"]),
        ({"minAvailable": -1}, ["FieldValueInvalid spec.minAvailable"]),
        ({"maxUnavailable": "101%"}, ["FieldValueInvalid spec.maxUnavailable"]),
        ({"unhealthyPodEvictionPolicy": "x"}, ["FieldValueNotSupported spec.unhealthyPodEvictionPolicy"]),
        ({"selector": {"matchLabels": {"a": "b c"}}}, ["FieldValueInvalid spec.selector.matchLabels"]),
    ],
)
def test_a_faulty_budget_is_refused(api: Api, spec: dict[str, Any], causes: list[str]) -> None:
    assert refused(make(api, **spec)) == causes


def test_a_budget_may_have_any_name_that_fits_into_a_path(api: Api) -> None:
    assert make(api, "Odd_Name!", minAvailable=1).status == 201
    assert refused(make(api, "a/b", minAvailable=1)) == ["FieldValueInvalid metadata.name"]


@pytest.mark.parametrize(
    ("status", "causes"),
    [
        ({"currentHealthy": -1}, ["FieldValueInvalid status.currentHealthy"]),
        ({"disruptionsAllowed": -1}, ["FieldValueInvalid status.disruptionsAllowed"]),
        ({"conditions": [GOOD, GOOD]}, ["FieldValueDuplicate status.conditions[1].type"]),
        ({"conditions": [{**GOOD, "type": "a b"}]}, [f"FieldValueInvalid {AT}.type"]),
        ({"conditions": [{**GOOD, "status": "x"}]}, [f"FieldValueNotSupported {AT}.status"]),
        ({"conditions": [{**GOOD, "reason": ""}]}, [f"FieldValueRequired {AT}.reason"]),
        ({"conditions": [{**GOOD, "reason": "1"}]}, [f"FieldValueInvalid {AT}.reason"]),
        ({"conditions": [{**GOOD, "reason": "a" * 1025}]}, [f"FieldValueTooLong {AT}.reason"]),
        ({"conditions": [{**GOOD, "message": "a" * 32769}]}, [f"FieldValueTooLong {AT}.message"]),
        (
            {"conditions": [{**GOOD, "observedGeneration": -1}]},
            [f"FieldValueInvalid {AT}.observedGeneration"],
        ),
        (
            {"conditions": [{"type": "A", "status": "True", "reason": "B"}]},
            [f"FieldValueRequired {AT}.lastTransitionTime"],
        ),
    ],
)
def test_a_faulty_status_of_a_budget_is_refused(api: Api, status: dict[str, Any], causes: list[str]) -> None:
    make(api, minAvailable=1)
    answer = api.send("PATCH", f"{BUDGETS}/a/status", {"status": status}, content_type=MERGE)
    assert refused(answer) == causes
