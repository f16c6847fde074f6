"""Which nodes are not needed: pure, from what is there to what may go and what has to be made empty."""

import datetime
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from reconcile.blocks import NodeTemplate, fill

from .group_health import GroupAssessment
from .node_group import NodeGroup
from .node_view import NodeView, PodPlacement, occupied, utilisation

MOST_LOOKED_AT = 30
MOST_EMPTY = 10
MOST_DRAINED = 1
DRAIN_SECONDS = 900.0
"""A node that is not empty after so long is let be for a while."""


@frozen
class Candidate:
    """A node that is not needed: its machine's name (a MachinePool's: provider ID), and pods to be moved."""

    node: NodeView
    group: NodeGroup
    instance: str
    pods: tuple[PodPlacement, ...] = ()


@frozen
class ScaleDown:
    """What is done: `delete` are empty, `drain` are to be emptied, `release` stay after all.

    `unneeded` are all that are not needed, with since when; `kept` says of the others why they are.
    """

    delete: tuple[Candidate, ...] = ()
    drain: tuple[Candidate, ...] = ()
    release: tuple[NodeView, ...] = ()
    unneeded: Mapping[str, datetime.datetime] = field(factory=dict)
    kept: Mapping[str, str] = field(factory=dict)


@frozen
class ScaleDownSituation:
    """The cluster, as far as it decides over what goes. `nodes` are all nodes by name, `pods` by node.

    `quiet`: no pod waits and nothing has grown lately; only then does anything begin to go.
    """

    groups: Sequence[GroupAssessment]
    nodes: Mapping[str, NodeView]
    pods: Mapping[str, Sequence[PodPlacement]]
    unneeded: Mapping[str, datetime.datetime]
    now: datetime.datetime
    quiet: bool = True


def plan_scale_down(there: ScaleDownSituation) -> ScaleDown:
    """What may go now. No group falls below its smallest size, and one that is rolled out is left alone."""
    candidates, kept = unneeded(there)
    since = {one.node.name: there.unneeded.get(one.node.name, there.now) for one in candidates}
    if not there.quiet:
        return ScaleDown(release=_draining(there, ()), unneeded=since, kept=kept)
    due = [one for one in candidates if _is_due(one, since[one.node.name], there.now)]
    allowed = _within_bounds(due, there.groups)
    delete = [one for one in allowed if not one.pods][:MOST_EMPTY]
    tired = {one.node.name for one in allowed if _is_tired(one.node, there.now)}
    drain = [one for one in allowed if one.pods and one.node.name not in tired]
    drain.sort(key=lambda one: (one.node.draining is None, one.node.name))
    drain = drain[:MOST_DRAINED]
    staying = {one.node.name for one in (*delete, *drain)}
    return ScaleDown(
        tuple(delete),
        tuple(drain),
        _draining(there, staying),
        {name: when for name, when in since.items() if name not in tired},
        kept,
    )


def unneeded(there: ScaleDownSituation) -> tuple[list[Candidate], dict[str, str]]:
    """The nodes without which all pods still have a place, all of them together; why the others are kept."""
    kept: dict[str, str] = {}
    possible = []
    for candidate in _nodes_of_groups(there.groups, there.pods, kept):
        if why := _why_kept(candidate, there.pods.get(candidate.node.name, ())):
            kept[candidate.node.name] = why
        else:
            possible.append(candidate)
    possible.sort(key=lambda one: (bool(one.pods), one.node.draining is None, len(one.pods), one.node.name))
    for one in possible[MOST_LOOKED_AT:]:
        kept[one.node.name] = "others are looked at first"
    going: list[Candidate] = []
    rest = {
        name: occupied(node, there.pods.get(name, ()))
        for name, node in there.nodes.items()
        if node.ready and not node.cordoned and node.draining is None
    }
    receiving: set[str] = set()
    for candidate in possible[:MOST_LOOKED_AT]:
        name = candidate.node.name
        if name in receiving:
            kept[name] = "pods of other nodes are to go there"
            continue
        others = {other: room for other, room in rest.items() if other != name}
        homes = _homes(candidate.pods, others)
        if homes is None:
            kept[name] = "its pods have room nowhere else"
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
        return "it is marked not to go"
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
    """Where each pod could go, by its name; None where one has no place."""
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


def _is_tired(node: NodeView, now: datetime.datetime) -> bool:
    return node.draining is not None and (now - node.draining).total_seconds() > DRAIN_SECONDS


def _within_bounds(candidates: Iterable[Candidate], groups: Iterable[GroupAssessment]) -> list[Candidate]:
    """As many as may go; what is on its way out already is not counted by the size any more."""
    left = {one.group.id: one.group.size - one.group.smallest for one in groups}
    allowed = []
    for candidate in candidates:
        if left[candidate.group.id] > 0:
            left[candidate.group.id] -= 1
            allowed.append(candidate)
    return allowed


def _draining(there: ScaleDownSituation, going: Iterable[str]) -> tuple[NodeView, ...]:
    """Nodes of groups that were being emptied and are not any more."""
    names = set(going)
    nodes = [node for one in there.groups for node in one.readiness.nodes]
    return tuple(node for node in nodes if node.draining is not None and node.name not in names)
