"""Which nodes are meant: node selectors, topology terms, and labels that have newer names."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from informers.apimachinery.name_rules import label_key_faults, label_value_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_required,
)

NEWER_LABELS: Final[Mapping[str, str]] = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
"""Deprecated labels of nodes, and what replaces them (pkg/api/node/util.go)."""


# --- node selectors ---------------------------------------------------------------------------


def node_selector_causes(selector: Object, path: str, *, any_value: bool = False) -> Iterator[FieldCause]:
    """The faults of a NodeSelector; `any_value` accepts values that no label can have."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield value_required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from node_term_causes(term, f"{path}.nodeSelectorTerms[{index}]", any_value=any_value)


def node_term_causes(term: Object, path: str, *, any_value: bool = False) -> Iterator[FieldCause]:
    """The faults of a NodeSelectorTerm."""
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        place = f"{path}.matchExpressions[{index}]"
        yield from _expression_causes(requirement, place)
        if not any_value:
            yield from _label_value_causes(requirement, place)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _field_causes(requirement, f"{path}.matchFields[{index}]")


def has_odd_values(selector: Object) -> bool:
    """Whether a NodeSelector asks for a value that no label can have; such a one may stay so."""
    return any(
        label_value_faults(value)
        for term in selector.get("nodeSelectorTerms") or ()
        for requirement in term.get("matchExpressions") or ()
        for value in requirement.get("values") or ()
    )


def _expression_causes(requirement: Object, path: str) -> Iterator[FieldCause]:
    values, operator = requirement.get("values") or (), requirement.get("operator") or ""
    match operator:
        case "In" | "NotIn":
            if not values:
                why = "must be specified when `operator` is 'In' or 'NotIn'"
                yield value_required(f"{path}.values", why)
        case "Exists" | "DoesNotExist":
            if values:
                why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield value_forbidden(f"{path}.values", why)
        case "Gt" | "Lt":
            if len(values) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield value_required(f"{path}.values", why)
        case _:
            yield value_invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from label_key_causes(requirement.get("key") or "", f"{path}.key")


def _label_value_causes(requirement: Object, path: str) -> Iterator[FieldCause]:
    for index, value in enumerate(requirement.get("values") or ()):
        for fault in label_value_faults(value):
            yield value_invalid(f"{path}.values[{index}]", value, fault)


def _field_causes(requirement: Object, path: str) -> Iterator[FieldCause]:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield value_invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield value_required(f"{path}.values", why)
    if key != "metadata.name":
        yield value_invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        for fault in subdomain_faults(value):
            yield value_invalid(f"{path}.values[{index}]", value, fault)


def label_key_causes(key: str, path: str) -> list[FieldCause]:
    return [value_invalid(path, key, fault) for fault in label_key_faults(key)]


# --- topology ---------------------------------------------------------------------------------


def topology_causes(terms: list[Object], path: str) -> Iterator[FieldCause]:
    """The faults of a list of TopologySelectorTerms."""
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        place = f"{path}[{index}].matchLabelExpressions"
        meant: dict[str, set[str]] = {}
        for number, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            key = requirement.get("key") or ""
            yield from _topology_requirement_causes(requirement, f"{place}[{number}]")
            if key in meant:
                yield value_duplicate(f"{place}[{number}].key", key)
            meant[key] = set(requirement.get("values") or ())
        if meant in seen:
            yield value_duplicate(place, "")
        seen.append(meant)


def _topology_requirement_causes(requirement: Object, path: str) -> Iterator[FieldCause]:
    values: list[str] = requirement.get("values") or []
    if not values:
        yield value_required(f"{path}.values")
    for index, value in enumerate(values):
        if value in values[:index]:
            yield value_duplicate(f"{path}.values[{index}]", value)
    yield from label_key_causes(requirement.get("key") or "", f"{path}.key")


# --- older labels -----------------------------------------------------------------------------


def older_label_warnings(expressions: list[Any], path: str) -> list[str]:
    """A warning for each expression whose label has a newer name."""
    return [
        f'{path}[{index}].key: {key} is deprecated; use "{NEWER_LABELS[key]}" instead'
        for index, key in enumerate(expression.get("key") for expression in expressions)
        if key in NEWER_LABELS
    ]
