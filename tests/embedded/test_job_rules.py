"""Jobs: defaults, the selector that is made for them, and the rules of their spec."""

from typing import Any

import pytest

from tests.embedded.api_client import Api
from tests.embedded.workload_bodies import (
    ABSENT,
    ENDING,
    POD,
    body,
    causes_of_change,
    causes_of_create,
    edited,
    path_of,
)

JOBS = path_of("jobs")
INDEXED: dict[str, Any] = {"spec.completionMode": "Indexed", "spec.completions": 3}
MANY: dict[str, Any] = {"spec.completionMode": "Indexed", "spec.completions": 100_001, "metadata.name": "j"}
LABELS = "spec.template.metadata.labels"
UID, NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
CODES = "spec.podFailurePolicy.rules[0].onExitCodes"
RULE = "spec.podFailurePolicy.rules[0]"
SUCCESS = "spec.successPolicy.rules[0]"
MANUAL: dict[str, Any] = {"spec.manualSelector": True, "spec.selector": {"matchLabels": {"a": "b"}}}


def made(api: Api, changes: dict[str, Any]) -> dict[str, Any]:
    return api.ok("POST", JOBS, body("jobs", changes))


def failing(**rule: Any) -> dict[str, Any]:
    return {"spec.podFailurePolicy": {"rules": [{"action": "Ignore", **rule}]}}


def exiting(*values: int, operator: str | None = "In", **more: Any) -> dict[str, Any]:
    return failing(onExitCodes={"operator": operator, "values": [*values], **more})


def succeeding(**rule: Any) -> dict[str, Any]:
    return {**INDEXED, "spec.successPolicy": {"rules": [rule]}}


# --- defaults ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({}, "completions", 1),
        ({}, "parallelism", 1),
        ({"spec.parallelism": 3}, "completions", None),
        ({"spec.completions": 3}, "parallelism", 1),
        ({}, "backoffLimit", 6),
        ({**INDEXED, "spec.backoffLimitPerIndex": 1}, "backoffLimit", 2**31 - 1),
        ({**INDEXED, "spec.backoffLimitPerIndex": 1, "spec.backoffLimit": 2}, "backoffLimit", 2),
        ({}, "completionMode", "NonIndexed"),
        ({}, "suspend", False),
        ({}, "manualSelector", False),
        ({}, "podReplacementPolicy", "TerminatingOrFailed"),
        (exiting(1), "podReplacementPolicy", "Failed"),
    ],
)
def test_what_is_not_said_has_a_default(api: Api, changes: dict[str, Any], field: str, value: Any) -> None:
    assert made(api, changes)["spec"].get(field) == value


def test_a_condition_of_a_failure_policy_is_true_by_default(api: Api) -> None:
    spec = made(api, failing(onPodConditions=[{"type": "DisruptionTarget"}]))["spec"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


# --- the selector -----------------------------------------------------------------------------


def test_the_pods_of_a_job_are_labelled_and_selected_by_its_uid(api: Api) -> None:
    job = made(api, {LABELS: {"a": "b"}})
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {UID: uid}}
    own = {UID: uid, NAME: "a", "controller-uid": uid, "job-name": "a"}
    assert job["spec"]["template"]["metadata"]["labels"] == {"a": "b", **own}


@pytest.mark.parametrize("labels", [{}, {"a": "b"}])
def test_a_job_without_labels_takes_all_those_of_its_pods(api: Api, labels: dict[str, str]) -> None:
    job = made(api, {"metadata.labels": ABSENT, LABELS: labels})
    assert job["metadata"]["labels"] == job["spec"]["template"]["metadata"]["labels"]
    assert len(job["metadata"]["labels"]) == 4 + len(labels)


def test_only_what_the_writer_decided_is_owned_of_labels_that_were_taken(api: Api) -> None:
    job = made(api, {"metadata.labels": ABSENT, LABELS: {"a": "b"}})
    (owned,) = job["metadata"]["managedFields"]
    assert owned["fieldsV1"]["f:metadata"]["f:labels"].keys() == {".", "f:a"}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({**MANUAL, LABELS: {"a": "b"}}, []),
        (MANUAL, ["Invalid spec.template.metadata.labels"]),
        ({"spec.manualSelector": True}, ["Invalid spec.template.metadata.labels", "Required spec.selector"]),
        ({LABELS: {UID: "x"}}, [f"Invalid {LABELS}", f"Invalid {LABELS}[{UID}]"]),
        ({LABELS: {"job-name": "x"}}, [f"Invalid {LABELS}[job-name]"]),
        ({"spec.selector": {"matchLabels": {"a": "b"}}}, ["Invalid spec.selector", f"Invalid {LABELS}"]),
    ],
)
def test_a_selector_is_made_by_the_server_or_wholly_by_the_user(
    api: Api, changes: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_create(api, "jobs", changes) == wanted


# --- the spec ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ],
)
def test_numbers_are_not_negative(api: Api, name: str) -> None:
    changes = {**INDEXED, f"spec.{name}": -1}
    assert causes_of_create(api, "jobs", changes) == [f"Invalid spec.{name}"]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"spec.completionMode": "Odd"}, ["NotSupported spec.completionMode"]),
        ({"spec.completionMode": "Indexed", "spec.parallelism": 2}, ["Required spec.completions"]),
        ({"spec.backoffLimitPerIndex": 1}, ["Invalid spec.backoffLimitPerIndex"]),
        (
            {"spec.maxFailedIndexes": 1},
            ["Invalid spec.maxFailedIndexes", "Required spec.backoffLimitPerIndex"],
        ),
        ({**INDEXED, "spec.maxFailedIndexes": 1}, ["Required spec.backoffLimitPerIndex"]),
        (
            {**INDEXED, "spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 4},
            ["Invalid spec.maxFailedIndexes"],
        ),
        ({**INDEXED, "spec.parallelism": 100_001}, ["Invalid spec.parallelism"]),
        (MANY, []),
        ({**MANY, "spec.backoffLimitPerIndex": 1}, ["Required spec.maxFailedIndexes"]),
        (
            {
                **MANY,
                "spec.backoffLimitPerIndex": 1,
                "spec.maxFailedIndexes": 10_001,
                "spec.parallelism": 10_001,
            },
            ["Invalid spec.maxFailedIndexes", "Invalid spec.parallelism"],
        ),
        ({**INDEXED, "metadata.name": "j" * 62}, ["Invalid metadata.name"]),
        ({**INDEXED, "metadata.name": "j" * 61}, []),
        ({"spec.managedBy": "ex.io/x"}, []),
        ({"spec.managedBy": ""}, ["Required spec.managedBy"]),
        ({"spec.managedBy": "x"}, ["Invalid spec.managedBy"]),
        ({"spec.managedBy": "ex.io/"}, ["Invalid spec.managedBy"]),
        ({"spec.managedBy": "EX/x y"}, ["Invalid spec.managedBy", "Invalid spec.managedBy"]),
        ({"spec.managedBy": f"ex.io/{'x' * 58}"}, ["TooLong spec.managedBy"]),
        ({"spec.podReplacementPolicy": "Odd"}, ["NotSupported spec.podReplacementPolicy"]),
        (
            {**exiting(1), "spec.podReplacementPolicy": "TerminatingOrFailed"},
            ["NotSupported spec.podReplacementPolicy"],
        ),
        ({"spec.template.spec.restartPolicy": ABSENT}, ["Required spec.template.spec.restartPolicy"]),
        ({"spec.template.spec.restartPolicy": "Always"}, ["Required spec.template.spec.restartPolicy"]),
        ({"spec.template.spec.restartPolicy": "OnFailure"}, []),
        (
            {**exiting(1), "spec.template.spec.restartPolicy": "OnFailure"},
            ["Invalid spec.template.spec.restartPolicy"],
        ),
    ],
)
def test_a_job_is_checked_field_by_field(api: Api, changes: dict[str, Any], wanted: list[str]) -> None:
    assert causes_of_create(api, "jobs", changes) == wanted


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"spec.podFailurePolicy": {"rules": []}}, []),
        (exiting(1, 2), []),
        (exiting(1, containerName="main"), []),
        (exiting(1, containerName="other"), [f"Invalid {CODES}.containerName"]),
        (exiting(), [f"Invalid {CODES}.values"]),
        (exiting(*range(1, 257)), [f"TooMany {CODES}.values"]),
        (exiting(2, 1), [f"Invalid {CODES}.values"]),
        (exiting(1, 1), [f"Duplicate {CODES}.values[1]"]),
        (exiting(0), [f"Invalid {CODES}.values[0]"]),
        (exiting(0, operator="NotIn"), []),
        (exiting(1, operator="Odd"), [f"NotSupported {CODES}.operator"]),
        (exiting(1, operator=""), [f"Required {CODES}.operator"]),
        (failing(), [f"Invalid {RULE}"]),
        (failing(onPodConditions=[]), [f"Invalid {RULE}"]),
        (
            failing(onExitCodes={"operator": "In", "values": [1]}, onPodConditions=[{"type": "A"}]),
            [f"Invalid {RULE}"],
        ),
        (
            failing(onPodConditions=[{"type": "A", "status": "Odd"}]),
            [f"NotSupported {RULE}.onPodConditions[0].status"],
        ),
        (failing(onPodConditions=[{"type": "x y"}]), [f"Invalid {RULE}.onPodConditions[0].type"]),
        (failing(onPodConditions=[{"type": "A"}] * 21), [f"TooMany {RULE}.onPodConditions"]),
        (failing(action="Odd", onPodConditions=[{"type": "A"}]), [f"NotSupported {RULE}.action"]),
        (failing(action="", onPodConditions=[{"type": "A"}]), [f"Required {RULE}.action"]),
        (failing(action="FailIndex", onPodConditions=[{"type": "A"}]), [f"Invalid {RULE}.action"]),
        (
            {
                **INDEXED,
                "spec.backoffLimitPerIndex": 1,
                **failing(action="FailIndex", onPodConditions=[{"type": "A"}]),
            },
            [],
        ),
        (
            {
                "spec.podFailurePolicy": {
                    "rules": [{"action": "Count", "onPodConditions": [{"type": "A"}]}] * 21
                }
            },
            ["TooMany spec.podFailurePolicy.rules"],
        ),
    ],
)
def test_a_failure_policy_says_what_of_which_exit_or_condition(
    api: Api, changes: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_create(api, "jobs", changes) == wanted


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"spec.successPolicy": {"rules": [{"succeededCount": 1}]}}, ["Invalid spec.successPolicy"]),
        ({**INDEXED, "spec.successPolicy": {"rules": []}}, ["Required spec.successPolicy.rules"]),
        (
            {**INDEXED, "spec.successPolicy": {"rules": [{"succeededCount": 1}] * 21}},
            ["TooMany spec.successPolicy.rules"],
        ),
        (succeeding(succeededCount=1), []),
        (succeeding(), [f"Required {SUCCESS}"]),
        (succeeding(succeededCount=-1), [f"Invalid {SUCCESS}.succeededCount"]),
        (succeeding(succeededCount=4), [f"Invalid {SUCCESS}.succeededCount"]),
        (succeeding(succeededIndexes="0-1", succeededCount=2), []),
        (succeeding(succeededIndexes="0-1", succeededCount=3), [f"Invalid {SUCCESS}.succeededCount"]),
        (succeeding(succeededIndexes="0,2"), []),
        (succeeding(succeededIndexes="3"), [f"Invalid {SUCCESS}.succeededIndexes"]),
        (succeeding(succeededIndexes="2,1"), [f"Invalid {SUCCESS}.succeededIndexes"]),
        (succeeding(succeededIndexes="1-1"), [f"Invalid {SUCCESS}.succeededIndexes"]),
        (succeeding(succeededIndexes="0-1-2"), [f"Invalid {SUCCESS}.succeededIndexes"]),
        (succeeding(succeededIndexes="a"), [f"Invalid {SUCCESS}.succeededIndexes"]),
        (
            succeeding(succeededIndexes="0," * 32769),
            [f"Invalid {SUCCESS}.succeededIndexes", f"TooLong {SUCCESS}.succeededIndexes"],
        ),
    ],
)
def test_a_success_policy_names_enough_of_the_indexes(
    api: Api, changes: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_create(api, "jobs", changes) == wanted


# --- changes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "change", "wanted"),
    [
        ({}, {"spec.parallelism": 4}, []),
        ({}, {"spec.suspend": True}, []),
        ({}, {"spec.activeDeadlineSeconds": 9}, []),
        ({}, {"spec.backoffLimit": 9}, []),
        ({}, {"spec.ttlSecondsAfterFinished": 9}, []),
        ({}, {"spec.completions": 4}, ["Invalid spec.completions"]),
        (INDEXED, {"spec.completions": 4, "spec.parallelism": 4}, []),
        (INDEXED, {"spec.completions": 4}, ["Invalid spec.completions"]),
        (INDEXED, {"spec.completions": ABSENT}, ["Required spec.completions", "Required spec.completions"]),
        ({}, {"spec.completionMode": "Indexed"}, ["Invalid spec.completionMode"]),
        ({}, {"spec.managedBy": "ex.io/x"}, ["Invalid spec.managedBy"]),
        ({}, {**exiting(1), "spec.podReplacementPolicy": "Failed"}, ["Invalid spec.podFailurePolicy"]),
        (INDEXED, {"spec.backoffLimitPerIndex": 1}, ["Invalid spec.backoffLimitPerIndex"]),
        (INDEXED, {"spec.successPolicy": {"rules": [{"succeededCount": 1}]}}, ["Invalid spec.successPolicy"]),
        ({}, {"spec.template.spec.nodeSelector": {"a": "b"}}, ["Invalid spec.template"]),
        ({"spec.suspend": True}, {"spec.template.spec.nodeSelector": {"a": "b"}}, []),
        ({"spec.suspend": True}, {"spec.template.spec.tolerations": [{"operator": "Exists"}]}, []),
        ({"spec.suspend": True}, {"spec.template.metadata.annotations": {"a": "b"}}, []),
        ({"spec.suspend": True}, {"spec.template.spec.affinity": {"nodeAffinity": {}}}, []),
        ({"spec.suspend": True}, {"spec.template.spec.hostNetwork": True}, ["Invalid spec.template"]),
    ],
)
def test_a_change_to_a_job_is_limited(
    api: Api, first: dict[str, Any], change: dict[str, Any], wanted: list[str]
) -> None:
    assert causes_of_change(api, "jobs", first, change) == wanted


def test_a_fault_of_a_changed_job_is_named_twice(api: Api) -> None:
    """The strategy checks a Job as if it were new, too."""
    wanted = ["Invalid spec.backoffLimit", "Invalid spec.backoffLimit"]
    assert causes_of_change(api, "jobs", {}, {"spec.backoffLimit": -1}) == wanted


STOPPED = {"conditions": [{"type": "Suspended", "status": "True"}], "startTime": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "scheduling", "resources"),
    [
        ({}, True, False),
        (STOPPED, True, True),
        ({**STOPPED, "active": 1}, False, False),
        ({"startTime": STOPPED["startTime"]}, False, False),
    ],
    ids=["never started", "stopped", "stopping", "not yet stopped"],
)
def test_a_suspended_job_may_be_changed_once_it_has_stopped(
    api: Api, status: dict[str, Any], scheduling: bool, resources: bool
) -> None:
    made(api, {"spec.suspend": True})
    job = api.merge(f"{JOBS}/a/status", {"status": status})
    moved = edited(job, {"spec.template.spec.nodeSelector": {"a": "b"}})
    sized = {**POD["containers"][0], "resources": {"requests": {"cpu": "1"}}}
    resized = edited(job, {"spec.template.spec.containers": [sized]})
    for changed, allowed in ((moved, scheduling), (resized, resources)):
        answer = api.send("PUT", f"{JOBS}/a", changed, {"dryRun": "All"})
        assert (answer.status == 200) == allowed, answer.body


# --- warnings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, False),
        ({"metadata.name": "a.b"}, True),
        ({**MANY, "spec.parallelism": 10_001}, True),
        ({**MANY, "spec.parallelism": 10_000}, False),
    ],
)
def test_a_job_that_can_work_badly_is_warned_of(api: Api, changes: dict[str, Any], warned: bool) -> None:
    answer = api.send("POST", JOBS, body("jobs", {"spec.template": ENDING, **changes}))
    assert (answer.status, "warning" in answer.headers) == (201, warned)
