"""The rules for the status of a Job, which other controllers may write, too (ValidateJobUpdateStatus).

Most rules hold only for what a write changes, so that a status from before a rule can still be written.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import Object, not_negative
from reconcile.embedded.kinds.job_indexes import first_overlap, index_ranges
from reconcile.embedded.kubectl.ages import parse_time
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_duplicate, value_invalid, value_required

Status = Mapping[str, Any]
_CONDITIONS: Final = "status.conditions"
_LASTING: Final = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")


def has_condition(status: Status, kind: str) -> bool:
    """Whether a condition is true."""
    return any(
        one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ()
    )


def job_status_causes(job: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of the new status of a Job."""
    spec, status, before = job["spec"], job.get("status") or {}, (old or {}).get("status") or {}
    yield from not_negative(status, "status", "active", "succeeded", "failed", "ready", "terminating")
    yield from _uncounted_causes(status)
    yield from _condition_causes(status, before)
    yield from _finished_causes(status, before)
    yield from _time_causes(spec, status, before)
    yield from _index_causes(spec, status, before)
    yield from _counter_causes(spec, status, before)


def _uncounted_causes(status: Status) -> Iterator[FieldCause]:
    seen: set[str] = set()
    uncounted = status.get("uncountedTerminatedPods") or {}
    for part in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(part) or ()):
            path = f"status.uncountedTerminatedPods.{part}[{index}]"
            if not uid:
                yield value_invalid(path, uid, "must not be empty")
            elif uid in seen:
                yield value_duplicate(path, uid)
            seen.add(uid)


# --- conditions -------------------------------------------------------------------------------


def _changed(status: Status, before: Status, *kinds: str) -> bool:
    return any(has_condition(status, kind) != has_condition(before, kind) for kind in kinds)


def _condition_causes(status: Status, before: Status) -> Iterator[FieldCause]:
    complete, failed, target, met = (
        has_condition(status, kind) for kind in ("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet")
    )
    if _changed(status, before, "Complete", "Failed") and complete and failed:
        yield _refused("cannot set Complete=True and Failed=true conditions")
    if _changed(status, before, "Complete", "FailureTarget") and complete and target:
        yield _refused("cannot set Complete=True and FailureTarget=true conditions")
    if _changed(status, before, "Failed", "FailureTarget") and failed and not target:
        yield _refused("cannot set Failed=True condition without the FailureTarget=true condition")
    if _changed(status, before, "Complete", "SuccessCriteriaMet") and complete and not met:
        yield _refused("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if met and failed:
        yield _refused("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and target:
        yield _refused("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    for kind in _LASTING:
        if has_condition(before, kind) and not has_condition(status, kind):
            yield _refused(f"cannot disable the {kind}=True condition")
    if has_condition(before, "Complete") and met and not has_condition(before, "SuccessCriteriaMet"):
        yield _refused("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _refused(why: str) -> FieldCause:
    return value_invalid(_CONDITIONS, None, why)


# --- an end -----------------------------------------------------------------------------------


def _is_finished(status: Status) -> bool:
    return has_condition(status, "Complete") or has_condition(status, "Failed")


def _finished_causes(status: Status, before: Status) -> Iterator[FieldCause]:
    if not _is_finished(status):
        return
    ended = not _is_finished(before)

    def differs(name: str) -> bool:
        return ended or status.get(name) != before.get(name)

    for name in ("active", "terminating"):
        if differs(name) and (status.get(name) or 0) > 0:
            yield value_invalid(f"status.{name}", status[name], f"{name}>0 is invalid for finished job")
    if differs("startTime") and status.get("startTime") is None:
        yield value_required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    if differs("uncountedTerminatedPods") and any(uncounted.get(part) for part in ("failed", "succeeded")):
        why = "uncountedTerminatedPods needs to be empty for finished job"
        yield value_invalid("status.uncountedTerminatedPods", uncounted, why)


def _time_causes(spec: Object, status: Status, before: Status) -> Iterator[FieldCause]:
    path, complete = "status.completionTime", has_condition(status, "Complete")
    start, end = (parse_time(status.get(name)) for name in ("startTime", "completionTime"))
    first, last = (parse_time(before.get(name)) for name in ("startTime", "completionTime"))
    if _changed(status, before, "Complete") or end != last:
        if end is not None and not complete:
            yield value_invalid(
                path, end, "cannot set completionTime when there is no Complete=True condition"
            )
        if end is None and complete:
            yield value_required(path, "completionTime is required for Complete jobs")
    if (start != first or end != last) and start is not None and end is not None and end < start:
        yield value_invalid(path, end, "completionTime cannot be set before startTime")
    if end is not None and last is not None and end != last:
        yield value_invalid(path, end, "completionTime cannot be mutated")
    resumed = bool(spec.get("suspend")) or has_condition(before, "Suspended")
    if first is not None and start != first and not resumed:
        yield value_required("status.startTime", "startTime cannot be removed for unsuspended job")


# --- indexes and counters ---------------------------------------------------------------------


def _index_causes(spec: Object, status: Status, before: Status) -> Iterator[FieldCause]:
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    completions, per_index = spec.get("completions"), spec.get("backoffLimitPerIndex")
    new_done = done != (before.get("completedIndexes") or "")
    new_failed = failed != before.get("failedIndexes")
    if new_done and completions is not None:
        yield from _format_causes("completedIndexes", done, completions)
    if new_done and done and spec.get("completionMode") != "Indexed":
        why = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield value_invalid("status.completedIndexes", done, why)
    if failed is None:
        return
    if new_failed and per_index is None:
        why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield value_invalid("status.failedIndexes", failed, why)
    elif new_failed and completions is not None:
        yield from _format_causes("failedIndexes", failed, completions)
    if (new_failed or new_done) and completions is not None:
        overlap = first_overlap(done, failed, completions)
        if overlap is not None:
            why = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            yield value_invalid("status.failedIndexes", failed, why)


def _format_causes(name: str, text: str, completions: int) -> Iterator[FieldCause]:
    try:
        index_ranges(text, completions)
    except ValueError as fault:
        yield value_invalid(f"status.{name}", text, f"error parsing {name}: {fault}")


def _counter_causes(spec: Object, status: Status, before: Status) -> Iterator[FieldCause]:
    ready, active = status.get("ready"), status.get("active") or 0
    changed = any(status.get(name) != before.get(name) for name in ("ready", "active"))
    if changed and ready is not None and ready > active:
        yield value_invalid("status.ready", ready, "cannot set more ready pods than active")
    names = ["failed"]
    # An indexed Job that is scaled down by both forgets indexes that had succeeded.
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        names.append("succeeded")
    for name in names:
        if (status.get(name) or 0) < (before.get(name) or 0):
            yield value_invalid(
                f"status.{name}", status.get(name) or 0, f"cannot decrease the {name} counter"
            )
