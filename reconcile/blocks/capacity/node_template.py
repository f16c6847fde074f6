"""What a node offers, and whether a pod may run there."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen

from reconcile.blocks.capacity.pod_needs import Amounts, HostPort, PodShape, Toleration, amounts_of, less
from reconcile.models import Object, encode

HOSTNAME = "kubernetes.io/hostname"
PRESSING = ("NoSchedule", "NoExecute")


@frozen
class Taint:
    """Keeps pods off a node unless they tolerate it; only NoSchedule and NoExecute do so for certain."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    def tolerated(self, tolerations: Iterable[Toleration]) -> bool:
        """Whether one of these tolerates it."""
        return any(self._by(one) for one in tolerations)

    def _by(self, toleration: Toleration) -> bool:
        if toleration.effect not in ("", self.effect):
            return False
        if not toleration.key:
            return toleration.operator == "Exists"
        if toleration.key != self.key:
            return False
        return toleration.operator == "Exists" or toleration.value == self.value


@frozen
class NodeTemplate:
    """A node, real or planned: `free` is what pods may still take, `ports` are its own ports in use."""

    free: Amounts
    labels: Mapping[str, str] = field(factory=dict)
    taints: tuple[Taint, ...] = ()
    ports: tuple[HostPort, ...] = ()

    def bars(self, shape: PodShape) -> str:
        """Why no pod of that shape could run there, even on an empty node; empty if one could."""
        if shape.unmodelled:
            return f"not modelled: {', '.join(shape.unmodelled)}"
        if not shape.accepts(self.labels):
            return "node selector or affinity"
        for taint in self.taints:
            if taint.effect in PRESSING and not taint.tolerated(shape.tolerations):
                return f"taint {taint}"
        return ""

    def lacks(self, shape: PodShape) -> str:
        """The resource that is too scarce for one more pod of that shape; empty if there is enough."""
        for name, amount in shape.amounts:
            if self.free.get(name, 0) < amount:
                return name
        if any(mine.clashes(port) for port in shape.ports for mine in self.ports):
            return "host ports"
        return ""

    def with_pod(self, shape: PodShape) -> "NodeTemplate":
        """The template with one more pod of that shape."""
        return evolve(self, free=less(self.free, dict(shape.amounts)), ports=(*self.ports, *shape.ports))


def node_template(node: Object | Mapping[str, Any]) -> NodeTemplate:
    """A node without pods, as its object describes it. Raises ValueError for an invalid amount."""
    manifest = encode(node) if isinstance(node, Object) else node
    status, spec = manifest.get("status") or {}, manifest.get("spec") or {}
    taints = tuple(
        Taint(one["key"], one.get("value") or "", one["effect"]) for one in spec.get("taints") or ()
    )
    offered = status.get("allocatable") or status.get("capacity") or {}
    return NodeTemplate(
        amounts_of(offered), dict((manifest.get("metadata") or {}).get("labels") or {}), taints
    )
