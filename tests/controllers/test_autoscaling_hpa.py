"""The HorizontalPodAutoscaler that the strategy HPA asks for: each metric said in its words, or refused."""

from typing import Any

import pytest

from controllers.autoscaling import PodAutoscaler
from controllers.autoscaling.hpa import manifest_of
from reconcile.blocks import ReplicaBounds, Unusable
from reconcile.models import decode

BOUNDS = ReplicaBounds(minimum=0, maximum=3)


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
        (source("pod", "requests", "12"), other("Pods", "requests", "12")),
        (source("custom", "requests", "0.5"), other("Pods", "requests", "500m")),
        (source("external", "queue", "7"), other("External", "queue", "7")),
        (source("domain", "queue", "7.25"), other("External", "queue", "7250m")),
    ],
)
def test_a_metric_is_said_in_the_words_of_the_cluster(given: dict[str, str], metric: dict[str, Any]) -> None:
    assert manifest_of(autoscaler(given), BOUNDS)["spec"]["metrics"] == [metric]


@pytest.mark.rule("autoscale-hpa")
def test_several_metrics_stay_in_their_order_and_one_replica_is_the_least() -> None:
    spec = manifest_of(autoscaler(source("pod", "a", "1"), source("pod", "b", "2")), BOUNDS)["spec"]
    assert [metric["pods"]["metric"]["name"] for metric in spec["metrics"]] == ["a", "b"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 3)


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        ([], r"spec\.metricsSources is empty"),
        ([source("pod", "a", "1"), source("resource", "gpu", "1")], r"spec\.metricsSources\[1\]"),
        ([source("external", "a", "1", endpoint="a.example.com")], "use the strategy APA"),
    ],
)
def test_what_the_cluster_cannot_measure_is_refused_with_its_place(
    sources: list[dict[str, str]], says: str
) -> None:
    with pytest.raises(Unusable, match=says):
        manifest_of(autoscaler(*sources), BOUNDS)
