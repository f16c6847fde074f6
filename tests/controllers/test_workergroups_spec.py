"""How a RayCluster and its pods are read, and what is refused. Numbered rows: systems.md, table 1d."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.workergroups.spec import cluster_view, invalid_fields, is_managed, unsupported_features
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


@pytest.mark.parametrize(
    ("fields", "feature"),
    [
        ({"suspend": True}, "spec.suspend"),
        ({"enableInTreeAutoscaling": True}, "spec.enableInTreeAutoscaling"),
        ({"upgradeStrategy": {"type": "Recreate"}}, "spec.upgradeStrategy.type Recreate"),
        ({"gcsFaultToleranceOptions": {"redisAddress": "r:6379"}}, "spec.gcsFaultToleranceOptions"),
        ({"authOptions": {"mode": "token"}}, "spec.authOptions"),
        ({"group": {"numOfHosts": 4}}, "spec.workerGroupSpecs[small].numOfHosts 4"),
        ({"group": {"suspend": True}}, "spec.workerGroupSpecs[small].suspend"),
        ({"group": {"resources": {"TPU": "4"}}}, "spec.workerGroupSpecs[small].resources"),
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
        {"suspend": False, "enableInTreeAutoscaling": False, "upgradeStrategy": {"type": "None"}},
        {"autoscalerOptions": {"idleTimeoutSeconds": 60}},
        {"group": {"numOfHosts": 1, "suspend": False, "idleTimeoutSeconds": 5, "priority": 1}},
    ],
)
def test_a_field_that_asks_for_nothing_is_no_feature(fields: dict[str, Any]) -> None:
    assert unsupported_features(spec(**fields)) == []


@pytest.mark.parametrize("name", ["ray.io/ft-enabled", "ray.io/disable-provisioned-head-restart"])
def test_a_feature_asked_for_by_annotation_is_named_too(name: str) -> None:
    assert [one.feature for one in unsupported_features(spec(), {name: "true"})] == [f"annotation {name}"]
    assert unsupported_features(spec(), {name: "false"}) == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"group": {"minReplicas": 6}}, "spec.workerGroupSpecs[small].minReplicas"),
        ({"group": {"replicas": -1}}, "spec.workerGroupSpecs[small].replicas"),
        ({"group": {"groupName": ""}}, "spec.workerGroupSpecs[]"),
        ({"group": {"numOfHosts": 0}}, "spec.workerGroupSpecs[small].numOfHosts"),
        ({"group": {"template": {}}}, "spec.workerGroupSpecs[small].template.spec.containers"),
        ({"headGroupSpec": {}}, "spec.headGroupSpec.template.spec.containers"),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(fields: dict[str, Any], path: str) -> None:
    assert [one.path for one in invalid_fields(spec(**fields))] == [path]


def test_two_groups_of_one_name_are_refused() -> None:
    twice = spec()
    twice["workerGroupSpecs"] *= 2
    assert [one.path for one in invalid_fields(twice)] == ["spec.workerGroupSpecs"]


def test_an_amount_that_is_no_quantity_is_refused() -> None:
    containers = [{"name": "ray", "resources": {"limits": {"cpu": "lots"}}}]
    broken = spec(headGroupSpec={"template": {"spec": {"containers": containers}}})
    (found,) = invalid_fields(broken)
    assert found.path == "spec.headGroupSpec.template.spec.containers[ray].resources.limits.cpu"


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
