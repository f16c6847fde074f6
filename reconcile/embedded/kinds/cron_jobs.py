"""What a CronJob has to be."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object, not_negative
from reconcile.embedded.kinds.cron_schedules import schedule_fault, zone_faults
from reconcile.embedded.kinds.job_checks import job_spec_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_not_supported, value_required

# A Job is named after its CronJob with 11 characters more, and its name is a label of at most 63.
MAX_NAME: Final = 52

_POLICIES: Final = ("Allow", "Forbid", "Replace")
_ZONE_IN_SCHEDULE: Final = "TZ"


def cron_job_causes(cron_job: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a CronJob, or of a change to one."""
    spec, name = cron_job["spec"], cron_job["metadata"].get("name", "")
    if old is None and len(name) > MAX_NAME:
        yield value_invalid("metadata.name", name, f"must be no more than {MAX_NAME} characters")
    before = None if old is None else old["spec"]
    yield from _schedule_causes(spec, before)
    zone = spec.get("timeZone")
    if zone is not None and (before is None or zone != before.get("timeZone")):
        yield from (value_invalid("spec.timeZone", zone, fault) for fault in zone_faults(zone))
    yield from not_negative(
        spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
    )
    if spec["concurrencyPolicy"] not in _POLICIES:
        yield value_not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], _POLICIES)
    yield from _template_causes(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")


def _schedule_causes(spec: Object, before: Object | None) -> Iterator[FieldCause]:
    path, schedule = "spec.schedule", spec.get("schedule") or ""
    if not schedule:
        yield value_required(path)
        return
    if fault := schedule_fault(schedule):
        yield value_invalid(path, schedule, fault)
    if _ZONE_IN_SCHEDULE not in schedule:
        return
    if before is None or _ZONE_IN_SCHEDULE not in before.get("schedule", ""):
        yield value_invalid(
            path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        )
    elif spec.get("timeZone") is not None:
        yield value_invalid(path, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _template_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    """The faults of the template; its selector is always made for each Job."""
    yield from job_spec_causes(spec, path)
    if spec.get("selector") is not None:
        yield value_invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated")
    if spec.get("manualSelector"):
        yield value_not_supported(f"{path}.manualSelector", True, ("nil", "false"))
