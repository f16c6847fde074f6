"""The HorizontalPodAutoscaler that the strategy HPA asks for: each metric said in its words, or refused."""

from typing import Any

import pytest
from attrs import define, field

from controllers.autoscaling import PodAutoscaler
from controllers.autoscaling.hpa import keep, manifest_of
from reconcile.blocks import ReplicaBounds, Unusable
from reconcile.models import decode
from reconcile.testing import simulate

BOUNDS = ReplicaBounds(minimum=0, maximum=3)
NO_SUCH = ": a HorizontalPodAutoscaler does not support this metric; use the strategy APA"


def autoscaler(*sources: dict[str, str]) -> PodAutoscaler:
    return decode(
        PodAutoscaler,
        {
            "apiVersion": "autoscaling.aibrix.ai/v1alpha1",
            "kind": "PodAutoscaler",
            "metadata": {"name": "model", "namespace": "default"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "model"},
                "maxReplicas": 3,
                "scalingStrategy": "HPA",
                "metricsSources": list(sources),
            },
        },
    )


def source(kind: str, metric: str, value: str, **more: str) -> dict[str, str]:
    return {"metricSourceType": kind, "targetMetric": metric, "targetValue": value, **more}


def resource(name: str, **target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def other(kind: str, metric: str, average: str) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": average}
    return {
        "type": kind,
        "pods" if kind == "Pods" else "external": {"metric": {"name": metric}, "target": target},
    }


@pytest.mark.rule("autoscale-hpa")
@pytest.mark.parametrize(
    ("given", "metric"),
    [
        (source("resource", "cpu", "50"), resource("cpu", type="Utilization", averageUtilization=50)),
        (source("resource", "cpu", "0.2"), resource("cpu", type="Utilization", averageUtilization=1)),
        (source("resource", "cpu", "250m"), resource("cpu", type="AverageValue", averageValue="250m")),
        (source("resource", "memory", "64"), resource("memory", type="AverageValue", averageValue="64Mi")),
        (source("resource", "memory", "2Gi"), resource("memory", type="AverageValue", averageValue="2Gi")),
        (source("resource", "memory", "1.5"), resource("memory", type="AverageValue", averageValue="1.5Mi")),
        (source("resource", "memory", "5"), resource("memory", type="AverageValue", averageValue="5Mi")),
        (source("resource", "memory", "1e3"), resource("memory", type="AverageValue", averageValue="1000Mi")),
        (source("resource", "cpu", "5"), resource("cpu", type="Utilization", averageUtilization=5)),
        (source("resource", "cpu", "5000"), resource("cpu", type="Utilization", averageUtilization=5000)),
        (source("pod", "requests", "12"), other("Pods", "requests", "12")),
        (source("custom", "requests", "0.5"), other("Pods", "requests", "500m")),
        (source("external", "queue", "7"), other("External", "queue", "7")),
        (source("domain", "queue", "7.25"), other("External", "queue", "7250m")),
    ],
)
def test_a_metric_is_translated_into_one_of_the_hpa(given: dict[str, str], metric: dict[str, Any]) -> None:
    assert manifest_of(autoscaler(given), BOUNDS)["spec"]["metrics"] == [metric]


@pytest.mark.rule("autoscale-hpa")
def test_several_metrics_keep_their_order_and_the_minimum_is_at_least_one() -> None:
    spec = manifest_of(autoscaler(source("pod", "a", "1"), source("pod", "b", "2")), BOUNDS)["spec"]
    assert [metric["pods"]["metric"]["name"] for metric in spec["metrics"]] == ["a", "b"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 3)


@pytest.mark.rule("autoscale-bad-spec")
@pytest.mark.parametrize(
    ("sources", "reason", "message"),
    [
        ([], "InvalidSpec", "spec.metricsSources is empty: expected a metric"),
        (
            [source("pod", "a", "1"), source("resource", "gpu", "1")],
            "NotSupported",
            f"spec.metricsSources[1]{NO_SUCH}",
        ),
        (
            [source("external", "a", "1", endpoint="a.example.com")],
            "NotSupported",
            f"spec.metricsSources[0]{NO_SUCH}",
        ),
        ([source("pod", "a", "half")], "InvalidSpec", "spec.metricsSources[0].targetValue is not a number"),
    ],
)
def test_a_metric_that_the_cluster_cannot_measure_is_refused_with_its_path(
    sources: list[dict[str, str]], reason: str, message: str
) -> None:
    with pytest.raises(Unusable) as problem:
        manifest_of(autoscaler(*sources), BOUNDS)
    assert (problem.value.reason, problem.value.message) == (reason, message)


@define
class Said:
    """A context whose HorizontalPodAutoscaler has a status, and what was said to it."""

    status_of_it: dict[str, Any]
    object: PodAutoscaler = field(factory=lambda: autoscaler(source("pod", "a", "1")))
    body: dict[str, Any] = field(factory=dict)
    told: dict[str, Any] = field(factory=dict)
    conditions: list[tuple[str, str, str, str]] = field(factory=list)

    async def apply(self, manifest: dict[str, Any]) -> "Said":
        self.body = {**manifest, "status": self.status_of_it}
        return self

    def status(self, **fields: Any) -> None:
        self.told = fields

    def condition(self, name: str, status: str, *, reason: str, message: str) -> None:
        self.conditions.append((name, status, reason, message))


def kept(status: dict[str, Any]) -> Said:
    ctx: Any = Said(status)
    simulate(lambda: keep(ctx, BOUNDS))
    assert isinstance(ctx, Said)
    return ctx


@pytest.mark.rule("autoscale-hpa")
def test_the_numbers_and_two_conditions_of_the_hpa_are_shown() -> None:
    said = kept(
        {
            "desiredReplicas": 4,
            "currentReplicas": 3,
            "lastScaleTime": "2026-11-20T10:00:00Z",
            "conditions": [
                {"type": "AbleToScale", "status": "True", "reason": "Ready", "message": "it may"},
                {"type": "ScalingLimited", "status": "True", "reason": "TooMany", "message": "no more"},
                {"type": "ScalingActive", "status": "False"},
            ],
        }
    )
    assert said.told == {"desired_scale": 4, "actual_scale": 3, "last_scale_time": "2026-11-20T10:00:00Z"}
    assert said.conditions == [
        ("AbleToScale", "True", "Ready", "it may"),
        ("ScalingActive", "False", "Unknown", ""),
    ]


@pytest.mark.rule("autoscale-hpa")
def test_an_hpa_without_a_status_shows_nothing() -> None:
    said = kept({})
    assert said.told == {"desired_scale": None, "actual_scale": None, "last_scale_time": None}
    assert said.conditions == []
