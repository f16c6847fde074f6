"""Defaults and checks of HorizontalPodAutoscalers, in both versions."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from reconcile.embedded.kinds.autoscaler_conversion import convert_autoscaler
from reconcile.embedded.kinds.built_in_kind import Object, fill, one_of, required
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
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
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
    if not spec.get("behavior"):
        return
    for name, rules in _SCALING.items():
        given = spec["behavior"].get(name) or {}
        spec["behavior"][name] = {**deepcopy(dict(rules)), **given}


def validate_autoscaler(autoscaler: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of an autoscaler, with the field names of autoscaling/v2 for both versions."""
    spec = convert_autoscaler(autoscaler, "autoscaling/v2")["spec"]
    yield from _replica_causes(spec)
    if isinstance(spec.get("scaleTargetRef"), Mapping):
        yield from required(spec["scaleTargetRef"], "spec.scaleTargetRef", "kind", "name")
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric_causes(metric, f"spec.metrics[{index}]")
    yield from _behavior_causes(spec.get("behavior") or {})


def _replica_causes(spec: Mapping[str, Any]) -> Iterator[FieldCause]:
    least, most = spec["minReplicas"], spec.get("maxReplicas") or 0
    if least < 1:
        yield value_invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield value_invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield value_invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _metric_causes(metric: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    kind = metric.get("type") or ""
    if not kind:
        yield value_required(f"{path}.type", "must specify a metric source type")
    elif kind not in _SOURCES:
        yield value_not_supported(f"{path}.type", kind, sorted(_SOURCES))
    else:
        member = _SOURCES[kind]
        if not metric.get(member):
            yield value_required(f"{path}.{member}", "must populate information for the given metric source")
        for other in _SOURCES.values():
            if other != member and metric.get(other) is not None:
                yield value_forbidden(f"{path}.{other}", "must populate the given metric source only")
        if metric.get(member):
            yield from _source_causes(kind, metric[member], f"{path}.{member}")


def _source_causes(kind: str, source: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    if kind in ("Resource", "ContainerResource") and not source.get("name"):
        yield value_required(f"{path}.name", "must specify a resource name")
    target = source.get("target") or {}
    if not target.get("type"):
        yield value_required(f"{path}.target.type", "must specify a metric target type")
    elif target["type"] not in _TARGETS:
        why = "must be either Utilization, Value, or AverageValue"
        yield value_invalid(f"{path}.target.type", target["type"], why)
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        yield value_invalid(f"{path}.target.averageUtilization", share, "must be greater than 0")
    if kind not in ("Resource", "ContainerResource"):
        return
    if share is None and target.get("averageValue") is None:
        why = "must set either a target raw value or a target utilization"
        yield value_required(f"{path}.target.averageUtilization", why)
    elif share is not None and target.get("averageValue") is not None:
        why = "may not set both a target raw value and a target utilization"
        yield value_forbidden(f"{path}.target.averageValue", why)


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
        if not rules.get("policies"):
            yield value_required(f"{path}.policies", "must specify at least one Policy")
        for index, policy in enumerate(rules.get("policies") or ()):
            yield from _policy_causes(policy, f"{path}.policies[{index}]")


def _policy_causes(policy: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    yield from one_of(policy, f"{path}.type", _POLICIES)
    if (policy.get("value") or 0) < 1:
        yield value_invalid(f"{path}.value", policy.get("value", 0), "must be greater than zero")
    yield from _bounded(f"{path}.periodSeconds", policy.get("periodSeconds") or 0, 1, MAX_PERIOD)


def _bounded(path: str, value: int, least: int, most: int) -> Iterator[FieldCause]:
    if value < least:
        why = "must be greater than zero" if least else "must be greater than or equal to zero"
        yield value_invalid(path, value, why)
    elif value > most:
        yield value_invalid(path, value, f"must be less than or equal to {most}")
