"""DaskAutoscalers: the default group of a cluster gets as many workers as its scheduler could use."""

import anyio
from attrs import define, field, frozen
from daskclusters import (
    API,
    AT_ONCE,
    OVER_HTTP,
    PREDECESSOR,
    DaskCluster,
    DaskWorkerGroup,
    dashboard_of,
    default_group_of,
    is_ready,
    join_cluster,
)
from schedulers import Schedulers

from reconcile import Backoff, Context, Controller, Deleted, Object, Write, resource
from reconcile.errors import TerminalError
from reconcile.kinds import Deployment

POLL = 5.0
DOWN_AFTER = 30.0
"""Seconds in which a scheduler must not have asked for more before workers go: they hold results."""


@frozen
class DaskAutoscalerSpec:
    cluster: str
    minimum: int
    maximum: int


@resource(
    API,
    columns={"Cluster": ".spec.cluster", "Minimum": ".spec.minimum", "Maximum": ".spec.maximum"},
    has_status=False,
)
class DaskAutoscaler(Object):
    spec: DaskAutoscalerSpec


def within(spec: DaskAutoscalerSpec, workers: int) -> int:
    return max(spec.minimum, min(spec.maximum, workers))


@define
class Demands:
    """What schedulers asked for in the last `DOWN_AFTER` seconds, by the uid of the autoscaler."""

    _of: dict[str, list[tuple[float, int]]] = field(factory=dict)

    def highest(self, uid: str, time: float, current: int, demand: int) -> int:
        """The highest demand; where none is known, after a start or an outage, the `current` number too."""
        recent = [one for one in self._of.get(uid, ()) if time - one[0] < DOWN_AFTER]
        self._of[uid] = [*(recent or [(time, current)]), (time, demand)]
        return max(workers for _, workers in self._of[uid])

    def forget(self, uid: str) -> None:
        self._of.pop(uid, None)


def dask_autoscalers(schedulers: Schedulers = OVER_HTTP) -> Controller[DaskAutoscaler]:
    demands = Demands()

    async def keep(ctx: Context[DaskAutoscaler]) -> None:
        autoscaler, spec, namespace = ctx.object, ctx.object.spec, ctx.object.namespace
        if not 0 <= spec.minimum <= spec.maximum:
            raise TerminalError(f"minimum {spec.minimum} and maximum {spec.maximum} exclude each other")
        cluster = await ctx.client.find(DaskCluster, spec.cluster, namespace)
        if cluster is None or cluster.terminating:
            return
        await join_cluster(ctx, cluster)
        group = await ctx.client.find(DaskWorkerGroup, default_group_of(spec.cluster), namespace)
        if group is None or not await is_ready(ctx, cluster):
            return
        demand = within(spec, await schedulers.desired_workers(dashboard_of(cluster)))
        current = group.spec.worker.replicas
        workers = within(spec, demands.highest(autoscaler.uid, anyio.current_time(), current, demand))
        if workers != current:
            await ctx.client.scale(group, lambda now: workers)
            ctx.event("Rescaled", f"{group.name}: {current} to {workers} workers")

    async def forget(gone: Deleted[DaskAutoscaler]) -> None:
        demands.forget(gone.object.uid)

    return Controller(
        DaskAutoscaler,
        keep,
        reads=[DaskCluster, DaskWorkerGroup, Deployment],
        writes=[Write(DaskWorkerGroup, ("get", "patch"), subresource="scale")],
        on_deleted=forget,
        every=POLL,
        backoff=Backoff(base=POLL, limit=300),
        workers=AT_ONCE,
        predecessor=PREDECESSOR,
    )
