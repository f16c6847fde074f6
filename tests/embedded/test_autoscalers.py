"""HorizontalPodAutoscalers in both versions, and what they make of their targets without metrics."""

import json
from typing import Any

import pytest

from tests.embedded.api_client import DEFINITIONS, MERGE, WIDGETS, Api, definition, widget

V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
V1 = V2.replace("v2", "v1")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NOTES = "autoscaling.alpha.kubernetes.io/"
CPU = {"type": "Utilization", "averageUtilization": 50}


def autoscaler(name: str = "a", *, kind: str = "Deployment", **spec: Any) -> dict[str, Any]:
    api_version = "apps/v1" if kind == "Deployment" else "example.com/v1"
    reference = {"apiVersion": api_version, "kind": kind, "name": "web"}
    return {"metadata": {"name": name}, "spec": {"maxReplicas": 5, "scaleTargetRef": reference, **spec}}


def deployment(replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def conditions(api: Api, name: str = "a") -> dict[str, tuple[str, str]]:
    api.server.settle()
    status = api.ok("GET", f"{V2}/{name}")["status"]
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


def test_an_autoscaler_created_in_one_version_is_readable_in_the_other(api: Api) -> None:
    made = api.ok("POST", V1, autoscaler(targetCPUUtilizationPercentage=50))
    assert (made["apiVersion"], made["spec"]["minReplicas"]) == ("autoscaling/v1", 1)
    newer = api.ok("GET", f"{V2}/a")
    assert newer["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": CPU}}]
    target = {"type": "AverageValue", "averageValue": "3"}
    pods = {"type": "Pods", "pods": {"metric": {"name": "asks"}, "target": target}}
    changed = api.merge(f"{V2}/a", {"spec": {"metrics": [*newer["spec"]["metrics"], pods], "maxReplicas": 7}})
    older = api.ok("GET", f"{V1}/a")
    assert (older["spec"]["targetCPUUtilizationPercentage"], older["spec"]["maxReplicas"]) == (50, 7)
    kept = {"type": "Pods", "pods": {"metricName": "asks", "targetAverageValue": "3"}}
    assert json.loads(older["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"]) == [kept]
    api.merge(f"{V1}/a", {"spec": {"minReplicas": 2}})
    assert api.ok("GET", f"{V2}/a")["spec"]["metrics"] == changed["spec"]["metrics"]
    assert "annotations" not in api.ok("GET", f"{V2}/a")["metadata"]


def test_the_default_metric_is_eighty_percent_of_the_cpu(api: Api) -> None:
    assert api.ok("POST", V1, autoscaler("one"))["spec"]["targetCPUUtilizationPercentage"] == 80
    (metric,) = api.ok("POST", V2, autoscaler("two"))["spec"]["metrics"]
    assert metric["resource"]["target"] == {**CPU, "averageUtilization": 80}


def test_both_versions_are_discovered_and_the_newer_is_preferred(api: Api) -> None:
    group = api.ok("GET", "/apis/autoscaling")
    assert [entry["version"] for entry in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"


def test_a_target_is_scaled_only_into_its_bounds(api: Api) -> None:
    api.ok("POST", DEPLOYMENTS, deployment(1))
    api.ok("POST", V2, autoscaler(minReplicas=2))
    assert conditions(api) == {"AbleToScale": ("True", "SucceededRescale")}
    scaled = api.ok("GET", f"{DEPLOYMENTS}/web")
    assert (scaled["spec"]["replicas"], scaled["metadata"]["generation"]) == (2, 2)
    api.merge(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 9}})
    api.server.settle()
    assert api.ok("GET", f"{DEPLOYMENTS}/web")["spec"]["replicas"] == 5
    api.merge(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 3}})
    assert conditions(api)["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert api.ok("GET", f"{V2}/a")["status"]["currentReplicas"] == 3


def test_a_target_with_zero_replicas_is_left_alone(api: Api) -> None:
    api.ok("POST", DEPLOYMENTS, deployment(0))
    api.ok("POST", V2, autoscaler(minReplicas=2))
    assert conditions(api)["ScalingActive"] == ("False", "ScalingDisabled")
    assert api.ok("GET", f"{DEPLOYMENTS}/web")["spec"]["replicas"] == 0


def test_a_target_that_cannot_be_scaled_is_reported_in_a_condition(api: Api) -> None:
    api.ok("POST", V2, autoscaler())
    assert conditions(api) == {"AbleToScale": ("False", "FailedGetScale")}
    api.ok("POST", V2, autoscaler("odd", kind="Nothing"))
    assert conditions(api, "odd") == {"AbleToScale": ("False", "FailedGetScale")}
    plain = definition(names={"kind": "Plain", "plural": "plains"})
    plain["spec"]["versions"][0] |= {"subresources": {"status": {}}}
    api.ok("POST", DEFINITIONS, plain)
    api.ok("POST", V2, autoscaler("plain", kind="Plain"))
    assert conditions(api, "plain") == {"AbleToScale": ("False", "FailedGetScale")}


def test_a_target_without_a_selector_gets_a_condition_and_a_settled_one_no_write(api: Api) -> None:
    api.ok("POST", WIDGETS, widget("web", spec={"replicas": 1}))
    api.ok("POST", V2, autoscaler(kind="Widget"))
    assert conditions(api) == {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", "InvalidSelector"),
    }
    version = api.ok("GET", f"{V2}/a")["metadata"]["resourceVersion"]
    api.settled("POST", WIDGETS, widget("other"))
    assert api.ok("GET", f"{V2}/a")["metadata"]["resourceVersion"] == version


PODS = {"metric": {"name": "asks"}, "target": {"type": "AverageValue", "averageValue": "1"}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
DESCRIBED = {"kind": "Ingress", "name": "a"}
REQUIRED, INVALID, ENUM = "FieldValueRequired", "FieldValueInvalid", "FieldValueNotSupported"


def resource_metric(**target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", **target}}}


def source(kind: str, **more: Any) -> dict[str, Any]:
    described = {"describedObject": DESCRIBED} if kind == "Object" else {}
    return {"type": kind, kind.lower(): {**described, **PODS, **more}}


def in_container(**more: Any) -> dict[str, Any]:
    held = {"name": "cpu", "container": "a", "target": {"type": "Utilization", "averageUtilization": 1}}
    return {"type": "ContainerResource", "containerResource": {**held, **more}}


RESOURCE = resource_metric(averageUtilization=1)
SHARE = "metrics[0].resource.target.averageUtilization"
POLICIES = "behavior.scaleUp.policies"
WINDOW = "stabilizationWindowSeconds"
SLOW = {"type": "Pods", "value": 1, "periodSeconds": 1801}


@pytest.mark.parametrize(
    ("spec", "reason", "field"),
    [
        ({"scaleTargetRef": {**TARGET, "name": ""}}, REQUIRED, "scaleTargetRef.name"),
        ({"scaleTargetRef": {**TARGET, "name": "a/b"}}, INVALID, "scaleTargetRef.name"),
        ({"scaleTargetRef": {**TARGET, "apiVersion": ""}}, INVALID, "scaleTargetRef.apiVersion"),
        ({"scaleTargetRef": {**TARGET, "apiVersion": "v1"}}, INVALID, "scaleTargetRef.apiVersion"),
        ({"scaleTargetRef": {**TARGET, "apiVersion": "a/b/c"}}, INVALID, "scaleTargetRef.apiVersion"),
        ({"minReplicas": 6}, INVALID, "maxReplicas"),
        ({"metrics": [{"type": "Pods"}]}, REQUIRED, "metrics[0].pods"),
        ({"metrics": [resource_metric()]}, REQUIRED, SHARE),
        ({"metrics": [resource_metric(averageUtilization=0)]}, INVALID, SHARE),
        ({"metrics": [{**RESOURCE, "pods": PODS}]}, "FieldValueForbidden", "metrics[0].pods"),
        ({"metrics": [{"type": "Pods", "resource": RESOURCE["resource"]}]}, REQUIRED, "metrics[0].pods"),
        ({"metrics": [source("Pods", metric={"name": "a/b"})]}, INVALID, "metrics[0].pods.metric.name"),
        ({"metrics": [source("Pods", metric={})]}, REQUIRED, "metrics[0].pods.metric.name"),
        (
            {"metrics": [source("Pods", target={"type": "Value", "value": "1"})]},
            REQUIRED,
            "metrics[0].pods.target.averageValue",
        ),
        (
            {"metrics": [source("Pods", target={"type": "AverageValue", "averageValue": "0"})]},
            INVALID,
            "metrics[0].pods.target.averageValue",
        ),
        (
            {"metrics": [source("External", target={"type": "Value"})]},
            REQUIRED,
            "metrics[0].external.target.averageValue",
        ),
        (
            {"metrics": [source("External", target={"type": "Value", "value": "1", "averageValue": "1"})]},
            "FieldValueForbidden",
            "metrics[0].external.target.value",
        ),
        (
            {"metrics": [source("Object", describedObject={"kind": "A", "name": ""})]},
            REQUIRED,
            "metrics[0].object.describedObject.name",
        ),
        (
            {"metrics": [source("Object", describedObject={**DESCRIBED, "apiVersion": "a/b/c"})]},
            INVALID,
            "metrics[0].object.describedObject.apiVersion",
        ),
        ({"metrics": [in_container(container="")]}, REQUIRED, "metrics[0].containerResource.container"),
        ({"metrics": [in_container(container="A")]}, INVALID, "metrics[0].containerResource.container"),
        ({"metrics": [in_container(name="odd")]}, INVALID, "metrics[0].containerResource.name"),
        ({"metrics": [in_container(name="")]}, REQUIRED, "metrics[0].containerResource.name"),
        ({"behavior": {"scaleUp": {"tolerance": "-1"}}}, INVALID, "behavior.scaleUp.tolerance"),
        ({"behavior": {"scaleUp": {"policies": []}}}, REQUIRED, "behavior.scaleUp.policies"),
        ({"behavior": {"scaleUp": {"selectPolicy": "Any"}}}, ENUM, "behavior.scaleUp.selectPolicy"),
        ({"behavior": {"scaleDown": {WINDOW: 3601}}}, INVALID, f"behavior.scaleDown.{WINDOW}"),
        (
            {"behavior": {"scaleUp": {"policies": [SLOW]}}},
            INVALID,
            "behavior.scaleUp.policies[0].periodSeconds",
        ),
    ],
)
def test_a_bad_autoscaler_is_refused_at_the_field(
    api: Api, spec: dict[str, Any], reason: str, field: str
) -> None:
    answer = api.send("POST", V2, autoscaler(**spec))
    assert (answer.status, answer.causes) == (422, [(reason, f"spec.{field}")])


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"maxReplicas": 0}, [(INVALID, "spec.maxReplicas"), (REQUIRED, "spec.maxReplicas")]),
        ({"maxReplicas": -1}, [(INVALID, "spec.maxReplicas")] * 2),
        ({"minReplicas": 0}, [("FieldValueForbidden", "spec.metrics"), (INVALID, "spec.minReplicas")]),
        ({"metrics": [{"type": "Nope"}]}, [(ENUM, "spec.metrics[0].type")] * 2),
        (
            {"scaleTargetRef": {}},
            [
                (INVALID, "spec.scaleTargetRef.apiVersion"),
                (REQUIRED, "spec.scaleTargetRef.kind"),
                (REQUIRED, "spec.scaleTargetRef.name"),
            ],
        ),
    ],
)
def test_some_faults_of_an_autoscaler_are_named_twice_or_at_several_fields(
    api: Api, spec: dict[str, Any], causes: list[tuple[str, str]]
) -> None:
    assert sorted(api.send("POST", V2, autoscaler(**spec)).causes) == causes


def test_a_replication_controller_is_of_the_group_without_a_name(api: Api) -> None:
    target = {"apiVersion": "v1", "kind": "ReplicationController", "name": "web"}
    assert api.send("POST", V2, autoscaler(scaleTargetRef=target)).status == 201


def test_a_negative_number_in_the_status_of_an_autoscaler_is_refused(api: Api) -> None:
    api.ok("POST", V2, autoscaler())
    status = {"status": {"currentReplicas": -1, "desiredReplicas": -1}}
    answer = api.send("PATCH", f"{V2}/a/status", status, content_type=MERGE)
    assert answer.causes == [(INVALID, "status.currentReplicas"), (INVALID, "status.desiredReplicas")]


EVERY_METRIC = [
    source("Object", target={"type": "Value", "value": "2k"}),
    source("Object", target={"type": "AverageValue", "value": "1", "averageValue": "1"}),
    source("Pods"),
    source("External", target={"type": "Value", "value": "30"}),
    source("External", metric={"name": "a", "selector": {"matchLabels": {"a": "b"}}}),
    in_container(),
    {"type": "Resource", "resource": {"name": "memory", "target": PODS["target"]}},
]


def test_metrics_and_behavior_survive_the_older_version(api: Api) -> None:
    behavior = {"scaleUp": {"tolerance": "0.05"}, "scaleDown": {"selectPolicy": "Min"}}
    newer = api.ok("POST", V2, autoscaler(metrics=EVERY_METRIC, behavior=behavior))["spec"]
    older = api.ok("GET", f"{V1}/a")
    notes = older["metadata"]["annotations"]
    assert json.loads(notes[f"{NOTES}behavior"])["ScaleUp"]["Tolerance"] == "50m"
    assert {one["type"] for one in json.loads(notes[f"{NOTES}metrics"])} == {
        one["type"] for one in EVERY_METRIC
    }
    api.ok("PUT", f"{V1}/a", older)
    assert api.ok("GET", f"{V2}/a")["spec"] == newer


def test_a_bad_percentage_of_the_older_version_is_refused_too(api: Api) -> None:
    answer = api.send("POST", V1, autoscaler(targetCPUUtilizationPercentage=0))
    assert answer.causes == [(INVALID, "spec.metrics[0].resource.target.averageUtilization")]


def test_a_behavior_gets_its_defaults(api: Api) -> None:
    made = api.ok("POST", V2, autoscaler(behavior={"scaleDown": {"stabilizationWindowSeconds": 10}}))
    whole = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert made["spec"]["behavior"] == {
        "scaleDown": {"stabilizationWindowSeconds": 10, "selectPolicy": "Max", "policies": [whole]},
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, whole],
        },
    }


NONSENSE = ("{", "1", "[1]", '{"a": 1}', '[{"type": 1}]', '[{"type": "Resource", "resource": [1]}]')


@pytest.mark.parametrize("note", ["metrics", "behavior", "current-metrics", "conditions"])
def test_invalid_annotations_of_the_older_version_are_ignored(api: Api, note: str) -> None:
    for number, text in enumerate(NONSENSE):
        made = autoscaler(f"a{number}", targetCPUUtilizationPercentage=50)
        made["metadata"]["annotations"] = {f"{NOTES}{note}": text}
        api.settled("POST", V1, made)
        newer = api.ok("GET", f"{V2}/a{number}")
        assert newer["spec"]["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": CPU}}]
        assert newer["status"]["conditions"][-1]["type"] == "AbleToScale"
        assert not any("resource" in one for one in newer["status"]["conditions"])


def test_a_condition_without_a_type_is_tracked_by_an_empty_one(api: Api) -> None:
    api.ok("POST", V2, autoscaler())
    made = api.merge(f"{V2}/a/status", {"status": {"conditions": [{"status": "True"}]}})
    of_status = made["metadata"]["managedFields"][-1]["fieldsV1"]["f:status"]
    assert 'k:{"type":""}' in of_status["f:conditions"]
    assert conditions(api) == {"AbleToScale": ("False", "FailedGetScale")}
