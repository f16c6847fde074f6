"""Keeps RayClusterFleets: a replica set for each revision of the template, sized by `Rollout`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attrs import asdict

from reconcile import (
    Context,
    Controller,
    LabelSelector,
    Object,
    ObjectMeta,
    Predicate,
    Request,
    Result,
    Watch,
    Write,
)
from reconcile.blocks import (
    HASH_LABEL,
    HashCollision,
    Revisions,
    RevisionSet,
    carry_out_rollout,
    revisions_of,
)
from reconcile.errors import ApiError, StaleVersion, StatusError
from reconcile.models import encode

from .. import AIBRIX, OPERATOR
from ..refusals import refusing
from ..workergroups import RayCluster
from .adoption import Claimants, claimed_objects
from .cluster_template import FLEET_LABEL, canonical, faults_of, is_of_template, prepared, rollout_of
from .fleet_status import deadline_in, failed_status, is_complete, refused_status, status_of
from .models import (
    ClusterTemplate,
    FleetStatus,
    RayClusterFleet,
    RayClusterReplicaSet,
    RayClusterReplicaSetSpec,
)
from .rollback import ROLLBACK, roll_back

NAME = "ray-cluster-fleets"
REVISION = "deployment.kubernetes.io/revision"
LEFTOVER_SECONDS = 15.0
"""Seconds between checks for old clusters under Recreate, in case the event of their end is missed."""


def make_fleet_controller(kind: type[Any] = RayClusterFleet) -> Controller[Any]:
    """A controller of fleets with its own memory. `kind` is the model of a fleet."""
    claimants = Claimants()
    return Controller(
        kind,
        claimants.remembering(keep_fleet),
        owns=[RayClusterReplicaSet],
        watches=[
            Watch(RayClusterReplicaSet, to=claimants.requests_for),
            Watch(RayCluster, to=_fleet_of, wakes=Predicate(lambda old, new: new is None)),
        ],
        writes=[Write(kind, ("patch",))],  # the revision and the end of a rollback stand in its metadata
        on_deleted=claimants.forget,
        admission=refusing(kind, faults_of),
        predecessor=AIBRIX,
        name=NAME,
        operator=OPERATOR,
        former_field_managers=[NAME],
    )


def _fleet_of(cluster: RayCluster) -> Sequence[Request]:
    """The fleet of a cluster, by the label of its pods: Recreate waits for the end of clusters."""
    pod = cluster.spec.head_group_spec.template
    labels: Mapping[str, str] = (pod.get("metadata") or {}).get("labels") or {}
    name = labels.get(FLEET_LABEL)
    return [Request(cluster.namespace, name)] if name else []


async def keep_fleet(ctx: Context[RayClusterFleet]) -> Result | None:
    """Bring the sets one step further by the strategy, and write the status."""
    fleet = ctx.object
    faults = faults_of(fleet)
    if faults:
        status = refused_status(fleet, faults, ctx.clock.now())
        _warn(ctx, status, "InvalidSpec")
        _write(ctx, status)
        return None
    sets = await claimed_objects(ctx, RayClusterReplicaSet, fleet.spec.selector)
    template = canonical(encode(fleet)["spec"]["template"])
    collisions = fleet.status.collision_count or 0
    same = partial(is_of_template, wanted=template)
    revisions = revisions_of(sets, template, collisions=collisions, same=same)
    if ROLLBACK in fleet.metadata.annotations and not fleet.spec.paused:
        await roll_back(ctx, revisions)
        return None
    return await _roll(ctx, revisions)


async def _roll(ctx: Context[RayClusterFleet], revisions: Revisions) -> Result | None:
    fleet, now = ctx.object, ctx.clock.now()
    rollout = rollout_of(fleet.spec)
    leftover = rollout.recreate and await _is_left_over(ctx, revisions.old)
    plan = rollout.plan(revisions.new, revisions.old, leftover=leftover)
    try:
        await carry_out_rollout(ctx, rollout, revisions, plan, partial(_new_set, fleet))
        await _sync(ctx, revisions)
    except HashCollision as collision:
        ctx.event("HashCollision", str(collision), warning=True)
        ctx.status(collision_count=(fleet.status.collision_count or 0) + 1)
        return Result(requeue=True)
    except StaleVersion:
        raise
    except ApiError as error:
        text = error.message if isinstance(error, StatusError) else str(error)
        status = failed_status(fleet, "ReplicaSetCreateError", text, now)
        _warn(ctx, status, "ReplicaSetCreateError")
        _write(ctx, status)
        raise
    status = status_of(fleet, revisions, rollout, now, made=plan.create is not None)
    _write(ctx, status)
    if is_complete(status) or fleet.spec.paused:
        for one in revisions.surplus(fleet.spec.revision_history_limit):
            await ctx.delete(one.stored)
    waits = [deadline_in(fleet, status, now), LEFTOVER_SECONDS if plan.waiting else None]
    soonest = min((wait for wait in waits if wait is not None), default=None)
    return None if soonest is None else Result(requeue_after=soonest)


async def _is_left_over(ctx: Context[RayClusterFleet], old: Sequence[RevisionSet]) -> bool:
    """Whether clusters of old sets still exist, Terminating ones included."""
    for one in old:
        if await ctx.client.list(RayCluster, ctx.object.namespace, owner=one.stored):
            return True
    return False


def _new_set(fleet: RayClusterFleet, name: str, mark: str, size: int) -> Object:
    template = prepared(encode(fleet)["spec"]["template"], fleet.name, mark)
    selector = fleet.spec.selector
    labels = {**selector.match_labels, HASH_LABEL: mark}
    spec = RayClusterReplicaSetSpec(
        template=ClusterTemplate(template["spec"], template["metadata"]),
        selector=LabelSelector(labels, selector.match_expressions),
        replicas=size,
        min_ready_seconds=fleet.spec.min_ready_seconds,
    )
    metadata = ObjectMeta(name, fleet.namespace, labels=template["metadata"]["labels"])
    return RayClusterReplicaSet(metadata=metadata, spec=spec)


async def _sync(ctx: Context[RayClusterFleet], revisions: Revisions) -> None:
    """Copy minReadySeconds and the label into the newest set, and its revision into the fleet."""
    fleet, new = ctx.object, revisions.new
    if new is not None and isinstance(new.object, RayClusterReplicaSet):
        await ctx.client.raw.merge(new.object, _lacking(fleet, new.object), guard={"uid": new.object.uid})
    if fleet.metadata.annotations.get(REVISION) != str(revisions.number):
        said = {"metadata": {"annotations": {REVISION: str(revisions.number)}}}
        await ctx.client.raw.merge(fleet, said, guard={"uid": fleet.uid})


def _lacking(fleet: RayClusterFleet, newest: RayClusterReplicaSet) -> dict[str, Any]:
    """The fields to patch: a set that AIBrix created before its fleets had /scale lacks the label."""
    patch: dict[str, Any] = {}
    if newest.spec.min_ready_seconds != fleet.spec.min_ready_seconds:
        patch["minReadySeconds"] = fleet.spec.min_ready_seconds
    head = newest.spec.template.spec.get("headGroupSpec") or {}
    pod = head.get("template") or {}
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if labels.get(FLEET_LABEL) != fleet.name:
        said = {"template": {"metadata": {"labels": {FLEET_LABEL: fleet.name}}}}
        patch["template"] = {"spec": {"headGroupSpec": said}}
    return {"spec": patch} if patch else {}


def _write(ctx: Context[RayClusterFleet], status: FleetStatus) -> None:
    ctx.status(**asdict(status, recurse=False))


def _warn(ctx: Context[RayClusterFleet], status: FleetStatus, reason: str) -> None:
    """Send a Warning, once for each new message."""
    said = next(one for one in status.conditions if one.reason == reason)
    if said not in ctx.object.status.conditions:
        ctx.event(reason, said.message, warning=True)
