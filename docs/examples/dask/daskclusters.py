"""DaskClusters and their groups of workers: the kinds, what is made for them, and what keeps it."""

from collections.abc import Mapping
from typing import Any, TypeVar

import anyio
from attrs import define, evolve, field, frozen
from schedulers import HttpSchedulers, SchedulerFailed, Schedulers

from reconcile import (
    Context,
    Controller,
    Deleted,
    Key,
    Object,
    ObjectMeta,
    Predecessor,
    Result,
    Watch,
    Write,
    resource,
)
from reconcile.blocks import Host, Marks, ReplicaGroup, carry_out_group, host_of
from reconcile.kinds import Deployment, Service
from reconcile.owners import controller_of, with_owner

API = "kubernetes.dask.org/v1"
CLUSTER, GROUP, PART, WORKER = (
    f"dask.org/{name}" for name in ("cluster-name", "workergroup-name", "component", "worker")
)
"""Labels. The original has no `worker`: its workers are told apart by their pod templates alone."""
NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
PASSED_ON = "kubernetes.dask.org/cluster-replicas"
"""The annotation of a default group with the number that its cluster last asked for."""
PRIVATE = ("kopf.zalando.org", "kubectl.kubernetes.io", "kubernetes.dask.org")
"""Annotations that begin so are not passed on."""
OVER_HTTP = HttpSchedulers()
MARKS = Marks.of("kubernetes.dask.org")
IDLE_POLL = 30.0
AT_ONCE = 100
"""How many objects of a kind are worked on at once: each may wait for a scheduler that does not answer."""
Manifest = Mapping[str, Any]
T = TypeVar("T", bound=Object)


@frozen
class Names:
    """Labels and annotations for what is made from a part of a spec."""

    labels: Mapping[str, str] = field(factory=dict[str, str])
    annotations: Mapping[str, str] = field(factory=dict[str, str])


@frozen
class Workers:
    spec: Manifest  # of a pod
    replicas: int = 1
    metadata: Names = Names()


@frozen
class Scheduler:
    spec: Manifest  # of a pod
    service: Manifest
    metadata: Names = Names()


@frozen
class DaskClusterSpec:
    scheduler: Scheduler
    worker: Workers
    idle_timeout: int = 0


@frozen
class DaskClusterStatus:
    phase: str = ""  # all that the definition keeps


@resource(
    API,
    short_names=("daskcluster", "dsk"),
    columns={"Workers": ".spec.worker.replicas", "Status": ".status.phase"},
    has_status=False,  # in the definitions that clusters have, status is a field like others
)
class DaskCluster(Object):
    spec: DaskClusterSpec
    status: DaskClusterStatus = DaskClusterStatus()


@frozen
class DaskWorkerGroupSpec:
    cluster: str
    worker: Workers


@resource(API, short_names=("daskworkers",), columns={"Workers": ".spec.worker.replicas"})
class DaskWorkerGroup(Object):
    spec: DaskWorkerGroupSpec


# --- what is made -----------------------------------------------------------------------------------


def names_for(parent: Object, part: Names, base: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The metadata of a child: of its parent, over that the part's, over that what is reserved."""
    annotations = {**parent.metadata.annotations, **part.annotations}
    return {
        "labels": {**parent.metadata.labels, **part.labels, **base},
        "annotations": {name: text for name, text in annotations.items() if not name.startswith(PRIVATE)},
    }


def scheduler_of(cluster: str) -> str:
    """The name of a cluster's scheduler, and of its Service."""
    return f"{cluster}-scheduler"


def default_group_of(cluster: str) -> str:
    return f"{cluster}-default"


def port_of(cluster: DaskCluster, name: str, usual: int) -> int:
    """The port of that name; the usual one for what is not a number, which would lead to another host."""
    ports = cluster.spec.scheduler.service.get("ports") or ()
    found = next((port.get("port") for port in ports if port.get("name") == name), usual)
    return found if isinstance(found, int) else usual


def address_of(cluster: DaskCluster) -> str:
    """Where workers and clients find the scheduler."""
    where = f"{scheduler_of(cluster.name)}.{cluster.namespace}.svc"
    return f"tcp://{where}:{port_of(cluster, 'tcp-comm', 8786)}"


def dashboard_of(cluster: DaskCluster) -> str:
    where = f"{scheduler_of(cluster.name)}.{cluster.namespace}.svc"
    return f"http://{where}:{port_of(cluster, 'http-dashboard', 8787)}"


def scheduler_labels(cluster: DaskCluster) -> dict[str, str]:
    return {CLUSTER: cluster.name, PART: "scheduler"}


def deployment(name: str, names: Manifest, chosen: Mapping[str, str], pod: Manifest) -> dict[str, Any]:
    """One pod, that is replaced when its node is lost."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **names},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": names, "spec": pod},
        },
    }


def scheduler_for(cluster: DaskCluster) -> dict[str, Any]:
    part, chosen = cluster.spec.scheduler, scheduler_labels(cluster)
    names = names_for(cluster, part.metadata, {**chosen, **NO_SIDECAR})
    return deployment(scheduler_of(cluster.name), names, chosen, part.spec)


def service_for(cluster: DaskCluster) -> dict[str, Any]:
    part = cluster.spec.scheduler
    names = names_for(cluster, part.metadata, scheduler_labels(cluster))
    metadata = {"name": scheduler_of(cluster.name), **names}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": part.service}


def group_for(cluster: DaskCluster) -> DaskWorkerGroup:
    """The default group as it is made; later, see `passed_on`."""
    workers = cluster.spec.worker
    names = names_for(cluster, workers.metadata, {CLUSTER: cluster.name, PART: "workergroup"})
    annotations = {**names["annotations"], PASSED_ON: str(workers.replicas)}
    return DaskWorkerGroup(
        metadata=ObjectMeta(
            default_group_of(cluster.name),
            cluster.namespace,
            labels=names["labels"],
            annotations=annotations,
        ),
        spec=DaskWorkerGroupSpec(cluster.name, evolve(workers, metadata=Names())),
    )


def passed_on(cluster: DaskCluster, group: DaskWorkerGroup) -> DaskWorkerGroup:
    """The group with what its cluster says now.

    The number of workers is the cluster's if that has changed since it was last passed on; otherwise the
    group's own, which people and autoscalers set. A group of the original has no such record: its number
    stays.
    """
    made, before = group_for(cluster), group.metadata
    changed = before.annotations.get(PASSED_ON, str(cluster.spec.worker.replicas)) != str(
        cluster.spec.worker.replicas
    )
    replicas = cluster.spec.worker.replicas if changed else group.spec.worker.replicas
    return group.replace(
        spec=evolve(made.spec, worker=evolve(made.spec.worker, replicas=replicas))
    ).with_metadata(
        labels={**before.labels, **made.metadata.labels},
        annotations={**before.annotations, **made.metadata.annotations},
    )


def worker_for(cluster: DaskCluster, group: DaskWorkerGroup, unique: str) -> dict[str, Any]:
    """One worker: a Deployment of its own, since the scheduler says which of them may go."""
    name = f"{group.name}-worker-{unique}"
    part = group.spec.worker
    chosen = {CLUSTER: cluster.name, GROUP: group.name, PART: "worker", WORKER: unique}
    environment = {"DASK_WORKER_NAME": name, "DASK_SCHEDULER_ADDRESS": address_of(cluster)}
    names = names_for(group, part.metadata, {**chosen, **NO_SIDECAR})
    return deployment(name, names, chosen, with_environment(part.spec, environment))


def with_environment(pod: Manifest, environment: Mapping[str, str]) -> dict[str, Any]:
    """The pod, whose containers have these variables unless they set them themselves."""

    def told(container: Manifest) -> dict[str, Any]:
        own: list[Any] = list(container.get("env") or ())
        set_here = {variable["name"] for variable in own}
        more = [{"name": name, "value": text} for name, text in environment.items() if name not in set_here]
        return {**container, "env": [*more, *own]}

    return {**pod, "containers": [told(container) for container in pod["containers"]]}


# --- what keeps it ----------------------------------------------------------------------------------


async def is_ready(ctx: Context[T], cluster: DaskCluster) -> bool:
    """Whether the cluster has a scheduler that can be asked."""
    found = await ctx.client.find(Deployment, scheduler_of(cluster.name), cluster.namespace)
    return found is not None and found.status.ready_replicas > 0


async def join_cluster(ctx: Context[T], cluster: DaskCluster) -> None:
    """Have an object of users go with the cluster that it names."""
    if controller_of(ctx.object) is None:
        await ctx.client.modify(
            type(ctx.object),
            ctx.object.name,
            ctx.object.namespace,
            lambda found: with_owner(found, cluster, controller=True),
        )


@define
class IdleTimes:
    """For how long a scheduler has said that it is idle since the same time, by the uid of its cluster.

    So no clock is compared with that of a scheduler, and a start of the operator only makes it wait longer.
    """

    _seen: dict[str, tuple[float, float]] = field(factory=dict)

    def seconds(self, uid: str, since: float | None, time: float) -> float:
        if since is None:
            self._seen.pop(uid, None)
            return 0.0
        before = self._seen.get(uid)
        if before is None or before[0] != since:
            self._seen[uid] = since, time
        return time - self._seen[uid][1]

    async def forget(self, gone: Deleted[DaskCluster]) -> None:
        self._seen.pop(gone.object.uid, None)


@frozen
class Clusters:
    schedulers: Schedulers
    idle: IdleTimes = field(factory=IdleTimes)

    async def keep(self, ctx: Context[DaskCluster]) -> Result | None:
        cluster, made = ctx.object, group_for(ctx.object)
        schedulers = await ctx.owned(Deployment)
        has_group = any(one.name == made.name for one in await ctx.owned(DaskWorkerGroup))
        if not schedulers:
            await ctx.create(scheduler_for(cluster))  # and never changed: its restart would lose all work
        await ctx.apply(service_for(cluster), adopt=False)
        if has_group:
            await ctx.client.modify(
                DaskWorkerGroup, made.name, cluster.namespace, lambda found: passed_on(cluster, found)
            )
        else:
            await ctx.create(made)
        ctx.status(phase="Running")
        return await self._end_if_idle(ctx)

    async def _end_if_idle(self, ctx: Context[DaskCluster]) -> Result | None:
        cluster, timeout = ctx.object, ctx.object.spec.idle_timeout
        if timeout <= 0:
            return None
        left = float(timeout)
        if await is_ready(ctx, cluster):
            try:
                since = await self.schedulers.idle_since(dashboard_of(cluster))
            except SchedulerFailed as error:
                since = None  # it may be at work
                ctx.event("IdleUnknown", f"the cluster stays: {error}", warning=True)
            left -= self.idle.seconds(cluster.uid, since, anyio.current_time())
        if left > 0:
            return Result(requeue_after=min(left, IDLE_POLL))
        ctx.event("Idle", f"the cluster goes: its scheduler had no work for {timeout} s")
        await ctx.delete(cluster, if_unchanged=True)
        return None


@frozen
class Groups:
    schedulers: Schedulers

    async def keep(self, ctx: Context[DaskWorkerGroup]) -> Result | None:
        group = ctx.object
        cluster = await ctx.client.find(DaskCluster, group.spec.cluster, group.namespace)
        if cluster is None or cluster.terminating:
            return None  # its workers would find no scheduler; the cluster's coming wakes the group
        await join_cluster(ctx, cluster)
        workers = ReplicaGroup(group.spec.worker.replicas)
        plan = workers.plan([as_host(one) for one in await ctx.owned(Deployment)], ctx.clock.now())
        if plan.delete:
            await self._retire(ctx, cluster, [removal.host.name for removal in plan.delete])
        return await carry_out_group(
            ctx, workers, plan, MARKS, lambda host: worker_for(cluster, group, ctx.clock.uuid().hex[:10])
        )

    async def _retire(self, ctx: Context[DaskWorkerGroup], cluster: DaskCluster, workers: list[str]) -> None:
        """Have the results that they hold moved. If that fails, they go all the same, as in the original."""
        try:
            await self.schedulers.retire(dashboard_of(cluster), workers)
        except SchedulerFailed as error:
            ctx.event("NotRetired", f"workers go with what they hold: {error}", warning=True)


def as_host(worker: Deployment) -> Host:
    """Those without a running pod hold no results, and go first."""
    return evolve(host_of(worker, MARKS), ready=worker.status.ready_replicas > 0)


PREDECESSOR = Predecessor.kopf(
    "Dask operator on kopf",
    images="dask/dask-kubernetes-operator",
    unfinished="run",  # its handlers make nothing outside of the cluster
)


def dask_clusters(schedulers: Schedulers = OVER_HTTP) -> Controller[DaskCluster]:
    clusters = Clusters(schedulers)
    return Controller(
        DaskCluster,
        clusters.keep,
        owns=[Deployment, Service, DaskWorkerGroup],
        writes=[Write(DaskCluster, ("delete",))],
        on_deleted=clusters.idle.forget,
        workers=AT_ONCE,
        predecessor=PREDECESSOR,
    )


def worker_groups(schedulers: Schedulers = OVER_HTTP) -> Controller[DaskWorkerGroup]:
    return Controller(
        DaskWorkerGroup,
        Groups(schedulers).keep,
        owns=[Deployment],
        watches=[Watch(DaskCluster, by=lambda group: Key(group.namespace, group.spec.cluster))],
        workers=AT_ONCE,
        predecessor=PREDECESSOR,
    )
