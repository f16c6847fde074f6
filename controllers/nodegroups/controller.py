"""Keeps groups of nodes as large as pods need: read, decide by pure functions, write, report."""

from collections.abc import Awaitable, Iterable, Sequence
from functools import partial

from reconcile import Context, Controller, Predecessor, Result, Watch, Write
from reconcile.blocks import CapacityDecision
from reconcile.errors import ApiError
from reconcile.kinds import ConfigMap, DaemonSet, Node, Pod

from .. import OPERATOR
from .cluster_reads import (
    BadDiscovery,
    ClusterApi,
    DiscoveryTerm,
    GroupDiscovery,
    WorkloadCluster,
    find_groups,
    read_workload,
)
from .downscale import Candidate, ScaleDownSituation, plan_scale_down
from .group_health import GroupAssessment, assess, is_cluster_healthy, readiness_of
from .group_writes import delete_nodes, evict, set_first_size, shrink_to, taint, unmark_strays, untaint
from .models import NodeAutoscaler, Unneeded
from .node_group import GroupRefused
from .sizing_run import NAMESPACES, NodeGroupSettings, SizingRun
from .upscale import GROW, GroupGrowth, grow

CLUSTER_AUTOSCALER = Predecessor(
    "cluster-autoscaler",
    leases=("cluster-autoscaler",),
    deployments=(
        "cluster-autoscaler",
        "cluster-autoscaler-clusterapi",
        "cluster-autoscaler-clusterapi-cluster-autoscaler",
    ),
    images=("autoscaling/cluster-autoscaler", "cluster-autoscaler"),
)

SOON = 1.0
"""Seconds until a transient failure is retried."""
STARTUP = 900.0


def make_controller(
    settings: NodeGroupSettings | None = None, *, management: str = "", growth: GroupGrowth = GROW
) -> Controller[NodeAutoscaler]:
    """The controller `node-groups`.

    `management` names the cluster with the groups, of `Manager(clusters=)`; empty for the only cluster.
    `growth` says how a group grows.
    """
    given = settings or NodeGroupSettings()
    return Controller(
        NodeAutoscaler,
        partial(keep_groups, settings=given, growth=growth),
        # Runs come by the clock, so that many new pods lead to one decision; the watches only fill caches.
        watches=[Watch(kind, by=lambda _: (), everywhere=True) for kind in (Pod, Node, DaemonSet, ConfigMap)],
        name="node-groups",
        operator=OPERATOR,
        former_field_managers=["node-groups"],
        predecessor=CLUSTER_AUTOSCALER,
        writes=_writes(given.api),
        clusters=[management] if management else [],
    )


def _writes(api: ClusterApi) -> Iterable[Write]:
    sized = [api.kind(kind) for kind in ("MachineDeployment", "MachineSet", "MachinePool")]
    yield from (Write(kind, ("get", "list", "patch")) for kind in (*sized, api.kind("Machine")))
    yield from (Write(kind, ("get", "patch"), subresource="scale") for kind in sized)
    yield Write(Node, ("patch",))
    yield Write(Pod, ("create",), subresource="eviction")


async def keep_groups(
    ctx: Context[NodeAutoscaler], settings: NodeGroupSettings, growth: GroupGrowth = GROW
) -> Result:
    spec = ctx.object.spec
    again = Result(requeue_after=float(spec.scan))
    try:
        terms = [DiscoveryTerm.parse(text, ctx.object.namespace) for text in spec.discovery]
        workload_client = ctx.client_of(spec.workload) if spec.workload else ctx.client
        _check(terms, ctx.object.namespace, settings)
    except (BadDiscovery, LookupError) as error:
        # What was reported of groups stays; where pods have places is not known any more.
        ctx.status(observed_generation=ctx.object.metadata.generation)
        ctx.remove_condition("PodsPlaced")
        ctx.condition("Ready", False, reason="InvalidSpec", message=str(error.args[0]))
        return again
    run = SizingRun(ctx, settings, workload_client, ctx.clock.now())
    with ctx.false_on_failure("Ready", ApiError):
        found = await find_groups(ctx.client, settings.api, terms or [DiscoveryTerm(ctx.object.namespace)])
        workload = await read_workload(workload_client)
    for text in (*found.troubles, *workload.troubles, *_faults(found)):
        run.trouble(text)
    for other in found.others:
        if other.default is not None and other.object is not None:
            setting = set_first_size(ctx.client, other.object, other.default)
            await _try(run, f"{other.id}: its first size", setting)
    groups = _assessed(run, found, workload)
    for one in groups:
        await _recover(run, one)
    decision = CapacityDecision()
    if is_cluster_healthy(workload.nodes, STARTUP, run.now):
        decision = await grow(run, groups, workload, growth)
        await _shrink(run, groups, workload, decision)
    else:
        run.trouble("too many nodes of the cluster are not ready: nothing is sized until they are")
    _report(run, decision)
    return Result(requeue_after=min(SOON, float(spec.scan))) if run.soon else again


def _check(terms: Iterable[DiscoveryTerm], own: str, settings: NodeGroupSettings) -> None:
    """Raises BadDiscovery for a namespace whose groups the autoscaler may not size."""
    for term in terms:
        if not settings.allows(own, term.namespace):
            raise BadDiscovery(
                f"spec.discovery names the namespace {term.namespace}, and autoscalers of {own} may size "
                f"groups of their own alone: have it allowed by {NAMESPACES}"
            )


def _assessed(run: SizingRun, found: GroupDiscovery, workload: WorkloadCluster) -> list[GroupAssessment]:
    known = {state.name: state for state in run.ctx.object.status.groups}
    nodes, groups = workload.providers, []
    for group in found.groups:
        readiness = readiness_of(group, nodes, run.now)
        groups.append(assess(group, readiness, known.get(group.id), run.now, run.settings.terms))
        run.states[group.id] = groups[-1].state
    return groups


def _faults(found: GroupDiscovery) -> list[str]:
    bad = [f"{one.id}: {one.reason}" for one in found.others if one.is_fault]
    return bad + [f"{group.id}: {fault}" for group in found.groups for fault in group.faults]


async def _recover(run: SizingRun, one: GroupAssessment) -> None:
    """Report new failures, remove broken machines, and give up nodes that never came."""
    group = one.group
    for text in one.news:
        run.ctx.event("NoCapacity", f"{group.id}: {text}", warning=True, action="Grow")
    broken = [machine.name for machine in group.machines if machine.state == "failed"]
    broken = [name for name in (*broken, *one.readiness.unregistered) if name not in group.removing]
    broken = broken[: max(0, group.size - group.smallest)]
    try:
        await unmark_strays(run.client, group)
        if broken:
            await delete_nodes(run.client, group, broken, run.stamp)
        elif one.expired:
            await shrink_to(run.client, group, max(group.smallest, group.existing, group.size - one.expired))
    except ApiError as error:
        run.failed(f"{group.id}: giving up nodes that did not come", error)
    except GroupRefused as error:
        run.ctx.log.info("nothing to take back", group=group.id, why=str(error))


async def _shrink(
    run: SizingRun, groups: Sequence[GroupAssessment], workload: WorkloadCluster, decision: CapacityDecision
) -> None:
    spec, status = run.ctx.object.spec.scale_down, run.ctx.object.status
    grown = status.last_growth
    settled = grown is None or (run.now - grown).total_seconds() >= spec.delay_after_add
    situation = ScaleDownSituation(
        groups,
        {node.name: node for node in workload.nodes},
        workload.by_node,
        {one.node: one.since for one in status.unneeded},
        run.now,
        quiet=spec.enabled and settled and not decision.growths and not decision.housed,
    )
    plan = plan_scale_down(situation)
    for node in plan.release:
        await _try(run, f"node {node.name}: letting pods on again", untaint(run.workload, node))
    for one in (*plan.delete, *plan.drain):
        await _try(run, f"node {one.node.name}: taking it away", _remove(run, one))
    run.ctx.status(unneeded=tuple(Unneeded(name, when) for name, when in sorted(plan.unneeded.items())))


async def _try(run: SizingRun, what: str, act: Awaitable[None]) -> None:
    try:
        await act
    except ApiError as error:
        run.failed(what, error)
    except GroupRefused as error:
        run.ctx.log.info("refused", what=what, why=str(error))


async def _remove(run: SizingRun, one: Candidate) -> None:
    """Keep new pods off, evict the others, then remove the machine; each run does what it can."""
    if one.node.draining is None:
        await taint(run.workload, one.node, int(run.now.timestamp()))
        run.ctx.event("Shrinking", f"{one.group.id}: node {one.node.name} is not needed", action="Shrink")
    leaving = [await evict(run.workload, pod) for pod in one.pods if not pod.pod.terminating]
    if one.pods:
        run.soon = run.soon or all(leaving)
        return
    # A removal whose outcome is unknown may have marked a machine; a second one now could remove two.
    if one.group.id in run.doubtful:
        return
    try:
        await delete_nodes(run.client, one.group, [one.instance], run.stamp)
    except ApiError as error:
        if error.may_have_acted:
            run.doubtful.add(one.group.id)
        raise


def _report(run: SizingRun, decision: CapacityDecision) -> None:
    ctx = run.ctx
    ctx.status(
        groups=tuple(run.states[name] for name in sorted(run.states)),
        warned=tuple(sorted(run.warned)),
        observed_generation=ctx.object.metadata.generation,
    )
    if run.grew:
        ctx.status(last_growth=run.now)
    if decision.left:
        pod, why = min(decision.left.items())
        message = f"{len(decision.left)} pods get no nodes; {pod}: {why}"
        ctx.condition("PodsPlaced", False, reason="NoPoolFits", message=message)
    else:
        ctx.condition("PodsPlaced", True, reason="Placed")
    message = "; ".join(sorted(run.warned)[:5])
    ctx.condition("Ready", not run.warned, reason="Troubles" if run.warned else "Sized", message=message)


controller = make_controller()
"""The controller that `reconcile run node-groups` starts."""
