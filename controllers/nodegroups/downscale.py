"""Which nodes are not needed, may be removed, or have to be drained: pure functions."""

import datetime
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from reconcile.blocks import NodeTemplate, fill

from .group_health import GroupAssessment
from .node_group import NodeGroup
from .node_view import NodeView, PodPlacement, occupied, utilisation

MAX_CANDIDATES = 30
MAX_DELETED = 10
MAX_DRAINED = 1
DRAIN_SECONDS = 900.0
"""After this many seconds a node that is not empty is released, and tried again later."""


@frozen
class Candidate:
    """A node to remove, its pods to move, and its machine, or in a MachinePool its provider ID."""

    node: NodeView
    group: NodeGroup
    instance: str
    pods: tuple[PodPlacement, ...] = ()


@frozen
class ScaleDown:
    """Empty nodes to `delete`, nodes to `drain`, and nodes to `release`, which stay after all.

    `unneeded` says since when each unneeded node is so, `kept` why each other one stays.
    """

    delete: tuple[Candidate, ...] = ()
    drain: tuple[Candidate, ...] = ()
    release: tuple[NodeView, ...] = ()
    unneeded: Mapping[str, datetime.datetime] = field(factory=dict)
    kept: Mapping[str, str] = field(factory=dict)


@frozen
class ScaleDownSituation:
    """All nodes by name, and the pods of each.

    `quiet`: no pod waits and no group has grown lately; only then does a removal begin.
    """

    groups: Sequence[GroupAssessment]
    nodes: Mapping[str, NodeView]
    pods: Mapping[str, Sequence[PodPlacement]]
    unneeded: Mapping[str, datetime.datetime]
    now: datetime.datetime
    quiet: bool = True


def plan_scale_down(situation: ScaleDownSituation) -> ScaleDown:
    """The nodes to remove now. Minimums hold, and groups that are rolling are left alone."""
    candidates, kept = unneeded(situation)
    since = {one.node.name: situation.unneeded.get(one.node.name, situation.now) for one in candidates}
    if not situation.quiet:
        return ScaleDown(release=_draining(situation, ()), unneeded=since, kept=kept)
    due = [one for one in candidates if _is_due(one, since[one.node.name], situation.now)]
    allowed = _within_bounds(due, situation.groups)
    delete = [one for one in allowed if not one.pods][:MAX_DELETED]
    tired = {one.node.name for one in allowed if _is_draining_too_long(one.node, situation.now)}
    drain = [one for one in allowed if one.pods and one.node.name not in tired]
    drain.sort(key=lambda one: (one.node.draining is None, one.node.name))
    drain = drain[:MAX_DRAINED]
    staying = {one.node.name for one in (*delete, *drain)}
    return ScaleDown(
        tuple(delete),
        tuple(drain),
        _draining(situation, staying),
        {name: when for name, when in since.items() if name not in tired},
        kept,
    )


def unneeded(situation: ScaleDownSituation) -> tuple[list[Candidate], dict[str, str]]:
    """The nodes without all of which every pod still fits; and why the others are kept."""
    kept: dict[str, str] = {}
    possible = []
    for candidate in _nodes_of_groups(situation.groups, situation.pods, kept):
        if why := _why_kept(candidate, situation.pods.get(candidate.node.name, ())):
            kept[candidate.node.name] = why
        else:
            possible.append(candidate)
    possible.sort(key=lambda one: (bool(one.pods), one.node.draining is None, len(one.pods), one.node.name))
    for one in possible[MAX_CANDIDATES:]:
        kept[one.node.name] = "other nodes are considered first"
    going: list[Candidate] = []
    rest = {
        name: occupied(node, situation.pods.get(name, ()))
        for name, node in situation.nodes.items()
        if node.ready and not node.cordoned and node.draining is None
    }
    receiving: set[str] = set()
    for candidate in possible[:MAX_CANDIDATES]:
        name = candidate.node.name
        if name in receiving:
            kept[name] = "pods of other nodes are to be moved there"
            continue
        others = {other: room for other, room in rest.items() if other != name}
        homes = _homes(candidate.pods, others)
        if homes is None:
            kept[name] = "its pods fit nowhere else"
            continue
        rest = _moved(candidate.pods, homes, others)
        receiving.update(homes.values())
        going.append(candidate)
    return going, kept


def _nodes_of_groups(
    groups: Iterable[GroupAssessment], pods: Mapping[str, Sequence[PodPlacement]], kept: dict[str, str]
) -> Iterable[Candidate]:
    for one in groups:
        instances = {machine.provider: machine for machine in one.group.machines}
        for node in one.readiness.nodes:
            machine = instances.get(node.provider)
            if one.group.is_rolling:
                kept[node.name] = "its group is rolled out"
            elif not one.healthy:
                kept[node.name] = "its group is not healthy"
            else:
                moving = tuple(pod for pod in pods.get(node.name, ()) if not pod.is_local)
                yield Candidate(node, one.group, machine.name if machine else node.provider, moving)


def _why_kept(candidate: Candidate, pods: Sequence[PodPlacement]) -> str:
    node, options = candidate.node, candidate.group.options
    if node.disabled:
        return "it is marked to be kept"
    for pod in candidate.pods:
        if pod.held and not pod.pod.terminating:
            return f"pod {pod.name}: {pod.held}"
        if pod.needs.shape.unmodelled:
            return f"pod {pod.name}: not modelled: {', '.join(pod.needs.shape.unmodelled)}"
    if not node.ready or not candidate.pods or node.draining is not None:
        return ""
    used, is_gpu = utilisation(node, pods)
    threshold = options.gpu_threshold if is_gpu else options.threshold
    return "" if used < threshold else f"{used // 10}% of it is used"


def _homes(pods: Sequence[PodPlacement], rest: Mapping[str, NodeTemplate]) -> dict[str, str] | None:
    """A node for each pod; None if one fits nowhere."""
    names = sorted(rest)
    moving = [pod.needs for pod in pods if not pod.pod.terminating]
    placed = fill(moving, [rest[name] for name in names])
    if len(placed) < len(moving):
        return None
    return {pod: names[number] for pod, number in placed.items()}


def _moved(
    pods: Iterable[PodPlacement], homes: Mapping[str, str], rest: Mapping[str, NodeTemplate]
) -> dict[str, NodeTemplate]:
    moved = dict(rest)
    for pod in pods:
        if pod.name in homes:
            moved[homes[pod.name]] = moved[homes[pod.name]].with_pod(pod.needs.shape)
    return moved


def _is_due(candidate: Candidate, since: datetime.datetime, now: datetime.datetime) -> bool:
    if candidate.node.draining is not None:
        return True
    options = candidate.group.options
    wait = options.unneeded if candidate.node.ready else options.unready
    return (now - since).total_seconds() >= wait


def _is_draining_too_long(node: NodeView, now: datetime.datetime) -> bool:
    return node.draining is not None and (now - node.draining).total_seconds() > DRAIN_SECONDS


def _within_bounds(candidates: Iterable[Candidate], groups: Iterable[GroupAssessment]) -> list[Candidate]:
    """As many as the minimums allow; sizes do not count machines that are being removed."""
    left = {one.group.id: one.group.size - one.group.smallest for one in groups}
    allowed = []
    for candidate in candidates:
        if left[candidate.group.id] > 0:
            left[candidate.group.id] -= 1
            allowed.append(candidate)
    return allowed


def _draining(situation: ScaleDownSituation, going: Iterable[str]) -> tuple[NodeView, ...]:
    names = set(going)
    nodes = [node for one in situation.groups for node in one.readiness.nodes]
    return tuple(node for node in nodes if node.draining is not None and node.name not in names)
