"""The strategy HPA: the controller keeps a HorizontalPodAutoscaler, which decides."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from reconcile import Context
from reconcile.blocks import ReplicaBounds, Unusable
from reconcile.models import unstructured_kind

from .models import MetricSourceSpec, PodAutoscaler
from .pod_autoscaler_spec import invalid, is_plain, metric_name, target_of, target_value

HorizontalPodAutoscaler = unstructured_kind("autoscaling/v2", "HorizontalPodAutoscaler")


def name_of(autoscaler: PodAutoscaler) -> str:
    """As in AIBrix."""
    return f"{autoscaler.name}-hpa"


def manifest_of(autoscaler: PodAutoscaler, bounds: ReplicaBounds) -> dict[str, Any]:
    """Raises Unusable for an invalid spec."""
    target = target_of(autoscaler)
    sources = autoscaler.spec.metrics_sources or ()
    if not sources:
        raise invalid("spec.metricsSources is empty: expected a metric")
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name_of(autoscaler), "namespace": autoscaler.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": target.name},
            "minReplicas": max(1, bounds.minimum),
            "maxReplicas": bounds.maximum,
            "metrics": [_metric(number, one) for number, one in enumerate(sources)],
        },
    }


def _metric(number: int, one: MetricSourceSpec) -> dict[str, Any]:
    where = f"spec.metricsSources[{number}]"
    value = target_value(where, one.target_value)
    plain = is_plain(one.target_value)
    average = {"type": "AverageValue", "averageValue": _quantity(value)}
    metric_name(where, one.target_metric)
    match one.metric_source_type:
        case "resource" if one.target_metric == "cpu" and plain:
            share = {"type": "Utilization", "averageUtilization": max(1, round(value / 1000))}
            return {"type": "Resource", "resource": {"name": "cpu", "target": share}}
        case "resource" if one.target_metric in ("cpu", "memory"):
            # A number with the suffix Mi must not have an exponent.
            average["averageValue"] = f"{Decimal(value) / 1000:f}Mi" if plain else one.target_value
            return {"type": "Resource", "resource": {"name": one.target_metric, "target": average}}
        case "pod" | "custom":
            return {"type": "Pods", "pods": {"metric": {"name": one.target_metric}, "target": average}}
        case "external" | "domain" if not one.endpoint:
            return {
                "type": "External",
                "external": {"metric": {"name": one.target_metric}, "target": average},
            }
    raise Unusable(
        "NotSupported",
        f"{where}: a HorizontalPodAutoscaler does not support this metric; use the strategy APA",
    )


def _quantity(milli: int) -> str:
    whole, rest = divmod(milli, 1000)
    return f"{milli}m" if rest else str(whole)


async def keep(ctx: Context[PodAutoscaler], bounds: ReplicaBounds) -> None:
    """Apply the HorizontalPodAutoscaler, and copy its status."""
    there = await ctx.apply(manifest_of(ctx.object, bounds))
    status: Mapping[str, Any] = there.body.get("status") or {}
    ctx.status(
        desired_scale=status.get("desiredReplicas"),
        actual_scale=status.get("currentReplicas"),
        last_scale_time=status.get("lastScaleTime"),
    )
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("AbleToScale", "ScalingActive"):
            ctx.condition(
                condition["type"],
                condition["status"],
                reason=condition.get("reason") or "Unknown",
                message=condition.get("message") or "",
            )


async def drop(ctx: Context[PodAutoscaler]) -> None:
    """Delete the HorizontalPodAutoscaler: the strategy has changed, or another autoscaler has the target."""
    for there in await ctx.owned(HorizontalPodAutoscaler):
        if not there.terminating:
            await ctx.delete(there)
