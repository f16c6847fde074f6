"""What of a RayCluster is refused, and what the user is told: the field and what is wrong with it."""

from typing import Any

import pytest

from controllers.workergroups.raycluster_spec import cluster_view, unsupported_features
from controllers.workergroups.raycluster_validation import invalid_fields
from tests.controllers.ray_specs import UID, faults, head, spec


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"networkPolicy": {"mode": "DenyAll"}},
            (
                "spec.networkPolicy is not supported: no NetworkPolicy is made; "
                "write one yourself and remove the field"
            ),
        ),
        (
            {"historyServerOptions": {"collectorOptions": {"image": "i"}}},
            "spec.historyServerOptions is not supported: no history server is run; remove the field",
        ),
        (
            {"tlsOptions": {"enabled": True}},
            (
                "spec.tlsOptions.enabled is not supported: no certificates are made; "
                "mount your own through the pod templates"
            ),
        ),
        (
            {"authOptions": {"enableK8sTokenAuth": True}},
            "spec.authOptions.enableK8sTokenAuth is not supported: use mode token with a Secret",
        ),
        (
            {"gcsFaultToleranceOptions": {"backend": "rocksdb"}},
            "spec.gcsFaultToleranceOptions.backend rocksdb is not supported: use redis",
        ),
        (
            {"gcsFaultToleranceOptions": {"redisAddress": "r", "storage": {"size": "1Gi"}}},
            "spec.gcsFaultToleranceOptions.backend rocksdb is not supported: use redis",
        ),
    ],
)
def test_an_unsupported_feature_is_reported_by_name(fields: dict[str, Any], told: str) -> None:
    assert list(unsupported_features(spec(**fields))) == [told]
    view = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": spec(**fields)})
    assert [str(one) for one in view.refused] == [told]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"suspend": True, "enableInTreeAutoscaling": True, "upgradeStrategy": {"type": "Recreate"}},
        {"tlsOptions": {"enabled": False}, "authOptions": {"mode": "token"}},
        {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379", "backend": "redis"}},
        {"group": {"numOfHosts": 4, "suspend": False, "idleTimeoutSeconds": 5, "priority": 1}},
        {"group": {"numOfHosts": 1, "minReplicas": 5, "maxReplicas": 5, "groupName": "x" * 63}},
        {"group": {"replicas": 0, "minReplicas": 0, "maxReplicas": 0, "suspend": True}},
        {"group": {"labels": {"zone": "x" * 63, "empty": "", "short": "a"}, "resources": {"CPU": 1}}},
        {"name": "x" * 63},
        {"replicas": 0},
        {"gcsFaultToleranceOptions": {"redisAddress": "r"}, "annotations": {"ray.io/ft-enabled": "true"}},
        {"enableInTreeAutoscaling": True, "group": {"suspend": None}},
    ],
)
def test_supported_features_are_not_refused(fields: dict[str, Any]) -> None:
    assert faults(**fields) == []
    assert list(unsupported_features(spec(**fields))) == []


TOO_LONG = "x" * 64
REDIS = {"redisAddress": "redis:6379"}
GROUP = "spec.workerGroupSpecs[small]"
OPTIONS = "spec.gcsFaultToleranceOptions"
PASSWORD_IS_SET = f"spec.headGroupSpec.rayStartParams.redis-password: is set by {OPTIONS}.redisPassword"
HEAD_TEMPLATE = "spec.headGroupSpec.template.spec"
NO_QUANTITY = "is not a quantity: expected a number such as 2, 500m or 5Gi"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": TOO_LONG}, "metadata.name: must have 63 characters or fewer: it becomes a label"),
        ({"group": {"minReplicas": 6}}, f"{GROUP}.minReplicas: 6 is more than maxReplicas 5"),
        ({"group": {"replicas": -1}}, f"{GROUP}.replicas: must not be negative"),
        ({"group": {"minReplicas": -1}}, f"{GROUP}.minReplicas: must not be negative"),
        ({"group": {"groupName": ""}}, "spec.workerGroupSpecs[]: groupName is missing"),
        (
            {"group": {"groupName": "a b"}},
            "spec.workerGroupSpecs[a b].groupName: must be the value of a label",
        ),
        (
            {"group": {"groupName": TOO_LONG}},
            f"spec.workerGroupSpecs[{TOO_LONG}].groupName: must be the value of a label",
        ),
        ({"group": {"numOfHosts": 0}}, f"{GROUP}.numOfHosts: must be at least 1"),
        (
            {"group": {"template": {}}},
            f"{GROUP}.template.spec.containers: at least one container is needed; the first runs Ray",
        ),
        ({"group": {"resources": {"CPU": "lots"}}}, f"{GROUP}.resources.CPU: 'lots' {NO_QUANTITY}"),
        (
            {"group": {"labels": {"ray.io/group": "other"}}},
            f"{GROUP}.labels.ray.io/group: is set by the controller",
        ),
        (
            {"group": {"labels": {"ray.io/cluster": "other"}}},
            f"{GROUP}.labels.ray.io/cluster: is set by the controller",
        ),
        (
            {"group": {"labels": {"ray.io/node-type": "head"}}},
            f"{GROUP}.labels.ray.io/node-type: is set by the controller",
        ),
        ({"group": {"labels": {"zone": "a b"}}}, f"{GROUP}.labels.zone: must be the value of a label"),
        ({"group": {"labels": {"zone": TOO_LONG}}}, f"{GROUP}.labels.zone: must be the value of a label"),
        (
            {"group": {"suspend": True}, "enableInTreeAutoscaling": True},
            f"{GROUP}.suspend: a group cannot be suspended while the autoscaler decides its size",
        ),
        (
            {"headGroupSpec": {}},
            f"{HEAD_TEMPLATE}.containers: at least one container is needed; the first runs Ray",
        ),
        (
            head({"resources": {"limits": {"cpu": "lots"}}}),
            f"{HEAD_TEMPLATE}.containers[ray].resources.limits.cpu: 'lots' {NO_QUANTITY}",
        ),
        (
            head({"resources": {"requests": {"cpu": "1x"}}}),
            f"{HEAD_TEMPLATE}.containers[ray].resources.requests.cpu: '1x' {NO_QUANTITY}",
        ),
        (head(resources={"CPU": "1x"}), f"spec.headGroupSpec.resources.CPU: '1x' {NO_QUANTITY}"),
        (head(labels={"a": "b c"}), "spec.headGroupSpec.labels.a: must be the value of a label"),
        (
            {"replicas": 2, "workerGroupSpecs": []},
            "spec.replicas: is for clusters of one worker group, and there are 0",
        ),
        ({"replicas": -1}, "spec.replicas: must not be negative"),
        (
            {"replicas": 2, "enableInTreeAutoscaling": True},
            "spec.replicas: the autoscaler decides the sizes of groups: remove one of the two",
        ),
        ({"gcsFaultToleranceOptions": {}}, "spec.gcsFaultToleranceOptions.redisAddress: is missing"),
        (
            {"gcsFaultToleranceOptions": REDIS, "annotations": {"ray.io/ft-enabled": "False"}},
            "metadata.annotations.ray.io/ft-enabled: says false, and spec.gcsFaultToleranceOptions is set",
        ),
        (
            {"gcsFaultToleranceOptions": REDIS, **head({"env": [{"name": "RAY_REDIS_ADDRESS"}]})},
            f"{HEAD_TEMPLATE}.containers[0].env: RAY_REDIS_ADDRESS is set by {OPTIONS}.redisAddress",
        ),
        (
            {"gcsFaultToleranceOptions": REDIS, **head(rayStartParams={"redis-password": "p"})},
            PASSWORD_IS_SET,
        ),
    ],
)
def test_an_invalid_spec_is_refused(fields: dict[str, Any], told: str) -> None:
    assert faults(**fields) == [told]


def test_every_fault_is_reported_at_once() -> None:
    group = {
        "groupName": "small",
        "replicas": -1,
        "minReplicas": -2,
        "maxReplicas": -3,
        "numOfHosts": 0,
        "template": {
            "spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"m": ""}}}]}
        },
    }
    given = {
        **head(rayStartParams={"port": "none", "redis-password": "p"}),
        "workerGroupSpecs": [group, {**group, "minReplicas": 0, "maxReplicas": 1, "numOfHosts": 1}],
        "replicas": -2,
        "gcsFaultToleranceOptions": {},
    }
    found = [str(one) for one in invalid_fields({"name": TOO_LONG}, given)]
    no_quantity = f"{GROUP}.template.spec.containers[b].resources.limits.m: '' {NO_QUANTITY}"
    assert found == [
        "metadata.name: must have 63 characters or fewer: it becomes a label",
        "spec.headGroupSpec.rayStartParams.port: must be the number of a port",
        f"{GROUP}.replicas: must not be negative",
        f"{GROUP}.minReplicas: must not be negative",
        f"{GROUP}.maxReplicas: must not be negative",
        f"{GROUP}.numOfHosts: must be at least 1",
        f"{GROUP}.minReplicas: -2 is more than maxReplicas -3",
        no_quantity,
        f"{GROUP}.replicas: must not be negative",
        no_quantity,
        "spec.workerGroupSpecs: group 'small' occurs twice",
        "spec.replicas: is for clusters of one worker group, and there are 2",
        "spec.replicas: must not be negative",
        "spec.gcsFaultToleranceOptions.redisAddress: is missing",
        PASSWORD_IS_SET,
    ]


@pytest.mark.parametrize("port", ["", "ray", "0", "65536", "-1", "²"])
def test_an_invalid_port_is_refused(port: str) -> None:
    assert faults(**head(rayStartParams={"port": port})) == [
        "spec.headGroupSpec.rayStartParams.port: must be the number of a port"
    ]


@pytest.mark.parametrize("port", ["1", "6379", "65535"])
def test_any_other_port_is_accepted(port: str) -> None:
    assert faults(**head(rayStartParams={"port": port})) == []


@pytest.mark.parametrize("kind", ["ClusterIP", "NodePort", "LoadBalancer", ""])
def test_a_type_of_service_that_takes_traffic_is_accepted(kind: str) -> None:
    assert faults(**head(serviceType=kind)) == []


@pytest.mark.parametrize("kind", ["nodeport", "ExternalName"])
def test_any_other_type_of_service_is_refused(kind: str) -> None:
    assert faults(**head(serviceType=kind)) == [
        f"spec.headGroupSpec.serviceType: expected ClusterIP, NodePort, LoadBalancer, got '{kind}'"
    ]


@pytest.mark.rule("kuberay-1d-bad-input")
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"headGroupSpec": {"template": {"spec": []}}},
            f"{HEAD_TEMPLATE}: Expected `object | null`, got `array`",
        ),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": "ray"}}}},
            f"{HEAD_TEMPLATE}.containers: Expected `array | null`, got `str`",
        ),
        ({"headGroupSpec": {"template": "ray"}}, "spec.headGroupSpec.template: Expected `object`, got `str`"),
        (
            {"group": {"template": {"spec": {"containers": [{}]}}}},
            f"{GROUP}.template.spec.containers[0]: Object missing required field `name`",
        ),
        (
            {"group": {"template": {"spec": {"containers": [{"name": "ray", "env": ["A=b"]}]}}}},
            f"{GROUP}.template.spec.containers[0].env[0]: Expected `object`, got `str`",
        ),
        (
            {"group": {"template": {"metadata": {"labels": {"a": 1}}}}},
            f"{GROUP}.template.metadata.labels[...]: Expected `str`, got `int`",
        ),
        (head(headService="s"), "spec.headGroupSpec.headService: Expected `object`, got `str`"),
        (
            head(ingressOptions={"tls": 1}),
            "spec.headGroupSpec.ingressOptions.tls: Expected `array | null`, got `int`",
        ),
        (
            {"autoscalerOptions": {"env": {"A": "b"}}},
            "spec.autoscalerOptions.env: Expected `array | null`, got `object`",
        ),
        (
            {"gcsFaultToleranceOptions": {"redisPassword": "x"}},
            "spec.gcsFaultToleranceOptions.redisPassword: Expected `object | null`, got `str`",
        ),
        ({"authOptions": {"mode": 1}}, "spec.authOptions.mode: Expected `str | null`, got `int`"),
    ],
)
def test_a_malformed_field_is_named_and_its_value_never_shown(fields: dict[str, Any], told: str) -> None:
    assert faults(**fields) == [told]
    view = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": spec(**fields)})
    assert str(view.refused[0]) == told


def test_the_first_wrong_type_of_each_part_is_reported() -> None:
    given = spec(group={"template": 1}, headGroupSpec={"template": 1, "headService": 2}, authOptions=3)
    assert [one.partition(":")[0] for one in invalid_fields({"name": "ray"}, given)] == [
        "spec.headGroupSpec.template",
        "spec.headGroupSpec.headService",
        f"{GROUP}.template",
        "spec.authOptions",
    ]


@pytest.mark.rule("tenant-05")
def test_more_pods_than_the_bound_are_refused_with_the_bound_and_the_next_step() -> None:
    many = "spec.workerGroupSpecs: ask for 50000000 pods, and 10000 are the most for one cluster: divide it"
    (found,) = faults(group={"replicas": 50_000_000, "maxReplicas": 2**31 - 1})
    assert many in found
    assert faults(group={"replicas": 5000, "numOfHosts": 3, "maxReplicas": 9000}) != []
    assert faults(group={"replicas": 10_000, "maxReplicas": 10_000}) == []
