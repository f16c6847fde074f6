"""Pods, groups and clusters as the plan of worker groups reads them."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import evolve

from controllers.workergroups.pod_plan import PlanGroup, RayClusterPlan, WorkerGroupPlan
from controllers.workergroups.pod_plan import plan_cluster as plan_cluster_at
from controllers.workergroups.pod_plan import plan_group as plan_group_at
from controllers.workergroups.ray_pod_view import RayPodView
from controllers.workergroups.raycluster_view import ClusterView, GroupView

START = datetime(2025, 5, 3, tzinfo=UTC)
UID = "cluster-uid"


def worker(name: str, *, age: int = 0, group: str = "small", **changes: Any) -> RayPodView:
    """A Ready worker; `age` in seconds, greater is older."""
    pod = RayPodView(
        name=name,
        namespace="default",
        uid=f"uid-of-{name}",
        created=START - timedelta(seconds=age),
        owner_uid=UID,
        node_type="worker",
        group=group,
        phase="Running",
        ready=True,
    )
    return evolve(pod, **changes)


def head(name: str = "head", **changes: Any) -> RayPodView:
    return worker(name, group="headgroup", node_type="head", **changes)


def small(replicas: int | None = 3, *listed: str, **changes: Any) -> GroupView:
    return GroupView(name="small", replicas=replicas, workers_to_delete=listed, **changes)


def cluster(*groups: GroupView, **changes: Any) -> ClusterView:
    return evolve(ClusterView("ray", "default", UID, groups=groups or (small(),)), **changes)


def plan_group(uid: str, group: GroupView, pods: Sequence[RayPodView], **cluster: Any) -> WorkerGroupPlan:
    return plan_group_at(ClusterView("ray", "default", uid, groups=(group,), **cluster), group, pods, START)


def plan_cluster(
    view: ClusterView, pods: Sequence[RayPodView], planner: PlanGroup = plan_group_at
) -> RayClusterPlan:
    return plan_cluster_at(view, pods, START, planner)


def creates(plan: WorkerGroupPlan) -> int:
    return sum(len(replica.hosts) for replica in plan.create)


def is_idle(plan: RayClusterPlan) -> bool:
    return not plan.removals and not plan.head.create and not any(map(creates, plan.groups))


def after(
    plan: RayClusterPlan, pods: Sequence[RayPodView], lingers: Callable[[RayPodView], bool]
) -> list[RayPodView]:
    """The pods once the plan is carried out; a deleted one is gone, or Terminating if it `lingers`."""
    doomed = {removal.pod.uid for removal in plan.removals}
    left = [evolve(pod, terminating=pod.terminating or pod.uid in doomed) for pod in pods]
    kept = [pod for pod in left if pod.uid not in doomed or lingers(pod)]
    made = [
        worker(f"new-{one.group}-{number}", group=one.group, phase="Pending", ready=False)
        for one in plan.groups
        for number in range(creates(one))
    ]
    heads = [head("new-head", phase="Pending", ready=False)] if plan.head.create else []
    return [*kept, *made, *heads]
