"""Which pods of a RayCluster to create and which to delete: functions from views to a plan.

By `reconcile.replicas.is_active` and `ReplicaGroup` a Terminating pod neither counts nor can be chosen, so
it is deleted once, and one that never ends does not hold up its replacement.
"""

import datetime
from collections.abc import Callable, Sequence
from typing import Literal

from attrs import evolve, frozen

from reconcile.blocks import NewReplica, ReplicaGroup
from reconcile.replicas import is_active

from .pod_upgrade import plan_upgrade
from .ray_pod_view import RayPodView, pods_of_cluster
from .raycluster_view import NO_HEAD_RESTART, ClusterView, GroupView

PodRemovalReason = Literal[
    "unhealthy",
    "incomplete",
    "resized",
    "listed",
    "not-ready",
    "cheapest",
    "newest",
    "group-removed",
    "suspended",
    "upgraded",
    "cluster-deleted",
    "random",
]


@frozen
class PodRemoval:
    """The request carries the pod's uid."""

    pod: RayPodView
    reason: PodRemovalReason


@frozen
class WorkerGroupPlan:
    """The changes to a group; `waiting` are its Terminating pods, which are left alone.

    `after`: seconds until a worker that broke too often may be replaced. `mark`: the first hosts of replicas
    that have just become whole.
    """

    group: str
    create: tuple[NewReplica, ...] = ()
    delete: tuple[PodRemoval, ...] = ()
    waiting: tuple[RayPodView, ...] = ()
    after: float | None = None
    mark: tuple[RayPodView, ...] = ()


@frozen
class HeadPlan:
    """The changes to the head. Of several healthy heads, the `surplus`, a person has to keep one."""

    create: bool = False
    delete: tuple[PodRemoval, ...] = ()
    waiting: tuple[RayPodView, ...] = ()
    surplus: tuple[RayPodView, ...] = ()
    mark: RayPodView | None = None
    failures: int = 0
    after: float | None = None


@frozen
class RayClusterPlan:
    """The changes to a cluster; with `refused` there are no others."""

    head: HeadPlan = HeadPlan()
    groups: tuple[WorkerGroupPlan, ...] = ()
    abandoned: tuple[PodRemoval, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def removals(self) -> tuple[PodRemoval, ...]:
        """The head is last, since its hash says which spec the others were created from."""
        workers = (removal for group in self.groups for removal in group.delete)
        return (*workers, *self.abandoned, *self.head.delete)

    @property
    def replaces(self) -> bool:
        """Whether pods are to be created while others are Terminating."""
        waiting = self.head.waiting or any(group.waiting for group in self.groups)
        return bool(waiting) and (self.head.create or any(group.create for group in self.groups))

    @property
    def after(self) -> float | None:
        """Seconds until something is due by time alone, if anything is."""
        waits = (self.head.after, *(group.after for group in self.groups))
        return min((wait for wait in waits if wait is not None), default=None)


PlanGroup = Callable[[ClusterView, GroupView, Sequence[RayPodView], datetime.datetime], WorkerGroupPlan]


def desired_replicas(group: GroupView) -> int:
    """`replicas` within its bounds: None means the minimum; a suspended group has 0."""
    if group.suspend:
        return 0
    wanted = group.min_replicas if group.replicas is None else group.replicas
    return max(group.min_replicas, min(wanted, group.max_replicas))


def desired_workers(group: GroupView) -> int:
    return desired_replicas(group) * group.num_of_hosts


def plan_group(
    cluster: ClusterView, group: GroupView, pods: Sequence[RayPodView], now: datetime.datetime
) -> WorkerGroupPlan:
    """The changes that bring the group to its desired size, given any pods of the namespace.

    Unhealthy pods are replaced. Pods in `workersToDelete` are deleted even if the size is right, and then
    replaced; other names have no effect. Under the in-tree autoscaler no surplus pod is chosen here: the
    autoscaler lists those that it knows to be idle.
    """
    chooses = group.suspend or cluster.autoscaler is None
    replicas = ReplicaGroup(desired_replicas(group), group.num_of_hosts, group.workers_to_delete, chooses)
    plan = replicas.plan(workers_of_group(cluster, group, pods), now)
    removals = tuple(
        PodRemoval(one.host, "suspended" if group.suspend and one.reason != "unhealthy" else one.reason)
        for one in plan.delete
    )
    return WorkerGroupPlan(group.name, plan.create, removals, plan.waiting, plan.after, plan.mark)


def plan_group_at_random(
    cluster: ClusterView, group: GroupView, pods: Sequence[RayPodView], now: datetime.datetime
) -> WorkerGroupPlan:
    """Chooses surplus workers under the autoscaler too (ENABLE_RANDOM_POD_DELETE)."""
    return plan_group(evolve(cluster, autoscaler=None), group, pods, now)


def workers_of_group(cluster: ClusterView, group: GroupView, pods: Sequence[RayPodView]) -> list[RayPodView]:
    own = pods_of_cluster(cluster.uid, pods)
    return [pod for pod in own if pod.node_type == "worker" and pod.group == group.name]


def plan_head(
    cluster: ClusterView, pods: Sequence[RayPodView], now: datetime.datetime, *, provisioned: bool = False
) -> HeadPlan:
    """One head: created if there is none, and replaced if unhealthy, with a growing delay.

    Of several healthy heads none is deleted, since it is unknown which one holds the cluster's state. An
    annotation may forbid a new head for a cluster that was provisioned once.
    """
    own = sorted(
        (p for p in pods_of_cluster(cluster.uid, pods) if p.node_type == "head"), key=lambda p: p.name
    )
    healthy = [pod for pod in own if is_active(pod)]
    if len(healthy) > 1:
        return HeadPlan(surplus=tuple(healthy), delete=_all_broken(own), waiting=_terminating(own))
    if not healthy and provisioned and cluster.asks(NO_HEAD_RESTART):
        return HeadPlan(waiting=_terminating(own))
    plan = ReplicaGroup(1).plan(own, now)
    upgrade = plan_upgrade(cluster, pods)
    return HeadPlan(
        create=bool(plan.create),
        delete=tuple(PodRemoval(one.host, one.reason) for one in plan.delete),
        waiting=plan.waiting,
        mark=healthy[0] if upgrade == "mark" else None,
        failures=plan.create[0].failures if plan.create else 0,
        after=plan.after,
    )


def plan_cluster(
    cluster: ClusterView,
    pods: Sequence[RayPodView],
    now: datetime.datetime,
    plan_group: PlanGroup = plan_group,
    *,
    provisioned: bool = False,
) -> RayClusterPlan:
    """The changes to the head, each group, and the pods of groups that left the spec.

    A cluster that asks for an unsupported feature is refused as a whole: no pod is touched. If its pods were
    created from another spec, and its strategy is to replace them, all of them are deleted first.
    """
    if cluster.refused:
        return RayClusterPlan(refused=cluster.refused)
    if plan_upgrade(cluster, pods) == "recreate":
        return plan_no_pods(cluster, pods, "upgraded")
    groups = tuple(plan_group(cluster, group, pods, now) for group in cluster.groups)
    head = plan_head(cluster, pods, now, provisioned=provisioned)
    return RayClusterPlan(head=head, groups=groups, abandoned=_abandoned(cluster, pods))


def plan_no_pods(
    cluster: ClusterView, pods: Sequence[RayPodView], reason: PodRemovalReason
) -> RayClusterPlan:
    own = sorted(pods_of_cluster(cluster.uid, pods), key=lambda pod: pod.name)
    live = [PodRemoval(pod, reason) for pod in own if not pod.terminating]
    return RayClusterPlan(
        head=HeadPlan(delete=tuple(one for one in live if one.pod.node_type == "head")),
        abandoned=tuple(one for one in live if one.pod.node_type == "worker"),
    )


def _abandoned(cluster: ClusterView, pods: Sequence[RayPodView]) -> tuple[PodRemoval, ...]:
    named = {group.name for group in cluster.groups}
    own = sorted(pods_of_cluster(cluster.uid, pods), key=lambda pod: pod.name)
    left = [
        pod for pod in own if pod.node_type == "worker" and pod.group not in named and not pod.terminating
    ]
    return tuple(PodRemoval(pod, "group-removed") for pod in left)


def _all_broken(pods: Sequence[RayPodView]) -> tuple[PodRemoval, ...]:
    return tuple(PodRemoval(pod, "unhealthy") for pod in pods if pod.finished and not pod.terminating)


def _terminating(pods: Sequence[RayPodView]) -> tuple[RayPodView, ...]:
    return tuple(pod for pod in pods if pod.terminating)
