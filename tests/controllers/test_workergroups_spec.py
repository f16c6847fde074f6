"""How a RayCluster and its pods are read. Numbered rows: systems.md, table 1d."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.workergroups.pod_upgrade import spec_hash
from controllers.workergroups.ray_pod_view import RayPodView, pod_view
from controllers.workergroups.raycluster_spec import cluster_view, is_managed
from controllers.workergroups.raycluster_view import ClusterView, GroupView, HeadView
from reconcile.replicas import is_active
from tests.controllers.ray_specs import UID, spec

# A cluster as the API server returns it.


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


def test_the_number_of_the_only_group_can_be_in_the_spec_for_scale() -> None:
    view = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": spec(replicas=3)})
    assert (view.groups[0].replicas, view.scaled) == (3, True)


def test_a_cluster_is_read_from_its_object() -> None:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}
    given = {
        "headServiceAnnotations": {"s": "t"},
        "suspend": True,
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"version": "v1"},
        "authOptions": {"mode": "token"},
        "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        "upgradeStrategy": {"type": "Recreate"},
        "headGroupSpec": {
            "template": template,
            "rayStartParams": {"port": "7000"},
            "serviceType": "NodePort",
            "headService": {"metadata": {"name": "front"}},
            "labels": {"zone": "a"},
            "resources": {"CPU": "1"},
            "enableIngress": True,
            "ingressOptions": {"host": "h"},
        },
        "workerGroupSpecs": [
            {
                "groupName": "small",
                "replicas": 0,
                "minReplicas": 0,
                "maxReplicas": 0,
                "numOfHosts": 4,
                "scaleStrategy": {"workersToDelete": ["w"]},
                "template": template,
                "rayStartParams": {"block": "true"},
                "labels": {"zone": "b"},
                "resources": {"CPU": "2"},
            },
            {"groupName": "large", "template": template},
        ],
    }
    metadata = {"name": "ray", "namespace": "default", "uid": UID}
    labelled = {**metadata, "annotations": {"a": "b"}, "labels": {"l": "m"}}
    assert cluster_view({"metadata": labelled, "spec": given}) == ClusterView(
        name="ray",
        namespace="default",
        uid=UID,
        head=HeadView(
            template=template,
            ray_start_params={"port": "7000"},
            service_type="NodePort",
            service={"metadata": {"name": "front"}},
            service_annotations={"s": "t"},
            labels={"zone": "a"},
            resources={"CPU": "1"},
            ingress=True,
            ingress_options={"host": "h"},
        ),
        groups=(
            GroupView(
                "small",
                replicas=0,
                min_replicas=0,
                max_replicas=0,
                num_of_hosts=4,
                workers_to_delete=("w",),
                template=template,
                ray_start_params={"block": "true"},
                labels={"zone": "b"},
                resources={"CPU": "2"},
            ),
            GroupView("large", None, 0, 2147483647, 1, template=template),
        ),
        annotations={"a": "b"},
        labels={"l": "m"},
        suspend=True,
        autoscaler={"version": "v1"},
        fault_tolerance={"redisAddress": "redis:6379"},
        token_secret="ray",
        owns_token=True,
        recreates=True,
        upgrade_hash=spec_hash(given),
    )
    bare = {"headGroupSpec": {"template": template}}
    assert cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": bare}) == ClusterView(
        "ray", "", UID, head=HeadView(template=template), upgrade_hash=spec_hash(bare)
    )


def test_a_suspended_group_is_read_as_one() -> None:
    view = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": spec(group={"suspend": True})})
    assert [group.suspend for group in view.groups] == [True]


@pytest.mark.parametrize(("said", "on"), [("true", True), ("True", True), ("false", False), ("", False)])
def test_fault_tolerance_can_be_enabled_by_annotation(said: str, on: bool) -> None:
    metadata = {"name": "ray", "uid": UID, "annotations": {"ray.io/ft-enabled": said}}
    assert cluster_view({"metadata": metadata, "spec": spec()}).fault_tolerance == ({} if on else None)


def test_a_refused_cluster_has_no_hash() -> None:
    refused = cluster_view({"metadata": {"name": "ray", "uid": UID}, "spec": {}})
    assert (bool(refused.refused), refused.upgrade_hash) == (True, "")


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
            "labels": {
                "ray.io/node-type": "worker",
                "ray.io/group": "small",
                "ray.io/worker-group-replica-name": "small-1",
                "ray.io/worker-group-replica-index": "2",
                "ray.io/replica-host-index": "3",
            },
            "annotations": {
                "controller.kubernetes.io/pod-deletion-cost": "-7",
                "worker-groups.reconcile-runtime/failures": "4",
                "worker-groups.reconcile-runtime/whole": "true",
                "ray.io/upgrade-strategy-recreate-hash": "abc",
                "ray.io/kuberay-version": "v1",
            },
            "ownerReferences": [{"uid": "x"}, {"uid": UID, "controller": True}],
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "ray"}, {"name": "sidecar"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [
                {"type": "Initialized", "status": "False", "reason": "Other"},
                {"type": "Ready", "status": "True", "reason": "Fine", "message": "well"},
            ],
            "containerStatuses": [
                {"name": "sidecar", "state": {"running": {}}},
                {"name": "ray", "state": {"terminated": {"exitCode": 1}}},
            ],
        },
    }
    assert pod_view(stored) == RayPodView(
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
        replica="small-1",
        replica_index=2,
        host_index=3,
        failures=4,
        whole=True,
        upgrade_hash="abc",
        operator_version="v1",
    )


FRESH = {"name": "w", "uid": "u", "creationTimestamp": "2025-05-03T10:00:00Z"}


@pytest.mark.parametrize("kept", [{}, {"labels": None, "annotations": None, "ownerReferences": None}])
@pytest.mark.parametrize("status", [None, {}, {"phase": "", "conditions": None, "containerStatuses": None}])
def test_a_fresh_pod_without_status_is_pending_and_active(
    kept: dict[str, Any], status: dict[str, Any] | None
) -> None:
    view = pod_view(
        {"metadata": {**FRESH, **kept}, "spec": {"containers": [{"name": "ray"}]}, "status": status}
    )
    assert view == RayPodView("w", "", "u", datetime(2025, 5, 3, 10, tzinfo=UTC))
    assert is_active(view)
    assert pod_view({"metadata": FRESH}) == view


def test_a_label_decides_whether_a_pod_is_a_head_a_worker_or_neither() -> None:
    for said, node_type in (("head", "head"), ("worker", "worker"), ("redis-cleanup", None)):
        assert pod_view({"metadata": {**FRESH, "labels": {"ray.io/node-type": said}}}).node_type == node_type


def test_marks_that_are_not_numbers_are_ignored() -> None:
    labels = {"ray.io/worker-group-replica-index": "x", "ray.io/replica-host-index": ""}
    annotations = {"worker-groups.reconcile-runtime/failures": "x"}
    view = pod_view({"metadata": {**FRESH, "labels": labels, "annotations": annotations}})
    assert (view.replica_index, view.host_index, view.failures) == (-1, -1, 0)


def test_an_owner_that_does_not_control_the_pod_is_ignored() -> None:
    owners = [{"uid": "a"}, {"uid": "b", "controller": False}]
    assert pod_view({"metadata": {**FRESH, "ownerReferences": owners}}).owner_uid == ""


@pytest.mark.parametrize(
    ("states", "terminated"),
    [
        ([("ray", {"terminated": {"exitCode": 1}})], True),
        ([("sidecar", {"running": {}}), ("ray", {"terminated": {"exitCode": 0}})], True),
        ([("sidecar", {"terminated": {"exitCode": 0}})], False),
        ([("ray", {"running": {}}), ("sidecar", {"terminated": {"exitCode": 0}})], False),
        ([("ray", {})], False),
        ([("ray", None)], False),
    ],
)
def test_the_first_container_of_a_pod_runs_ray(states: list[tuple[str, Any]], terminated: bool) -> None:
    statuses = [{"name": name, "state": state} for name, state in states]
    stored = {
        "metadata": FRESH,
        "spec": {"containers": [{"name": "ray"}, {"name": "sidecar"}]},
        "status": {"containerStatuses": statuses},
    }
    assert pod_view(stored).ray_container_terminated is terminated


@pytest.mark.parametrize(
    ("said", "cost"),
    [("-7", -7), ("2147483647", 2147483647), ("cheap", 0), ("+5", 0), ("1_0", 0), ("2147483648", 0)],
)
def test_a_deletion_cost_is_read_as_kubernetes_reads_it(said: str, cost: int) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": said}
    assert pod_view({"metadata": {**FRESH, "annotations": annotations}}).deletion_cost == cost


def test_an_object_no_server_has_stored_has_no_view() -> None:
    said = "^pod w has no creationTimestamp; only stored pods have a view$"
    with pytest.raises(ValueError, match=said):
        pod_view({"metadata": {"name": "w", "uid": "u"}})
