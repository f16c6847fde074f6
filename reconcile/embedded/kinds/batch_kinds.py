"""Jobs and CronJobs."""

import datetime
from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import (
    BuiltInKind,
    Object,
    fill,
    not_negative,
    one_of,
    required,
    spec_and_status,
)
from reconcile.embedded.kinds.pod_kinds import OF_TEMPLATE, POD_MESSAGES, complete_template, template_causes
from reconcile.embedded.kubectl.ages import age, human_duration, parse_time
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, View, at, count, met_conditions, pick
from reconcile.embedded.kubectl.protobuf import Messages
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.served import CellColumn

_ENDING_POLICIES = ("OnFailure", "Never")
_CRON_FIELDS = 5


def _prepare_job(job: Object, old: Object | None) -> None:
    spec = job["spec"]
    if old is None and not spec.get("manualSelector"):
        uid, name = job["metadata"]["uid"], job["metadata"].get("name", "")
        selected = {"batch.kubernetes.io/controller-uid": uid}
        labels = {**selected, "batch.kubernetes.io/job-name": name, "controller-uid": uid, "job-name": name}
        template = spec["template"]["metadata"] = spec["template"].get("metadata") or {}
        template["labels"] = {**(template.get("labels") or {}), **labels}
        spec["selector"] = {"matchLabels": selected}


def _default_job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1, "backoffLimit": 6, "suspend": False, "completionMode": "NonIndexed"})
    fill(spec, {"podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"})
    complete_template(spec)


def _validate_job(job: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = job["spec"]
    yield from template_causes(spec["template"], "spec.template", _ENDING_POLICIES)
    yield from not_negative(
        spec, "spec", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"
    )
    if old is None:
        return
    before = old["spec"]
    names = ["selector", "completionMode"]
    if not before.get("suspend"):
        names.append("template")
    if spec.get("completionMode") != "Indexed":
        names.append("completions")
    for name in names:
        if spec.get(name) != before.get(name):
            yield value_invalid(f"spec.{name}", "", "field is immutable")


def _validate_cron_job(cron_job: Object, old: Object | None) -> Iterator[FieldCause]:
    spec, name = cron_job["spec"], cron_job["metadata"].get("name", "")
    template, place = spec["jobTemplate"]["spec"]["template"], "spec.jobTemplate.spec.template"
    yield from template_causes(template, place, _ENDING_POLICIES)
    # A Job is named after its CronJob with 11 characters more, and its name is a label of at most 63.
    if len(name) > 52:
        yield value_invalid("metadata.name", name, "must be no more than 52 characters")
    yield from required(spec, "spec", "schedule")
    schedule = spec.get("schedule") or "@"
    fields = schedule.split()
    if not schedule.startswith("@") and len(fields) != _CRON_FIELDS:
        why = f"expected exactly 5 fields, found {len(fields)}: {fields}"
        yield value_invalid("spec.schedule", schedule, why)
    yield from one_of(spec, "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"))


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
                "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": {}},
            },
        },
        defaults=lambda cron_job: complete_template(cron_job["spec"]["jobTemplate"]["spec"]),
        first_status={},
        checks=_validate_cron_job,
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
        defaults=lambda job: _default_job_spec(job.setdefault("spec", {})),
        prepare=_prepare_job,
        first_status={},
        checks=_validate_job,
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
