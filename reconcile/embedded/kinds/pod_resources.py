"""What the containers of a pod need together: defaults of the pod's own resources, and its QoS class."""

from decimal import Decimal

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_parts import each, is_sidecar, part
from reconcile.embedded.kinds.resource_amounts import (
    Parsed,
    added,
    greatest,
    is_huge_pages,
    is_of_pods,
    may_overcommit,
    parsed,
    texts,
)


def needs_of_containers(spec: Object, kind: str) -> Parsed:
    """The `requests` or `limits` of all containers together, as a scheduler counts them.

    Init containers run one after the other, except for sidecars, which stay (AggregateContainerRequests).
    """

    def of(container: Object) -> Parsed:
        return parsed(part(container, "resources").get(kind))

    sidecars: Parsed = {}
    peaks: list[Parsed] = []
    for container in each(spec, "initContainers"):
        beside = added((sidecars, of(container)))
        peaks.append(beside)
        if is_sidecar(container):
            sidecars = beside
    running = added((*map(of, each(spec, "containers")), sidecars))
    return greatest((running, *peaks))


def default_pod_level_resources(spec: Object) -> None:
    """Complete `spec.resources` from those of the containers, if the pod has some of its own."""
    resources = spec.get("resources")
    if not resources or not (resources.get("limits") or resources.get("requests")):
        return
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    pages = {
        name: amount
        for name, amount in needs_of_containers(spec, "limits").items()
        if is_huge_pages(name) and name not in requests
    }
    limits = {**texts(pages), **limits}
    if limits:
        needed = {
            name: amount
            for name, amount in needs_of_containers(spec, "requests").items()
            if is_of_pods(name) and may_overcommit(name)
        }
        bounds = {name: limit for name, limit in limits.items() if is_of_pods(name)}
        requests = {**bounds, **texts(needed), **requests}
    for name, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[name] = amounts


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort (ComputePodQOS)."""
    own = part(spec, "resources")
    if own.get("requests") or own.get("limits"):
        sources = [own]
    else:
        lists = (each(spec, name) for name in ("containers", "initContainers"))
        sources = [part(container, "resources") for containers in lists for container in containers]
    requests = added(_counted(source, "requests") for source in sources)
    limits = added(_counted(source, "limits") for source in sources)
    if not requests and not limits:
        return "BestEffort"
    bounded = all(_counted(source, "limits").keys() == {"cpu", "memory"} for source in sources)
    same = _values(requests) == _values(limits)
    return "Guaranteed" if bounded and same else "Burstable"


def _counted(resources: Object, kind: str) -> Parsed:
    amounts = parsed(resources.get(kind))
    return {name: amount for name, amount in amounts.items() if name in ("cpu", "memory") and amount[0] > 0}


def _values(amounts: Parsed) -> dict[str, Decimal]:
    return {name: value for name, (value, _) in amounts.items()}
