"""Writes what a run found out: status, conditions, and a Warning for each new failure."""

from collections.abc import Sequence

from attrs import asdict, define, evolve, field

from reconcile import Context
from reconcile.conditions import find_condition, is_true

from .models import HeadInfo, RayCluster, RayClusterStatus
from .ray_pod_view import RayPodView
from .ray_services import endpoints
from .raycluster_status import ObservedStatus, ReplicaFailure, differs, status_of, with_times
from .raycluster_view import ClusterView
from .suspension import SUSPENDED, Phase

_OTHERWISE_NAMED = ("head_pod_name", "head_pod_ip", "replicas", "selector", "conditions")


@define
class StatusWriter:
    """Writes the status of one run's cluster. `head` is set once the head Service has been applied."""

    ctx: Context[RayCluster]
    cluster: ClusterView
    phase: Phase
    head: HeadInfo = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.head = self.ctx.object.status.head

    def write(self, pods: Sequence[RayPodView], failure: ReplicaFailure | None) -> None:
        """Write the status if it changes anything, with an Event for a failure that is new."""
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
        if not differs(before, after, status.conditions):
            return
        after = with_times(before, after, ctx.clock.now())
        fields = asdict(after, recurse=False)
        del fields["conditions"]
        ctx.status(**fields)
        for one in status.conditions:
            ctx.condition(one.type, one.status == "True", reason=one.reason, message=one.message)

    def _after(self, before: RayClusterStatus, status: ObservedStatus) -> RayClusterStatus:
        cluster, refused = self.cluster, bool(self.cluster.refused)
        head = evolve(
            self.head,
            pod_name=status.head_pod_name,
            pod_ip=status.head_pod_ip,
            service_ip=self.head.service_ip or status.head_pod_ip,
        )
        shared = asdict(status, recurse=False, filter=lambda part, _: part.name not in _OTHERWISE_NAMED)
        return evolve(
            before,
            **shared,
            head=head,
            endpoints=before.endpoints if refused else endpoints(cluster),
            observed_generation=self.ctx.object.metadata.generation,
            replicas=status.replicas if cluster.scaled and not refused else None,
            selector=status.selector if cluster.scaled and not refused else None,
        )
