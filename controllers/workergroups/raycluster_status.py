"""The status of a RayCluster, computed from its spec and pods alone."""

import datetime
from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

from reconcile import Condition, Quantity
from reconcile.replicas import is_active

from .models import HeadInfo, RayClusterStatus
from .pod_plan import RayClusterPlan, desired_workers
from .ray_pod_view import CLUSTER_LABEL, GROUP_LABEL, MARKS, Object, RayPodView, pods_of_cluster
from .raycluster_view import NO_LIMIT, ClusterView, GroupView
from .suspension import SUSPENDED, SUSPENDING, Phase

TPU = "google.com/tpu"
_NONE = Quantity(0)

_MAX_FAULTS = 20
_MAX_FAULT_LENGTH = 300


@frozen
class ReplicaFailure:
    """For the condition ReplicaFailure. `reason` is CamelCase."""

    reason: str
    message: str


def status_of(
    cluster: ClusterView,
    pods: Sequence[RayPodView],
    *,
    provisioned: bool = False,
    failure: ReplicaFailure | None = None,
    phase: Phase | None = None,
) -> RayClusterStatus:
    """The part of a cluster's status that follows from its spec and the pods of its namespace.

    Args:
        provisioned: Whether RayClusterProvisioned was True before; only a suspension makes it False again.
        failure: What went wrong in this run, if anything; see also `failure_in_plan`.
        phase: How far a suspension has come; None if there never was one.
    """
    active = [pod for pod in pods_of_cluster(cluster.uid, pods) if is_active(pod)]
    heads = sorted(
        (pod for pod in active if pod.node_type == "head"), key=lambda pod: (pod.created, pod.name)
    )
    head = heads[0] if heads else None
    named = {group.name for group in cluster.groups}
    workers = [pod for pod in active if pod.node_type == "worker" and pod.group in named]
    running = phase in (None, "running")
    all_ready = running and len(heads) == 1 and heads[0].ready and _all_workers_ready(cluster, workers)
    resources = _desired_resources(cluster)
    return RayClusterStatus(
        state="failed" if failure else "ready" if all_ready else "suspended" if phase == "suspended" else "",
        reason=failure.message if failure else "",
        desired_worker_replicas=_capped(desired_workers(group) for group in cluster.groups),
        min_worker_replicas=_capped(_bound(group, group.min_replicas) for group in cluster.groups),
        max_worker_replicas=_capped(_bound(group, group.max_replicas) for group in cluster.groups),
        available_worker_replicas=sum(pod.phase == "Running" for pod in workers),
        ready_worker_replicas=sum(pod.ready for pod in workers),
        head=HeadInfo(head.name, head.ip) if head else HeadInfo(),
        desired_cpu=resources.get("cpu", _NONE).canonical,
        desired_memory=resources.get("memory", _NONE).canonical,
        desired_gpu=sum((amount for name, amount in resources.items() if is_gpu(name)), _NONE).canonical,
        desired_tpu=resources.get(TPU, _NONE).canonical,
        replicas=_whole_replicas(cluster, workers),
        selector=_selector(cluster),
        conditions=(
            _head_ready(head),
            _provisioned(provisioned or all_ready, phase),
            _replica_failure(failure),
            *_suspension(phase),
        ),
    )


def failure_in_plan(plan: RayClusterPlan) -> ReplicaFailure | None:
    """The failure that the plan itself reports: a refused spec, or several head pods."""
    if plan.refused:
        # A condition's message has at most 32 KiB, and a spec may have a fault in each of 200 groups.
        faults = "; ".join(f"{fault}"[:_MAX_FAULT_LENGTH] for fault in plan.refused[:_MAX_FAULTS])
        more = len(plan.refused) - _MAX_FAULTS
        return ReplicaFailure("Refused", f"{faults}; and {more} more" if more > 0 else faults)
    if plan.head.surplus:
        names = ", ".join(pod.name for pod in plan.head.surplus)
        return ReplicaFailure("TooManyHeadPods", f"keep one head pod and delete the others: {names}")
    return None


def is_gpu(resource: str) -> bool:
    """Whether a resource is a GPU (its name ends in `gpu`) or a slice of one (`nvidia.com/mig-1g.5gb`)."""
    return resource.endswith("gpu") or resource.startswith("nvidia.com/mig-")


def pod_resources(template: Object) -> dict[str, Quantity]:
    """The requests of the template's pods; a container's limits count if it has no requests."""
    sums: dict[str, Quantity] = {}
    for container in (template.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, text in amounts.items():
            sums[name] = sums.get(name, _NONE) + Quantity(text)
    return sums


def _desired_resources(cluster: ClusterView) -> dict[str, Quantity]:
    """The requests of the head and all desired workers; empty if refused, as amounts may not parse."""
    if cluster.refused:
        return {}
    sums = pod_resources(cluster.head.template)
    for group in cluster.groups:
        for name, amount in pod_resources(group.template).items():
            sums[name] = sums.get(name, _NONE) + amount * desired_workers(group)
    return sums


def _bound(group: GroupView, replicas: int) -> int:
    return 0 if group.suspend else replicas * group.num_of_hosts


def _capped(counts: Iterable[int]) -> int:
    return min(sum(counts), NO_LIMIT)


def _all_workers_ready(cluster: ClusterView, workers: Sequence[RayPodView]) -> bool:
    if not all(pod.ready for pod in workers):
        return False
    return all(
        sum(pod.group == group.name for pod in workers) == desired_workers(group) for group in cluster.groups
    )


def _whole_replicas(cluster: ClusterView, workers: Sequence[RayPodView]) -> int:
    """How many replicas exist: of a replica with several hosts only the first counts."""
    several = {group.name for group in cluster.groups if group.num_of_hosts > 1}
    return sum(pod.group not in several or pod.host_index == 0 for pod in workers)


def _selector(cluster: ClusterView) -> str:
    """Selects one pod for each replica of the only group, for an autoscaler; empty with several groups."""
    if len(cluster.groups) != 1:
        return ""
    (group,) = cluster.groups
    labels = {CLUSTER_LABEL: cluster.name, GROUP_LABEL: group.name}
    if group.num_of_hosts > 1:
        labels[MARKS.host_index] = "0"
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _head_ready(head: RayPodView | None) -> Condition:
    if head is None:
        return Condition("HeadPodReady", "False", "HeadPodNotFound", "there is no head pod")
    if head.ready:
        reason = head.ready_reason or "HeadPodRunningAndReady"
        return Condition("HeadPodReady", "True", reason, head.ready_message)
    return Condition("HeadPodReady", "False", head.ready_reason or "Unknown", head.ready_message)


def _provisioned(ever: bool, phase: Phase | None) -> Condition:
    if phase == "suspended":
        return Condition(
            "RayClusterProvisioned", "False", "RayClusterPodsDeleted", "the cluster is suspended"
        )
    if ever:
        message = "all Ray pods are ready for the first time"
        return Condition("RayClusterProvisioned", "True", "AllPodRunningAndReadyFirstTime", message)
    message = "not all Ray pods have been ready yet"
    return Condition("RayClusterProvisioned", "False", "RayClusterPodsProvisioning", message)


def _replica_failure(failure: ReplicaFailure | None) -> Condition:
    if failure is None:
        return Condition("ReplicaFailure", "False", "NoFailure")
    return Condition("ReplicaFailure", "True", failure.reason, failure.message)


def _suspension(phase: Phase | None) -> list[Condition]:
    if phase is None:
        return []
    going, gone = phase in ("beginning", "suspending"), phase == "suspended"
    return [
        Condition(SUSPENDING, "True" if going else "False", "PodsAreDeleted" if going else "NotSuspending"),
        Condition(SUSPENDED, "True" if gone else "False", "NoPodsAreLeft" if gone else "NotSuspended"),
    ]


def with_times(before: RayClusterStatus, after: RayClusterStatus, now: datetime.datetime) -> RayClusterStatus:
    """`after` with KubeRay's times: of the last change, and of the entry into each state."""
    times = dict(before.state_transition_times or {})
    if after.state and after.state != before.state:
        times[after.state] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return evolve(after, last_update_time=now.replace(microsecond=0), state_transition_times=times or None)


def differs(before: RayClusterStatus, after: RayClusterStatus) -> bool:
    """Whether the status has to be written; changes of only times or observed generation do not count."""
    if _without_times(before) != _without_times(after):
        return True
    known = {one.type: (one.status, one.reason, one.message) for one in before.conditions}
    return any(known.get(one.type) != (one.status, one.reason, one.message) for one in after.conditions)


def _without_times(status: RayClusterStatus) -> RayClusterStatus:
    return evolve(
        status, last_update_time=None, observed_generation=None, state_transition_times=None, conditions=()
    )
