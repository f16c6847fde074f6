"""Authorisation as a pure function of an act and the rules that hold for its user."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from attrs import frozen

from reconcile.embedded.auth.attributes import Attributes

ANY = "*"

_IN_JSON = {
    "verbs": "verbs",
    "groups": "apiGroups",
    "resources": "resources",
    "names": "resourceNames",
    "urls": "nonResourceURLs",
}


@frozen
class RoleRule:
    """One PolicyRule; `by` names the binding that grants it, for the reason of a decision."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    by: str = ""

    @classmethod
    def from_json(cls, rule: Mapping[str, Any], by: str) -> "RoleRule":
        """The rule of a PolicyRule."""
        held: dict[str, Any] = {field: tuple(rule.get(name) or ()) for field, name in _IN_JSON.items()}
        return cls(by=by, **held)

    def to_json(self) -> dict[str, Any]:
        """Its PolicyRule."""
        held = {name: list(getattr(self, field)) for field, name in _IN_JSON.items()}
        return {name: values for name, values in held.items() if values}


@frozen
class AccessDecision:
    """Whether an act is allowed, and why."""

    allowed: bool
    reason: str = ""


def authorize(attributes: Attributes, rules: Iterable[RoleRule]) -> AccessDecision:
    """Allow an act that any rule allows; RBAC has no rules that deny."""
    for rule in rules:
        if allows(rule, attributes):
            return AccessDecision(True, f"RBAC: allowed by {rule.by}" if rule.by else "")
    return AccessDecision(False)


def allows(rule: RoleRule, attributes: Attributes) -> bool:
    """Whether one rule covers an act."""
    if not _one_of(rule.verbs, attributes.verb):
        return False
    if not attributes.resource:
        return any(_url_matches(url, attributes.path) for url in rule.urls)
    if not _covers_resource(rule, attributes.group, attributes.full_resource):
        return False
    return not rule.names or attributes.name in rule.names


def _one_of(values: Sequence[str], value: str) -> bool:
    return ANY in values or value in values


def _covers_resource(rule: RoleRule, group: str, resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    named = _one_of(rule.resources, resource) or (bool(slash) and f"{ANY}/{subresource}" in rule.resources)
    return named and _one_of(rule.groups, group)


def _url_matches(url: str, path: str) -> bool:
    if url in (ANY, path):
        return True
    return url.endswith(ANY) and path.startswith(url.rstrip(ANY))


# --- what may be handed on --------------------------------------------------------------------


def uncovered(held: Sequence[RoleRule], rules: Iterable[RoleRule]) -> list[RoleRule]:
    """The parts of `rules` that no rule in `held` covers, each about one verb and one resource or URL."""
    return [part for rule in rules for part in _parts(rule) if not any(_covers(one, part) for one in held)]


def _parts(rule: RoleRule) -> list[RoleRule]:
    named: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    resources = product(rule.groups, rule.resources, named, rule.verbs)
    return [
        *(RoleRule((verb,), (group,), (resource,), names) for group, resource, names, verb in resources),
        *(RoleRule((verb,), urls=(url,)) for url in rule.urls for verb in rule.verbs),
    ]


def _covers(held: RoleRule, part: RoleRule) -> bool:
    if not _one_of(held.verbs, part.verbs[0]):
        return False
    if part.urls:
        return any(_url_matches(url, part.urls[0]) for url in held.urls)
    if not _covers_resource(held, part.groups[0], part.resources[0]):
        return False
    return not held.names or (bool(part.names) and part.names[0] in held.names)
