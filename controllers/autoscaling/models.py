"""`autoscaling.aibrix.ai/v1alpha1 PodAutoscaler`: its fields, and their names in JSON."""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from attrs import frozen

from reconcile import Condition, Object, field, resource
from reconcile.models import Schema, definition_of

Strategy = Literal["HPA", "KPA", "APA"]
SourceType = Literal["pod", "resource", "custom", "external", "domain"]


@frozen
class TargetRef:
    """The target, in the autoscaler's own namespace."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True)


@frozen
class SubTargetSelector:
    """A role within the target (a StormService's)."""

    role_name: str | None = None


@frozen
class ScheduleSpec:
    """Other bounds for a part of some days; times as `HH:MM`."""

    name: str
    start_time: str
    end_time: str
    days_of_week: tuple[str, ...] | None = None
    timezone: str | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None


@frozen
class MetricSourceSpec:
    """A metric, and the value of it that each pod should have (`targetValue`)."""

    metric_source_type: SourceType
    target_metric: str
    target_value: str
    protocol_type: Literal["http", "https"] | None = None
    endpoint: str | None = None
    path: str | None = None
    port: str | None = None


@frozen
class PodAutoscalerSpec:
    """Which target is sized, by which metrics, and how."""

    scale_target_ref: TargetRef
    max_replicas: int
    scaling_strategy: Strategy
    min_replicas: int | None = None
    sub_target_selector: SubTargetSelector | None = None
    schedules: Annotated[tuple[ScheduleSpec, ...] | None, Schema(max_items=100)] = None
    metrics_sources: Annotated[tuple[MetricSourceSpec, ...] | None, Schema(max_items=20)] = None
    observe_window_seconds: int | None = None
    panic_window_seconds: int | None = None


@frozen
class ScalingDecision:
    """A change of replicas that was written, or refused."""

    previous_scale: int
    new_scale: int
    reason: str
    success: bool
    timestamp: datetime.datetime
    error: str | None = None


@frozen
class ScheduledBounds:
    """The current bounds, and the schedule that sets them."""

    effective_min_replicas: int
    effective_max_replicas: int
    active_schedule: str | None = None


@frozen
class PodAutoscalerStatus:
    """The actual and desired number of replicas, and the last five decisions."""

    last_scale_time: datetime.datetime | None = None
    desired_scale: int | None = None
    actual_scale: int | None = None
    conditions: tuple[Condition, ...] = ()
    scaling_history: tuple[ScalingDecision, ...] = ()
    scheduled_bounds: ScheduledBounds | None = None


@resource(
    "autoscaling.aibrix.ai/v1alpha1",
    columns={
        "MINPODS": ".spec.minReplicas",
        "MAXPODS": ".spec.maxReplicas",
        "REPLICAS": ".status.actualScale",
        "STRATEGY": ".spec.scalingStrategy",
        "AGE": ".metadata.creationTimestamp",
    },
)
class PodAutoscaler(Object):
    """Sizes an object with a /scale by metrics."""

    spec: PodAutoscalerSpec
    status: PodAutoscalerStatus = PodAutoscalerStatus()


def definition() -> dict[str, Any]:
    """Our own CustomResourceDefinition, for servers that do not have AIBrix's."""
    return definition_of(PodAutoscaler)
