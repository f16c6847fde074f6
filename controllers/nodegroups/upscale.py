"""Scaling up: which groups grow for unschedulable pods, and the write for each."""

from collections.abc import Awaitable, Callable, Collection, Sequence

from attrs import evolve, frozen

from reconcile import Client
from reconcile.blocks import (
    LACKING,
    BadPriorities,
    CapacityDecision,
    CapacityPools,
    ErrorClass,
    Expander,
    Growth,
    Pool,
    Priorities,
    at_random,
    class_of,
    least_waste,
)
from reconcile.errors import ApiError

from .cluster_reads import WorkloadCluster, priorities_text, template_for
from .group_health import GroupAssessment
from .group_writes import grow_to
from .node_group import GroupRefused, NodeGroup
from .node_view import occupied
from .sizing_run import SizingRun


@frozen
class GroupGrowth:
    """`write` gives a group at least that many nodes.

    A failure of a class in `lacking` means that the group has no capacity: it is backed off.
    """

    write: Callable[[Client, NodeGroup, int], Awaitable[object]] = grow_to
    lacking: Collection[ErrorClass] = LACKING


GROW = GroupGrowth()


async def grow(
    run: SizingRun, groups: Sequence[GroupAssessment], workload: WorkloadCluster, growth: GroupGrowth
) -> CapacityDecision:
    """Grow groups for the unschedulable pods; the failure of one does not hold up the others."""
    by_node = workload.by_node
    room = [
        occupied(node, by_node.get(node.name, ()))
        for node in workload.nodes
        # A node that is being drained counts, since waiting pods stop its removal.
        if node.ready and not node.cordoned
    ]
    pools = CapacityPools(await _expanders(run))
    decision = pools.decide(
        [pod.needs for pod in workload.waiting], room, [_pool(run, one, workload) for one in groups], run.now
    )
    for pool in decision.unmatched:
        run.trouble(f"no priority matches {pool}: it is not used")
    for notice in decision.notices:
        run.trouble(notice)
    by_id = {one.group.id: one for one in groups}
    for step in decision.growths:
        await _carry_out(run, step, by_id, growth)
    return decision


async def _carry_out(
    run: SizingRun, step: Growth, groups: dict[str, GroupAssessment], growth: GroupGrowth
) -> None:
    group = groups[step.pool].group
    try:
        await growth.write(run.client, group, step.to)
    except ApiError as error:
        if class_of(error) in growth.lacking:
            run.lacks_capacity(group.id, f"scaling up failed: {class_of(error)}")
        else:
            run.failed(f"{group.id}: scaling up", error)
        return
    except GroupRefused as error:
        run.trouble(str(error))
        return
    run.grew = True
    run.states[group.id] = evolve(run.states[group.id], growing_since=run.now)
    pods = f"{len(step.pods)} pods" if len(step.pods) > 1 else step.pods[0]
    run.ctx.event("Growing", f"{group.id}: from {step.now} to {step.to} for {pods}", action="Grow")


def _pool(run: SizingRun, one: GroupAssessment, workload: WorkloadCluster) -> Pool:
    group = one.group
    return Pool(
        group.id,
        group.size,
        group.largest,
        template_for(group, one.readiness.nodes, workload),
        group.smallest,
        one.upcoming,
        run.states[group.id].backoff,
        "" if one.healthy else "too many of its nodes are missing or not ready",
    )


async def _expanders(run: SizingRun) -> list[Expander]:
    spec, found = run.ctx.object.spec, list[Expander]()
    for name in spec.expanders:
        if name == "priority":
            found.append(await _priorities(run))
        else:
            found.append(least_waste if name == "least-waste" else at_random(run.ctx.clock.random))
    return [*found, at_random(run.ctx.clock.random)]


async def _priorities(run: SizingRun) -> Priorities:
    """Read in each run, so that a change takes effect in the next one."""
    text = await priorities_text(run.workload, run.ctx.object.spec.priorities)
    if text is None:
        return Priorities()
    try:
        return Priorities.parse(text)
    except BadPriorities as error:
        fault = f"the priorities are ignored: {error}"
        run.trouble(fault)
        return Priorities(fault=fault)
