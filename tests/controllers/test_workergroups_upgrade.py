"""When the pods of a cluster are made anew because its spec has changed (systems.md, table 1d)."""

import copy
from typing import Any

import pytest
from attrs import evolve

from controllers.workergroups.pod_plan import plan_cluster
from controllers.workergroups.pod_upgrade import HASH_VERSION, plan_upgrade, spec_hash
from controllers.workergroups.ray_pod_view import RayPodView
from controllers.workergroups.raycluster_view import ClusterView
from tests.controllers.ray_views import START, UID, cluster, head, small, worker

CONTAINER = {"name": "ray", "image": "ray:1"}
SPEC: dict[str, Any] = {
    "headGroupSpec": {"template": {"spec": {"containers": [CONTAINER]}}},
    "workerGroupSpecs": [{"groupName": "small", "template": {"spec": {"containers": [CONTAINER]}}}],
}


def view(**changes: Any) -> ClusterView:
    return evolve(cluster(small(1), recreates=True, upgrade_hash="new"), **changes)


def marked(said: str, version: str = HASH_VERSION) -> RayPodView:
    return head(upgrade_hash=said, operator_version=version)


@pytest.mark.rule("kuberay-1d-12")
@pytest.mark.parametrize(
    ("changes", "pods", "upgrade"),
    [
        ({"recreates": False}, [marked("old")], "none"),
        ({}, [], "none"),
        ({}, [marked("new")], "none"),
        ({}, [marked("old")], "recreate"),
        ({}, [marked("old", "v1.5.1")], "mark"),
        ({}, [marked("", "")], "mark"),
        ({}, [evolve(marked("old"), terminating=True)], "none"),
    ],
)
def test_pods_are_recreated_only_for_another_spec_under_the_same_operator(
    changes: dict[str, Any], pods: list[RayPodView], upgrade: str
) -> None:
    assert plan_upgrade(view(**changes), pods) == upgrade


@pytest.mark.rule("kuberay-1d-12")
def test_all_pods_are_deleted_with_the_head_last_and_then_recreated() -> None:
    pods = [marked("old"), worker("a")]
    plan = plan_cluster(view(), pods, START)
    assert [(one.pod.name, one.reason) for one in plan.removals] == [("a", "upgraded"), ("head", "upgraded")]
    going = [evolve(pod, terminating=True) for pod in pods]
    then = plan_cluster(view(), going, START)
    assert then.head.create
    assert [len(group.create) for group in then.groups] == [1]
    assert all(pod.owner_uid == UID for pod in pods)


def changed(group: str, *path: str, to: Any) -> dict[str, Any]:
    """The spec with another value at a path in the head group or the worker group."""
    made = copy.deepcopy(SPEC)
    node: Any = made[group] if group == "headGroupSpec" else made[group][0]
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = to
    return made


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("replicas",), 3),
        (("minReplicas",), 3),
        (("maxReplicas",), 3),
        (("scaleStrategy",), {"workersToDelete": ["a"]}),
        (("suspend",), True),
        (("template", "spec", "tolerations"), [{"key": "k"}]),
        (("template", "spec", "schedulingGates"), [{"name": "g"}]),
    ],
)
def test_changes_of_sizes_and_placement_do_not_replace_pods(path: tuple[str, ...], value: Any) -> None:
    assert spec_hash(changed("workerGroupSpecs", *path, to=value)) == spec_hash(SPEC)


@pytest.mark.parametrize("name", ["tolerations", "schedulingGates"])
def test_a_changed_placement_of_the_head_does_not_replace_pods_either(name: str) -> None:
    assert spec_hash(changed("headGroupSpec", "template", "spec", name, to=[])) == spec_hash(SPEC)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("upgradeStrategy", {"type": "Recreate"}),
        ("suspend", True),
        ("managedBy", "ray.io/kuberay-operator"),
        ("replicas", 3),
    ],
)
def test_changes_of_strategy_suspension_manager_and_size_do_not_replace_pods(name: str, value: Any) -> None:
    assert spec_hash({**SPEC, name: value}) == spec_hash(SPEC)


@pytest.mark.parametrize("group", ["headGroupSpec", "workerGroupSpecs"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("template", "spec", "containers"), [{"name": "ray", "image": "ray:2"}]),
        (("template", "spec", "nodeSelector"), {"a": "b"}),
        (("template", "metadata"), {"labels": {"a": "b"}}),
        (("rayStartParams",), {"num-cpus": "1"}),
    ],
)
def test_a_changed_pod_template_replaces_pods(group: str, path: tuple[str, ...], value: Any) -> None:
    assert spec_hash(changed(group, *path, to=value)) != spec_hash(SPEC)


@pytest.mark.parametrize("name", ["rayVersion", "enableInTreeAutoscaling", "authOptions"])
def test_a_changed_feature_replaces_pods(name: str) -> None:
    assert spec_hash({**SPEC, name: "other"}) != spec_hash(SPEC)


def test_the_hash_of_a_spec_is_stable_across_releases() -> None:
    """Else every cluster would lose its pods when the operator is updated."""
    assert HASH_VERSION == "reconcile-runtime-1"
    assert spec_hash(SPEC) == "07c1726bf96fbf1aeab75152eac5c5fa2ef48be5"
    assert spec_hash({}) == spec_hash({"headGroupSpec": {"template": {}}, "workerGroupSpecs": []})
