"""When the pods of a cluster are made anew because its spec has changed (systems.md, table 1d)."""

import copy
from typing import Any

import pytest
from attrs import evolve

from controllers.workergroups.clusters import ClusterView
from controllers.workergroups.plan import plan_cluster
from controllers.workergroups.upgrade import HASH_VERSION, plan_upgrade, spec_hash
from controllers.workergroups.views import PodView
from tests.controllers.test_workergroups_plan import START, UID, cluster, head, small, worker

CONTAINER = {"name": "ray", "image": "ray:1"}
SPEC: dict[str, Any] = {
    "headGroupSpec": {"template": {"spec": {"containers": [CONTAINER]}}},
    "workerGroupSpecs": [{"groupName": "small", "template": {"spec": {"containers": [CONTAINER]}}}],
}


def view(**changes: Any) -> ClusterView:
    return evolve(cluster(small(1), recreates=True, upgrade_hash="new"), **changes)


def marked(said: str, version: str = HASH_VERSION) -> PodView:
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
def test_pods_are_made_anew_only_for_another_spec_under_the_same_operator(
    changes: dict[str, Any], pods: list[PodView], upgrade: str
) -> None:
    assert plan_upgrade(view(**changes), pods) == upgrade


@pytest.mark.rule("kuberay-1d-12")
def test_all_pods_go_the_head_last_and_then_others_are_made() -> None:
    pods = [marked("old"), worker("a")]
    plan = plan_cluster(view(), pods, START)
    assert [(one.pod.name, one.reason) for one in plan.removals] == [("a", "upgraded"), ("head", "upgraded")]
    going = [evolve(pod, terminating=True) for pod in pods]
    then = plan_cluster(view(), going, START)
    assert then.head.create
    assert [group.creates for group in then.groups] == [1]
    assert all(pod.owner_uid == UID for pod in pods)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("replicas",), 3),
        (("minReplicas",), 3),
        (("maxReplicas",), 3),
        (("scaleStrategy",), {"workersToDelete": ["a"]}),
        (("template", "spec", "tolerations"), [{"key": "k"}]),
        (("template", "spec", "schedulingGates"), [{"name": "g"}]),
    ],
)
def test_sizes_and_places_are_no_reason_to_make_pods_anew(path: tuple[str, ...], value: Any) -> None:
    changed = copy.deepcopy(SPEC)
    node: Any = changed["workerGroupSpecs"][0]
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    assert spec_hash(changed) == spec_hash(SPEC)


def test_how_a_cluster_is_kept_is_no_reason_either() -> None:
    kept = {"upgradeStrategy": {"type": "Recreate"}, "suspend": False, "managedBy": "ray.io/kuberay-operator"}
    assert spec_hash({**SPEC, **kept}) == spec_hash(SPEC)


@pytest.mark.parametrize("group", ["headGroupSpec", "workerGroupSpecs"])
def test_another_image_is_a_reason(group: str) -> None:
    changed = copy.deepcopy(SPEC)
    node = changed[group] if group == "headGroupSpec" else changed[group][0]
    node["template"]["spec"]["containers"][0]["image"] = "ray:2"
    assert spec_hash(changed) != spec_hash(SPEC)
