"""What PodAutoscalers ask for: users' manifests read as they are, and each fault named."""

import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from controllers.autoscaling import PodAutoscaler
from controllers.autoscaling.hpa import manifest_of
from controllers.autoscaling.spec import behaviour_of, policy_of
from controllers.autoscaling.status import claims_first, history_after
from reconcile import encode
from reconcile.blocks import (
    ExternalMetric,
    PageMetric,
    PodMetric,
    Rates,
    ReplicaBounds,
    ResourceMetric,
    Scaled,
    Scaling,
    Target,
    Unusable,
)
from reconcile.models import decode
from reconcile.testing import VirtualClock
from tests.controllers.world import SAMPLES


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SAMPLES / "aibrix" / f"{name}.yaml").read_text())
    return found


def changed(name: str = "apa", annotations: dict[str, str] | None = None, **spec: Any) -> PodAutoscaler:
    body = sample(name)
    body["spec"] |= spec
    body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), **(annotations or {})}
    return decode(PodAutoscaler, body)


def source(**fields: str) -> dict[str, Any]:
    plain = {"metricSourceType": "pod", "targetMetric": "m", "targetValue": "1"}
    return {"metricsSources": [{**plain, **fields}]}


def schedule(**fields: Any) -> dict[str, Any]:
    return {"schedules": [{"name": "x", "startTime": "08:00", "endTime": "09:00", **fields}]}


@pytest.mark.rule("autoscale-samples")
def test_the_sample_of_apa_is_read_as_it_is() -> None:
    policy = policy_of(changed("apa"))
    assert policy.target == Target("apps/v1", "Deployment", "deepseek-r1-distill-llama-8b")
    assert policy.sources == (
        PodMetric(metric="gpu_cache_usage_perc", target=500, port=8000, path="metrics"),
    )
    assert policy.how.rule == "ratio"
    assert policy.how.bounds == ReplicaBounds(minimum=1, maximum=8)
    assert policy.how.rates == Rates(tolerance_up=100, tolerance_down=200)
    assert policy.how.stable_window == 30_000


@pytest.mark.rule("autoscale-samples")
def test_the_sample_of_kpa_is_read_as_it_is() -> None:
    policy = policy_of(changed("kpa"))
    assert policy.how.rule == "demand"
    assert (policy.how.stable_window, policy.how.panic_window) == (600_000, 60_000)
    assert policy.sources == (ResourceMetric(resource="cpu", target=10_000, of_requests=True),)


def test_what_is_not_said_is_as_in_aibrix() -> None:
    how = behaviour_of(changed("apa"))
    assert (how.up_window, how.down_window, how.panic_threshold) == (0, 300_000, 2000)
    assert (how.rates.up, how.rates.down) == (2000, 2000)
    assert not how.zero.allowed


@pytest.mark.rule("autoscale-annotations")
@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("max-scale-up-rate", "3.5", lambda how: how.rates.up == 3500),
        ("max-scale-down-rate", "4", lambda how: how.rates.down == 4000),
        ("scale-up-tolerance", "0.2", lambda how: how.rates.tolerance_up == 200),
        ("scale-down-tolerance", "0.3", lambda how: how.rates.tolerance_down == 300),
        ("panic-threshold", "1.5", lambda how: how.panic_threshold == 1500),
        ("scale-up-cooldown-window", "30s", lambda how: how.up_window == 30_000),
        ("scale-down-cooldown-window", "1m30s", lambda how: how.down_window == 90_000),
        ("scale-down-cooldown-window", "90", lambda how: how.down_window == 90_000),
        ("scale-to-zero", "true", lambda how: how.zero.allowed),
    ],
)
def test_each_annotation_counts(name: str, text: str, read: Any) -> None:
    assert read(behaviour_of(changed(annotations={f"autoscaling.aibrix.ai/{name}": text})))


@pytest.mark.rule("autoscale-bad-annotation")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max-scale-up-rate", "fast"),
        ("max-scale-up-rate", "0.5"),
        ("max-scale-down-rate", ""),
        ("scale-up-tolerance", "-1"),
        ("panic-threshold", "nan"),
        ("scale-down-cooldown-window", "soon"),
        ("scale-down-cooldown-window", "-5s"),
        ("scale-to-zero", "maybe"),
    ],
)
def test_an_annotation_without_a_meaning_is_named(name: str, text: str) -> None:
    with pytest.raises(Unusable) as problem:
        behaviour_of(changed(annotations={f"autoscaling.aibrix.ai/{name}": text}))
    assert f"autoscaling.aibrix.ai/{name}" in problem.value.message


@pytest.mark.rule("autoscale-bad-spec")
@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"minReplicas": 9}, "spec.minReplicas"),
        ({"minReplicas": -1}, "spec.minReplicas"),
        ({"maxReplicas": 0}, "spec.maxReplicas"),
        ({"observeWindowSeconds": 0}, "spec.observeWindowSeconds"),
        ({"observeWindowSeconds": 2**40}, "spec.observeWindowSeconds"),
        ({"panicWindowSeconds": -5}, "spec.panicWindowSeconds"),
        ({"panicWindowSeconds": 61, "observeWindowSeconds": 60}, "spec.panicWindowSeconds"),
        ({"scaleTargetRef": {"kind": "Deployment"}}, "spec.scaleTargetRef"),
        ({"scaleTargetRef": {"kind": "Deployment", "name": "a", "namespace": "b"}}, "namespace"),
        ({"subTargetSelector": {"roleName": "prefill"}}, "spec.subTargetSelector"),
        ({"metricsSources": []}, "spec.metricsSources"),
        (source(), "port"),
        (source(port="http"), "port"),
        (source(port="70000"), "port"),
        (source(port="80", targetValue="half"), "targetValue"),
        (source(port="80", targetValue="0"), "targetValue"),
        (source(port="80", targetMetric=""), "targetMetric"),
        (source(metricSourceType="resource", targetMetric="gpu"), "targetMetric"),
        (source(metricSourceType="domain"), "endpoint"),
        (source(metricSourceType="domain", endpoint="me@elsewhere"), "endpoint"),
        (schedule(endTime="08:00"), "schedules[x]"),
        (schedule(startTime="8h"), "startTime"),
        (schedule(timezone="Mars"), "timezone"),
        (schedule(daysOfWeek=["Moonday"]), "Moonday"),
        (schedule(minReplicas=20), "[x]"),
    ],
)
def test_a_spec_without_a_meaning_names_what_has_none(spec: dict[str, Any], named: str) -> None:
    with pytest.raises(Unusable) as problem:
        policy_of(changed(**spec))
    assert named in problem.value.message


def test_a_schedule_is_read_with_its_zone_its_days_and_its_bounds() -> None:
    said = schedule(timezone="Asia/Tokyo", daysOfWeek=["Monday", "Friday"], minReplicas=2, maxReplicas=4)
    (found,) = policy_of(changed(**said)).how.schedules
    assert (found.start, found.end) == (datetime.time(8), datetime.time(9))
    assert found.zone == ZoneInfo("Asia/Tokyo")
    assert found.days == {0, 4}
    assert (found.minimum, found.maximum) == (2, 4)
    (plain,) = policy_of(changed(**schedule(minReplicas=2))).how.schedules
    assert (plain.zone, plain.days) == (datetime.UTC, frozenset(range(7)))


def test_a_metric_may_come_from_a_page_elsewhere_or_an_api() -> None:
    (page,) = policy_of(
        changed(**source(metricSourceType="domain", endpoint="gauge.example.com", port="81", path="/m"))
    ).sources
    assert page == PageMetric(metric="m", target=1000, url="http://gauge.example.com:81/m")
    assert policy_of(changed(**source(metricSourceType="external"))).sources == (
        ExternalMetric(metric="m", target=1000),
    )


@pytest.mark.parametrize(
    ("text", "target", "share"), [("70", 70_000, True), ("500m", 500, False), ("1.5", 1500, True)]
)
def test_a_bare_number_for_cpu_is_percent_of_the_requests(text: str, target: int, share: bool) -> None:
    found = policy_of(
        changed(**source(metricSourceType="resource", targetMetric="cpu", targetValue=text))
    ).sources
    assert found == (ResourceMetric(resource="cpu", target=target, of_requests=share),)


def test_a_bare_number_for_memory_is_in_mebibytes() -> None:
    for text in ("512", "512Mi"):
        (found,) = policy_of(
            changed(**source(metricSourceType="resource", targetMetric="memory", targetValue=text))
        ).sources
        assert found.target == 512 * 1024 * 1024 * 1000


# --- HPA ------------------------------------------------------------------------------------------------


def test_the_strategy_hpa_is_an_autoscaler_of_the_cluster() -> None:
    hpa = manifest_of(changed("kpa", scalingStrategy="HPA"), ReplicaBounds(minimum=1, maximum=10))
    assert hpa["metadata"]["name"] == "podautoscaler-example-kpa-hpa"
    assert hpa["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx-deployment"},
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 10}},
            }
        ],
    }


def test_a_page_is_no_metric_of_a_horizontal_pod_autoscaler() -> None:
    with pytest.raises(Unusable, match="use the strategy APA"):
        manifest_of(
            changed(**source(metricSourceType="domain", endpoint="a.example.com")), ReplicaBounds(maximum=3)
        )


# --- status ---------------------------------------------------------------------------------------------


def claimant(name: str, made: str, target: str = "model") -> PodAutoscaler:
    body = sample("apa")
    body["metadata"] = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": made}
    body["spec"]["scaleTargetRef"]["name"] = target
    return decode(PodAutoscaler, body)


@pytest.mark.rule("autoscale-conflict")
def test_of_two_with_one_target_the_older_goes_first_and_then_the_name() -> None:
    old, new = claimant("z", "2026-01-01T00:00:00Z"), claimant("a", "2026-01-02T00:00:00Z")
    twin, other = claimant("b", "2026-01-02T00:00:00Z"), claimant("c", "2025-01-01T00:00:00Z", "else")
    everyone = [old, new, twin, other]
    assert claims_first(old, everyone) is None
    assert claims_first(new, everyone) is old
    assert claims_first(twin, [new, twin, other]) is new
    assert claims_first(other, everyone) is None


@pytest.mark.rule("autoscale-history")
def test_the_last_five_decisions_are_kept_and_a_refusal_once() -> None:
    autoscaler, clock = changed(), VirtualClock(0)
    for number in range(7):
        scaled = Scaled(ReplicaBounds(), change=Scaling(number, number + 1, "more"))
        history = history_after(autoscaler, scaled, clock.now())
        body = encode(autoscaler)
        body["status"] = {"scalingHistory": [encode_decision(one) for one in history]}
        autoscaler = decode(PodAutoscaler, body)
    assert [one.new_scale for one in autoscaler.status.scaling_history] == [3, 4, 5, 6, 7]
    refused = Scaled(ReplicaBounds(), change=Scaling(7, 8, "more", "403 Forbidden"))
    once = history_after(autoscaler, refused, clock.now())
    assert not once[-1].success
    body["status"] = {"scalingHistory": [encode_decision(one) for one in once]}
    assert history_after(decode(PodAutoscaler, body), refused, clock.now()) == once


def encode_decision(one: Any) -> dict[str, Any]:
    said = {
        "previousScale": one.previous_scale,
        "newScale": one.new_scale,
        "reason": one.reason,
        "success": one.success,
        "timestamp": one.timestamp.isoformat(),
    }
    return {**said, "error": one.error} if one.error else said
