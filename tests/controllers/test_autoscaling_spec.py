"""What PodAutoscalers ask for: users' manifests read as they are, and each fault named."""

import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from attrs import evolve

from controllers.autoscaling import PodAutoscaler
from controllers.autoscaling.hpa import manifest_of
from controllers.autoscaling.models import ScalingDecision, ScheduledBounds
from controllers.autoscaling.pod_autoscaler_spec import PREFIX, behaviour_of, policy_of
from controllers.autoscaling.pod_autoscaler_status import bounds_shown, claims_first, history_after
from reconcile.blocks import (
    AllowedHosts,
    Behaviour,
    CustomMetric,
    ExternalMetric,
    MetricSource,
    PageMetric,
    PodMetric,
    Rates,
    ReplicaBounds,
    ResourceMetric,
    Scaled,
    ScaleTarget,
    Scaling,
    Schedule,
    Unusable,
    ZeroRules,
)
from reconcile.models import decode, encode
from reconcile.testing import VirtualClock
from tests.controllers.autoscaling_specs import METRIC, NO_HOST, PORT, bare, sample, source


def changed(name: str = "apa", annotations: dict[str, str] | None = None, **spec: Any) -> PodAutoscaler:
    body = sample(name)
    body["spec"] |= spec
    body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), **(annotations or {})}
    return decode(PodAutoscaler, body)


def schedule(**fields: Any) -> dict[str, Any]:
    return {"schedules": [{"name": "x", "startTime": "08:00", "endTime": "09:00", **fields}]}


@pytest.mark.rule("autoscale-samples")
def test_the_apa_sample_is_read_unchanged() -> None:
    policy = policy_of(changed("apa"))
    assert policy.target == ScaleTarget("apps/v1", "Deployment", "deepseek-r1-distill-llama-8b")
    assert policy.sources == (
        PodMetric(metric="gpu_cache_usage_perc", target=500, port=8000, path="metrics"),
    )
    assert policy.how.rule == "ratio"
    assert policy.how.bounds == ReplicaBounds(minimum=1, maximum=8)
    assert policy.how.rates == Rates(tolerance_up=100, tolerance_down=200)
    assert policy.how.stable_window == 30_000


@pytest.mark.rule("autoscale-samples")
def test_the_kpa_sample_is_read_unchanged() -> None:
    policy = policy_of(changed("kpa"))
    assert policy.how.rule == "demand"
    assert (policy.how.stable_window, policy.how.panic_window) == (600_000, 60_000)
    assert policy.sources == (ResourceMetric(resource="cpu", target=10_000, of_requests=True),)


def test_the_defaults_are_those_of_aibrix() -> None:
    plain = Behaviour(
        rule="demand",
        bounds=ReplicaBounds(minimum=1, maximum=8),
        stable_window=180_000,
        panic_window=60_000,
        panic_threshold=2000,
        rates=Rates(up=2000, down=2000, tolerance_up=100, tolerance_down=100),
        up_window=0,
        down_window=300_000,
        zero=ZeroRules(allowed=False, idle=180_000),
    )
    assert behaviour_of(bare(scalingStrategy="KPA")) == plain
    assert behaviour_of(bare(scalingStrategy="APA")) == evolve(plain, rule="ratio")


@pytest.mark.parametrize(("annotations", "least"), [({}, 1), ({f"{PREFIX}scale-to-zero": "true"}, 0)])
def test_the_default_minimum_is_one_or_zero_with_scale_to_zero(
    annotations: dict[str, str], least: int
) -> None:
    assert behaviour_of(bare(annotations)).bounds == ReplicaBounds(minimum=least, maximum=8)


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
        ("scale-down-cooldown-window", "0", lambda how: how.down_window == 0),
        ("scale-to-zero", "true", lambda how: how.zero.allowed),
        ("scale-to-zero", "False", lambda how: not how.zero.allowed),
        ("up-fluctuation-tolerance", "0.4", lambda how: how.rates.tolerance_up == 400),
        ("down-fluctuation-tolerance", "0.5", lambda how: how.rates.tolerance_down == 500),
        # The least of each.
        ("max-scale-up-rate", "1.001", lambda how: how.rates.up == 1001),
        ("max-scale-down-rate", "1.001", lambda how: how.rates.down == 1001),
        ("scale-up-tolerance", "0", lambda how: how.rates.tolerance_up == 0),
        ("scale-down-tolerance", "0", lambda how: how.rates.tolerance_down == 0),
        ("panic-threshold", "1", lambda how: how.panic_threshold == 1000),
    ],
)
def test_each_annotation_counts(name: str, text: str, read: Any) -> None:
    assert read(behaviour_of(bare({f"{PREFIX}{name}": text})))


@pytest.mark.rule("autoscale-annotations")
def test_the_newer_of_two_names_of_an_annotation_wins() -> None:
    both = {f"{PREFIX}scale-up-tolerance": "0.2", f"{PREFIX}up-fluctuation-tolerance": "0.4"}
    assert behaviour_of(bare(both)).rates.tolerance_up == 200


@pytest.mark.rule("autoscale-annotations")
@pytest.mark.parametrize(("text", "window"), [("30s", 30_000), ("1ms", 1), ("10m", 600_000)])
def test_the_window_of_apa_is_set_by_an_annotation(text: str, window: int) -> None:
    annotation = {"apa.autoscaling.aibrix.ai/window": text}
    how = behaviour_of(bare(annotation, scalingStrategy="APA"))
    assert (how.stable_window, how.panic_window, how.zero.idle) == (window, min(window, 60_000), window)
    assert behaviour_of(bare(annotation, scalingStrategy="KPA")).stable_window == 180_000


@pytest.mark.rule("autoscale-bad-annotation")
@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("max-scale-up-rate", "fast", "is not a number"),
        ("max-scale-up-rate", "1", "is too small"),
        ("max-scale-down-rate", "", "is not a number"),
        ("max-scale-down-rate", "1", "is too small"),
        ("scale-up-tolerance", "-0.001", "is too small"),
        ("scale-down-tolerance", "-0.001", "is too small"),
        ("panic-threshold", "nan", "is not a number"),
        ("panic-threshold", "0.999", "is too small"),
        ("scale-down-cooldown-window", "soon", "is not a duration"),
        ("scale-down-cooldown-window", "-5s", "is not a duration"),
        ("scale-down-cooldown-window", "99999999999999h", "is not a duration"),
        ("scale-to-zero", "maybe", "is not true or false"),
    ],
)
def test_an_invalid_annotation_is_reported_by_name(name: str, text: str, says: str) -> None:
    with pytest.raises(Unusable) as problem:
        behaviour_of(bare({f"{PREFIX}{name}": text}))
    message = f"annotation autoscaling.aibrix.ai/{name} {says}"
    assert (problem.value.reason, problem.value.message) == ("InvalidSpec", message)


@pytest.mark.rule("autoscale-bad-annotation")
def test_an_empty_window_is_reported() -> None:
    with pytest.raises(Unusable, match=r"^annotation apa\.autoscaling\.aibrix\.ai/window is too small$"):
        behaviour_of(bare({"apa.autoscaling.aibrix.ai/window": "0"}, scalingStrategy="APA"))


def page(**fields: str) -> dict[str, Any]:
    return source(metricSourceType="domain", **fields)


@pytest.mark.rule("autoscale-bad-spec")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"minReplicas": 9}, "spec.minReplicas is more than maxReplicas"),
        ({"minReplicas": -1}, "spec.minReplicas is below 0"),
        ({"maxReplicas": 0, "minReplicas": 0}, "spec.maxReplicas is below 1"),
        ({"observeWindowSeconds": 0}, "spec.observeWindowSeconds is not within 1 and 3600"),
        ({"observeWindowSeconds": 3601}, "spec.observeWindowSeconds is not within 1 and 3600"),
        ({"panicWindowSeconds": -5}, "spec.panicWindowSeconds is not within 1 and 3600"),
        (
            {"panicWindowSeconds": 61, "observeWindowSeconds": 60},
            "spec.panicWindowSeconds is more than spec.observeWindowSeconds",
        ),
        ({"scaleTargetRef": {"kind": "Deployment"}}, "spec.scaleTargetRef requires kind and name"),
        ({"scaleTargetRef": {"name": "a"}}, "spec.scaleTargetRef requires kind and name"),
        (
            {"scaleTargetRef": {"kind": "Deployment", "name": "a", "namespace": "b"}},
            "spec.scaleTargetRef.namespace is another namespace: the target must be in the autoscaler's own",
        ),
        ({"metricsSources": []}, "spec.metricsSources is empty: expected a metric"),
        (source(), PORT),
        (source(port="http"), PORT),
        (source(port="0"), PORT),
        (source(port="65536"), PORT),
        (source(port="80", targetValue="half"), f"{METRIC}.targetValue is not a number"),
        (source(port="80", targetValue="0"), f"{METRIC}.targetValue is not above 0"),
        (source(port="80", targetMetric=""), f"{METRIC}.targetMetric is empty"),
        (
            source(metricSourceType="resource", targetMetric="gpu"),
            f"{METRIC}.targetMetric is neither cpu nor memory",
        ),
        (page(), NO_HOST),
        (page(endpoint="me@elsewhere"), NO_HOST),
        (page(endpoint="elsewhere?all"), NO_HOST),
        (page(endpoint="elsewhere#all"), NO_HOST),
        (page(endpoint="else where"), NO_HOST),
        (page(endpoint="else\\where"), NO_HOST),
        (page(endpoint="/path"), NO_HOST),
        (page(endpoint="elsewhere", port="x"), PORT),
        (schedule(endTime="08:00"), "spec.schedules[x]: startTime and endTime are the same"),
        (schedule(startTime="8h"), "spec.schedules[x].startTime: expected a time of day such as 08:30"),
        (schedule(endTime="24:00"), "spec.schedules[x].endTime: expected a time of day such as 08:30"),
        (schedule(timezone="Mars"), "spec.schedules[x].timezone is not a time zone that this machine knows"),
        (
            schedule(daysOfWeek=["Moonday"]),
            "spec.schedules[x].daysOfWeek: 'Moonday' is not a day of the week",
        ),
        (schedule(minReplicas=20), "spec.schedules[x].minReplicas is more than maxReplicas"),
        (schedule(minReplicas=-1), "spec.schedules[x].minReplicas is below 0"),
        (schedule(maxReplicas=0), "spec.schedules[x].maxReplicas is below 1"),
        (
            {**schedule(maxReplicas=1), "minReplicas": 2},
            "spec.schedules[x].minReplicas is more than maxReplicas",
        ),
    ],
)
def test_an_invalid_spec_is_reported_by_field(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Unusable) as problem:
        policy_of(bare(**spec))
    assert (problem.value.reason, problem.value.message) == ("InvalidSpec", message)


def test_a_role_within_a_target_is_not_sized() -> None:
    with pytest.raises(Unusable) as problem:
        policy_of(bare(subTargetSelector={"roleName": "prefill"}))
    assert (problem.value.reason, problem.value.message) == (
        "NotSupported",
        "spec.subTargetSelector: a role within a target has no /scale",
    )
    assert policy_of(bare(subTargetSelector={})) == policy_of(bare())


@pytest.mark.parametrize(
    ("spec", "read"),
    [
        ({"minReplicas": 0}, lambda how: how.bounds.minimum == 0),
        ({"minReplicas": 8}, lambda how: how.bounds == ReplicaBounds(minimum=8, maximum=8)),
        ({"maxReplicas": 1}, lambda how: how.bounds == ReplicaBounds(minimum=1, maximum=1)),
        ({"observeWindowSeconds": 1}, lambda how: (how.stable_window, how.panic_window) == (1000, 1000)),
        ({"observeWindowSeconds": 3600}, lambda how: how.stable_window == 3_600_000),
        (
            {"observeWindowSeconds": 90, "panicWindowSeconds": 90},
            lambda how: (how.stable_window, how.panic_window) == (90_000, 90_000),
        ),
    ],
)
def test_bounds_and_windows_are_accepted_up_to_their_limits(spec: dict[str, Any], read: Any) -> None:
    assert read(behaviour_of(bare(**spec)))


def test_a_target_without_a_version_is_of_the_core_group() -> None:
    ref = {"kind": "ReplicationController", "name": "model", "namespace": "default"}
    assert policy_of(bare(scaleTargetRef=ref)).target == ScaleTarget("v1", "ReplicationController", "model")


def test_a_schedule_is_read_with_its_time_zone_days_and_bounds() -> None:
    said = schedule(timezone="Asia/Tokyo", daysOfWeek=["Monday", "fri"], minReplicas=2, maxReplicas=4)
    assert behaviour_of(bare(**said)).schedules == (
        Schedule(
            name="x",
            start=datetime.time(8),
            end=datetime.time(9),
            zone=ZoneInfo("Asia/Tokyo"),
            days=frozenset({0, 4}),
            minimum=2,
            maximum=4,
        ),
    )
    assert behaviour_of(bare(**schedule())).schedules == (
        Schedule(name="x", start=datetime.time(8), end=datetime.time(9)),
    )


@pytest.mark.parametrize("name", ["", "UTC"])
def test_a_schedule_in_utc_needs_no_time_zone_database(name: str) -> None:
    (found,) = behaviour_of(bare(**schedule(timezone=name))).schedules
    assert found.zone is datetime.UTC


def the_source(**fields: str) -> MetricSource:
    hosts = AllowedHosts(["*"])
    (found,) = policy_of(bare(**source(**fields), scalingStrategy="KPA"), hosts).sources
    return found


def test_pods_are_scraped_at_the_address_of_the_metric() -> None:
    assert the_source(port="1", targetValue="1m") == PodMetric(metric="m", target=1, port=1, sampled=True)
    assert the_source(port="65535", path="/stats", protocolType="https") == PodMetric(
        metric="m", target=1000, port=65535, path="/stats", scheme="https", sampled=True
    )
    (found,) = policy_of(bare(**source(port="80"), scalingStrategy="APA")).sources
    assert found == PodMetric(metric="m", target=1000, port=80)


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"endpoint": "a.example.com"}, "http://a.example.com/metrics"),
        ({"endpoint": "a.example.com", "port": "81", "path": "/X/m"}, "http://a.example.com:81/X/m"),
        ({"endpoint": "a.example.com/x", "path": "m"}, "http://a.example.com/m"),
        ({"endpoint": "a.example.com:81/x/y", "protocolType": "https"}, "https://a.example.com:81/x/y"),
        ({"endpoint": "X.example.com", "path": "//m"}, "http://X.example.com/m"),
    ],
)
def test_an_external_page_has_the_address_of_the_metric(fields: dict[str, str], url: str) -> None:
    for kind in ("domain", "external"):
        assert the_source(metricSourceType=kind, **fields) == PageMetric(metric="m", target=1000, url=url)


def test_a_metric_can_come_from_an_api() -> None:
    assert the_source(metricSourceType="external") == ExternalMetric(metric="m", target=1000)
    assert the_source(metricSourceType="custom") == CustomMetric(metric="m", target=1000)


@pytest.mark.parametrize(
    ("text", "target", "share"), [("70", 70_000, True), ("500m", 500, False), ("1.5", 1500, True)]
)
def test_a_bare_number_for_cpu_is_percent_of_the_requests(text: str, target: int, share: bool) -> None:
    found = the_source(metricSourceType="resource", targetMetric="cpu", targetValue=text)
    assert found == ResourceMetric(resource="cpu", target=target, of_requests=share)


@pytest.mark.parametrize("text", ["512", "512Mi", "536870912000m"])
def test_a_bare_number_for_memory_is_mebibytes(text: str) -> None:
    found = the_source(metricSourceType="resource", targetMetric="memory", targetValue=text)
    assert found == ResourceMetric(resource="memory", target=512 * 1024 * 1024 * 1000)


# --- HPA ------------------------------------------------------------------------------------------------


def test_the_strategy_hpa_becomes_a_horizontal_pod_autoscaler() -> None:
    hpa = manifest_of(changed("kpa", scalingStrategy="HPA"), ReplicaBounds(minimum=1, maximum=10))
    assert (hpa.pop("apiVersion"), hpa.pop("kind")) == ("autoscaling/v2", "HorizontalPodAutoscaler")
    assert hpa.pop("metadata") == {"name": "podautoscaler-example-kpa-hpa", "namespace": "default"}
    assert hpa.pop("spec") == {
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
    assert not hpa


# --- status ---------------------------------------------------------------------------------------------


def claimant(name: str, made: str, **spec: Any) -> PodAutoscaler:
    body = sample("apa")
    body["metadata"] = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": made}
    body["spec"] |= spec
    return decode(PodAutoscaler, body)


def ref(kind: str = "Deployment", name: str = "model", version: str | None = None) -> dict[str, Any]:
    plain = {"kind": kind, "name": name}
    return {"scaleTargetRef": plain if version is None else {**plain, "apiVersion": version}}


OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.rule("autoscale-conflict")
def test_of_two_autoscalers_with_one_target_the_older_wins_and_then_the_first_by_name() -> None:
    old, new, twin = claimant("z", OLD), claimant("a", NEW), claimant("b", NEW)
    everyone = [twin, new, old]
    assert claims_first(old, everyone) is None
    assert claims_first(new, everyone) is old
    assert claims_first(twin, everyone) is old
    assert claims_first(twin, [twin, new]) is new
    going = old.with_metadata(deletion_timestamp=datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC))
    assert claims_first(new, [going, new]) is None


@pytest.mark.rule("autoscale-conflict")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ref(version="apps/v1"), ref(version="apps/v1beta1"), True),
        (ref(), ref(version="v1"), True),
        (ref(version="apps/v1"), ref(version="example.com/v1"), False),
        (ref(), ref(version="apps/v1"), False),
        (ref(), ref(name="other"), False),
        (ref(), ref(kind="StatefulSet"), False),
        (ref(), {**ref(), "subTargetSelector": {"roleName": "prefill"}}, False),
        (ref(), {**ref(), "subTargetSelector": {}}, True),
    ],
)
def test_a_target_is_the_same_in_all_versions_of_its_group(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    first, second = claimant("first", OLD, **one), claimant("second", NEW, **other)
    assert claims_first(second, [first, second]) is (first if same else None)


@pytest.mark.rule("autoscale-schedule")
def test_the_current_bounds_are_shown_with_their_schedule() -> None:
    (night,) = behaviour_of(bare(**schedule())).schedules
    bounds = ReplicaBounds(minimum=2, maximum=5)
    assert bounds_shown(bounds, night) == ScheduledBounds(2, 5, "x")
    assert bounds_shown(bounds, None) == ScheduledBounds(2, 5, None)


@pytest.mark.rule("autoscale-history")
def test_a_decision_is_recorded_with_its_outcome() -> None:
    now = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    plain = bare()
    assert history_after(plain, Scaled(ReplicaBounds()), now) == ()
    made = history_after(plain, Scaled(ReplicaBounds(), change=Scaling(1, 2, "more")), now)
    assert made == (ScalingDecision(1, 2, "more", True, now, error=None),)
    refused = history_after(plain, Scaled(ReplicaBounds(), change=Scaling(1, 2, "more", "403")), now)
    assert refused == (ScalingDecision(1, 2, "more", False, now, error="403"),)


@pytest.mark.rule("autoscale-history")
def test_the_last_five_decisions_are_recorded_and_a_repeated_refusal_once() -> None:
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
