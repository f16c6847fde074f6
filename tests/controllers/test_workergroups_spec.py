"""How a RayCluster and its pods are read, and what is refused. Numbered rows: systems.md, table 1d."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.workergroups.spec import cluster_view, is_managed, unsupported_features
from controllers.workergroups.validation import invalid_fields
from controllers.workergroups.views import PodView, pod_view
from reconcile.replicas import is_active

UID = "cluster-uid"

# What this version refuses.


def spec(**fields: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    group = {"groupName": "small", "minReplicas": 0, "maxReplicas": 5, "template": template}
    return {
        "headGroupSpec": {"template": template},
        "workerGroupSpecs": [{**group, **fields.pop("group", {})}],
        **fields,
    }


def faults(name: str = "ray", annotations: dict[str, str] | None = None, **fields: Any) -> list[str]:
    metadata = {"name": name, "uid": UID, "annotations": annotations or {}}
    return [one.path for one in invalid_fields(metadata, spec(**fields))]


@pytest.mark.parametrize(
    ("fields", "feature"),
    [
        ({"networkPolicy": {"mode": "DenyAll"}}, "spec.networkPolicy"),
        ({"historyServerOptions": {"collectorOptions": {"image": "i"}}}, "spec.historyServerOptions"),
        ({"tlsOptions": {"enabled": True}}, "spec.tlsOptions.enabled"),
        ({"authOptions": {"enableK8sTokenAuth": True}}, "spec.authOptions.enableK8sTokenAuth"),
        (
            {"gcsFaultToleranceOptions": {"backend": "rocksdb"}},
            "spec.gcsFaultToleranceOptions.backend rocksdb",
        ),
    ],
)
def test_a_feature_this_version_lacks_is_named(fields: dict[str, Any], feature: str) -> None:
    found = unsupported_features(spec(**fields))
    assert [one.feature for one in found] == [feature]
    assert found[0].why in str(found[0])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"suspend": True, "enableInTreeAutoscaling": True, "upgradeStrategy": {"type": "Recreate"}},
        {"tlsOptions": {"enabled": False}, "authOptions": {"mode": "token"}},
        {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
        {"group": {"numOfHosts": 4, "suspend": False, "idleTimeoutSeconds": 5, "priority": 1}},
    ],
)
def test_what_this_version_has_is_not_refused(fields: dict[str, Any]) -> None:
    assert unsupported_features(spec(**fields)) == []
    assert faults(**fields) == []


TOO_LONG = "x" * 64
REDIS = {"redisAddress": "redis:6379"}
GROUP = "spec.workerGroupSpecs[small]"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": TOO_LONG}, "metadata.name"),
        ({"group": {"minReplicas": 6}}, f"{GROUP}.minReplicas"),
        ({"group": {"replicas": -1}}, f"{GROUP}.replicas"),
        ({"group": {"groupName": ""}}, "spec.workerGroupSpecs[]"),
        ({"group": {"groupName": "a b"}}, "spec.workerGroupSpecs[a b].groupName"),
        ({"group": {"numOfHosts": 0}}, f"{GROUP}.numOfHosts"),
        ({"group": {"template": {}}}, f"{GROUP}.template.spec.containers"),
        ({"group": {"resources": {"CPU": "lots"}}}, f"{GROUP}.resources.CPU"),
        ({"group": {"labels": {"ray.io/group": "other"}}}, f"{GROUP}.labels.ray.io/group"),
        ({"group": {"labels": {"zone": "a b"}}}, f"{GROUP}.labels.zone"),
        ({"group": {"suspend": True}, "enableInTreeAutoscaling": True}, f"{GROUP}.suspend"),
        ({"headGroupSpec": {}}, "spec.headGroupSpec.template.spec.containers"),
        ({"replicas": 2, "workerGroupSpecs": []}, "spec.replicas"),
        ({"replicas": -2}, "spec.replicas"),
        ({"replicas": 2, "enableInTreeAutoscaling": True}, "spec.replicas"),
        ({"gcsFaultToleranceOptions": {}}, "spec.gcsFaultToleranceOptions.redisAddress"),
        (
            {"gcsFaultToleranceOptions": REDIS, "annotations": {"ray.io/ft-enabled": "false"}},
            "metadata.annotations.ray.io/ft-enabled",
        ),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(fields: dict[str, Any], path: str) -> None:
    assert faults(**fields) == [path]


@pytest.mark.rule("kuberay-1d-bad-input")
@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"headGroupSpec": {"template": {"spec": []}}}, "spec.headGroupSpec.template.spec"),
        (
            {"headGroupSpec": {"template": {"spec": {"containers": "ray"}}}},
            "spec.headGroupSpec.template.spec.containers",
        ),
        ({"group": {"template": {"spec": {"containers": [{}]}}}}, f"{GROUP}.template.spec.containers[0]"),
        (
            {"group": {"template": {"spec": {"containers": [{"name": "ray", "env": ["A=b"]}]}}}},
            f"{GROUP}.template.spec.containers[0].env[0]",
        ),
        (
            {"group": {"template": {"metadata": {"labels": {"a": 1}}}}},
            f"{GROUP}.template.metadata.labels[...]",
        ),
        ({"autoscalerOptions": {"env": {"A": "b"}}}, "spec.autoscalerOptions.env"),
        ({"gcsFaultToleranceOptions": {"redisPassword": "x"}}, "spec.gcsFaultToleranceOptions.redisPassword"),
        ({"authOptions": {"mode": 1}}, "spec.authOptions.mode"),
    ],
)
def test_what_has_not_its_shape_is_named_and_never_shown(fields: dict[str, Any], path: str) -> None:
    assert faults(**fields) == [path]
    view = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": spec(**fields)})
    assert view.refused
    assert not [one for one in view.refused if "A=b" in str(one)]


@pytest.mark.parametrize("port", ["", "ray", "0", "70000", "-1"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    template = {"spec": {"containers": [{"name": "ray"}]}}
    head = {"template": template, "rayStartParams": {"port": port}}
    assert faults(headGroupSpec=head) == ["spec.headGroupSpec.rayStartParams.port"]


def test_what_fault_tolerance_sets_may_not_be_set_beside_it() -> None:
    container = {"name": "ray", "image": "ray", "env": [{"name": "RAY_REDIS_ADDRESS", "value": "r"}]}
    head = {"template": {"spec": {"containers": [container]}}, "rayStartParams": {"redis-password": "p"}}
    assert faults(gcsFaultToleranceOptions=REDIS, headGroupSpec=head) == [
        "spec.headGroupSpec.template.spec.containers[0].env",
        "spec.headGroupSpec.rayStartParams.redis-password",
    ]


def test_two_groups_of_one_name_are_refused() -> None:
    twice = spec()
    twice["workerGroupSpecs"] *= 2
    found = [one.path for one in invalid_fields({"name": "ray"}, twice)]
    assert found == ["spec.workerGroupSpecs"]


def test_an_amount_that_is_no_quantity_is_refused() -> None:
    containers = [{"name": "ray", "resources": {"limits": {"cpu": "lots"}}}]
    path = "spec.headGroupSpec.template.spec.containers[ray].resources.limits.cpu"
    assert faults(headGroupSpec={"template": {"spec": {"containers": containers}}}) == [path]


def test_the_features_of_a_cluster_are_read_from_its_spec() -> None:
    given = spec(
        suspend=True,
        enableInTreeAutoscaling=True,
        autoscalerOptions={"version": "v2"},
        authOptions={"mode": "token"},
        upgradeStrategy={"type": "Recreate"},
    )
    view = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": given})
    assert (view.suspend, view.recreates, view.autoscaler_v2, view.multi_host) == (True, True, True, False)
    assert (view.token_secret, view.owns_token) == ("ray", True)
    assert view.fault_tolerance is None
    other = cluster_view(
        {
            "metadata": {"name": "ray", "uid": UID, "annotations": {"ray.io/ft-enabled": "true"}},
            "spec": spec(authOptions={"mode": "token", "secretName": "mine"}),
        }
    )
    assert (other.token_secret, other.owns_token, other.fault_tolerance) == ("mine", False, {})
    assert other.autoscaler is None


def test_the_number_of_the_only_group_may_stand_in_the_spec_for_scale() -> None:
    view = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": spec(replicas=3)})
    assert (view.groups[0].replicas, view.scaled) == (3, True)


def test_a_cluster_is_read_from_its_object() -> None:
    stored = {
        "metadata": {"name": "ray", "namespace": "default", "uid": UID, "annotations": {"a": "b"}},
        "spec": spec(group={"replicas": 0, "scaleStrategy": {"workersToDelete": ["w"]}}),
    }
    view = cluster_view(stored)
    assert (view.name, view.namespace, view.uid, view.annotations) == ("ray", "default", UID, {"a": "b"})
    assert view.refused == ()
    (group,) = view.groups
    assert (group.replicas, group.min_replicas, group.max_replicas) == (0, 0, 5)
    assert group.workers_to_delete == ("w",)


@pytest.mark.rule("kuberay-1d-14")
@pytest.mark.parametrize(
    ("managed_by", "ours"),
    [(None, True), ("", True), ("ray.io/kuberay-operator", True), ("kueue.x-k8s.io/multikueue", False)],
)
def test_a_cluster_managed_elsewhere_is_skipped(managed_by: str | None, ours: bool) -> None:
    assert is_managed({"managedBy": managed_by}) is ours


# A pod as the API server returns it.


def test_a_pod_is_read_from_its_object() -> None:
    stored = {
        "metadata": {
            "name": "w",
            "namespace": "default",
            "uid": "u",
            "creationTimestamp": "2025-05-03T10:00:00Z",
            "deletionTimestamp": "2025-05-03T10:01:00Z",
            "labels": {"ray.io/node-type": "worker", "ray.io/group": "small"},
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-7"},
            "ownerReferences": [{"uid": "x"}, {"uid": UID, "controller": True}],
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "ray"}, {"name": "sidecar"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": "well"}],
            "containerStatuses": [
                {"name": "sidecar", "state": {"running": {}}},
                {"name": "ray", "state": {"terminated": {"exitCode": 1}}},
            ],
        },
    }
    assert pod_view(stored) == PodView(
        name="w",
        namespace="default",
        uid="u",
        created=datetime(2025, 5, 3, 10, tzinfo=UTC),
        owner_uid=UID,
        node_type="worker",
        group="small",
        phase="Running",
        ready=True,
        ready_reason="Fine",
        ready_message="well",
        terminating=True,
        deletion_cost=-7,
        restart_policy="Never",
        ray_container_terminated=True,
        ip="10.0.0.1",
    )


def test_a_fresh_pod_without_status_is_pending_and_active() -> None:
    stored = {"metadata": {"name": "w", "uid": "u", "creationTimestamp": "2025-05-03T10:00:00Z"}}
    view = pod_view(stored)
    assert (view.phase, view.ready, view.owner_uid, view.node_type) == ("Pending", False, "", None)
    assert is_active(view)


def test_a_terminated_sidecar_is_not_the_ray_container() -> None:
    stored = {
        "metadata": {"name": "w", "uid": "u", "creationTimestamp": "2025-05-03T10:00:00Z"},
        "spec": {"containers": [{"name": "ray"}, {"name": "sidecar"}]},
        "status": {"containerStatuses": [{"name": "sidecar", "state": {"terminated": {"exitCode": 0}}}]},
    }
    assert not pod_view(stored).ray_container_terminated


def test_a_deletion_cost_that_is_no_integer_is_zero() -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": "cheap"}
    stored = {
        "metadata": {
            "name": "w",
            "uid": "u",
            "creationTimestamp": "2025-05-03T10:00:00Z",
            "annotations": annotations,
        }
    }
    assert pod_view(stored).deletion_cost == 0


def test_an_object_no_server_has_stored_has_no_view() -> None:
    with pytest.raises(ValueError, match="creationTimestamp"):
        pod_view({"metadata": {"name": "w", "uid": "u"}})
