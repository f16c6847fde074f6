"""The rules for the policies of a Job: which failures count, and when it has succeeded."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from informers.apimachinery.name_rules import label_key_faults
from reconcile.embedded.kinds.built_in_kind import Object, not_negative
from reconcile.embedded.kinds.job_indexes import index_ranges
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_not_supported,
    value_required,
    value_too_long,
    value_too_many,
)

# maxPodFailurePolicy..., maxJobSuccessPolicySucceededIndexesLimit and maxSuccessPolicyRule in
# pkg/apis/batch/validation.
MAX_RULES: Final = 20
MAX_EXIT_CODES: Final = 255
MAX_PATTERNS: Final = 20
MAX_INDEXES: Final = 64 * 1024

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")


# --- failure ----------------------------------------------------------------------------------


def failure_policy_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    """The faults of `podFailurePolicy`, if there is one."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    rules = policy.get("rules") or ()
    if len(rules) > MAX_RULES:
        yield value_too_many(f"{path}.rules", len(rules), MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _failure_rule_causes(spec, rule, f"{path}.rules[{index}]")


def _failure_rule_causes(spec: Object, rule: Object, path: str) -> Iterator[FieldCause]:
    action, codes, patterns = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    yield from _of(action, f"{path}.action", _ACTIONS)
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield value_invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    if codes is not None:
        yield from _exit_code_causes(codes, f"{path}.onExitCodes", _container_names(spec))
    yield from _pattern_causes(patterns, f"{path}.onPodConditions")
    if codes is not None and patterns:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield value_invalid(path, None, why)
    if codes is None and not patterns:
        why = "specifying one of OnExitCodes and OnPodConditions is required"
        yield value_invalid(path, None, why)


def _container_names(spec: Object) -> set[str]:
    pod = spec["template"].get("spec") or {}
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    return {container.get("name") or "" for container in containers}


def _exit_code_causes(codes: Object, path: str, containers: set[str]) -> Iterator[FieldCause]:
    operator, container, values = codes.get("operator"), codes.get("containerName"), codes.get("values") or []
    yield from _of(operator, f"{path}.operator", _OPERATORS)
    if container is not None and container not in containers:
        why = "must be one of the container or initContainer names in the pod template"
        yield value_invalid(f"{path}.containerName", container, why)
    if not values:
        yield value_invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > MAX_EXIT_CODES:
        yield value_too_many(f"{path}.values", len(values), MAX_EXIT_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield value_invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield value_duplicate(f"{path}.values[{index}]", value)
    if any(one > following for one, following in pairwise(values)):
        yield value_invalid(f"{path}.values", values, "must be ordered")


def _pattern_causes(patterns: Any, path: str) -> Iterator[FieldCause]:
    if len(patterns) > MAX_PATTERNS:
        yield value_too_many(path, len(patterns), MAX_PATTERNS)
    for index, pattern in enumerate(patterns):
        kind, where = pattern.get("type") or "", f"{path}[{index}]"
        yield from (value_invalid(f"{where}.type", kind, fault) for fault in label_key_faults(kind))
        yield from _of(pattern.get("status"), f"{where}.status", _STATUSES)


def _of(value: str | None, path: str, supported: tuple[str, ...]) -> Iterator[FieldCause]:
    if not value:
        yield value_required(path, f"valid values: {list(supported)}")
    elif value not in supported:
        yield value_not_supported(path, value, supported)


# --- success ----------------------------------------------------------------------------------


def success_policy_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    """The faults of `successPolicy`, if there is one; it is for indexed Jobs alone."""
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        yield value_invalid(path, policy, "requires indexed completion mode")
        return
    rules = policy.get("rules") or ()
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        yield value_required(f"{path}.rules", why)
    if len(rules) > MAX_RULES:
        yield value_too_many(f"{path}.rules", len(rules), MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _success_rule_causes(rule, spec.get("completions") or 0, f"{path}.rules[{index}]")


def _success_rule_causes(rule: Object, completions: int, path: str) -> Iterator[FieldCause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        yield value_required(path, "at least one of succeededCount or succeededIndexes must be specified")
    where, total = f"{path}.succeededIndexes", 0
    if indexes is not None and len(indexes) > MAX_INDEXES:
        yield value_too_long(where, MAX_INDEXES)
    try:
        total = sum(last - first + 1 for first, last in index_ranges(indexes or "", completions))
    except ValueError as fault:
        yield value_invalid(where, indexes, f"error parsing succeededIndexes: {fault}")
    if count is None:
        return
    yield from not_negative(rule, path, "succeededCount")
    where = f"{path}.succeededCount"
    if count > completions:
        yield value_invalid(where, count, f"must be less than or equal to {completions}, the completions")
    if indexes is not None and count > total:
        yield value_invalid(where, count, f"must be less than or equal to {total}, the number of indexes")
