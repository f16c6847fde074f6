"""What a run says of its cluster: status, conditions, and a Warning where something is new and wrong."""

from collections.abc import Iterable, Sequence

from attrs import asdict, define, evolve, field

from reconcile import Condition, Context

from .models import HeadInfo, RayCluster, RayClusterStatus
from .ray_pod_view import RayPodView
from .ray_services import endpoints
from .raycluster_status import ObservedStatus, ReplicaFailure, differs, status_of, with_times
from .raycluster_view import ClusterView
from .suspension import SUSPENDED, Phase


def is_true(conditions: Iterable[Condition], name: str) -> bool:
    """Whether there is a condition of this type, and it is True."""
    return any(one.type == name and one.status == "True" for one in conditions)


@define
class StatusWriter:
    """One run's word on its cluster; `head` is known once its Service is there."""

    ctx: Context[RayCluster]
    cluster: ClusterView
    phase: Phase
    head: HeadInfo = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.head = self.ctx.object.status.head

    def write(self, pods: Sequence[RayPodView], failure: ReplicaFailure | None) -> None:
        """Say it, if it is news: of pods, of what failed, of where a suspension stands."""
        ctx, before = self.ctx, self.ctx.object.status
        known = any(one.type == SUSPENDED for one in before.conditions)
        status = status_of(
            self.cluster,
            pods,
            provisioned=is_true(before.conditions, "RayClusterProvisioned"),
            failure=failure,
            phase=self.phase if not self.cluster.refused and (known or self.phase != "running") else None,
        )
        after = self._after(before, status)
        if failure is not None and failure.message != before.reason:
            ctx.event(failure.reason, failure.message, warning=True)
        if not differs(before, after, status.conditions):
            return
        after = with_times(before, after, ctx.clock.now())
        written = asdict(after, recurse=False)
        del written["conditions"]
        ctx.status(**written)
        for one in status.conditions:
            ctx.condition(one.type, one.status, reason=one.reason, message=one.message)

    def _after(self, before: RayClusterStatus, status: ObservedStatus) -> RayClusterStatus:
        cluster, refused = self.cluster, bool(self.cluster.refused)
        head = evolve(
            self.head,
            pod_name=status.head_pod_name,
            pod_ip=status.head_pod_ip,
            service_ip=self.head.service_ip or status.head_pod_ip,
        )
        return evolve(
            before,
            state=status.state,
            reason=status.reason,
            desired_worker_replicas=status.desired_worker_replicas,
            min_worker_replicas=status.min_worker_replicas,
            max_worker_replicas=status.max_worker_replicas,
            available_worker_replicas=status.available_worker_replicas,
            ready_worker_replicas=status.ready_worker_replicas,
            desired_cpu=status.desired_cpu,
            desired_memory=status.desired_memory,
            desired_gpu=status.desired_gpu,
            desired_tpu=status.desired_tpu,
            head=head,
            endpoints=before.endpoints if refused else endpoints(cluster),
            observed_generation=self.ctx.object.metadata.generation,
            replicas=status.replicas if cluster.scaled and not refused else None,
            selector=status.selector if cluster.scaled and not refused else None,
        )
