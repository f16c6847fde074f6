"""HorizontalPodAutoscalers, in both versions."""

import datetime
from collections.abc import Mapping
from typing import Final

from reconcile.embedded.kinds.autoscaler_checks import (
    default_autoscaler,
    prepare_autoscaler,
    validate_autoscaler,
    validate_autoscaler_status,
)
from reconcile.embedded.kinds.autoscaler_conversion import convert_autoscaler
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, spec_and_status
from reconcile.embedded.kubectl.ages import UNKNOWN
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, UNSET, View, at, pick
from reconcile.embedded.served import CellColumn


def _scale_target(obj: View, _now: datetime.datetime) -> str:
    reference = pick(obj, "spec", "scaleTargetRef") or {}
    return f"{reference.get('kind')}/{reference.get('name')}"


def _metrics(obj: View, _now: datetime.datetime) -> str:
    specs = pick(obj, "spec", "metrics") or ()
    current = pick(obj, "status", "currentMetrics") or ()
    return ", ".join(
        _metric(metric, current[index] if index < len(current) else {}) for index, metric in enumerate(specs)
    ) or NONE  # fmt: skip


def _metric(metric: View, current: View) -> str:
    source = {"Resource": "resource", "ContainerResource": "containerResource"}.get(metric.get("type", ""))
    target = pick(metric, source, "target") if source else None
    if not isinstance(target, Mapping):
        return f"{UNKNOWN}/{metric.get('type', '')}"
    name = pick(metric, str(source), "name")
    now = pick(current, str(source), "current") or {}
    share = target.get("averageUtilization")
    if share is not None:
        used = now.get("averageUtilization")
        return f"{name}: {UNKNOWN if used is None else f'{used}%'}/{share}%"
    return f"{name}: {now.get('averageValue', UNKNOWN)}/{target.get('averageValue')}"


KINDS: Final = (
    BuiltInKind(
        "autoscaling", "HorizontalPodAutoscaler", versions=("v2", "v1"), short_names=("hpa",),
        categories=("all",), has_status=True,
        convert=convert_autoscaler,
        defaults=default_autoscaler,
        prepare=prepare_autoscaler,
        checks=validate_autoscaler,
        status_checks=validate_autoscaler_status,
        names_missing_fields=True,
        columns=(
            NAMES,
            CellColumn("Reference", _scale_target),
            CellColumn("Targets", _metrics),
            CellColumn("MinPods", at("spec", "minReplicas", default=UNSET)),
            CellColumn("MaxPods", at("spec", "maxReplicas"), "integer"),
            CellColumn("Replicas", at("status", "currentReplicas", default=0), "integer"),
            AGE,
        ),
        messages={
            **spec_and_status("HorizontalPodAutoscaler"),
            "HorizontalPodAutoscalerSpec": {
                1: "scaleTargetRef:CrossVersionObjectReference", 2: "minReplicas:*int",
                3: "maxReplicas:int", 4: "metrics:[MetricSpec]",
            },
            "CrossVersionObjectReference": {1: "kind:string", 2: "name:string", 3: "apiVersion:string"},
            "MetricSpec": {1: "type:string", 4: "resource:*ResourceMetricSource"},
            "ResourceMetricSource": {1: "name:string", 2: "target:MetricTarget"},
            "MetricTarget": {
                1: "type:string", 2: "value:*quantity", 3: "averageValue:*quantity",
                4: "averageUtilization:*int",
            },
            "HorizontalPodAutoscalerStatus": {3: "currentReplicas:int", 4: "desiredReplicas:int"},
            **spec_and_status("v1.HorizontalPodAutoscaler", "HorizontalPodAutoscaler"),
            "v1.HorizontalPodAutoscalerSpec": {
                1: "scaleTargetRef:CrossVersionObjectReference", 2: "minReplicas:*int",
                3: "maxReplicas:int", 4: "targetCPUUtilizationPercentage:*int",
            },
        },
        viewed=("", "status"),
        edited=("",),
    ),
)  # fmt: skip
