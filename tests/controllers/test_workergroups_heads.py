"""The whole plan for the head of a RayCluster, and what a plan as a whole comes to."""

from datetime import timedelta

import pytest
from attrs import evolve

from controllers.workergroups.pod_plan import (
    HeadPlan,
    PodRemoval,
    RayClusterPlan,
    WorkerGroupPlan,
    desired_replicas,
    desired_workers,
    plan_cluster,
    plan_group_at_random,
    plan_head,
    plan_no_pods,
)
from controllers.workergroups.pod_upgrade import HASH_VERSION
from controllers.workergroups.ray_pod_view import RayPodView
from reconcile.blocks import NewReplica
from tests.controllers.ray_views import START, cluster, creates, head, is_idle, small, worker

UP = head("b-up")
OTHER = head("a-other")
BROKEN = head("broken", phase="Failed")
GOING = head("going", terminating=True)
NO_RESTART = {"ray.io/disable-provisioned-head-restart": "true"}


@pytest.mark.rule("kuberay-1d-05")
@pytest.mark.parametrize(
    ("pods", "plan"),
    [
        ([], HeadPlan(create=True)),
        ([UP], HeadPlan()),
        ([GOING], HeadPlan(create=True, waiting=(GOING,))),
        ([UP, GOING], HeadPlan(waiting=(GOING,))),
        ([BROKEN], HeadPlan(create=True, delete=(PodRemoval(BROKEN, "unhealthy"),), failures=1)),
        ([UP, BROKEN], HeadPlan(delete=(PodRemoval(BROKEN, "unhealthy"),))),
        ([UP, OTHER], HeadPlan(surplus=(OTHER, UP))),
        (
            [UP, evolve(BROKEN, terminating=True), OTHER, BROKEN, GOING],
            HeadPlan(
                surplus=(OTHER, UP),
                delete=(PodRemoval(BROKEN, "unhealthy"),),
                waiting=(evolve(BROKEN, terminating=True), GOING),
            ),
        ),
        ([worker("w"), evolve(UP, owner_uid="another"), evolve(UP, node_type=None)], HeadPlan(create=True)),
    ],
)
def test_with_several_heads_none_is_chosen(pods: list[RayPodView], plan: HeadPlan) -> None:
    assert plan_head(cluster(), pods, START) == plan


@pytest.mark.parametrize(
    ("pods", "plan"),
    [
        ([BROKEN, GOING], HeadPlan(waiting=(GOING,))),
        ([], HeadPlan()),
        ([UP, BROKEN], HeadPlan(delete=(PodRemoval(BROKEN, "unhealthy"),))),
        ([UP, OTHER], HeadPlan(surplus=(OTHER, UP))),
    ],
)
def test_a_finished_head_whose_restart_is_disabled_is_left_alone(
    pods: list[RayPodView], plan: HeadPlan
) -> None:
    view = cluster(annotations=NO_RESTART)
    assert plan_head(view, pods, START, provisioned=True) == plan
    assert plan_head(view, [], START).create
    assert plan_cluster(view, pods, START, provisioned=True).head == plan
    assert plan_cluster(view, [], START).head.create


def test_a_repeatedly_failing_head_is_recreated_with_growing_delays_and_a_failure_count() -> None:
    again = evolve(BROKEN, failures=3, created=START - timedelta(seconds=15))
    assert plan_head(cluster(), [again], START) == HeadPlan(after=25.0)
    later = evolve(again, created=START - timedelta(seconds=40))
    plan = plan_head(cluster(), [later], START)
    assert plan == HeadPlan(create=True, delete=(PodRemoval(later, "unhealthy"),), failures=4)


@pytest.mark.rule("kuberay-1d-12")
def test_the_head_of_another_operator_is_marked_if_specs_are_compared() -> None:
    theirs = evolve(UP, upgrade_hash="theirs", operator_version="v1.5.1")
    assert plan_head(cluster(recreates=True), [theirs, BROKEN], START) == HeadPlan(
        mark=theirs, delete=(PodRemoval(BROKEN, "unhealthy"),)
    )
    assert plan_head(cluster(), [theirs], START) == HeadPlan()


# The plan of a whole cluster.

A, B, C = worker("a"), worker("b"), worker("c", group="gone")
MADE = (NewReplica(0, (0, 1)), NewReplica(1, (0,)))


def test_workers_are_deleted_before_pods_without_a_group_and_the_head_last() -> None:
    removals = [
        PodRemoval(A, "listed"),
        PodRemoval(B, "newest"),
        PodRemoval(C, "group-removed"),
        PodRemoval(UP, "upgraded"),
    ]
    plan = RayClusterPlan(
        head=HeadPlan(delete=(removals[3],)),
        groups=(WorkerGroupPlan("one", delete=(removals[0],)), WorkerGroupPlan("two", delete=(removals[1],))),
        abandoned=(removals[2],),
    )
    assert list(plan.removals) == removals


@pytest.mark.parametrize(
    ("plan", "idle", "replaces"),
    [
        (RayClusterPlan(), True, False),
        (RayClusterPlan(head=HeadPlan(create=True)), False, False),
        (RayClusterPlan(head=HeadPlan(waiting=(GOING,), mark=UP, after=1)), True, False),
        (RayClusterPlan(head=HeadPlan(create=True, waiting=(GOING,))), False, True),
        (RayClusterPlan(head=HeadPlan(delete=(PodRemoval(UP, "upgraded"),))), False, False),
        (RayClusterPlan(groups=(WorkerGroupPlan("g"), WorkerGroupPlan("h", create=MADE))), False, False),
        (
            RayClusterPlan(groups=(WorkerGroupPlan("g", waiting=(A,)), WorkerGroupPlan("h", create=MADE))),
            False,
            True,
        ),
        (
            RayClusterPlan(head=HeadPlan(create=True), groups=(WorkerGroupPlan("g", waiting=(A,)),)),
            False,
            True,
        ),
        (
            RayClusterPlan(head=HeadPlan(waiting=(GOING,)), groups=(WorkerGroupPlan("h", create=MADE),)),
            False,
            True,
        ),
        (RayClusterPlan(groups=(WorkerGroupPlan("g", waiting=(A,)),)), True, False),
    ],
)
def test_a_plan_is_idle_creates_pods_or_creates_them_while_others_are_deleted(
    plan: RayClusterPlan, idle: bool, replaces: bool
) -> None:
    assert (is_idle(plan), plan.replaces) == (idle, replaces)


def test_the_next_run_is_due_when_the_first_delay_is_over() -> None:
    groups = (WorkerGroupPlan("g", after=7.0), WorkerGroupPlan("h"), WorkerGroupPlan("i", after=5.0))
    assert RayClusterPlan(groups=groups).after == 5.0
    assert RayClusterPlan(head=HeadPlan(after=0.0), groups=groups).after == 0.0
    assert (RayClusterPlan().after, RayClusterPlan(head=HeadPlan(after=3.0)).after) == (None, 3.0)
    assert creates(WorkerGroupPlan("g", create=MADE)) == 3


def test_the_plan_of_a_group_has_all_its_parts() -> None:
    dead, going = worker("dead", phase="Failed"), worker("going", terminating=True)
    pods = [A, B, dead, going]
    assert plan_cluster(cluster(small(4)), [UP, *pods], START).groups == (
        WorkerGroupPlan(
            "small",
            create=(NewReplica(0, (0,), 1), NewReplica(1, (0,))),
            delete=(PodRemoval(dead, "unhealthy"),),
            waiting=(going,),
        ),
    )
    suspended = plan_group_at_random(cluster(), small(4, suspend=True), pods, START)
    assert suspended.delete == (
        PodRemoval(dead, "unhealthy"),
        PodRemoval(A, "suspended"),
        PodRemoval(B, "suspended"),
    )
    hosts = [worker(f"r-{number}", replica="r", host_index=number) for number in range(2)]
    (whole,) = plan_cluster(cluster(small(1, num_of_hosts=2)), [UP, *hosts], START).groups
    assert whole == WorkerGroupPlan("small", mark=(hosts[0],))
    again = worker("again", phase="Failed", failures=2)
    (held,) = plan_cluster(cluster(small(1)), [UP, again], START).groups
    assert held == WorkerGroupPlan("small", after=20.0)


def test_a_suspended_group_loses_its_pods_under_the_autoscaler_too() -> None:
    (planned,) = plan_cluster(cluster(small(2, suspend=True), autoscaler={}), [UP, A], START).groups
    assert planned.delete == (PodRemoval(A, "suspended"),)


@pytest.mark.rule("kuberay-1d-06")
@pytest.mark.parametrize(
    ("replicas", "low", "high", "wanted"),
    [(None, 2, 5, 2), (0, 1, 5, 1), (0, 0, 5, 0), (2, 0, 0, 0), (3, 0, 5, 3), (6, 0, 5, 5), (-1, 0, 5, 0)],
)
def test_the_replicas_of_a_group_stay_within_its_bounds(
    replicas: int | None, low: int, high: int, wanted: int
) -> None:
    group = small(replicas, min_replicas=low, max_replicas=high, num_of_hosts=4)
    assert (desired_replicas(group), desired_workers(group)) == (wanted, 4 * wanted)


def test_pods_without_a_group_are_deleted_by_name_whatever_their_state() -> None:
    left = [evolve(C, name=name, phase=phase) for name, phase in (("z", "Failed"), ("y", "Pending"))]
    others = [
        evolve(C, name="theirs", owner_uid="another"),
        evolve(C, name="going", terminating=True),
        evolve(C, name="neither", node_type=None),
    ]
    plan = plan_cluster(cluster(small(0)), [UP, *left, *others], START)
    assert plan == RayClusterPlan(
        groups=(WorkerGroupPlan("small"),),
        abandoned=(PodRemoval(left[1], "group-removed"), PodRemoval(left[0], "group-removed")),
    )


@pytest.mark.rule("kuberay-1d-13")
def test_all_pods_are_deleted_except_foreign_and_terminating_ones() -> None:
    others = [GOING, evolve(A, owner_uid="another"), evolve(A, node_type=None)]
    plan = plan_no_pods(cluster(), [B, *others, UP, A, C, OTHER], "suspended")
    assert plan == RayClusterPlan(
        head=HeadPlan(delete=(PodRemoval(OTHER, "suspended"), PodRemoval(UP, "suspended"))),
        abandoned=(PodRemoval(A, "suspended"), PodRemoval(B, "suspended"), PodRemoval(C, "suspended")),
    )
    old = evolve(UP, upgrade_hash="old", operator_version=HASH_VERSION)
    view = cluster(recreates=True, upgrade_hash="new")
    assert plan_cluster(view, [old, A], START) == plan_no_pods(view, [old, A], "upgraded")
