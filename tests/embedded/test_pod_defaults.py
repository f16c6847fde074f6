"""What a server sets in pods and in templates: defaults, and what admission plugins compute."""

from typing import Any

import pytest

from reconcile.embedded.kinds.image_references import image_tag
from reconcile.embedded.kinds.pod_resources import needs_of_containers, qos_class
from reconcile.embedded.kinds.resource_amounts import texts
from tests.embedded.api_client import PODS, Api, container, pod

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def made(api: Api, **spec: Any) -> dict[str, Any]:
    completed: dict[str, Any] = api.ok("POST", PODS, pod(**spec))["spec"]
    return completed


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("app", "latest"),
        ("app:1", "1"),
        ("ghcr.io/org/app", "latest"),
        ("localhost:5000/app:v2", "v2"),
        ("localhost/app", "latest"),
        ("app@sha256:" + "a" * 64, ""),
        ("app:1@sha256:" + "a" * 64, "1"),
        ("app@sha256:short", ""),
        ("a" * 64, ""),
        ("App", ""),
        ("app:", ""),
        ("", ""),
        (" app", ""),
    ],
)
def test_an_image_without_tag_and_digest_is_the_latest(image: str, tag: str) -> None:
    assert image_tag(image) == tag


@pytest.mark.parametrize(
    ("given", "completed"),
    [
        (
            {"livenessProbe": {"httpGet": {"port": 1}}},
            {"httpGet": {"path": "/", "port": 1, "scheme": "HTTP"}},
        ),
        ({"livenessProbe": {"grpc": {"port": 1}}}, {"grpc": {"port": 1, "service": ""}}),
        ({"livenessProbe": {"exec": {"command": ["a"]}}}, {"exec": {"command": ["a"]}}),
    ],
)
def test_a_probe_gets_its_times_and_thresholds(
    api: Api, given: dict[str, Any], completed: dict[str, Any]
) -> None:
    (one,) = made(api, containers=[container(**given)])["containers"]
    times = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    assert one["livenessProbe"] == {**completed, **times}


@pytest.mark.parametrize(
    ("source", "completed"),
    [
        ({}, {"emptyDir": {}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
        ({"configMap": {"name": "c"}}, {"configMap": {"name": "c", "defaultMode": 420}}),
        ({"hostPath": {"path": "/a"}}, {"hostPath": {"path": "/a", "type": ""}}),
        (
            {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {
                "downwardAPI": {
                    "defaultMode": 420,
                    "items": [{"path": "a", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}],
                }
            },
        ),
        (
            {"iscsi": {"targetPortal": "p", "iqn": "iqn.2001-04.com.example:a", "lun": 1}},
            {
                "iscsi": {
                    "targetPortal": "p",
                    "iqn": "iqn.2001-04.com.example:a",
                    "iscsiInterface": "default",
                    "lun": 1,
                }
            },
        ),
        (
            {"rbd": {"monitors": ["m"], "image": "i"}},
            {
                "rbd": {
                    "monitors": ["m"],
                    "image": "i",
                    "pool": "rbd",
                    "user": "admin",
                    "keyring": "/etc/ceph/keyring",
                }
            },
        ),
        (
            {"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}},
            {
                "scaleIO": {
                    "gateway": "g",
                    "system": "s",
                    "volumeName": "v",
                    "secretRef": {"name": "s"},
                    "storageMode": "ThinProvisioned",
                    "fsType": "xfs",
                }
            },
        ),
        ({"image": {"reference": "a"}}, {"image": {"reference": "a", "pullPolicy": "Always"}}),
    ],
)
def test_a_volume_gets_the_defaults_of_its_source(
    api: Api, source: dict[str, Any], completed: dict[str, Any]
) -> None:
    (volume,) = made(api, volumes=[{"name": "v", **source}])["volumes"]
    assert volume == {"name": "v", **completed}


def test_limits_become_the_requests_of_a_pod_and_not_of_a_template(api: Api) -> None:
    limited = container(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}})
    (one,) = made(api, containers=[limited])["containers"]
    assert one["resources"]["requests"] == {"cpu": "100m", "memory": "1Gi"}
    template = {"spec": {"containers": [limited], "restartPolicy": "Never"}}
    job = api.ok("POST", JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    inner = job["spec"]["template"]["spec"]
    assert inner["containers"][0]["resources"]["requests"] == {"cpu": "100m"}
    assert not inner.keys() & {"enableServiceLinks", "tolerations", "priority", "preemptionPolicy"}


def test_amounts_are_rounded_up_to_thousandths(api: Api) -> None:
    (one,) = made(api, containers=[container(resources={"requests": {"cpu": "0.0001"}})])["containers"]
    assert one["resources"]["requests"] == {"cpu": "1m"}


def test_the_account_has_its_name_in_both_fields(api: Api) -> None:
    spec = made(api, serviceAccount="robot")
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")


def test_ports_on_the_host_network_are_ports_of_the_host(api: Api) -> None:
    spec = made(api, hostNetwork=True, containers=[container(ports=[{"containerPort": 80}])])
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_a_negative_grace_period_is_one_second(api: Api) -> None:
    assert made(api, terminationGracePeriodSeconds=-5)["terminationGracePeriodSeconds"] == 1


def resources(**amounts: dict[str, str]) -> dict[str, Any]:
    return {"resources": amounts}


@pytest.mark.parametrize(
    ("spec", "quality"),
    [
        ({"containers": [{}]}, "BestEffort"),
        ({"containers": [resources(requests={"ex.io/gpu": "1"}, limits={"ex.io/gpu": "1"})]}, "BestEffort"),
        ({"containers": [resources(requests={"cpu": "1"})]}, "Burstable"),
        ({"containers": [resources(requests={"cpu": "0"})]}, "BestEffort"),
        (
            {
                "containers": [
                    resources(
                        requests={"cpu": "1000m", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1024Mi"}
                    )
                ]
            },
            "Guaranteed",
        ),
        ({"containers": [{}], **resources(limits={"cpu": "1"}, requests={"cpu": "1"})}, "Burstable"),
    ],
)
def test_the_quality_of_service_follows_from_requests_and_limits(spec: dict[str, Any], quality: str) -> None:
    assert qos_class(spec) == quality


def test_init_containers_need_their_most_and_sidecars_are_added() -> None:
    init = [
        resources(requests={"cpu": "3"}),
        {**resources(requests={"cpu": "1"}), "restartPolicy": "Always"},
        resources(requests={"cpu": "1500m"}),
    ]
    spec = {"initContainers": init, "containers": [resources(requests={"cpu": "1"})]}
    assert texts(needs_of_containers(spec, "requests")) == {"cpu": "3"}
    spec["containers"].append(resources(requests={"cpu": "2"}))
    assert texts(needs_of_containers(spec, "requests")) == {"cpu": "4"}


def test_a_pod_with_limits_of_its_own_requests_what_its_containers_do(api: Api) -> None:
    one = container(resources={"requests": {"cpu": "1"}})
    spec = made(api, containers=[one], resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    assert spec["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


# --- admission --------------------------------------------------------------------------------


def priority_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value, **more}


def test_a_pod_has_the_priority_of_its_class(api: Api) -> None:
    api.ok("POST", CLASSES, priority_class("high", 7, preemptionPolicy="Never"))
    spec = made(api, priorityClassName="high")
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")
    assert made(api, name="b", priorityClassName="system-node-critical")["priority"] == 2000001000


def test_the_default_class_is_that_of_pods_without_one(api: Api) -> None:
    for name, value, default in (("much", 9, False), ("less", 5, True)):
        api.ok("POST", CLASSES, priority_class(name, value, globalDefault=default))
    spec = made(api)
    assert (spec["priorityClassName"], spec["priority"]) == ("less", 5)


@pytest.mark.parametrize(
    "spec",
    [
        {"priorityClassName": "none"},
        {"priority": 7},
        {"preemptionPolicy": "Never"},
        {"runtimeClassName": "none"},
        {"overhead": {"cpu": "1"}},
    ],
)
def test_what_admission_computes_may_not_be_contradicted(api: Api, spec: dict[str, Any]) -> None:
    answer = api.send("POST", PODS, pod(**spec))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")


def test_an_update_may_leave_out_the_priority(api: Api) -> None:
    kept = api.ok("POST", PODS, pod())
    del kept["spec"]["priority"], kept["spec"]["preemptionPolicy"], kept["spec"]["tolerations"]
    again = api.ok("PUT", f"{PODS}/a", kept)
    assert (again["spec"]["priority"], again["metadata"]["generation"]) == (0, 1)


def test_only_tolerations_that_are_missing_are_added(api: Api) -> None:
    everything = {"operator": "Exists"}
    assert made(api, tolerations=[everything])["tolerations"] == [everything]
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    keys = [one["key"] for one in made(api, name="b", tolerations=[own])["tolerations"]]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
