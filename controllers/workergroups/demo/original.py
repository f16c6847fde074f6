"""How KubeRay v1.3.0 planned a worker group, for comparison in the demo only.

The flaw is kept (ray-project/kuberay#3286): every pod with the group's label counts, Terminating ones too,
and the victims are the first of an unordered list. The delete expectation was met once the victim had a
deletionTimestamp, which is also when the next run begins here; so nothing separates two deletions.
"""

import datetime
from collections.abc import Callable, Sequence

from reconcile.blocks import NewReplica

from ..pod_plan import PlanGroup, PodRemoval, WorkerGroupPlan, desired_workers
from ..ray_pod_view import RayPodView, is_unhealthy
from ..raycluster_view import ClusterView, GroupView


def plan_group_like_v1_3_0(random: Callable[[], float]) -> PlanGroup:
    """A stand-in for `plan_group`; `random` (of the injected Clock) orders its lists."""

    def plan_group(
        cluster: ClusterView, group: GroupView, pods: Sequence[RayPodView], now: datetime.datetime
    ) -> WorkerGroupPlan:
        listing = _unordered(
            [pod for pod in pods if pod.node_type == "worker" and pod.group == group.name], random
        )
        unhealthy = tuple(PodRemoval(pod, "unhealthy") for pod in listing if is_unhealthy(pod))
        if unhealthy:
            return WorkerGroupPlan(group.name, delete=unhealthy)
        return _by_difference(group, listing)

    return plan_group


def _by_difference(group: GroupView, listing: Sequence[RayPodView]) -> WorkerGroupPlan:
    listed = tuple(PodRemoval(pod, "listed") for pod in listing if pod.name in group.workers_to_delete)
    running = [pod for pod in listing if pod.name not in group.workers_to_delete]
    missing = desired_workers(group) - len(running)
    victims = tuple(PodRemoval(pod, "random") for pod in running[: max(0, -missing)])
    create = tuple(NewReplica(index, (0,)) for index in range(max(0, missing)))
    return WorkerGroupPlan(group.name, create=create, delete=(*listed, *victims))


def _unordered(pods: Sequence[RayPodView], random: Callable[[], float]) -> list[RayPodView]:
    """As an informer's map, without order. Sorted by name first, so that a seed decides."""
    drawn = [(random(), pod) for pod in sorted(pods, key=lambda pod: pod.name)]
    return [pod for _, pod in sorted(drawn, key=lambda pair: pair[0])]
