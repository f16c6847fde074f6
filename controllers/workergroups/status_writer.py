"""Writes the results of a run: status, conditions, and a Warning for each new failure."""

from collections.abc import Sequence

from attrs import asdict, define, evolve, field

from reconcile import Context
from reconcile.conditions import find_condition, is_true

from .models import HeadInfo, RayCluster, RayClusterStatus
from .ray_pod_view import RayPodView
from .ray_services import endpoints
from .raycluster_status import ReplicaFailure, differs, status_of, with_times
from .raycluster_view import ClusterView
from .suspension import SUSPENDED, Phase


@define
class StatusWriter:
    """`head` is set once the head Service has been applied."""

    ctx: Context[RayCluster]
    cluster: ClusterView
    phase: Phase
    head: HeadInfo = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.head = self.ctx.object.status.head

    def write(self, pods: Sequence[RayPodView], failure: ReplicaFailure | None) -> None:
        """Write the status if it changes anything, with an Event for a new failure."""
        ctx, before = self.ctx, self.ctx.object.status
        # A cluster that was never suspended does not get the two conditions, so that old ones stay as they
        # are.
        was_suspended = find_condition(before.conditions, SUSPENDED) is not None
        status = status_of(
            self.cluster,
            pods,
            provisioned=is_true(before.conditions, "RayClusterProvisioned"),
            failure=failure,
            phase=self.phase
            if not self.cluster.refused and (was_suspended or self.phase != "running")
            else None,
        )
        after = self._after(before, status)
        if failure is not None and failure.message != before.reason:
            ctx.event(failure.reason, failure.message, warning=True)
        if not differs(before, after):
            return
        fields = asdict(with_times(before, after, ctx.clock.now()), recurse=False)
        del fields["conditions"]
        ctx.status(**fields)
        for one in status.conditions:
            ctx.condition(one.type, one.status == "True", reason=one.reason, message=one.message)

    def _after(self, before: RayClusterStatus, status: RayClusterStatus) -> RayClusterStatus:
        cluster, service = self.cluster, self.head
        scaled = cluster.scaled and not cluster.refused
        return evolve(
            status,
            head=evolve(
                status.head,
                service_name=service.service_name,
                service_ip=service.service_ip or status.head.pod_ip,
            ),
            endpoints=before.endpoints if cluster.refused else endpoints(cluster),
            observed_generation=self.ctx.object.metadata.generation,
            last_update_time=before.last_update_time,
            state_transition_times=before.state_transition_times,
            replicas=status.replicas if scaled else None,
            selector=status.selector if scaled else None,
        )
