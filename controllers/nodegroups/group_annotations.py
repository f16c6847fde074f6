"""The annotations of a group: bounds, options, and what a new node offers.

Their names are those of cluster-autoscaler's provider `clusterapi` (systems.md, 2b).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from reconcile.blocks import NodeTemplate, Taint, amounts_of, milli_of, milliseconds_of

CLUSTER_API = "cluster.x-k8s.io"
MIN_SIZE = f"{CLUSTER_API}/cluster-api-autoscaler-node-group-min-size"
MAX_SIZE = f"{CLUSTER_API}/cluster-api-autoscaler-node-group-max-size"
DELETE_MACHINE = f"{CLUSTER_API}/delete-machine"
MARKED = "reconcile-runtime/marked"
"""Set beside `DELETE_MACHINE` to distinguish our marks from those of people."""
PAUSED = f"{CLUSTER_API}/paused"
OPTIONS = f"{CLUSTER_API}/autoscaling-options-"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
MANAGED_LABELS = ("node.cluster.x-k8s.io", "node-role.kubernetes.io", "node-restriction.kubernetes.io")
MAX_PODS = 110


class BadAnnotation(ValueError):
    """The message names the annotation but never holds its value."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"annotation {name}: {why}")
        self.annotation = name


@frozen
class GroupBounds:
    """The least and the most nodes. A group with a maximum of 0 is not sized."""

    smallest: int = 0
    largest: int = 0


def bounds_of(annotations: Mapping[str, str]) -> GroupBounds:
    """A missing bound is 0. Raises BadAnnotation."""
    smallest, largest = _size(annotations, MIN_SIZE), _size(annotations, MAX_SIZE)
    if largest < smallest:
        raise BadAnnotation(MAX_SIZE, f"{largest} is less than the smallest size, {smallest}")
    return GroupBounds(smallest, largest)


@frozen
class GroupOptions:
    """Thresholds in thousandths of what a node offers, times in seconds."""

    threshold: int = 500
    gpu_threshold: int = 500
    unneeded: float = 600.0
    unready: float = 1200.0
    provision: float = 900.0
    startup: float = 900.0


def options_of(annotations: Mapping[str, str]) -> tuple[GroupOptions, Sequence[str]]:
    """The options, and the faults of invalid ones, which keep their defaults."""
    found: dict[str, Any] = {}
    faults: list[str] = []
    for option, (name, read, expected) in _OPTIONS.items():
        text = annotations.get(OPTIONS + name)
        try:
            found |= {} if text is None else {option: read(text)}
        except ValueError:
            faults.append(f"annotation {OPTIONS + name}: expected a {expected}")
    return GroupOptions(**found), faults


def _thousandths(text: str) -> int:
    value = milli_of(text)
    if not 0 <= value <= 1000:
        raise ValueError
    return value


def _seconds(text: str) -> float:
    return milliseconds_of(text) / 1000


_SHARE = (_thousandths, "number from 0 to 1")
_TIME = (_seconds, "duration such as 10m")
_OPTIONS: Mapping[str, tuple[str, Callable[[str], float], str]] = {
    "threshold": ("scaledownutilizationthreshold", *_SHARE),
    "gpu_threshold": ("scaledowngpuutilizationthreshold", *_SHARE),
    "unneeded": ("scaledownunneededtime", *_TIME),
    "unready": ("scaledownunreadytime", *_TIME),
    "provision": ("maxnodeprovisiontime", *_TIME),
    "startup": ("maxnodestartuptime", *_TIME),
}


def template_of(
    annotations: Mapping[str, str], machine: Mapping[str, Any], infrastructure: Mapping[str, Any]
) -> NodeTemplate | None:
    """What a new node offers; None if its cpu or memory is unknown. Raises BadAnnotation.

    `machine` is the template of the machines. Single resources of `infrastructure`, the status of the
    infrastructure template, are overridden by annotations.
    """
    amounts = {**amounts_of(infrastructure.get("capacity") or {}), **_amounts(annotations)}
    if not (amounts.get("cpu") and amounts.get("memory")):
        return None
    amounts.setdefault("pods", 1000 * MAX_PODS)
    info = infrastructure.get("nodeInfo") or {}
    labels = {
        "kubernetes.io/arch": info.get("architecture") or "amd64",
        "kubernetes.io/os": info.get("operatingSystem") or "linux",
        **_managed(((machine.get("metadata") or {}).get("labels")) or {}),
        **_labels(annotations),
    }
    return NodeTemplate(amounts, labels, _taints(annotations, machine.get("spec") or {}))


def _amounts(annotations: Mapping[str, str]) -> dict[str, int]:
    named = {"cpu": "cpu", "memory": "memory", "ephemeral-disk": "ephemeral-storage", "maxPods": "pods"}
    found = {}
    for name, resource in named.items():
        if (text := annotations.get(CAPACITY + name)) is not None:
            found[resource] = _amount(CAPACITY + name, text)
    gpus = annotations.get(CAPACITY + "gpu-count")
    if gpus is not None:
        found[annotations.get(CAPACITY + "gpu-type") or "nvidia.com/gpu"] = _amount(
            CAPACITY + "gpu-count", gpus
        )
    return found


def _amount(name: str, text: str) -> int:
    try:
        amount = milli_of(text)
    except ValueError:
        raise BadAnnotation(name, "expected a quantity such as 2, 500m or 5Gi") from None
    if amount < 0:
        raise BadAnnotation(name, "expected 0 or more")
    return amount


def _labels(annotations: Mapping[str, str]) -> dict[str, str]:
    labels = {}
    for part in _parts(annotations.get(CAPACITY + "labels")):
        name, equals, value = part.partition("=")
        if not name or not equals:
            raise BadAnnotation(CAPACITY + "labels", "expected labels such as a=b,c=d")
        labels[name] = value
    return labels


def _managed(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a machine that its node gets too (Cluster API's contract)."""

    def is_managed(name: str) -> bool:
        domain = name.partition("/")[0]
        return any(domain == own or domain.endswith(f".{own}") for own in MANAGED_LABELS)

    return {name: value for name, value in labels.items() if is_managed(name)}


def _taints(annotations: Mapping[str, str], spec: Mapping[str, Any]) -> tuple[Taint, ...]:
    found = {(one["key"], one["effect"]): one.get("value") or "" for one in spec.get("taints") or ()}
    for part in _parts(annotations.get(CAPACITY + "taints")):
        text, colon, effect = part.rpartition(":")
        key, _, value = text.partition("=")
        if not key or not colon or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise BadAnnotation(CAPACITY + "taints", "expected taints such as key=value:NoSchedule")
        found[key, effect] = value
    return tuple(Taint(key, value, effect) for (key, effect), value in found.items())


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _size(annotations: Mapping[str, str], name: str) -> int:
    text = annotations.get(name)
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit():
        raise BadAnnotation(name, "expected a number of nodes, 0 or more")
    return int(text)
