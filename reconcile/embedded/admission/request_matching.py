"""Which requests a webhook or a policy is for: its rules and selectors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from informers.apimachinery.label_selectors import Requirement, matches_labels, requirements_of
from informers.resource import Key
from reconcile.embedded.admission.attributes import AdmissionAttributes, Kind
from reconcile.embedded.log import Log
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.served import ServedResource

_NAMESPACES: Final = ("", "namespaces")
Rule = Mapping[str, Any]


@frozen
class MatchedResource:
    """The version of a resource in which a webhook or a policy sees a request."""

    resource: ServedResource
    kind: Kind


@frozen
class MatchCriteria:
    """The rules and selectors of a webhook or a policy, or what a binding adds to those of its policy."""

    rules: tuple[Rule, ...]
    """Empty for all requests."""
    excluded: tuple[Rule, ...]
    equivalent: bool
    """Whether a rule for another version of a resource counts too (`matchPolicy: Equivalent`)."""
    of_namespace: tuple[Requirement, ...]
    of_object: tuple[Requirement, ...]

    @classmethod
    def of(cls, match: Mapping[str, Any]) -> "MatchCriteria":
        """Those of a stored MatchResources, which is valid."""
        return cls(
            tuple(match.get("resourceRules") or ()),
            tuple(match.get("excludeResourceRules") or ()),
            match.get("matchPolicy") != "Exact",
            requirements_of(match.get("namespaceSelector") or {}),
            requirements_of(match.get("objectSelector") or {}),
        )


@frozen
class RequestMatcher:
    """Compares requests with criteria."""

    log: Log
    registry: ResourceRegistry

    def match(self, criteria: MatchCriteria, attributes: AdmissionAttributes) -> MatchedResource | None:
        """The resource that the rules are for; None if they, or a selector, do not match."""
        if not self._in_namespace(criteria, attributes) or not _of_object(criteria, attributes):
            return None
        if self._by_rules(criteria.excluded, criteria, attributes) is not None:
            return None
        if not criteria.rules:
            return MatchedResource(attributes.resource, attributes.kind)
        return self._by_rules(criteria.rules, criteria, attributes)

    def _by_rules(
        self, rules: Sequence[Rule], criteria: MatchCriteria, attributes: AdmissionAttributes
    ) -> MatchedResource | None:
        if any(_matches(rule, attributes, attributes.resource) for rule in rules):
            return MatchedResource(attributes.resource, attributes.kind)
        if not criteria.equivalent or not rules:
            return None
        others = list(self._equivalents(attributes.resource))
        for rule in rules:
            for other in others:
                if _matches(rule, attributes, other):
                    return MatchedResource(other, _kind_in(other, attributes))
        return None

    def _equivalents(self, resource: ServedResource) -> Iterator[ServedResource]:
        """The other versions of a resource, and what another group serves of the same objects."""
        for other in self.registry:
            if other.storage_key == resource.storage_key and other is not resource:
                yield other

    def _in_namespace(self, criteria: MatchCriteria, attributes: AdmissionAttributes) -> bool:
        """Whether the namespace is selected; objects without one are in every selection."""
        is_namespace = attributes.resource.storage_key == _NAMESPACES
        if not criteria.of_namespace or not (attributes.namespace or is_namespace):
            return True
        if is_namespace and not attributes.subresource and attributes.object is not None:
            return matches_labels(criteria.of_namespace, _labels(attributes.object))
        stored = self.log.get(_NAMESPACES, Key("", attributes.namespace))
        return matches_labels(criteria.of_namespace, stored.labels if stored is not None else {})


def _of_object(criteria: MatchCriteria, attributes: AdmissionAttributes) -> bool:
    """Whether the labels are selected before the request or after it."""
    if not criteria.of_object:
        return True
    states = (attributes.object, attributes.old)
    return any(matches_labels(criteria.of_object, _labels(state)) for state in states if state is not None)


def _labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _kind_in(resource: ServedResource, attributes: AdmissionAttributes) -> Kind:
    """The kind of the object in another version: subresources with a kind of their own have the same one."""
    own = attributes.kind != Kind.of(attributes.resource)
    return attributes.kind if own else Kind.of(resource)


# --- one rule -----------------------------------------------------------------------------------


def _matches(rule: Rule, attributes: AdmissionAttributes, resource: ServedResource) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("operations") or (), attributes.operation)
        and _has(rule.get("apiGroups") or (), resource.group)
        and _has(rule.get("apiVersions") or (), resource.version)
        and any(
            _names(entry, resource.plural, attributes.subresource) for entry in rule.get("resources") or ()
        )
        and _in_scope(rule.get("scope") or "*", attributes)
        and (not names or attributes.name in names)
    )


def _has(values: Sequence[str], value: str) -> bool:
    return "*" in values or value in values


def _names(entry: str, plural: str, subresource: str) -> bool:
    """Whether an entry of `resources` names a resource: `*` names no subresource, `pods/*` also pods."""
    name, _, part = entry.partition("/")
    return name in ("*", plural) and part in ("*", subresource)


def _in_scope(scope: str, attributes: AdmissionAttributes) -> bool:
    """Whether the object is in the scope; a Namespace is an object of the cluster."""
    within = bool(attributes.namespace) and attributes.resource.storage_key != _NAMESPACES
    return scope == "*" or (scope == "Namespaced") == within
