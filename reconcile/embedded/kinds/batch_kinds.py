"""Jobs and CronJobs."""

import datetime
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, default
from reconcile.embedded.kinds.pod_kinds import OF_TEMPLATE, POD_MESSAGES, complete_template, template_causes
from reconcile.embedded.kubectl.ages import age, human_duration, parse_time
from reconcile.embedded.kubectl.printing import (
    AGE,
    NAMES,
    NONE,
    View,
    at,
    count,
    met_conditions,
    pick,
)
from reconcile.embedded.kubectl.protobuf import Messages
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_not_supported, value_required
from reconcile.embedded.served import CellColumn

_ENDING_POLICIES = ("OnFailure", "Never")
_CRON_FIELDS = 5


def _prepare_job(job: Object, old: Object | None) -> None:
    spec = job.setdefault("spec", {})
    _default_job_spec(spec)
    if old is not None:
        return
    job["status"] = {}
    if not spec.get("manualSelector"):
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
        template = spec["template"]["metadata"] = spec["template"].get("metadata") or {}
        template["labels"] = {
            **(template.get("labels") or {}),
            **labels,
            "controller-uid": uid,
            "job-name": name,
        }
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _default_job_spec(spec: Object) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        default(spec, completions=1)
    default(spec, parallelism=1, backoffLimit=6, suspend=False, completionMode="NonIndexed")
    default(spec, podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    complete_template(spec)


def _validate_job(job: Object, old: Object | None) -> list[FieldCause]:
    spec = job["spec"]
    causes = template_causes(spec["template"], "spec.template", _ENDING_POLICIES)
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            causes.append(value_invalid(f"spec.{field}", value, "must be greater than or equal to 0"))
    if old is None:
        return causes
    before = old["spec"]
    names = ["selector", "completionMode"]
    if not before.get("suspend"):
        names.append("template")
    if spec.get("completionMode") != "Indexed":
        names.append("completions")
    causes += [
        value_invalid(f"spec.{name}", "", "field is immutable")
        for name in names
        if spec.get(name) != before.get(name)
    ]
    return causes


def _prepare_cron_job(cron_job: Object, old: Object | None) -> None:
    spec = cron_job.setdefault("spec", {})
    default(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    complete_template(job)
    if old is None:
        cron_job["status"] = {}


def _validate_cron_job(cron_job: Object, old: Object | None) -> list[FieldCause]:
    spec, name = cron_job["spec"], cron_job["metadata"].get("name", "")
    schedule = spec.get("schedule") or ""
    template, place = spec["jobTemplate"]["spec"]["template"], "spec.jobTemplate.spec.template"
    causes = template_causes(template, place, _ENDING_POLICIES)
    # A Job is named after its CronJob with 11 characters more, and its name is a label of at most 63.
    if len(name) > 52:
        causes.append(value_invalid("metadata.name", name, "must be no more than 52 characters"))
    if not schedule:
        causes.append(value_required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != _CRON_FIELDS:
        count = len(schedule.split())
        why = f"expected exactly 5 fields, found {count}: {schedule.split()}"
        causes.append(value_invalid("spec.schedule", schedule, why))
    if spec["concurrencyPolicy"] not in ("Allow", "Forbid", "Replace"):
        supported = ("Allow", "Forbid", "Replace")
        causes.append(value_not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], supported))
    return causes


def _job_status(obj: View, _now: datetime.datetime) -> str:
    true = met_conditions(obj)
    for condition in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Terminating" if pick(obj, "metadata", "deletionTimestamp") else "Running"


def _job_completions(obj: View, _now: datetime.datetime) -> str:
    done, wanted = pick(obj, "status", "succeeded") or 0, pick(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = pick(obj, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(obj: View, now: datetime.datetime) -> str:
    start = parse_time(pick(obj, "status", "startTime"))
    if start is None:
        return ""
    end = parse_time(pick(obj, "status", "completionTime")) or now
    return human_duration((end - start).total_seconds())


def _cron_suspended(obj: View, _now: datetime.datetime) -> str:
    return str(bool(pick(obj, "spec", "suspend")))


def _last_schedule(obj: View, now: datetime.datetime) -> str:
    last = pick(obj, "status", "lastScheduleTime")
    return age(last, now) if last else NONE


_JOB_SPEC: Final[Messages] = {
    "JobSpec": {
        1: "parallelism:*int",
        2: "completions:*int",
        3: "activeDeadlineSeconds:*int",
        4: "selector:*LabelSelector",
        5: "manualSelector:*bool",
        6: "template:PodTemplateSpec",
        7: "backoffLimit:*int",
        8: "ttlSecondsAfterFinished:*int",
        9: "completionMode:*string",
        10: "suspend:*bool",
    },
}

KINDS: Final = (
    BuiltInKind(
        "batch", "CronJob", short_names=("cj",), categories=("all",), has_status=True, has_generation=True,
        defaults=_prepare_cron_job,
        checks=_validate_cron_job,
        columns=(
            NAMES,
            CellColumn("Schedule", at("spec", "schedule")),
            CellColumn("Timezone", at("spec", "timeZone", default=NONE)),
            CellColumn("Suspend", _cron_suspended),
            CellColumn("Active", count("status", "active"), "integer"),
            CellColumn("Last Schedule", _last_schedule),
            AGE,
        ),
        messages=POD_MESSAGES | _JOB_SPEC | {
            "CronJob": {1: "metadata:ObjectMeta", 2: "spec:CronJobSpec", 3: "status:CronJobStatus"},
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
        defaults=_prepare_job,
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
            "Job": {1: "metadata:ObjectMeta", 2: "spec:JobSpec", 3: "status:JobStatus"},
            "JobStatus": {
                4: "active:int", 5: "succeeded:int", 6: "failed:int", 7: "completedIndexes:string",
            },
        },
        viewed=("", "status"),
        edited=("",),
    ),
)  # fmt: skip
