"""What holds of every plan for a worker group, whatever its pods are."""

import random

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from controllers.workergroups.pod_plan import desired_workers
from controllers.workergroups.ray_pod_view import RayPodView, is_unhealthy
from controllers.workergroups.raycluster_view import GroupView
from reconcile.replicas import is_active
from tests.controllers.ray_views import (
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

PHASES = ("Pending", "Running", "Failed", "Succeeded")


@st.composite
def worker_pods(draw: st.DrawFn) -> list[RayPodView]:
    count = draw(st.integers(0, 8))
    return [
        worker(
            f"pod{number}",
            age=draw(st.integers(0, 3)),
            group=draw(st.sampled_from(["small", "large", "gone"])),
            phase=draw(st.sampled_from(PHASES)),
            ready=draw(st.booleans()),
            terminating=draw(st.booleans()),
            deletion_cost=draw(st.integers(-1, 1)),
            ray_container_terminated=draw(st.booleans()),
            restart_policy=draw(st.sampled_from(["Always", "Never"])),
            owner_uid=draw(st.sampled_from([UID, UID, "another"])),
        )
        for number in range(count)
    ]


HEADS = st.lists(
    st.builds(
        lambda number, phase, terminating: head(f"head{number}", phase=phase, terminating=terminating),
        st.integers(0, 9),
        st.sampled_from(PHASES),
        st.booleans(),
    ),
    max_size=2,
    unique_by=lambda pod: pod.name,
)
LISTED = st.lists(st.sampled_from([f"pod{number}" for number in range(9)]), max_size=3)
GROUPS = st.builds(
    lambda replicas, low, high, listed: small(replicas, *listed, min_replicas=low, max_replicas=low + high),
    st.none() | st.integers(0, 6),
    st.integers(0, 3),
    st.integers(0, 6),
    LISTED,
)


@given(GROUPS, worker_pods(), HEADS, st.randoms(use_true_random=False))
def test_a_plan_carried_out_leaves_nothing_to_do(
    group: GroupView, workers: list[RayPodView], heads: list[RayPodView], chance: random.Random
) -> None:
    whole = cluster(group, evolve(group, name="large", workers_to_delete=()))
    pods = [*workers, *heads]
    changed = after(plan_cluster(whole, pods), pods, lambda pod: chance.random() < 0.5)
    assert is_idle(plan_cluster(whole, changed))


@given(GROUPS, worker_pods())
def test_no_unlisted_healthy_pod_is_deleted_while_others_are_created(
    group: GroupView, pods: list[RayPodView]
) -> None:
    plan = plan_group(UID, group, pods)
    chosen = [one for one in plan.delete if one.reason not in ("unhealthy", "listed")]
    assert not (creates(plan) and chosen)


@given(GROUPS, worker_pods())
def test_no_more_healthy_pods_are_deleted_than_are_surplus_or_listed(
    group: GroupView, pods: list[RayPodView]
) -> None:
    own = [pod for pod in pods if pod.owner_uid == UID and pod.group == group.name]
    healthy = [pod for pod in own if is_active(pod) and not is_unhealthy(pod)]
    listed = [pod for pod in healthy if pod.name in group.workers_to_delete]
    chosen = [one for one in plan_group(UID, group, pods).delete if one.reason != "unhealthy"]
    assert len(chosen) == max(len(healthy) - desired_workers(group), len(listed))
    assert all(one.pod in healthy for one in chosen)


@given(GROUPS, worker_pods())
def test_a_group_ends_at_its_desired_size(group: GroupView, pods: list[RayPodView]) -> None:
    changed = after(plan_cluster(cluster(group), pods), pods, lambda pod: True)
    own = [pod for pod in changed if pod.owner_uid == UID and pod.group == group.name and is_active(pod)]
    assert len(own) == desired_workers(group)


@given(GROUPS, worker_pods(), st.randoms(use_true_random=False))
def test_a_group_that_has_converged_is_within_its_bounds(
    group: GroupView, pods: list[RayPodView], chance: random.Random
) -> None:
    whole = cluster(group)
    for _ in range(3):
        pods = after(plan_cluster(whole, pods), pods, lambda pod: chance.random() < 0.5)
    own = [pod for pod in pods if pod.owner_uid == UID and pod.group == group.name and is_active(pod)]
    assert group.min_replicas <= len(own) <= group.max_replicas


@given(GROUPS, worker_pods(), st.booleans(), st.randoms(use_true_random=False))
def test_each_surplus_unit_is_deleted_once_however_often_it_is_planned(
    group: GroupView, pods: list[RayPodView], autoscaled: bool, chance: random.Random
) -> None:
    """Whatever of the deleted pods lingers: of the healthy ones no more go than are too many or listed."""
    whole = cluster(group, autoscaler={} if autoscaled else None)
    own = [pod for pod in pods if pod.owner_uid == UID and pod.group == group.name and is_active(pod)]
    listed = [pod for pod in own if pod.name in group.workers_to_delete]
    gone: set[str] = set()
    for _ in range(4):
        plan = plan_cluster(whole, pods)
        gone |= {one.pod.uid for one in plan.groups[0].delete if one.reason != "unhealthy"}
        pods = after(plan, pods, lambda pod: chance.random() < 0.5)
    surplus = 0 if autoscaled else len(own) - desired_workers(group)
    assert len(gone) <= max(surplus, len(listed))


@given(GROUPS, worker_pods(), st.randoms(use_true_random=False))
def test_the_order_of_the_pods_does_not_matter(
    group: GroupView, pods: list[RayPodView], chance: random.Random
) -> None:
    assert plan_group(UID, group, chance.sample(pods, len(pods))) == plan_group(UID, group, pods)
