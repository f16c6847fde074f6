"""Defaults and checks of HorizontalPodAutoscalers, in both versions."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from informers.apimachinery.quantities import quantity_value
from reconcile.embedded.kinds.autoscaler_conversion import convert_autoscaler
from reconcile.embedded.kinds.autoscaler_metrics import metric_causes, reference_causes, version_causes
from reconcile.embedded.kinds.built_in_kind import Object, fill, not_negative, one_of
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

# MaxStabilizationWindowSeconds and MaxPeriodSeconds in pkg/apis/autoscaling/validation.
MAX_WINDOW: Final = 3600
MAX_PERIOD: Final = 1800

_METRICS_NOTE: Final = "autoscaling.alpha.kubernetes.io/metrics"
_SELECTIONS: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_ALL_AT_ONCE: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALING: Final[Mapping[str, Mapping[str, Any]]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _ALL_AT_ONCE],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_ALL_AT_ONCE]},
}


def default_autoscaler(autoscaler: Object) -> None:
    """Set the defaults of either version; the default metric is CPU."""
    spec = autoscaler.setdefault("spec", {})
    fill(spec, {"minReplicas": 1})
    if autoscaler.get("apiVersion") == "autoscaling/v1":
        if _METRICS_NOTE not in (autoscaler["metadata"].get("annotations") or {}):
            fill(spec, {"targetCPUUtilizationPercentage": 80})
    else:
        _complete(spec)


def prepare_autoscaler(autoscaler: Object, old: Object | None) -> None:
    """Give a new autoscaler the status of its version."""
    if old is None and autoscaler.get("apiVersion") == "autoscaling/v1":
        autoscaler["status"] = {"currentReplicas": 0, "desiredReplicas": 0}
    elif old is None:
        autoscaler["status"] = {"desiredReplicas": 0, "currentMetrics": None}


def _complete(spec: Object) -> None:
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if spec.get("behavior") is None:
        return
    for name, rules in _SCALING.items():
        given = spec["behavior"].get(name) or {}
        spec["behavior"][name] = {**deepcopy(dict(rules)), **given}


def validate_autoscaler(autoscaler: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of an autoscaler, with the field names of autoscaling/v2 for both versions."""
    spec = _newer_spec(autoscaler)
    before = {} if old is None else _newer_spec(old)
    yield from _replica_causes(spec)
    yield from _target_causes(spec.get("scaleTargetRef") or {}, before.get("scaleTargetRef"))
    if spec["minReplicas"] == 0 and not any(
        metric.get("type") in ("External", "Object") for metric in spec.get("metrics") or ()
    ):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield value_forbidden("spec.metrics", why)
    any_version = any(_has_bad_version(metric) for metric in before.get("metrics") or ())
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from metric_causes(metric, f"spec.metrics[{index}]", any_version=any_version)
    yield from _behavior_causes(spec.get("behavior") or {})


def validate_autoscaler_status(autoscaler: Object, old: Object | None) -> Iterator[FieldCause]:
    """Numbers of replicas below zero."""
    status = autoscaler.get("status") or {}
    return not_negative(status, "status", "currentReplicas", "desiredReplicas")


def _newer_spec(autoscaler: Object) -> Object:
    spec: Object = convert_autoscaler(autoscaler, "autoscaling/v2").get("spec") or {}
    return spec


def _replica_causes(spec: Mapping[str, Any]) -> Iterator[FieldCause]:
    least, most = spec["minReplicas"], spec.get("maxReplicas") or 0
    if least < 1:
        yield value_invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield value_required("spec.maxReplicas")
    elif most < 1:
        yield value_invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield value_invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _target_causes(target: Object, before: Object | None) -> Iterator[FieldCause]:
    kind = target.get("kind") or ""
    # What was accepted before apiVersions were checked may stay.
    if before is None or any(target.get(name) != before.get(name) for name in ("apiVersion", "kind")):
        # Of what can be scaled only this is in the core group, which has no name.
        in_core = kind == "ReplicationController"
        yield from version_causes(target, "spec.scaleTargetRef", needs_group=not in_core)
    yield from reference_causes(target, "spec.scaleTargetRef")


def _has_bad_version(metric: Object) -> bool:
    described = (metric.get("object") or {}).get("describedObject")
    return described is not None and any(version_causes(described, "", needs_group=False))


def _behavior_causes(behavior: Mapping[str, Any]) -> Iterator[FieldCause]:
    for name in ("scaleUp", "scaleDown"):
        rules, path = behavior.get(name), f"spec.behavior.{name}"
        if not rules:
            continue
        window, selection = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
        if window is not None:
            yield from _bounded(f"{path}.stabilizationWindowSeconds", window, 0, MAX_WINDOW)
        if selection is not None and selection not in _SELECTIONS:
            yield value_not_supported(f"{path}.selectPolicy", selection, _SELECTIONS)
        yield from _tolerance_causes(rules, path)
        if not rules.get("policies"):
            yield value_required(f"{path}.policies", "must specify at least one Policy")
        for index, policy in enumerate(rules.get("policies") or ()):
            yield from _policy_causes(policy, f"{path}.policies[{index}]")


def _policy_causes(policy: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    yield from one_of(policy, f"{path}.type", _POLICIES)
    if (policy.get("value") or 0) < 1:
        yield value_invalid(f"{path}.value", policy.get("value", 0), "must be greater than zero")
    yield from _bounded(f"{path}.periodSeconds", policy.get("periodSeconds") or 0, 1, MAX_PERIOD)


def _tolerance_causes(rules: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity_value(str(tolerance)) < 0:
        yield value_invalid(f"{path}.tolerance", tolerance, "must be greater than or equal to zero")


def _bounded(path: str, value: int, least: int, most: int) -> Iterator[FieldCause]:
    if value < least:
        why = "must be greater than zero" if least else "must be greater than or equal to zero"
        yield value_invalid(path, value, why)
    elif value > most:
        yield value_invalid(path, value, f"must be less than or equal to {most}")
