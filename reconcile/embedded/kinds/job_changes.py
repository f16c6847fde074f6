"""What may change in a Job (ValidateJobSpecUpdate)."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.job_checks import job_causes, spec_and_selector_causes
from reconcile.embedded.kinds.job_status import has_condition
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid

_FIXED: Final = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip
_OF_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def changed_job_causes(job: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a Job, or of a change to one; a change is checked twice, as by the real strategy."""
    yield from job_causes(job, old)
    if old is None:
        return
    spec, before = job["spec"], old["spec"]
    yield from spec_and_selector_causes(spec, old)
    yield from _completion_causes(spec, before)
    for name in _FIXED:
        if spec.get(name) != before.get(name):
            yield _fixed(f"spec.{name}", spec.get(name))
    if spec["template"] != _allowed_template(job, old):
        yield _fixed("spec.template", spec["template"])


def _fixed(path: str, value: object) -> FieldCause:
    return value_invalid(path, value, "field is immutable")


def _completion_causes(spec: Object, before: Object) -> Iterator[FieldCause]:
    completions = spec.get("completions")
    if completions == before.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        yield _fixed("spec.completions", completions)
    elif completions is not None and completions != spec.get("parallelism"):
        why = "can only be modified in tandem with spec.parallelism"
        yield value_invalid("spec.completions", completions, why)


def _allowed_template(job: Object, old: Object) -> Object:
    """The old template with those new parts that a suspended Job may change."""
    template: Object = deepcopy(old["spec"]["template"])
    wanted, status = job["spec"]["template"], old.get("status") or {}
    if not old["spec"].get("suspend"):
        return template
    stopped = has_condition(status, "Suspended") and not status.get("active")
    if stopped or status.get("startTime") is None:
        _take_scheduling(template, wanted)
    if stopped:
        _take_resources(template, wanted)
    return template


def _take_scheduling(template: Object, wanted: Mapping[str, Any]) -> None:
    spec, new = template["spec"], wanted["spec"]
    _take(spec, new, *_OF_SCHEDULING)
    metadata = template.get("metadata") or {}
    _take(metadata, wanted.get("metadata") or {}, "annotations", "labels")
    _put(template, "metadata", metadata if metadata or "metadata" in wanted else None)
    affinity = {**(spec.get("affinity") or {})}
    _take(affinity, new.get("affinity") or {}, "nodeAffinity")
    _put(spec, "affinity", affinity if affinity or new.get("affinity") is not None else None)


def _take_resources(template: Object, wanted: Mapping[str, Any]) -> None:
    for part in ("containers", "initContainers"):
        for container, new in zip(
            template["spec"].get(part) or (), wanted["spec"].get(part) or (), strict=False
        ):
            resources = {**(container.get("resources") or {})}
            _take(resources, new.get("resources") or {}, "requests", "limits")
            container["resources"] = resources


def _take(place: Object, source: Mapping[str, Any], *names: str) -> None:
    for name in names:
        _put(place, name, source.get(name))


def _put(place: Object, name: str, value: Any) -> None:
    if value is None:
        place.pop(name, None)
    else:
        place[name] = value
