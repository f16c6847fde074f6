"""What a Job's status may become, whoever writes it."""

from typing import Any

import pytest

from tests.embedded.api_client import Api
from tests.embedded.workload_bodies import causes_of_status

CONDITIONS = "Invalid status.conditions"
START, LATER, END = "2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"
INDEXED: dict[str, Any] = {
    "spec.completionMode": "Indexed",
    "spec.completions": 5,
    "spec.backoffLimitPerIndex": 1,
}


def having(*kinds: str, **more: Any) -> dict[str, Any]:
    """A status with these conditions."""
    return {**more, "conditions": [{"type": kind, "status": "True"} for kind in kinds]}


def complete(**more: Any) -> dict[str, Any]:
    return having("SuccessCriteriaMet", "Complete", startTime=START, completionTime=END, **more)


def failed(**more: Any) -> dict[str, Any]:
    return having("FailureTarget", "Failed", startTime=START, **more)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"active": 1, "ready": 1, "startTime": START}, []),
        (complete(succeeded=1), []),
        (failed(failed=1), []),
        ({"active": -1}, ["Invalid status.active"]),
        ({"failed": -1}, ["Invalid status.failed", "Invalid status.failed"]),
        ({"terminating": -1}, ["Invalid status.terminating"]),
        ({"ready": 1}, ["Invalid status.ready"]),
        ({"uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["v"]}}, []),
        (
            {"uncountedTerminatedPods": {"succeeded": ["u", ""], "failed": ["u"]}},
            [
                "Duplicate status.uncountedTerminatedPods.failed[0]",
                "Invalid status.uncountedTerminatedPods.succeeded[1]",
            ],
        ),
        (having("Complete", startTime=START, completionTime=END), [CONDITIONS]),
        (having("Failed", startTime=START), [CONDITIONS]),
        (having("SuccessCriteriaMet", "FailureTarget"), [CONDITIONS]),
        (having("SuccessCriteriaMet", "FailureTarget", "Failed", startTime=START), [CONDITIONS] * 2),
        (
            having("SuccessCriteriaMet", "Complete", "FailureTarget", startTime=START, completionTime=END),
            [CONDITIONS] * 2,
        ),
        (having("SuccessCriteriaMet", "Complete", startTime=START), ["Required status.completionTime"]),
        (
            having("SuccessCriteriaMet", "Complete", completionTime=END),
            ["Required status.startTime"],
        ),
        (complete(active=1), ["Invalid status.active"]),
        (failed(terminating=1), ["Invalid status.terminating"]),
        (failed(uncountedTerminatedPods={"failed": ["u"]}), ["Invalid status.uncountedTerminatedPods"]),
        ({"startTime": START, "completionTime": END}, ["Invalid status.completionTime"]),
        (
            having("SuccessCriteriaMet", "Complete", startTime=END, completionTime=START),
            ["Invalid status.completionTime"],
        ),
        ({"completedIndexes": "0"}, ["Invalid status.completedIndexes"]),
        ({"failedIndexes": ""}, ["Invalid status.failedIndexes"]),
    ],
)
def test_a_first_status_is_one_that_a_job_can_have(
    api: Api, status: dict[str, Any], wanted: list[str]
) -> None:
    spec = {"spec.completions": 1}
    assert causes_of_status(api, "jobs", {}, status, spec=spec) == wanted


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"completedIndexes": "0,2-4"}, []),
        ({"completedIndexes": "5"}, ["Invalid status.completedIndexes"]),
        ({"completedIndexes": "2,1"}, ["Invalid status.completedIndexes"]),
        ({"completedIndexes": "0", "failedIndexes": "1-2"}, []),
        ({"failedIndexes": "1-"}, ["Invalid status.failedIndexes"]),
        ({"completedIndexes": "0-2", "failedIndexes": "2-3"}, ["Invalid status.failedIndexes"]),
        (
            {"completedIndexes": "9,1-2", "failedIndexes": "2"},
            ["Invalid status.completedIndexes", "Invalid status.failedIndexes"],
        ),
    ],
)
def test_the_indexes_of_an_indexed_job_are_ranges_apart_from_each_other(
    api: Api, status: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_status(api, "jobs", {}, status, spec=INDEXED) == wanted


@pytest.mark.parametrize(
    ("first", "status", "wanted"),
    [
        (complete(), complete(), []),
        (complete(), {**complete(), "completionTime": LATER}, ["Invalid status.completionTime"]),
        (complete(), having("SuccessCriteriaMet", startTime=START), [CONDITIONS]),
        (failed(), {"startTime": START}, [CONDITIONS, CONDITIONS]),
        (having("SuccessCriteriaMet"), {}, [CONDITIONS]),
        (having("FailureTarget"), {}, [CONDITIONS]),
        ({"failed": 2}, {"failed": 1}, ["Invalid status.failed"]),
        ({"succeeded": 2}, {"succeeded": 1}, ["Invalid status.succeeded"]),
        ({"startTime": START}, {}, ["Required status.startTime"]),
        ({"startTime": START}, {"startTime": LATER}, ["Required status.startTime"]),
        ({**having("Suspended"), "startTime": START}, {"startTime": LATER}, []),
    ],
)
def test_a_status_does_not_go_back(
    api: Api, first: dict[str, Any], status: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_status(api, "jobs", first, status) == wanted


def test_an_indexed_job_that_is_scaled_down_forgets_successes(api: Api) -> None:
    spec = {**INDEXED, "spec.parallelism": 5}
    assert causes_of_status(api, "jobs", {"succeeded": 2}, {"succeeded": 1}, spec=spec) == []


def test_a_suspended_job_may_forget_when_it_started(api: Api) -> None:
    assert causes_of_status(api, "jobs", {"startTime": START}, {}, spec={"spec.suspend": True}) == []
