"""Authorisation as a pure function of an act and the rules that hold for its user."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

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
    """One PolicyRule, and by what it holds (for the reason of a decision)."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    by: str = ""

    @classmethod
    def from_json(cls, rule: Mapping[str, Any], by: str) -> "RoleRule":
        """From the PolicyRule."""
        held: dict[str, Any] = {field: tuple(rule.get(name) or ()) for field, name in _IN_JSON.items()}
        return cls(by=by, **held)

    def to_json(self) -> dict[str, Any]:
        """The PolicyRule."""
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
    if not _one_of(rule.groups, attributes.group) or not _covers_resource(rule.resources, attributes):
        return False
    return not rule.names or attributes.name in rule.names


def _one_of(values: Sequence[str], value: str) -> bool:
    return ANY in values or value in values


def _covers_resource(resources: Sequence[str], attributes: Attributes) -> bool:
    if _one_of(resources, attributes.full_resource):
        return True
    return bool(attributes.subresource) and f"{ANY}/{attributes.subresource}" in resources


def _url_matches(url: str, path: str) -> bool:
    if url in (ANY, path):
        return True
    return url.endswith(ANY) and path.startswith(url.rstrip(ANY))


# --- what may be handed on --------------------------------------------------------------------


def uncovered(held: Sequence[RoleRule], wanted: Iterable[RoleRule]) -> list[RoleRule]:
    """The parts of `wanted` that no rule in `held` covers, each about one verb of one thing."""
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(one, part) for one in held)]


def _parts(rule: RoleRule) -> list[RoleRule]:
    """A rule in pieces of one verb, group, resource and name, or one verb and URL, each."""
    named: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    found = [
        evolve(rule, verbs=(verb,), groups=(group,), resources=(resource,), names=names, urls=())
        for group in rule.groups
        for resource in rule.resources
        for names in named
        for verb in rule.verbs
    ]
    urls = [RoleRule(verbs=(verb,), urls=(url,)) for url in rule.urls for verb in rule.verbs]
    return [evolve(part, by="") for part in (*found, *urls)]


def _covers(held: RoleRule, part: RoleRule) -> bool:
    if not _one_of(held.verbs, part.verbs[0]):
        return False
    if part.urls:
        return any(_url_matches(url, part.urls[0]) for url in held.urls)
    resource = part.resources[0]
    _, _, subresource = resource.partition("/")
    known = _one_of(held.resources, resource) or (
        bool(subresource) and f"{ANY}/{subresource}" in held.resources
    )
    if not known or not _one_of(held.groups, part.groups[0]):
        return False
    return not held.names or (bool(part.names) and part.names[0] in held.names)
