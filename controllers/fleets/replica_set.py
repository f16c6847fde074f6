"""Keeps the RayClusters of RayClusterReplicaSets: reads them, plans, and carries the plan out."""

import re
from collections.abc import Sequence
from typing import Any

from reconcile import Context, Controller, Result, Watch
from reconcile.errors import ApiError, StaleVersion, StatusError
from reconcile.models import encode, unstructured_kind

from .. import AIBRIX, OPERATOR
from ..refusals import refusing
from ..workergroups import RayCluster
from .adoption import Claimants, claimed_objects
from .cluster_template import selector_faults
from .models import RayClusterReplicaSet
from .replica_set_plan import FleetCluster, SetPlan, cluster_of, counts, next_available, plan_set

NAME = "ray-cluster-replica-sets"
# With the typed model, one cluster that cannot be decoded would hold up the others of its set.
WholeCluster = unstructured_kind("ray.io/v1", "RayCluster")
PREFIX_LENGTH = 44
"""With a dash and five random characters, names stay within KubeRay's limit of 50."""


def make_set_controller() -> Controller[RayClusterReplicaSet]:
    """A controller of replica sets with its own memory."""
    claimants = Claimants()
    return Controller(
        RayClusterReplicaSet,
        claimants.remembering(keep_set),
        owns=[RayCluster],
        watches=[Watch(RayCluster, to=claimants.requests_for)],
        on_deleted=claimants.forget,
        admission=refusing(RayClusterReplicaSet, _faults),
        predecessor=AIBRIX,
        name=NAME,
        operator=OPERATOR,
        former_field_managers=[NAME],
    )


async def keep_set(ctx: Context[RayClusterReplicaSet]) -> Result | None:
    """Create or delete clusters. The status already counts the changes of this run."""
    spec = ctx.object.spec
    faults = _faults(ctx.object)
    if faults:
        _fail(ctx, "InvalidSpec", "; ".join(faults))
        ctx.status(observed_generation=ctx.object.metadata.generation)
        return None
    found = await claimed_objects(ctx, WholeCluster, spec.selector)
    clusters = [cluster_of(one) for one in found]
    now = ctx.clock.now()
    plan = plan_set(spec.replicas, clusters, now, spec.min_ready_seconds)
    stay = [one for one in plan.active if one not in plan.delete]
    try:
        made = await _carry_out(ctx, plan)
    except StaleVersion:
        raise
    except ApiError as error:
        text = _without_names(ctx.object, error.message if isinstance(error, StatusError) else str(error))
        _fail(ctx, "FailedCreate" if plan.create else "FailedDelete", text)
        _report(ctx, plan.active)
        raise
    ctx.remove_condition("ReplicaFailure")
    _report(ctx, [*stay, *made])
    wait = next_available(stay, now, spec.min_ready_seconds)
    return None if wait is None else Result(requeue_after=wait)


def _faults(replica_set: RayClusterReplicaSet) -> Sequence[str]:
    spec = replica_set.spec
    faults = list(selector_faults(spec.selector, spec.template.metadata))
    if spec.replicas < 0:
        faults.append(f"spec.replicas: expected 0 or more, got {spec.replicas}")
    if spec.min_ready_seconds < 0:
        faults.append(f"spec.minReadySeconds: expected 0 or more, got {spec.min_ready_seconds}")
    return faults


def _fail(ctx: Context[RayClusterReplicaSet], reason: str, text: str) -> None:
    known = ctx.object.status.conditions
    if not any(one.type == "ReplicaFailure" and one.message == text for one in known):
        ctx.event(reason, text, warning=True)
    ctx.condition("ReplicaFailure", True, reason=reason, message=text)


def _without_names(replica_set: RayClusterReplicaSet, text: str) -> str:
    """Replace generated names, so that the same failure has the same message each time."""
    return re.sub(rf"({re.escape(_prefix(replica_set))})[a-z0-9]{{5}}\b", r"\1*", text)


def _prefix(replica_set: RayClusterReplicaSet) -> str:
    return f"{replica_set.name[:PREFIX_LENGTH].rstrip('-.')}-"


async def _carry_out(ctx: Context[RayClusterReplicaSet], plan: SetPlan) -> Sequence[FleetCluster]:
    """Delete first, so that what is created next fits into a quota. Returns the created clusters."""
    for cluster in plan.delete:
        await ctx.delete(cluster.object)
        ctx.event("SuccessfulDelete", f"deleted RayCluster {cluster.name}")
    made = []
    for _ in range(plan.create):
        created = await ctx.create(_manifest(ctx.object))
        made.append(cluster_of(created))
        ctx.event("SuccessfulCreate", f"created RayCluster {created.name}")
    return made


def _manifest(replica_set: RayClusterReplicaSet) -> dict[str, Any]:
    template = encode(replica_set)["spec"]["template"]
    given = template.get("metadata") or {}
    metadata = {name: given[name] for name in ("labels", "annotations") if given.get(name)}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"generateName": _prefix(replica_set), **metadata},
        "spec": template["spec"],
    }


def _report(ctx: Context[RayClusterReplicaSet], clusters: Sequence[FleetCluster]) -> None:
    spec = ctx.object.spec
    labels = spec.template.metadata.get("labels") or {}
    numbers = counts(clusters, labels, ctx.clock.now(), spec.min_ready_seconds)
    ctx.status(**numbers, observed_generation=ctx.object.metadata.generation)
