"""Which pods of a RayCluster to make and which to delete: functions from views to a plan.

Everything here rests on `reconcile.replicas.is_active`. A Terminating pod neither counts as present nor
can be chosen, so it is deleted once, and one that never goes away does not hold up its replacement.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from attrs import frozen

from reconcile.replicas import is_active, rank_victims

from .views import ClusterView, GroupView, Invalid, PodView, Unsupported, is_unhealthy, of_cluster

Reason = Literal["unhealthy", "listed", "not-ready", "cheapest", "newest", "group-removed", "random"]


@frozen
class Removal:
    """A pod to delete, with the reason it was this one. The delete carries the pod's uid."""

    pod: PodView
    reason: Reason


@frozen
class GroupPlan:
    """What to do about one worker group; `waiting` are its Terminating pods, left alone."""

    group: str
    create: int = 0
    delete: tuple[Removal, ...] = ()
    waiting: tuple[PodView, ...] = ()


@frozen
class HeadPlan:
    """What to do about the head pod. `surplus` are the heads among which a person has to choose."""

    create: bool = False
    delete: tuple[Removal, ...] = ()
    waiting: tuple[PodView, ...] = ()
    surplus: tuple[PodView, ...] = ()


@frozen
class Plan:
    """What to do about a cluster. When `refused` is not empty there is nothing else in it."""

    head: HeadPlan = HeadPlan()
    groups: tuple[GroupPlan, ...] = ()
    abandoned: tuple[Removal, ...] = ()
    refused: tuple[Unsupported | Invalid, ...] = ()

    @property
    def removals(self) -> tuple[Removal, ...]:
        """All pods to delete, in the order of the head, the groups, and groups no longer in the spec."""
        return (*self.head.delete, *(one for group in self.groups for one in group.delete), *self.abandoned)

    @property
    def is_idle(self) -> bool:
        """Whether there is no pod to make or delete."""
        return not self.removals and not self.head.create and not any(group.create for group in self.groups)


PlanGroup = Callable[[str, GroupView, Sequence[PodView]], GroupPlan]


def desired_workers(group: GroupView) -> int:
    """How many pods the group should have: `replicas` within [min, max], times the hosts of each.

    None means the minimum, an explicit 0 is 0 before the minimum applies, a suspended group has none.
    """
    if group.suspend:
        return 0
    wanted = group.min_replicas if group.replicas is None else group.replicas
    return max(group.min_replicas, min(wanted, group.max_replicas)) * group.num_of_hosts


def choose_removals(pods: Sequence[PodView], surplus: int, listed: Collection[str]) -> list[Removal]:
    """The `surplus` active pods to delete, in the order of `rank_victims`."""
    ranked = rank_victims(pods, listed)
    return [Removal(victim.replica, victim.reason) for victim in ranked[: max(surplus, 0)]]


def plan_group(cluster_uid: str, group: GroupView, pods: Sequence[PodView]) -> GroupPlan:
    """The steps that bring the group to its desired size, given any pods of the namespace.

    Unhealthy pods are replaced. Pods in `workersToDelete` go even when the size is right already,
    and are replaced then; names that are not pods of this group and cluster have no effect.
    """
    own = [
        pod for pod in of_cluster(cluster_uid, pods) if pod.node_type == "worker" and pod.group == group.name
    ]
    broken, healthy, waiting = _by_fate(own)
    desired = desired_workers(group)
    listed = {pod.name for pod in healthy}.intersection(group.workers_to_delete)
    removals = choose_removals(healthy, max(len(healthy) - desired, len(listed)), listed)
    return GroupPlan(
        group=group.name,
        create=max(0, desired - (len(healthy) - len(removals))),
        delete=(*broken, *removals),
        waiting=waiting,
    )


def plan_head(cluster_uid: str, pods: Sequence[PodView]) -> HeadPlan:
    """One head pod: made when there is none, replaced when unhealthy.

    Of several healthy heads none is deleted: which one holds the cluster's state is not known here.
    """
    own = [pod for pod in of_cluster(cluster_uid, pods) if pod.node_type == "head"]
    broken, healthy, waiting = _by_fate(own)
    surplus = tuple(healthy) if len(healthy) > 1 else ()
    return HeadPlan(create=not healthy, delete=broken, waiting=waiting, surplus=surplus)


def plan_cluster(cluster: ClusterView, pods: Sequence[PodView], plan_group: PlanGroup = plan_group) -> Plan:
    """The steps for the head pod, each group, and the pods of groups that left the spec.

    A cluster that asks for what this version lacks is refused as a whole: no pod is touched.
    """
    if cluster.refused:
        return Plan(refused=cluster.refused)
    groups = tuple(plan_group(cluster.uid, group, pods) for group in cluster.groups)
    return Plan(head=plan_head(cluster.uid, pods), groups=groups, abandoned=_abandoned(cluster, pods))


def _abandoned(cluster: ClusterView, pods: Sequence[PodView]) -> tuple[Removal, ...]:
    named = {group.name for group in cluster.groups}
    own = sorted(of_cluster(cluster.uid, pods), key=lambda pod: pod.name)
    left = [
        pod for pod in own if pod.node_type == "worker" and pod.group not in named and not pod.terminating
    ]
    return tuple(Removal(pod, "group-removed") for pod in left)


def _by_fate(pods: Sequence[PodView]) -> tuple[tuple[Removal, ...], list[PodView], tuple[PodView, ...]]:
    """Pods to replace, pods that count, pods that are going; each in the order of their names."""
    ordered = sorted(pods, key=lambda pod: pod.name)
    broken = tuple(Removal(pod, "unhealthy") for pod in ordered if not pod.terminating and is_unhealthy(pod))
    healthy = [pod for pod in ordered if is_active(pod) and not is_unhealthy(pod)]
    return broken, healthy, tuple(pod for pod in ordered if pod.terminating)
