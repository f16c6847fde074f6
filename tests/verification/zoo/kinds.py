"""The kind that most controllers of the zoo keep, its children, and a client as other libraries have."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from attrs import frozen

from reconcile import Client, Condition, Context, Controller, LabelSelector, Object, ObjectMeta, resource
from reconcile.kinds import (
    ConfigMap,
    Pod,
    PodSpec,
    PodTemplate,
    Secret,
    StatefulSet,
    StatefulSetSpec,
)
from reconcile.models import Schema
from reconcile.owners import with_owner
from reconcile.testing import Apply, Edit, Scenario, ScenarioAct


@frozen
class ClusterSpec:
    """A database of some replicas, each with a volume."""

    replicas: Annotated[int, Schema(minimum=0, maximum=5)] = 1
    storage: Annotated[int, Schema(minimum=1, maximum=100)] = 10
    version: str = "1"
    proxy: bool = False


@frozen
class ClusterStatus:
    phase: str = ""
    replicas: int = 0
    version: str = ""
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()


@resource("zoo.example.com/v1")
class Cluster(Object):
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()


def cluster(name: str = "db", **spec: Any) -> Cluster:
    return Cluster(metadata=ObjectMeta(name), spec=ClusterSpec(**spec))


def becomes(**spec: Any) -> Edit:
    """The user changes the spec of the cluster `db`."""
    return Edit((Cluster, "db"), {"spec": spec})


DB = cluster()


def scenario(
    reconcile: Callable[[Context[Cluster]], Any],
    *steps: ScenarioAct,
    owns: Iterable[type[Object]] = (),
    cleanup: Callable[[Context[Cluster]], Any] | None = None,
    controller: dict[str, Any] | None = None,
    **options: Any,
) -> Scenario:
    """A scenario of one controller of clusters."""

    def make() -> Controller[Cluster]:
        return Controller(
            Cluster, reconcile, owns=tuple(owns), cleanup=cleanup, name="clusters", **(controller or {})
        )

    return Scenario(controllers=make, steps=steps or (Apply(DB),), **options)


def unguarded(ctx: Context[Any]) -> Client:
    """A client that does not remember what it wrote and checks nothing before it writes.

    Clients of most libraries are like that. What `ctx.client` wrote, a later run is sure to see.
    """
    return Client(ctx.client.transport, clock=ctx.clock, field_manager="zoo.example.com")


async def is_current(ctx: Context[Cluster]) -> bool:
    """Whether the server still has the cluster as the run sees it."""
    now = await ctx.client.find(Cluster, ctx.object.name, ctx.object.namespace, live=True)
    return now is not None and now.metadata.resource_version == ctx.object.metadata.resource_version


async def remove(ctx: Context[Cluster], part: Object, client: Client | None = None) -> None:
    """Delete a part of the cluster as the run sees it. Raises LookupError if the run sees the past."""
    if not await is_current(ctx):
        raise LookupError("the cluster has changed since it was cached")
    client = client or unguarded(ctx)
    await client.delete(part, propagation="Orphan" if isinstance(part, StatefulSet) else None)


# --- what a cluster is made of --------------------------------------------------------------------


def part(ctx: Context[Cluster], name: str, **metadata: Any) -> ObjectMeta:
    """The metadata of a part called `<cluster>-<name>`."""
    return ObjectMeta(f"{ctx.object.name}-{name}", ctx.object.namespace, **metadata)


def config_map(ctx: Context[Cluster], name: str, **data: str) -> ConfigMap:
    return with_owner(ConfigMap(metadata=part(ctx, name), data=data), ctx.object, controller=True)


def secret(ctx: Context[Cluster], name: str) -> Secret:
    return with_owner(Secret(metadata=part(ctx, name)), ctx.object, controller=True)


def pod(ctx: Context[Cluster], number: int, **annotations: str) -> Pod:
    made = Pod(
        metadata=part(ctx, str(number), annotations=annotations),
        spec=PodSpec(containers=[{"name": "db", "image": "db"}]),
    )
    return with_owner(made, ctx.object, controller=True)


def volume(ctx: Context[Cluster], number: int) -> ConfigMap:
    """A volume. Not a claim: one of those can be changed only after a provisioner has bound it."""
    return config_map(ctx, str(number), size=str(ctx.object.spec.storage))


def stateful_set(ctx: Context[Cluster]) -> StatefulSet:
    labels = {"app": ctx.object.name}
    template = PodTemplate(ObjectMeta(labels=labels), PodSpec(containers=[{"name": "db", "image": "db"}]))
    spec = StatefulSetSpec(LabelSelector(labels), template, replicas=1)
    made = StatefulSet(metadata=part(ctx, "set"), spec=spec)
    return with_owner(made, ctx.object, controller=True)


def number_of(obj: Object) -> int:
    """The number at the end of a name."""
    return int(obj.name.rpartition("-")[2])
