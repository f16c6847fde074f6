"""Scaling up: pods without a place, pools that could take them, and one write for each that grows."""

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
    """How a group is made larger. `write` gives it at least that many nodes.

    A failure of a class in `lacking` says that the group has no capacity: it is backed off.
    """

    write: Callable[[Client, NodeGroup, int], Awaitable[object]] = grow_to
    lacking: Collection[ErrorClass] = LACKING


GROW = GroupGrowth()


async def grow(
    this: SizingRun, groups: Sequence[GroupAssessment], workload: WorkloadCluster, growth: GroupGrowth
) -> CapacityDecision:
    """Give the pods without a place nodes: decide, then write. One group that fails holds up no other."""
    by_node = workload.by_node
    room = [
        occupied(node, by_node.get(node.name, ()))
        for node in workload.nodes
        if node.ready and not node.cordoned  # one that is being emptied is let be if a pod waits
    ]
    pools = CapacityPools(await _expanders(this))
    decision = pools.decide(
        [pod.needs for pod in workload.waiting],
        room,
        [_pool(this, one, workload) for one in groups],
        this.now,
    )
    for pool in decision.unmatched:
        this.trouble(f"no priority matches {pool}: it is not used")
    for notice in decision.notices:
        this.trouble(notice)
    by_id = {one.group.id: one for one in groups}
    for step in decision.growths:
        await _carry_out(this, step, by_id, growth)
    return decision


async def _carry_out(
    this: SizingRun, step: Growth, groups: dict[str, GroupAssessment], growth: GroupGrowth
) -> None:
    group = groups[step.pool].group
    try:
        await growth.write(this.client, group, step.to)
    except ApiError as error:
        if class_of(error) in growth.lacking:
            this.lacks_capacity(group.id, f"scaling up failed: {class_of(error)}")
        else:
            this.failed(f"{group.id}: scaling up", error)
        return
    except GroupRefused as error:
        this.trouble(str(error))
        return
    this.grew = True
    this.states[group.id] = evolve(this.states[group.id], growing_since=this.now)
    pods = f"{len(step.pods)} pods" if len(step.pods) > 1 else step.pods[0]
    this.ctx.event("Growing", f"{group.id}: from {step.now} to {step.to} for {pods}", action="Grow")


def _pool(this: SizingRun, one: GroupAssessment, workload: WorkloadCluster) -> Pool:
    group = one.group
    return Pool(
        group.id,
        group.size,
        group.largest,
        template_for(group, one.readiness.nodes, workload),
        group.smallest,
        one.upcoming,
        this.states[group.id].backoff,
        "" if one.healthy else "too many of its nodes are missing or not ready",
    )


async def _expanders(this: SizingRun) -> list[Expander]:
    spec, found = this.ctx.object.spec, list[Expander]()
    for name in spec.expanders:
        if name == "priority":
            found.append(await _priorities(this))
        else:
            found.append(least_waste if name == "least-waste" else at_random(this.ctx.clock.random))
    return [*found, at_random(this.ctx.clock.random)]


async def _priorities(this: SizingRun) -> Priorities:
    """As they stand now, so that a change counts from the next pass on."""
    text = await priorities_text(this.workload, this.ctx.object.spec.priorities)
    if text is None:
        return Priorities()
    try:
        return Priorities.parse(text)
    except BadPriorities as error:
        fault = f"the priorities are not heeded: {error}"
        this.trouble(fault)
        return Priorities(fault=fault)
