"""The rules for what requests an admission webhook or policy is for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from informers.apimachinery.name_rules import path_segment_faults
from reconcile.embedded.kinds.built_in_kind import one_of
from reconcile.embedded.kinds.label_selectors import selector_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_not_supported,
    value_required,
)

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTABLE: Final = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")

MATCH_DEFAULTS: Final = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "resourceRules": [{"scope": "*"}],
    "excludeResourceRules": [{"scope": "*"}],
}
"""The defaults of a MatchResources that is given."""


def match_causes(match: Mapping[str, Any], path: str, *, mutating: bool = False) -> Iterator[FieldCause]:
    """The faults of a MatchResources, after its defaults."""
    yield from one_of(match, f"{path}.matchPolicy", MATCH_POLICIES)
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector_causes(match.get(field), f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            yield from _name_causes(rule.get("resourceNames") or (), f"{where}.resourceNames")
            yield from rule_causes(rule, where)
    if mutating:
        yield from _immutable_causes(match, f"{path}.resourceRules.operations")


def _immutable_causes(match: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """Operations whose objects cannot be mutated; a real server does not say which one it is."""
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTABLE:
                yield value_not_supported(path, operation, _MUTABLE)


def _name_causes(names: Sequence[str], path: str) -> Iterator[FieldCause]:
    for index, name in enumerate(names):
        where = f"{path}[{index}]"
        yield from (value_invalid(where, name, fault) for fault in path_segment_faults(name))
        if name in names[:index]:
            yield value_duplicate(where, name)


def rule_causes(rule: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """The faults of a rule with operations."""
    operations = rule.get("operations") or ()
    yield from _star_causes(operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield value_not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    yield from _star_causes(rule.get("apiGroups") or (), f"{path}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or ()
    yield from _star_causes(versions, f"{path}.apiVersions", "API versions")
    yield from (
        value_required(f"{path}.apiVersions[{index}]") for index, name in enumerate(versions) if not name
    )
    yield from _resource_causes(rule.get("resources") or (), f"{path}.resources")
    if rule.get("scope") is not None:
        yield from one_of(rule, f"{path}.scope", _SCOPES)


def _star_causes(values: Sequence[str], path: str, what: str) -> Iterator[FieldCause]:
    if not values:
        yield value_required(path)
    elif len(values) > 1 and "*" in values:
        yield value_invalid(path, values, f"if '*' is present, must not specify other {what}")


def _resource_causes(resources: Sequence[str], path: str) -> Iterator[FieldCause]:
    if not resources:
        yield value_required(path)
    yield from _covered_causes(resources, path)
    if len(resources) > 1 and "*/*" in resources:
        yield value_invalid(path, resources, "if '*/*' is present, must not specify other resources")
    # The last resource without a subresource decides, as in validateResources.
    plain = [resource for resource in resources if resource and "/" not in resource]
    if "*" in plain and plain[-1] != "*":
        why = "if '*' is present, must not specify other resources without subresources"
        yield value_invalid(path, resources, why)


def _covered_causes(resources: Sequence[str], path: str) -> Iterator[FieldCause]:
    """Resources that are empty, or covered by one with a star before them."""
    whole: set[str] = set()
    everywhere: set[str] = set()
    for index, resource in enumerate(resources):
        where = f"{path}[{index}]"
        if not resource:
            yield value_required(where)
        if "/" not in resource:
            continue
        name, _, subresource = resource.partition("/")
        if name in whole:
            yield value_invalid(where, resource, f"if '{name}/*' is present, must not specify {resource}")
        if subresource in everywhere:
            why = f"if '*/{subresource}' is present, must not specify {resource}"
            yield value_invalid(where, resource, why)
        if subresource == "*":
            whole.add(name)
        if name == "*":
            everywhere.add(subresource)
