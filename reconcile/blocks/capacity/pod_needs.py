"""What a pod needs of a node: requests, accepted places, tolerations.

Amounts are integers in thousandths, memory too: two of 0.9 are 1.8 exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from attrs import frozen

from reconcile.blocks.autoscaler.readings import MILLI, milli_of
from reconcile.models import Object, encode

Amounts: TypeAlias = Mapping[str, int]
"""Resources by name, in thousandths of their unit, rounded up."""
NodeOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

PODS = "pods"
SCHEDULER = "default-scheduler"


@frozen
class NodeRequirement:
    key: str
    operator: NodeOperator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels meets it. Gt and Lt compare integers."""
        value = labels.get(self.key)
        match self.operator:
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
        number, bound = _integer(value), _integer(self.values[0] if self.values else None)
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


@frozen
class Toleration:
    """A tolerated taint. An empty `key` with Exists means every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@frozen
class HostPort:
    """A port of the node that a pod takes; an `address` of 0.0.0.0 means all of them."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"

    def clashes(self, other: "HostPort") -> bool:
        anywhere = "0.0.0.0" in (self.address, other.address)
        same = (self.port, self.protocol) == (other.port, other.protocol)
        return same and (anywhere or self.address == other.address)


@frozen
class PodShape:
    """What equal pods have in common: they fit on the same nodes. `amounts` has an entry `pods`.

    One of `terms` must hold, with all its requirements. A pod with `unmodelled` constraints is left alone.
    """

    amounts: tuple[tuple[str, int], ...]
    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[NodeRequirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    unmodelled: tuple[str, ...] = ()

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether node selector and required affinity allow a node with these labels."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        return not self.terms or any(all(one.holds(labels) for one in term) for term in self.terms)


@frozen
class PodNeeds:
    """A pod by name (`namespace/name`), and its shape."""

    name: str
    shape: PodShape

    @property
    def amounts(self) -> Amounts:
        """Its requests."""
        return dict(self.shape.amounts)


def pod_needs(pod: Object | Mapping[str, Any]) -> PodNeeds:
    """What a pod or a pod template needs. Raises ValueError for an invalid amount."""
    manifest = encode(pod) if isinstance(pod, Object) else pod
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    shape = PodShape(
        amounts=tuple(sorted(requests_of(spec).items())),
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        terms=tuple(_term(term) for term in required.get("nodeSelectorTerms") or ()),
        tolerations=tuple(_toleration(one) for one in spec.get("tolerations") or ()),
        ports=tuple(_ports(spec)),
        unmodelled=tuple(_unmodelled(spec)),
    )
    return PodNeeds(name, shape)


def requests_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """The requests of a pod spec: of containers and sidecars together, or the higher ones at its start.

    Sidecars (init containers that restart) keep running; other init containers run one by one beside the
    earlier sidecars (KEP-753). Requests of the pod override those of its containers (KEP-2837).
    """
    running: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = amounts_of(_requests(container))
        if container.get("restartPolicy") == "Always":
            running = add(running, asked)
            starting = most(starting, running)
        else:
            starting = most(starting, add(running, asked))
    for container in spec.get("containers") or ():
        running = add(running, amounts_of(_requests(container)))
    total = {**most(running, starting), **amounts_of(_requests(spec))}
    total = add(total, amounts_of(spec.get("overhead") or {}))
    return {**{name: amount for name, amount in total.items() if amount > 0}, PODS: MILLI}


def amounts_of(quantities: Mapping[str, Any]) -> dict[str, int]:
    """Quantities in thousandths. Raises ValueError for an invalid one."""
    return {name: milli_of(quantity) for name, quantity in quantities.items()}


def add(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def less(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(0, amount - other.get(name, 0)) for name, amount in one.items()}


def most(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _requests(container: Mapping[str, Any]) -> Mapping[str, Any]:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _term(term: Mapping[str, Any]) -> tuple[NodeRequirement, ...]:
    """An empty term matches no node, as in the API."""
    said = tuple(
        NodeRequirement(one["key"], one["operator"], tuple(one.get("values") or ()))
        for one in term.get("matchExpressions") or ()
    )
    return said or (NodeRequirement("", "Exists"),)


def _toleration(said: Mapping[str, Any]) -> Toleration:
    return Toleration(
        said.get("key") or "",
        said.get("operator") or "Equal",
        said.get("value") or "",
        said.get("effect") or "",
    )


def _ports(spec: Mapping[str, Any]) -> Iterable[HostPort]:
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            if number:
                yield HostPort(number, port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0")


def _unmodelled(spec: Mapping[str, Any]) -> Iterable[str]:
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(name) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            yield f"required {name}"
    node = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    if any(term.get("matchFields") for term in node.get("nodeSelectorTerms") or ()):
        yield "matchFields of nodes"
    spread: Sequence[Mapping[str, Any]] = spec.get("topologySpreadConstraints") or ()
    if any(one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for one in spread):
        yield "topologySpreadConstraints"
    if any(
        "persistentVolumeClaim" in volume or "ephemeral" in volume for volume in spec.get("volumes") or ()
    ):
        yield "volumes that are claims"
    if spec.get("resourceClaims"):
        yield "resourceClaims"
    if spec.get("schedulerName", SCHEDULER) != SCHEDULER:
        yield "a scheduler of its own"


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
