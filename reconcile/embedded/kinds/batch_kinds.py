"""Jobs and CronJobs."""

import datetime
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill, fill_empty, spec_and_status
from reconcile.embedded.kinds.cron_jobs import cron_job_causes
from reconcile.embedded.kinds.job_changes import changed_job_causes
from reconcile.embedded.kinds.job_checks import (
    CONTROLLER_UID,
    JOB_NAME,
    LEGACY_CONTROLLER_UID,
    LEGACY_JOB_NAME,
)
from reconcile.embedded.kinds.job_status import job_status_causes
from reconcile.embedded.kinds.pod_kinds import OF_TEMPLATE, POD_MESSAGES, complete_template
from reconcile.embedded.kinds.workload_checks import labels_of, name_warnings
from reconcile.embedded.kubectl.ages import age, human_duration, parse_time
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, View, at, count, met_conditions, pick
from reconcile.embedded.kubectl.protobuf import Messages
from reconcile.embedded.served import CellColumn

# math.MaxInt32: with a limit for each index there is none for all of them, unless it is asked for.
_NO_LIMIT: Final = 2**31 - 1


def _default_job(job: Object) -> None:
    spec, metadata = job["spec"], job["metadata"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    per_index, failure_policy = spec.get("backoffLimitPerIndex"), spec.get("podFailurePolicy")
    fill(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": 6 if per_index is None else _NO_LIMIT,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed" if failure_policy is None else "Failed",
            "manualSelector": False,
        },
    )
    _default_patterns(spec)
    complete_template(spec)
    if not metadata.get("labels") and labels_of(spec["template"]):
        # Shared, not copied, as in Go: the Job then gets the labels that are made for its pods, too.
        metadata["labels"] = spec["template"]["metadata"]["labels"]


def _default_patterns(spec: Object) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            fill_empty(pattern, status="True")


def _prepare_job(job: Object, old: Object | None) -> None:
    spec, metadata = job["spec"], job["metadata"]
    if old is not None or spec["manualSelector"]:
        return
    uid, name = metadata["uid"], metadata.get("name", "")
    template = spec["template"]["metadata"] = spec["template"].get("metadata") or {}
    labels = template["labels"] = template.get("labels") or {}
    for key, value in (
        (LEGACY_JOB_NAME, name), (JOB_NAME, name), (LEGACY_CONTROLLER_UID, uid), (CONTROLLER_UID, uid),
    ):  # fmt: skip
        labels.setdefault(key, value)
    selector = spec["selector"] = spec.get("selector") or {}
    selector["matchLabels"] = {CONTROLLER_UID: uid, **(selector.get("matchLabels") or {})}
    # What the server stores it reads again, and then it has these defaults.
    metadata["labels"] = metadata.get("labels") or dict(labels)


def _default_cron_job(cron_job: Object) -> None:
    spec = cron_job["spec"]
    fill_empty(spec, concurrencyPolicy="Allow")
    _default_patterns(spec["jobTemplate"]["spec"])
    complete_template(spec["jobTemplate"]["spec"])


# completionsSoftLimit and parallelismSoftLimitForUnlimitedCompletions in pkg/api/job/warnings.go.
_MANY_COMPLETIONS: Final = 100_000
_MANY_AT_ONCE: Final = 10_000


def _warn_of_many_indexes(spec: Object, path: str) -> list[str]:
    if spec.get("completionMode") != "Indexed":
        return []
    if (spec.get("completions") or 0) <= _MANY_COMPLETIONS or (spec.get("parallelism") or 0) <= _MANY_AT_ONCE:
        return []
    why = (
        "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
        "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
    )
    return [f"{path}: {why}"]


def _job_warnings(job: Object, old: Object | None) -> list[str]:
    if old is not None and old["spec"] == job["spec"]:
        return []
    return name_warnings(job, old) + _warn_of_many_indexes(job["spec"], "spec")


def _cron_job_warnings(cron_job: Object, old: Object | None) -> list[str]:
    spec, warnings = cron_job["spec"], name_warnings(cron_job, old)
    if old is None or old["spec"] != spec:
        warnings += _warn_of_many_indexes(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
    if old is not None and "TZ" in spec["schedule"]:
        place = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        warnings.append(f"cannot use TZ or CRON_TZ in spec.schedule, use timeZone instead, see {place}")
    return warnings


def _job_status(obj: View, _now: datetime.datetime) -> str:
    true = met_conditions(obj)
    for condition in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Terminating" if pick(obj, "metadata", "deletionTimestamp") else "Running"


def _job_completions(obj: View, _now: datetime.datetime) -> str:
    done, desired = pick(obj, "status", "succeeded") or 0, pick(obj, "spec", "completions")
    if desired is not None:
        return f"{done}/{desired}"
    parallel = pick(obj, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(obj: View, now: datetime.datetime) -> str:
    start = parse_time(pick(obj, "status", "startTime"))
    if start is None:
        return ""
    end = parse_time(pick(obj, "status", "completionTime")) or now
    return human_duration((end - start).total_seconds())


def _last_schedule(obj: View, now: datetime.datetime) -> str:
    last = pick(obj, "status", "lastScheduleTime")
    return age(last, now) if last else NONE


_JOB_SPEC: Final[Messages] = {
    "JobSpec": {
        1: "parallelism:*int", 2: "completions:*int", 3: "activeDeadlineSeconds:*int",
        4: "selector:*LabelSelector", 5: "manualSelector:*bool", 6: "template:PodTemplateSpec",
        7: "backoffLimit:*int", 8: "ttlSecondsAfterFinished:*int", 9: "completionMode:*string",
        10: "suspend:*bool",
    },
}  # fmt: skip

KINDS: Final = (
    BuiltInKind(
        "batch", "CronJob", short_names=("cj",), categories=("all",), has_status=True, has_generation=True,
        fills={
            "spec": {
                "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
                "jobTemplate": {"spec": {}},
            },
        },
        defaults=_default_cron_job,
        first_status={},
        names_missing_fields=True,
        checks=cron_job_causes,
        warnings=_cron_job_warnings,
        columns=(
            NAMES,
            CellColumn("Schedule", at("spec", "schedule")),
            CellColumn("Timezone", at("spec", "timeZone", default=NONE)),
            CellColumn("Suspend", lambda obj, _now: str(bool(pick(obj, "spec", "suspend")))),
            CellColumn("Active", count("status", "active"), "integer"),
            CellColumn("Last Schedule", _last_schedule),
            AGE,
        ),
        messages=POD_MESSAGES | _JOB_SPEC | {
            **spec_and_status("CronJob"),
            "CronJobSpec": {
                1: "schedule:string", 2: "startingDeadlineSeconds:*int", 3: "concurrencyPolicy:string",
                4: "suspend:*bool", 5: "jobTemplate:JobTemplateSpec", 6: "successfulJobsHistoryLimit:*int",
                7: "failedJobsHistoryLimit:*int", 8: "timeZone:*string",
            },
            "JobTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:JobSpec"},
            "CronJobStatus": {
                1: "active:[ObjectReference]", 4: "lastScheduleTime:*time", 5: "lastSuccessfulTime:*time",
            },
        },
        viewed=("", "status"),
        edited=("",),
    ),
    BuiltInKind(
        "batch", "Job", categories=("all",), has_status=True, has_generation=True,
        selectable_fields=(".status.successful",),
        fills={"spec": {}},
        defaults=_default_job,
        prepare=_prepare_job,
        first_status={},
        names_missing_fields=True,
        checks=changed_job_causes,
        status_checks=job_status_causes,
        warnings=_job_warnings,
        metadata_fault_copies=4,
        columns=(
            NAMES,
            CellColumn("Status", _job_status),
            CellColumn("Completions", _job_completions),
            CellColumn("Duration", _job_duration),
            AGE,
            *OF_TEMPLATE,
        ),
        messages=POD_MESSAGES | _JOB_SPEC | {
            **spec_and_status("Job"),
            "JobStatus": {
                4: "active:int", 5: "succeeded:int", 6: "failed:int", 7: "completedIndexes:string",
            },
        },
        viewed=("", "status"),
        edited=("",),
    ),
)  # fmt: skip
