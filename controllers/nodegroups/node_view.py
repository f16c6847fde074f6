"""Pods and nodes of the workload cluster, as far as sizing depends on them."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from reconcile.blocks import NodeTemplate, PodNeeds, amounts_of, node_template, pod_needs
from reconcile.kinds import Node, Pod
from reconcile.models import encode

from .machine import provider_id

AUTOSCALER = "cluster-autoscaler.kubernetes.io/"
SAFE = f"{AUTOSCALER}safe-to-evict"
DISABLED = f"{AUTOSCALER}scale-down-disabled"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
MIRROR = "kubernetes.io/config.mirror"
HOSTNAME = "kubernetes.io/hostname"
STATE_TAINT_DOMAINS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.cluster.x-k8s.io/")
"""Taints of these domains describe one node, so its group's template leaves them out."""


@frozen
class PodPlacement:
    """`held` says why the pod must not be moved."""

    needs: PodNeeds
    node: str
    pod: Pod
    is_waiting: bool = False
    is_local: bool = False
    held: str = ""

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return self.needs.name


@frozen
class NodeView:
    """`template` is what the node offers when empty, without the taint of its removal.

    `draining` is when its removal began, None if it has not.
    """

    name: str
    provider: str
    created: datetime.datetime
    ready: bool
    template: NodeTemplate
    node: Node
    cordoned: bool = False
    disabled: bool = False
    draining: datetime.datetime | None = None


def read_node(node: Node) -> NodeView:
    """Raises ValueError for an invalid amount."""
    manifest = encode(node)
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    conditions = status.get("conditions") or ()
    ready: Mapping[str, Any] = next((one for one in conditions if one["type"] == "Ready"), {})
    created = node.metadata.creation_timestamp
    if created is None:
        raise ValueError("a node that no server has stored")
    template = node_template(manifest)
    marks = [one for one in spec.get("taints") or () if one["key"] == TO_BE_DELETED]
    return NodeView(
        node.name,
        provider_id(spec.get("providerID") or ""),
        created,
        ready.get("status") == "True",
        evolve(template, taints=tuple(one for one in template.taints if one.key != TO_BE_DELETED)),
        node,
        bool(spec.get("unschedulable")),
        node.metadata.annotations.get(DISABLED) == "true",
        _second(marks[0].get("value")) if marks else None,
    )


def read_pod(pod: Pod) -> PodPlacement | None:
    """None if the pod has ended. Raises ValueError for an invalid amount."""
    manifest = encode(pod)
    status, spec = manifest.get("status") or {}, manifest.get("spec") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    conditions = status.get("conditions") or ()
    scheduled: Mapping[str, Any] = next((one for one in conditions if one["type"] == "PodScheduled"), {})
    waiting = (
        not spec.get("nodeName")
        and not pod.terminating
        and not spec.get("schedulingGates")
        and (scheduled.get("status"), scheduled.get("reason")) == ("False", "Unschedulable")
    )
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    local = MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == "DaemonSet")
    return PodPlacement(
        pod_needs(manifest),
        spec.get("nodeName") or "",
        pod,
        waiting and not (owner is not None and owner.kind == "DaemonSet"),
        local,
        "" if local else _held(pod, spec, owner is not None),
    )


def _held(pod: Pod, spec: Mapping[str, Any], is_replicated: bool) -> str:
    """The annotation `safe-to-evict` overrides the other reasons."""
    text = pod.metadata.annotations.get(SAFE)
    if text == "false":
        return "it is marked as not safe to evict"
    if text == "true":
        return ""
    if not is_replicated:
        return "no controller would replace it"
    if pod.namespace == "kube-system":
        return "it is in kube-system"
    volumes: Sequence[Mapping[str, Any]] = spec.get("volumes") or ()
    if any("hostPath" in one or "emptyDir" in one for one in volumes):
        return "it keeps data on the node"
    return ""


def occupied(node: NodeView, pods: Iterable[PodPlacement]) -> NodeTemplate:
    template = node.template
    for pod in pods:
        template = template.with_pod(pod.needs.shape)
    return template


def as_template(node: NodeView, pods: Iterable[PodPlacement]) -> NodeTemplate:
    """What another node of the group would offer: this one with only its local pods."""
    labels = {name: value for name, value in node.template.labels.items() if name != HOSTNAME}
    taints = tuple(taint for taint in node.template.taints if not taint.key.startswith(STATE_TAINT_DOMAINS))
    empty = evolve(node, template=evolve(node.template, labels=labels, taints=taints))
    return occupied(empty, [pod for pod in pods if pod.is_local])


def utilisation(node: NodeView, pods: Iterable[PodPlacement]) -> tuple[int, bool]:
    """The largest requested share, in thousandths of what the node offers, and whether of GPUs."""
    asked: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.needs.shape.amounts:
            asked[name] = asked.get(name, 0) + amount
    offered = amounts_of(node.node.status.allocatable or node.node.status.capacity)
    gpus = [name for name in offered if name.endswith("/gpu") and offered[name]]
    shares = [
        -(-1000 * asked.get(name, 0) // offered[name])
        for name in (gpus or ("cpu", "memory"))
        if offered.get(name)
    ]
    return max(shares, default=0), bool(gpus)


def _second(text: str | None) -> datetime.datetime:
    """The value of our taint: seconds since 1970, as in cluster-autoscaler."""
    seconds = int(text) if text and text.isascii() and text.isdigit() else 0
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)
