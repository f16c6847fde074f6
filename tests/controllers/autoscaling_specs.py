"""PodAutoscalers to read."""

from typing import Any

import yaml

from controllers.autoscaling import PodAutoscaler
from reconcile.models import decode
from tests.controllers.world import SAMPLES


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SAMPLES / "aibrix" / f"{name}.yaml").read_text())
    return found


def bare(annotations: dict[str, str] | None = None, **spec: Any) -> PodAutoscaler:
    """One that says no more than it must."""
    body = sample("apa")
    kept = {key: body["spec"][key] for key in ("scaleTargetRef", "maxReplicas", "scalingStrategy")}
    body["spec"] = {**kept, **source(port="80"), **spec}
    body["metadata"]["annotations"] = annotations or {}
    return decode(PodAutoscaler, body)


def source(**fields: str) -> dict[str, Any]:
    plain = {"metricSourceType": "pod", "targetMetric": "m", "targetValue": "1"}
    return {"metricsSources": [{**plain, **fields}]}


METRIC, PORT = "spec.metricsSources[0]", "spec.metricsSources[0].port: expected a port from 1 to 65535"
NO_HOST = f"{METRIC}.endpoint has no valid host"
