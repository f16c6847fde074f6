"""Writes to groups, machines, nodes and pods: safe to repeat, and never overwriting another's update."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from reconcile import Client, Object, Unstructured
from reconcile.errors import ApiError, NotFound, TooManyRequests
from reconcile.kinds import Node

from .group_annotations import DELETE_MACHINE, MARKED
from .machine import Machine
from .node_group import REMOVING, GroupRefused, NodeGroup, shrunk, still_going
from .node_view import TO_BE_DELETED, NodeView, PodPlacement


async def grow_to(client: Client, group: NodeGroup, size: int) -> int:
    """Grow to at least `size` nodes; nodes that others added meanwhile count and stay."""
    return await client.scale(group.object, lambda now: max(now, min(size, group.largest)))


async def shrink_to(client: Client, group: NodeGroup, size: int) -> int:
    """Shrink to at most `size` nodes by giving up nodes that never came. Raises GroupRefused."""
    return await client.scale(group.object, lambda now: shrunk(group, now, size))


async def set_first_size(client: Client, obj: Object, size: int) -> None:
    """Set the replicas of an object without any; it has no /scale yet."""

    def change(live: Unstructured) -> Unstructured:
        return live.replace(body={**live.body, "spec": {"replicas": size, **live["spec"]}})

    model = type(obj)
    assert issubclass(model, Unstructured)
    await client.modify(model, obj.name, obj.namespace, change)


# --- taking nodes away --------------------------------------------------------------------------


@frozen
class NodeRemoval:
    """The machines to mark, and the names that the smaller size counts."""

    mark: tuple[Machine, ...]
    count: tuple[str, ...]


def plan_removal(group: NodeGroup, names: Collection[str], size: int | None = None) -> NodeRemoval:
    """The steps left to remove these machines; in a MachinePool they are provider IDs.

    Machines that are being deleted, or whose removal the size counts, are left out. Raises GroupRefused for a
    machine of another group, or if fewer nodes than the minimum would be left.
    """
    size = group.size if size is None else size
    own: Mapping[str, Machine | None] = (
        dict.fromkeys(group.provider_ids)
        if group.kind == "MachinePool"
        else {machine.name: machine for machine in group.machines}
    )
    strangers = sorted(set(names) - set(own))
    if strangers:
        raise GroupRefused(f"{', '.join(strangers)}: not in group {group.id}")
    machines = {name: own[name] for name in sorted(names)}
    gone = {name for name, one in machines.items() if one is not None and one.state == "deleting"}
    count = tuple(name for name in machines if name not in gone and name not in group.removing)
    if size - len(count) < group.smallest:
        raise GroupRefused(
            f"group {group.id} would have {size - len(count)} nodes, fewer than {group.smallest}"
        )
    mark = [one for name, one in machines.items() if one is not None and name in count and not one.marked]
    return NodeRemoval(tuple(mark), count)


async def delete_nodes(client: Client, group: NodeGroup, names: Collection[str], stamp: str) -> int:
    """Remove exactly these machines: mark them, then write the smaller size. Returns how many.

    The size and the names that it counts are one write, so that a repetition after a crash or a lost answer
    knows what is done. If the size is refused for certain, the marks are removed. Raises GroupRefused, and
    the errors of requests.
    """
    removal, marked = plan_removal(group, names), list[Machine]()
    if not removal.count:
        return 0
    try:
        for machine in removal.mark:
            await client.raw.merge(machine.object, _annotated({DELETE_MACHINE: stamp, MARKED: "true"}))
            marked.append(machine)
        return await _count(client, group, removal.count)
    except (ApiError, GroupRefused) as error:
        if not (isinstance(error, ApiError) and error.may_have_acted):
            for machine in marked:
                await _unmark(client, machine)
        raise


async def _count(client: Client, group: NodeGroup, names: Sequence[str]) -> int:
    now: tuple[str, ...] = ()

    def change(live: Unstructured) -> Unstructured:
        nonlocal now
        counted = tuple(filter(None, live.metadata.annotations.get(REMOVING, "").split(",")))
        size = live["spec"].get("replicas") or 0
        going = still_going(group, counted, size)
        now = plan_removal(evolve(group, removing=going), names, size).count
        annotations = {**live.metadata.annotations, REMOVING: ",".join([*going, *now])}
        body = {**live.body, "spec": {**live["spec"], "replicas": size - len(now)}}
        return live.with_metadata(annotations=annotations).replace(body=body)

    model = type(group.object)
    assert issubclass(model, Unstructured)
    await client.modify(model, group.name, group.namespace, change)
    return len(now)


async def unmark_strays(client: Client, group: NodeGroup) -> None:
    """Remove our marks that no size counts; a lost answer left them."""
    for machine in group.machines:
        if machine.marked_by_us and machine.state != "deleting" and machine.name not in group.removing:
            await _unmark(client, machine)


async def _unmark(client: Client, machine: Machine) -> None:
    try:
        await client.raw.merge(
            machine.object, _annotated({DELETE_MACHINE: None, MARKED: None}), guard={"uid": machine.uid}
        )
    except NotFound:
        return


def _annotated(annotations: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(annotations)}}


# --- emptying nodes -----------------------------------------------------------------------------


async def taint(client: Client, node: NodeView, second: int) -> None:
    """Keep new pods off a node that is to be removed. The value is the time, as in cluster-autoscaler."""
    taint: Mapping[str, str] = {"key": TO_BE_DELETED, "value": str(second), "effect": "NoSchedule"}
    await client.raw.merge(node.node, {"spec": {"taints": [*_other_taints(node.node), taint]}})


async def untaint(client: Client, node: NodeView) -> None:
    await client.raw.merge(node.node, {"spec": {"taints": _other_taints(node.node) or None}})


async def evict(client: Client, pod: PodPlacement) -> bool:
    """False if a disruption budget does not allow it now."""
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.pod.name, "namespace": pod.pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.pod.uid}},
    }
    try:
        await client.raw.create_subresource(pod.pod, "eviction", eviction)
    except TooManyRequests:
        return False
    except NotFound:
        pass
    return True


def _other_taints(node: Node) -> list[Mapping[str, Any]]:
    taints: Sequence[Mapping[str, Any]] = node.spec.extra.get("taints") or ()
    return [dict(one) for one in taints if one["key"] != TO_BE_DELETED]
