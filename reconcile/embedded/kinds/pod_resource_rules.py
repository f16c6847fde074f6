"""The rules for what containers and pods ask for: amounts, claims, and how they may be resized."""

import math
from collections.abc import Callable, Collection, Iterator
from decimal import Decimal
from typing import Final

from informers.apimachinery.name_rules import label_faults, subdomain_faults
from informers.apimachinery.quantities import quantity_text, quantity_value
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.kinds.pod_resources import needs_of_containers
from reconcile.embedded.kinds.resource_amounts import (
    Parsed,
    is_huge_pages,
    is_of_pods,
    may_overcommit,
    parsed,
)
from reconcile.embedded.kinds.resource_rules import (
    amount_causes,
    container_resource_causes,
    resource_name_causes,
)
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_not_found,
    value_not_supported,
    value_required,
)

_RESIZABLE: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")

NameRule = Callable[[str, str], list[FieldCause]]


def resource_causes(
    resources: Object, path: str, claims: Collection[str], name_rule: NameRule = container_resource_causes
) -> Iterator[FieldCause]:
    """The faults of `requests`, `limits` and `claims` (validateResourceRequirements)."""
    if not resources:
        return
    limits, requests = parsed(resources.get("limits")), parsed(resources.get("requests"))
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, (value, form) in amounts.items():
            place = f"{path}.{kind}[{name}]"
            yield from name_rule(name, place)
            yield from amount_causes(name, quantity_text(value, form), place)
            if is_huge_pages(name) and not _is_divisible(name, value):
                why = f"{quantity_text(value, form)} is not positive integer multiple of {name}"
                yield value_invalid(place, quantity_text(value, form), why)
    yield from _bound_causes(requests, limits, path)
    asked = limits.keys() | requests.keys()
    if any(map(is_huge_pages, asked)) and not asked & {"cpu", "memory"}:
        yield value_forbidden(path, "HugePages require cpu or memory")
    yield from _claim_reference_causes(resources, f"{path}.claims", claims)


def _bound_causes(requests: Parsed, limits: Parsed, path: str) -> Iterator[FieldCause]:
    for name, (value, form) in requests.items():
        if name not in limits:
            if not may_overcommit(name):
                yield value_required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        limit, limit_form = limits[name]
        said = f"{name} limit of {quantity_text(limit, limit_form)}"
        if value != limit and not may_overcommit(name):
            yield value_invalid(f"{path}.requests", quantity_text(value, form), f"must be equal to {said}")
        elif value > limit:
            why = f"must be less than or equal to {said}"
            yield value_invalid(f"{path}.requests", quantity_text(value, form), why)


def _is_divisible(name: str, value: Decimal) -> bool:
    """Whether it is a whole number of pages of the size in the name."""
    try:
        size = quantity_value(name.partition("-")[2])
    except ValueError:
        return False
    return size > 0 and size == size.to_integral_value() and math.ceil(value) % size == 0


def _claim_reference_causes(resources: Object, path: str, claims: Collection[str]) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for index, claim in enumerate(each(resources, "claims")):
        place = f"{path}[{index}]"
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield value_required(place)
            continue
        if name in seen:
            yield value_duplicate(place, name)
        else:
            key = f"{name}/{request}" if request else name
            if request:
                yield from all_invalid(f"{place}.request", request, label_faults(request))
            if key in seen:
                yield value_duplicate(place, key)
            elif not request:
                yield from (value_duplicate(place, name) for one in seen if one.startswith(f"{name}/"))
            seen.add(key)
        if name not in claims:
            yield value_not_found(place, name)


def resize_policy_causes(container: Object, path: str, restart_policy: str) -> Iterator[FieldCause]:
    """The faults of `resizePolicy`, most of which the real server sees at the list."""
    seen: set[str] = set()
    for index, rule in enumerate(each(container, "resizePolicy")):
        name, policy = rule.get("resourceName") or "", rule.get("restartPolicy") or ""
        if name in seen:
            yield value_duplicate(f"{path}[{index}]", name)
        seen.add(name)
        for value, known in ((name, _RESIZABLE), (policy, _RESIZE_POLICIES)):
            if not value:
                yield value_required(path)
            elif value not in known:
                yield value_not_supported(path, value, known)
        if restart_policy == "Never" and policy != "NotRequired":
            yield value_invalid(path, policy, "must be 'NotRequired' when `restartPolicy` is 'Never'")


# --- the pod ----------------------------------------------------------------------------------


def pod_resource_causes(spec: Object, path: str, claims: Collection[str]) -> Iterator[FieldCause]:
    """The faults of the resources of the pod itself, within which those of its containers have to be."""
    resources = spec.get("resources")
    if resources is None:
        return
    path = f"{path}.resources"
    if resources.get("claims"):
        yield value_forbidden(f"{path}.claims", "claims cannot be set for Resources at pod-level")
    yield from resource_causes(resources, path, claims, _pod_name_causes)
    given = parsed(resources.get("requests"))
    for name, (needed, form) in needs_of_containers(spec, "requests").items():
        own, own_form = given.get(name, (Decimal(0), form))
        if needed > own:
            total = quantity_text(needed, form)
            why = f"must be greater than or equal to aggregate container requests of {total}"
            yield value_invalid(f"{path}.requests[{name}]", quantity_text(own, own_form), why)
    bounds = parsed(resources.get("limits"))
    for index, container in enumerate(each(spec, "containers")):
        for name, (limit, form) in parsed(part(container, "resources").get("limits")).items():
            if name in bounds and limit > bounds[name][0]:
                why = f"must be less than or equal to pod limits of {quantity_text(*bounds[name])}"
                place = f"{path}.containers[{index}][{name}].limits"
                yield value_invalid(place, quantity_text(limit, form), why)


def _pod_name_causes(name: str, path: str) -> list[FieldCause]:
    causes = resource_name_causes(name, path)
    if not causes and not is_of_pods(name):
        causes = [value_not_supported(path, name, ("cpu", "hugepages-", "memory"))]
    return causes


def pod_claim_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    """The faults of `resourceClaims`."""
    seen: set[str] = set()
    for index, claim in enumerate(each(spec, "resourceClaims")):
        place, name = f"{path}.resourceClaims[{index}]", claim.get("name") or ""
        if not name:
            yield value_required(f"{place}.name")
        elif name in seen:
            yield value_duplicate(f"{place}.name", name)
        else:
            yield from all_invalid(f"{place}.name", name, label_faults(name))
            seen.add(name)
        sources = [
            one for one in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(one) is not None
        ]
        if len(sources) > 1:
            why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield value_invalid(place, name, why)
        if not sources:
            yield value_invalid(
                place, name, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
        for one in sources:
            yield from all_invalid(f"{place}.{one}", claim[one], subdomain_faults(claim[one]))
