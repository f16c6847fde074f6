"""Conversion of HorizontalPodAutoscalers between their two versions."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import msgspec

from reconcile.embedded.kinds.autoscaler_notes import (
    newer_behavior,
    newer_metrics,
    older_behavior,
    older_metrics,
)
from reconcile.embedded.schema import ResourceSchema, compile_schema
from reconcile.embedded.schema.builtin_schemas import schema_for

_NOTES: Final = "autoscaling.alpha.kubernetes.io/"
_PERCENTAGE: Final = "targetCPUUtilizationPercentage"
_SAME_IN: Final = {
    "spec": ("scaleTargetRef", "minReplicas", "maxReplicas"),
    "status": ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"),
}
_CURRENT_PERCENTAGE: Final = "currentCPUUtilizationPercentage"
_KEPT_AS_NOTES: Final[Mapping[str, tuple[str, str, Callable[[Any], Any]]]] = {
    "metrics": ("spec", "metrics", newer_metrics),
    "behavior": ("spec", "behavior", newer_behavior),
    "current-metrics": ("status", "currentMetrics", partial(newer_metrics, status=True)),
    "conditions": ("status", "conditions", lambda held: held),
}

_Object = dict[str, Any]


def convert_autoscaler(autoscaler: _Object, api_version: str) -> _Object:
    """The same autoscaler in `autoscaling/v1` or `autoscaling/v2`; v1 has annotations for what v2 adds."""
    if autoscaler.get("apiVersion") == api_version:
        return autoscaler
    convert = _to_v1 if api_version.endswith("/v1") else _to_v2
    return {**convert(autoscaler), "apiVersion": api_version}


def _to_v1(newer: _Object) -> _Object:
    spec, status, made = newer.get("spec") or {}, newer.get("status") or {}, _in_both(newer)
    metrics = spec.get("metrics") or ()
    percentages = [share for share in map(_percentage, metrics) if share is not None]
    if percentages:
        made["spec"][_PERCENTAGE] = percentages[0]
    current = status.get("currentMetrics") or ()
    used = [metric["resource"]["current"]["averageUtilization"] for metric in current if _is_cpu_use(metric)]
    if used:
        made["status"][_CURRENT_PERCENTAGE] = used[0]
    others = [metric for metric in metrics if _percentage(metric) is None]
    left = {
        "behavior": None if spec.get("behavior") is None else older_behavior(spec["behavior"]),
        "conditions": status.get("conditions"),
        "current-metrics": older_metrics(current, status=True),
        "metrics": older_metrics(others),
    }
    notes = {f"{_NOTES}{name}": msgspec.json.encode(part).decode() for name, part in left.items() if part}
    return {**newer, **made, "metadata": _annotated(newer["metadata"], notes)}


def _to_v2(older: _Object) -> _Object:
    spec, made = older.get("spec") or {}, _in_both(older)
    made["status"].setdefault("currentMetrics", None)
    notes = dict(older["metadata"].get("annotations") or {})
    for name, (part, field, read) in _KEPT_AS_NOTES.items():
        held = read(_read(notes.pop(f"{_NOTES}{name}", "")))
        if held is not None and _fits({part: {field: held}}):
            made[part][field] = held
    _newer_schema().prune(made)
    if spec.get(_PERCENTAGE) is not None:
        made["spec"]["metrics"] = [_cpu_metric(spec[_PERCENTAGE]), *(made["spec"].get("metrics") or ())]
    metadata = {name: member for name, member in older["metadata"].items() if name != "annotations"}
    return {**older, **made, "metadata": _annotated(metadata, notes)}


def _in_both(autoscaler: _Object) -> dict[str, _Object]:
    made: dict[str, _Object] = {}
    for part, names in _SAME_IN.items():
        held = autoscaler.get(part) or {}
        made[part] = {name: held[name] for name in names if name in held}
    return made


def _annotated(metadata: Mapping[str, Any], notes: Mapping[str, str]) -> _Object:
    annotations = {**(metadata.get("annotations") or {}), **notes}
    return {**metadata, "annotations": annotations} if annotations else dict(metadata)


def _read(note: str) -> Any:
    """The decoded value of an annotation; None for one that is not JSON."""
    try:
        return msgspec.json.decode(note) if note else None
    except msgspec.DecodeError:
        return None


def _fits(part: _Object) -> bool:
    """Whether the fields of a part have the right types; some may be missing."""
    return all(cause.reason == "FieldValueRequired" for cause in _newer_schema().validate(part))


@cache
def _newer_schema() -> ResourceSchema:
    return compile_schema(schema_for("autoscaling", "v2", "HorizontalPodAutoscaler"), unique_lists=False)


def _percentage(metric: Mapping[str, Any]) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    share: int | None = (resource.get("target") or {}).get("averageUtilization")
    return share


def _is_cpu_use(metric: Mapping[str, Any]) -> bool:
    resource = metric.get("resource") or {}
    measured = (resource.get("current") or {}).get("averageUtilization") is not None
    return metric.get("type") == "Resource" and resource.get("name") == "cpu" and measured


def _cpu_metric(percentage: int) -> _Object:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
