"""Simulated workloads: Deployments, StatefulSets and Jobs create pods and report progress.

Controllers of this library, in the place of those of Kubernetes. Their pods run on simulated nodes
(`reconcile.simulation`); those of a Job succeed, unless the annotations of its template say otherwise.

They do less than their originals. A Deployment owns its pods itself, without ReplicaSets; a rollout has one
pod more than asked for and none fewer, whatever its `strategy` says. A StatefulSet creates its pods one after
another, without claims, and replaces them from the last to the first. There are no revisions to roll back to,
no `paused`, `minReadySeconds` or deadlines, no indexed Jobs, and no other kinds that create pods.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from attrs import frozen

from reconcile.blocks import Host, Marks, ReplicaGroup, carry_out_group, host_of
from reconcile.controller.context import Context
from reconcile.controller.declaration import Controller, Reconciler, Write
from reconcile.kinds import Deployment, Job, Pod, PodTemplate, StatefulSet
from reconcile.models import Object, unstructure
from reconcile.models.frozen import EMPTY
from reconcile.replicas import is_active
from reconcile.runs.run_request import Result
from reconcile.simulation.simulated_nodes import BEHAVIOUR
from reconcile.simulation.workload_steps import REVISION, active_of, next_move, next_sizes, plan_job

HASH = "pod-template-hash"
"""The label of a Deployment's pods that names their template by its hash."""
KINDS = (Deployment, StatefulSet, Job)
"""The kinds whose pods are created."""

_MARKS = Marks.of("simulated.reconcile-runtime")
_DECIDED = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The condition without which the server refuses an end."""

T = TypeVar("T", bound=Object)


@frozen
class SimulatedWorkloads:
    """Creates the pods of workloads: run its `controllers` in a manager, if no other controllers do that."""

    @property
    def controllers(self) -> Sequence[Controller[Any]]:
        """The controllers of Deployments, StatefulSets and Jobs."""
        return (
            _controller(Deployment, _keep_deployment),
            _controller(StatefulSet, _keep_stateful_set),
            _controller(Job, _keep_job),
        )


def _controller(kind: type[T], keep: Reconciler[T]) -> Controller[T]:
    status = Write(kind, "patch", subresource="status")
    name = f"simulated-{kind.__name__.lower()}s"
    return Controller(kind, keep, owns=[Pod], writes=[status], name=name, operator="reconcile-runtime.dev")


# --- Deployments ----------------------------------------------------------------------------------------


async def _keep_deployment(ctx: Context[Deployment]) -> Result | None:
    template, hashed = ctx.object.spec.template, _hash_of(ctx.object.spec.template)
    wanted = 1 if ctx.object.spec.replicas is None else ctx.object.spec.replicas
    hosts = [host_of(pod, _MARKS) for pod in await ctx.owned(Pod)]
    new = [host for host in hosts if host.object.metadata.labels.get(HASH) == hashed]
    old = [host for host in hosts if host not in new]
    active, updated = list(filter(is_active, hosts)), list(filter(is_active, new))
    _report_deployment(ctx, wanted, active, len(updated))
    sizes = next_sizes(
        wanted,
        new=len(updated),
        new_ready=sum(host.ready for host in updated),
        old=len(active) - len(updated),
    )

    async def keep(size: int, hosts: Iterable[Host]) -> Result | None:
        group = ReplicaGroup(size)
        named = {"generateName": f"{ctx.object.name}-{hashed}-"}
        plan = group.plan(hosts, ctx.clock.now())
        return await carry_out_group(
            ctx, group, plan, _MARKS, lambda _: _pod_of(template, named, {HASH: hashed})
        )

    await keep(sizes.old, old)
    return await keep(sizes.new, new)


def _report_deployment(ctx: Context[Deployment], wanted: int, active: Sequence[Host], updated: int) -> None:
    ready = sum(host.ready for host in active)
    ctx.status(
        observed_generation=ctx.object.metadata.generation,
        replicas=len(active),
        updated_replicas=updated,
        ready_replicas=ready,
        available_replicas=ready,
    )
    available, done = ready >= wanted, len(active) == updated == wanted <= ready
    why = "MinimumReplicasAvailable" if available else "MinimumReplicasUnavailable"
    ctx.condition("Available", available, reason=why, message=f"{ready} of {wanted} pods are ready")
    why = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
    ctx.condition("Progressing", True, reason=why, message=f"{updated} of {wanted} pods are up to date")


# --- StatefulSets ---------------------------------------------------------------------------------------


async def _keep_stateful_set(ctx: Context[StatefulSet]) -> Result | None:
    name, spec = ctx.object.name, ctx.object.spec
    revision = f"{name}-{_hash_of(spec.template)}"
    wanted = 1 if spec.replicas is None else spec.replicas
    pods = await ctx.owned(Pod)
    _report_stateful_set(ctx, wanted, revision, active_of(pods))
    move = next_move(name, wanted, revision, pods, ctx.clock.now())
    if move.delete is not None:
        await ctx.delete(move.delete)
    if move.create is not None:
        named = f"{name}-{move.create}"
        labels = {REVISION: revision, "statefulset.kubernetes.io/pod-name": named}
        labels["apps.kubernetes.io/pod-index"] = str(move.create)
        await ctx.create(_pod_of(spec.template, {"name": named}, labels))
    return None if move.after is None else Result(requeue_after=move.after)


def _report_stateful_set(
    ctx: Context[StatefulSet], wanted: int, revision: str, active: Sequence[Pod]
) -> None:
    updated = sum(pod.metadata.labels.get(REVISION) == revision for pod in active)
    ready = sum(pod.ready for pod in active)
    done = len(active) == updated == wanted == ready
    ctx.status(
        observed_generation=ctx.object.metadata.generation,
        current_revision=revision if done else ctx.object.status.current_revision or revision,
        update_revision=revision,
        replicas=len(active),
        ready_replicas=ready,
        available_replicas=ready,
        updated_replicas=updated,
    )


# --- Jobs -----------------------------------------------------------------------------------------------


async def _keep_job(ctx: Context[Job]) -> Result | None:
    job = ctx.object
    if job.finished:
        return None
    plan = plan_job(job.spec, await ctx.owned(Pod), ctx.clock.now())
    for pod in plan.delete:
        await ctx.delete(pod)
    named, behaviour = {"generateName": f"{job.name}-"}, {BEHAVIOUR: "succeed"}
    for _ in range(plan.create):
        await ctx.create(_pod_of(job.spec.template, named, annotations=behaviour))
    # Deleted pods stay counted: the server refuses a counter that decreases.
    succeeded, failed = max(plan.succeeded, job.status.succeeded), max(plan.failed, job.status.failed)
    ctx.status(active=plan.active, succeeded=succeeded, failed=failed)
    if job.status.start_time is None and not job.spec.suspend:
        ctx.status(start_time=ctx.clock.now())
    if plan.ended == "Complete":
        ctx.status(completion_time=ctx.clock.now())
    if plan.ended:
        ctx.condition(_DECIDED[plan.ended], True, reason=plan.why)
        ctx.condition(plan.ended, True, reason=plan.why)
    return None if plan.after is None else Result(requeue_after=plan.after)


# --- pods -----------------------------------------------------------------------------------------------


def _hash_of(template: PodTemplate) -> str:
    text = msgspec.json.encode(unstructure(template), order="deterministic")
    return hashlib.sha256(text).hexdigest()[:10]


def _pod_of(
    template: PodTemplate,
    named: Mapping[str, str],
    labels: Mapping[str, str] = EMPTY,
    annotations: Mapping[str, str] = EMPTY,
) -> dict[str, Any]:
    """A pod of a template, with these labels added, and `annotations` unless the template has the same."""
    metadata = template.metadata
    pod_metadata = {
        **named,
        "labels": {**metadata.labels, **labels},
        "annotations": {**annotations, **metadata.annotations},
        "finalizers": list(metadata.finalizers),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata, "spec": unstructure(template.spec)}
