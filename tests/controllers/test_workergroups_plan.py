"""Which pods of a RayCluster come and go. Numbered rows are those of systems.md, table 1d."""

import random
from collections.abc import Iterable, Sequence

import pytest
from attrs import evolve

from controllers.workergroups.demo.original import plan_group_like_v1_3_0
from controllers.workergroups.pod_plan import (
    PlanGroup,
    PodRemoval,
    WorkerGroupPlan,
    desired_workers,
    plan_group_at_random,
)
from controllers.workergroups.pod_plan import plan_group as plan_group_at
from controllers.workergroups.ray_pod_view import RayPodView, is_unhealthy
from controllers.workergroups.raycluster_view import GroupView, group_view
from tests.controllers.ray_views import (
    START,
    UID,
    after,
    cluster,
    creates,
    head,
    is_idle,
    plan_cluster,
    plan_group,
    small,
    worker,
)


def five_workers() -> list[RayPodView]:
    return [worker(f"pod{number}") for number in range(1, 6)]


def names(removals: Iterable[PodRemoval]) -> list[str]:
    return [removal.pod.name for removal in removals]


def deletions_of(planner: PlanGroup, group: GroupView, pods: Sequence[RayPodView], runs: int) -> set[str]:
    """The pods that so many runs delete while every deleted one stays Terminating."""
    doomed: set[str] = set()
    for _ in range(runs):
        seen = [evolve(pod, terminating=pod.uid in doomed) for pod in pods]
        doomed |= {removal.pod.uid for removal in planner(cluster(group), group, seen, START).delete}
    return doomed


# What a worker group does with its pods.


@pytest.mark.rule("kuberay-1d-01")
@pytest.mark.parametrize(
    ("listed", "others"),
    [
        (["pod1", "pod2"], 0),
        (["pod3", "pod4"], 0),
        (["pod1", "pod5"], 0),
        (["pod2", "absent"], 1),
        (["absent", "absent too"], 2),
    ],
)
def test_listed_workers_are_deleted_and_others_only_up_to_the_surplus(listed: list[str], others: int) -> None:
    plan = plan_group(UID, small(3, *listed), five_workers())
    here = [name for name in listed if name.startswith("pod")]
    assert names(plan.delete)[: len(here)] == here
    assert [removal.reason for removal in plan.delete] == ["listed"] * len(here) + ["newest"] * others
    assert creates(plan) == 0


@pytest.mark.rule("kuberay-1d-02")
@pytest.mark.parametrize(
    ("listed", "left"), [(["pod2", "pod3"], 3), (["pod2", "absent"], 4), (["absent", "absent too"], 5)]
)
def test_under_the_autoscaler_only_listed_workers_are_deleted(listed: list[str], left: int) -> None:
    plan = plan_group(UID, small(3, *listed), five_workers(), autoscaler={})
    assert (5 - len(plan.delete), creates(plan)) == (left, 0)
    assert {removal.reason for removal in plan.delete} <= {"listed"}


@pytest.mark.rule("kuberay-1d-03")
@pytest.mark.parametrize(("left", "create", "delete"), [(5, 0, 2), (3, 0, 0), (4, 0, 1), (2, 1, 0)])
def test_a_group_converges_after_external_deletions(left: int, create: int, delete: int) -> None:
    plan = plan_group(UID, small(3), five_workers()[:left])
    assert (creates(plan), len(plan.delete)) == (create, delete)


@pytest.mark.rule("kuberay-1d-03")
def test_listed_workers_are_replaced_even_if_the_size_is_right() -> None:
    plan = plan_group(UID, small(5, "pod4"), five_workers())
    assert (names(plan.delete), creates(plan)) == (["pod4"], 1)


@pytest.mark.rule("kuberay-1d-04")
def test_a_failed_worker_is_deleted_first_and_no_longer_counts() -> None:
    pods = [evolve(pod, phase="Failed" if pod.name == "pod3" else "Running") for pod in five_workers()]
    plan = plan_group(UID, small(3), pods)
    assert [(removal.pod.name, removal.reason) for removal in plan.delete] == [
        ("pod3", "unhealthy"),
        ("pod1", "newest"),
    ]
    assert creates(plan) == 0


@pytest.mark.rule("kuberay-1d-04")
def test_a_failed_worker_is_deleted_under_the_autoscaler_and_no_other_with_it() -> None:
    pods = [evolve(pod, phase="Failed" if pod.name == "pod3" else "Running") for pod in five_workers()]
    assert names(plan_group(UID, small(3), pods, autoscaler={}).delete) == ["pod3"]
    assert len(plan_group_at_random(cluster(autoscaler={}), small(3), pods, START).delete) == 2


@pytest.mark.rule("kuberay-1d-08")
@pytest.mark.parametrize(
    ("restart_policy", "phase", "ray_terminated", "unhealthy"),
    [
        ("Always", "Failed", False, True),
        ("Always", "Running", False, False),
        ("Always", "Running", True, False),
        ("Never", "Failed", False, True),
        ("Never", "Succeeded", False, True),
        ("Never", "Running", False, False),
        ("Never", "Running", True, True),
    ],
)
def test_a_pod_is_unhealthy_when_nothing_will_restart_ray_in_it(
    restart_policy: str, phase: str, ray_terminated: bool, unhealthy: bool
) -> None:
    pod = worker("w", restart_policy=restart_policy, phase=phase, ray_container_terminated=ray_terminated)
    assert is_unhealthy(pod) is unhealthy


@pytest.mark.rule("kuberay-1d-09")
@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        ([{"minReplicas": 1}, {"minReplicas": 2}], 3),
        ([{"replicas": 0, "minReplicas": 2, "maxReplicas": 5}, {"replicas": 6, "maxReplicas": 5}], 7),
        ([{"replicas": 6, "maxReplicas": 5}, {"replicas": 3}], 8),
        ([{"replicas": 3, "numOfHosts": 4}, {"replicas": 3}], 15),
    ],
)
def test_the_desired_workers_of_a_cluster_are_those_of_its_groups(
    groups: list[dict[str, int]], wanted: int
) -> None:
    assert sum(desired_workers(group_view(group)) for group in groups) == wanted


def test_a_suspended_group_has_no_desired_workers() -> None:
    assert desired_workers(small(3, min_replicas=2, suspend=True)) == 0


def test_listed_names_affect_no_pod_of_another_group_or_cluster() -> None:
    others = [
        worker("theirs", group="large"),
        worker("foreign", owner_uid="another"),
        worker("orphan", owner_uid=""),
    ]
    assert plan_group(UID, small(0, "theirs", "foreign", "orphan"), others) == WorkerGroupPlan("small")


# The head pod and the whole cluster.


def test_pods_of_a_removed_group_are_deleted_once() -> None:
    pods = [head(), worker("live", group="gone"), worker("going", group="gone", terminating=True)]
    first = plan_cluster(cluster(small(0)), pods)
    assert [(one.pod.name, one.reason) for one in first.removals] == [("live", "group-removed")]
    assert is_idle(plan_cluster(cluster(small(0)), after(first, pods, lambda pod: True)))


def test_nothing_is_done_for_a_refused_cluster() -> None:
    refused = cluster(refused=("spec.suspend is not supported: later",))
    plan = plan_cluster(refused, five_workers())
    assert is_idle(plan)
    assert plan.refused == refused.refused


# The incident: five workers, scale to four, the victim stays Terminating over many runs.


def test_scaling_from_five_to_four_deletes_one_worker_however_often_it_is_planned() -> None:
    assert len(deletions_of(plan_group_at, small(4), five_workers(), runs=50)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_the_original_deletes_more_than_one_in_the_same_situation(seed: int) -> None:
    original = plan_group_like_v1_3_0(random.Random(seed).random)
    assert len(deletions_of(original, small(4), five_workers(), runs=20)) > 1


def test_the_original_recreates_the_workers_that_it_deleted_in_excess() -> None:
    original = plan_group_like_v1_3_0(random.Random(1).random)
    assert creates(original(cluster(), small(4), five_workers()[:2], START)) == 2


def test_the_original_creates_nothing_in_the_run_that_finds_unhealthy_pods() -> None:
    original = plan_group_like_v1_3_0(random.Random(1).random)
    plan = original(cluster(), small(4), [worker("a"), worker("b", phase="Failed")], START)
    assert (names(plan.delete), creates(plan)) == (["b"], 0)


def test_the_planner_can_be_replaced_by_that_of_the_original() -> None:
    original = plan_group_like_v1_3_0(random.Random(1).random)
    plan = plan_cluster(cluster(small(4)), [head(), *five_workers()], original)
    assert [removal.reason for removal in plan.removals] == ["random"]
