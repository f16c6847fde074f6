"""What a Job has to be, alone and as the template of a CronJob (pkg/apis/batch/validation)."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import label_faults
from reconcile.embedded.kinds.built_in_kind import Object, not_negative
from reconcile.embedded.kinds.job_policies import failure_policy_causes, success_policy_causes
from reconcile.embedded.kinds.label_selectors import (
    has_odd_value,
    is_parsable,
    selector_causes,
    selects,
)
from reconcile.embedded.kinds.path_rules import domain_path_causes
from reconcile.embedded.kinds.pod_kinds import template_causes
from reconcile.embedded.kinds.workload_checks import labels_of
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_invalid,
    value_not_supported,
    value_required,
    value_too_long,
)

# maxParallelismForIndexedJob, maxFailedIndexesForIndexedJob, completionsSoftLimit,
# parallelismLimitForHighCompletions, maxFailedIndexesLimitForHighCompletions and maxManagedByLength.
MAX_INDEXED: Final = 100_000
MAX_OF_MANY: Final = 10_000
MAX_MANAGER: Final = 63

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
LEGACY_CONTROLLER_UID: Final = "controller-uid"
LEGACY_JOB_NAME: Final = "job-name"

_MODES: Final = ("NonIndexed", "Indexed")
_ANY_POLICY: Final = ("Always", "OnFailure", "Never")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")


# --- the spec ---------------------------------------------------------------------------------


def job_spec_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    """The faults of the spec of a Job or of a template, without its selector."""
    yield from not_negative(
        spec, path, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
        "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
    )  # fmt: skip
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield value_required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from _manager_causes(spec.get("managedBy"), f"{path}.managedBy")
    yield from _mode_causes(spec, path)
    yield from failure_policy_causes(spec, f"{path}.podFailurePolicy")
    yield from success_policy_causes(spec, f"{path}.successPolicy")
    yield from _replacement_causes(spec, f"{path}.podReplacementPolicy")
    yield from template_causes(spec["template"], f"{path}.template", _ANY_POLICY)
    yield from _restart_causes(spec, f"{path}.template.spec.restartPolicy")


def _manager_causes(manager: str | None, path: str) -> Iterator[FieldCause]:
    if manager is None:
        return
    yield from domain_path_causes(manager, path)
    if len(manager.encode()) > MAX_MANAGER:
        yield value_too_long(path, MAX_MANAGER)


def _mode_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        yield value_not_supported(f"{path}.completionMode", mode, _MODES)
    elif mode == "Indexed":
        yield from _indexed_causes(spec, path)
    else:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield value_invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")


def _indexed_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed, per_index = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if completions is None:
        yield value_required(f"{path}.completions", "when completion mode is Indexed")
    yield from _at_most(parallelism, MAX_INDEXED, f"{path}.parallelism")
    yield from _at_most(failed, completions, f"{path}.maxFailedIndexes")
    yield from _at_most(failed, MAX_INDEXED, f"{path}.maxFailedIndexes")
    if completions is None or completions <= MAX_INDEXED or per_index is None:
        return
    if failed is None:
        yield value_required(f"{path}.maxFailedIndexes", f"when completions are above {MAX_INDEXED}")
    yield from _at_most(parallelism, MAX_OF_MANY, f"{path}.parallelism")
    yield from _at_most(failed, MAX_OF_MANY, f"{path}.maxFailedIndexes")


def _at_most(value: int | None, limit: int | None, path: str) -> Iterator[FieldCause]:
    if value is not None and limit is not None and value > limit:
        yield value_invalid(path, value, f"must be less than or equal to {limit}")


def _replacement_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    policy = spec.get("podReplacementPolicy")
    supported = _REPLACEMENTS if spec.get("podFailurePolicy") is None else ("Failed",)
    if policy is not None and policy not in supported:
        yield value_not_supported(path, policy, supported)


def _restart_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    policy = (spec["template"].get("spec") or {}).get("restartPolicy") or ""
    if policy in ("", "Always"):  # an absent one is Always, too
        yield value_required(path, 'valid values: "OnFailure", "Never"')
    elif policy == "OnFailure" and spec.get("podFailurePolicy") is not None:
        yield value_invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


# --- the selector -----------------------------------------------------------------------------


def job_causes(job: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a Job as it is."""
    spec = job["spec"]
    yield from _generated_causes(job, old)
    yield from spec_and_selector_causes(spec, old)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        name = job["metadata"].get("name", "")
        host = f"{name}-{completions - 1}"
        if label_faults(host):
            yield value_invalid(
                "metadata.name", name, f"will not able to create pod with invalid DNS label: {host}"
            )


def spec_and_selector_causes(spec: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of the spec with its selector, which has to select the labels of the template."""
    yield from job_spec_causes(spec, "spec")
    selector, labels = spec.get("selector"), labels_of(spec["template"])
    if selector is None:
        yield value_required("spec.selector")
    had_odd = old is not None and has_odd_value(old["spec"].get("selector"))
    yield from selector_causes(selector, "spec.selector", any_value=had_odd)
    if is_parsable(selector) and not selects(selector, labels):
        why = "`selector` does not match template `labels`"
        yield value_invalid("spec.template.metadata.labels", labels, why)


def _generated_causes(job: Object, old: Object | None) -> Iterator[FieldCause]:
    """Unless its selector is the user's own, the labels of pods have to name the Job."""
    spec, metadata = job["spec"], job["metadata"]
    selector, labels = spec.get("selector"), labels_of(spec["template"])
    if spec.get("manualSelector") or selector is None:
        return
    uid, name = metadata["uid"], metadata.get("name", "")
    expected = {LEGACY_CONTROLLER_UID: uid, LEGACY_JOB_NAME: name}
    if old is None or {CONTROLLER_UID, JOB_NAME} <= labels_of(old["spec"]["template"]).keys():
        expected |= {CONTROLLER_UID: uid, JOB_NAME: name}
    for key, value in expected.items():
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield value_required(path, f"must be '{value}'")
        elif labels[key] != value:
            yield value_invalid(path, labels[key], f"must be '{value}'")
    if is_parsable(selector) and not selects(selector, expected):
        yield value_invalid("spec.selector", selector, "`selector` not auto-generated")
