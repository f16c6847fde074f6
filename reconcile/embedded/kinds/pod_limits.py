"""What the LimitRanges of a namespace add to a new pod, and what they refuse (the plugin LimitRanger)."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.quantities import quantity_text
from reconcile.embedded.kinds.built_in_kind import Object, Others
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.kinds.pod_resources import needs_of_containers
from reconcile.embedded.kinds.resource_amounts import Amounts, Parsed, parsed
from reconcile.embedded.protocol.api_failure import Denied

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_LISTS: Final = (("containers", "container"), ("initContainers", "init container"))


def apply_limits(pod: Object, others: Others) -> None:
    """Complete the containers of a pod from the LimitRanges of its namespace. Raises Denied."""
    ranges = list(others.within("", "limitranges", pod["metadata"].get("namespace") or ""))
    for limit_range in ranges:
        _set_defaults(pod, limit_range)
    faults = [fault for limit_range in ranges for fault in _faults(pod["spec"], limit_range)]
    if len(faults) == 1:
        raise Denied(faults[0])
    if faults:
        raise Denied(f"[{', '.join(faults)}]")


def _limits_of(limit_range: Object, kind: str) -> Iterator[Object]:
    return (limit for limit in each(part(limit_range, "spec"), "limits") if limit.get("type") == kind)


# --- defaults ---------------------------------------------------------------------------------


def _set_defaults(pod: Object, limit_range: Object) -> None:
    limits: dict[str, object] = {}
    requests: dict[str, object] = {}
    for limit in _limits_of(limit_range, "Container"):
        limits |= part(limit, "default")
        requests |= part(limit, "defaultRequest")
    said = []
    for name, shown in _LISTS:
        for container in each(pod["spec"], name):
            for kind, defaults in (("request", requests), ("limit", limits)):
                if added := _add(container, f"{kind}s", defaults):
                    said.append(f"{', '.join(added)} {kind} for {shown} {container.get('name') or ''}")
    if said:
        annotations = part(pod, "metadata", "annotations")
        text = f"LimitRanger plugin set: {'; '.join(said)}"
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: text}


def _add(container: Object, kind: str, defaults: Amounts) -> list[str]:
    """Set the amounts that are missing; returns their names."""
    resources = part(container, "resources")
    given = resources.get(kind) or {}
    missing = {name: amount for name, amount in defaults.items() if name not in given}
    if missing:
        container["resources"] = {**resources, kind: {**given, **missing}}
    return sorted(missing)


# --- bounds -----------------------------------------------------------------------------------


def _faults(spec: Object, limit_range: Object) -> Iterator[str]:
    for limit in _limits_of(limit_range, "Container"):
        for name, _ in _LISTS:
            for container in each(spec, name):
                resources = part(container, "resources")
                amounts = (parsed(resources.get("requests")), parsed(resources.get("limits")))
                yield from _bound_faults(limit, *amounts)
    for limit in _limits_of(limit_range, "Pod"):
        yield from _bound_faults(limit, _of_pod(spec, "requests"), _of_pod(spec, "limits"))


def _of_pod(spec: Object, kind: str) -> Parsed:
    return needs_of_containers(spec, kind) | parsed(part(spec, "resources").get(kind))


def _bound_faults(limit: Object, requests: Parsed, limits: Parsed) -> Iterator[str]:
    kind = limit["type"]
    for name, (least, form) in parsed(limit.get("min")).items():
        said = f"minimum {name} usage per {kind} is {quantity_text(least, form)}"
        if name not in requests:
            yield f"{said}.  No request is specified"
        for word, amounts in (("request", requests), ("limit", limits)):
            if name in amounts and amounts[name][0] < least:
                yield f"{said}, but {word} is {quantity_text(*amounts[name])}"
                break
    for name, (most, form) in parsed(limit.get("max")).items():
        said = f"maximum {name} usage per {kind} is {quantity_text(most, form)}"
        if name not in limits:
            yield f"{said}.  No limit is specified"
        for word, amounts in (("limit", limits), ("request", requests)):
            if name in amounts and amounts[name][0] > most:
                yield f"{said}, but {word} is {quantity_text(*amounts[name])}"
                break
    for name, (ratio, form) in parsed(limit.get("maxLimitRequestRatio")).items():
        said = f"{name} max limit to request ratio per {kind} is {quantity_text(ratio, form)}"
        request, bound = (amounts[name][0] if name in amounts else 0 for amounts in (requests, limits))
        if not request or not bound:
            yield f"{said}, but no {'limit' if request else 'request'} is specified or it is 0"
        elif bound / request > ratio:
            yield f"{said}, but provided ratio is {bound / request:f}"
