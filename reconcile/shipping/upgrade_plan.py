"""What a new version of an operator needs in a cluster and does not find there: rights and webhooks. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from reconcile.shipping.documents import Document

_ALL: Final = "*"


@frozen
class MissingRight:
    """Verbs for a resource (`sites.example.com`) that a role is to grant, or for objects `names` alone."""

    role: str
    verbs: Sequence[str]
    resource: str
    names: Sequence[str] = ()

    def __str__(self) -> str:
        named = f" {', '.join(self.names)}" if self.names else ""
        return f"{self.role}: {', '.join(self.verbs)} {self.resource}{named}"


def roles_of(documents: Iterable[Document]) -> Sequence[Document]:
    """The roles among the objects of an installation."""
    return [one for one in documents if one["kind"] in ("Role", "ClusterRole")]


def name_of(document: Document) -> str:
    """How a plan names an object: `Role shop-system/sites`."""
    metadata = document["metadata"]
    namespace = metadata.get("namespace")
    return (
        f"{document['kind']} {namespace}/{metadata['name']}"
        if namespace
        else f"{document['kind']} {metadata['name']}"
    )


def missing_rights(wanted: Document, installed: Mapping[str, Any] | None) -> Sequence[MissingRight]:
    """What the role `wanted` grants and the one that is installed under its name does not."""
    rules = () if installed is None else installed.get("rules") or ()
    return list(_missing(name_of(wanted), wanted.get("rules") or (), rules))


def _missing(
    role: str, wanted: Iterable[Mapping[str, Any]], installed: Sequence[Mapping[str, Any]]
) -> Iterator[MissingRight]:
    for rule in wanted:
        for resource, group, named in _places(rule):
            names = rule.get("resourceNames") or ("",)
            lacking = [
                (verb, name)
                for verb in rule["verbs"]
                for name in names
                if not any(_grants(other, verb, group, resource, name) for other in installed)
            ]
            verbs = list(dict.fromkeys(verb for verb, _ in lacking))
            if verbs:
                yield MissingRight(
                    role, verbs, named, [name for name in names if name in {n for _, n in lacking} - {""}]
                )


def _places(rule: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The resources of a rule, their groups, and how a plan names them; paths such as /metrics have none."""
    for path in rule.get("nonResourceURLs") or ():
        yield path, "", path
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            yield resource, group, f"{resource}.{group}" if group else resource


def _grants(rule: Mapping[str, Any], verb: str, group: str, resource: str, name: str) -> bool:
    if not _has(rule.get("verbs"), verb):
        return False
    if resource.startswith("/"):
        return _has(rule.get("nonResourceURLs"), resource)
    _, slash, part = resource.partition("/")
    resources = rule.get("resources") or ()
    known = _has(resources, resource) or (bool(slash) and f"{_ALL}/{part}" in resources)
    names = rule.get("resourceNames")
    return known and _has(rule.get("apiGroups"), group) and (not names or name in names)


def _has(granted: Sequence[str] | None, one: str) -> bool:
    return _ALL in (granted or ()) or one in (granted or ())


# --- webhooks -------------------------------------------------------------------------------------------


@frozen
class WebhookChanges:
    """The webhooks that a new version of an operator brings, and those that nothing serves after it."""

    come: Sequence[str]
    go: Sequence[str]


def webhook_changes(wanted: Iterable[Document], installed: Iterable[Document]) -> WebhookChanges:
    """By the configurations of both, of which each names its webhooks."""
    after, before = _webhooks(wanted), _webhooks(installed)
    return WebhookChanges(
        [name for name in after if name not in before], [name for name in before if name not in after]
    )


def _webhooks(configurations: Iterable[Document]) -> Sequence[str]:
    return [
        f"{name_of(one)}: {webhook['name']}"
        for one in configurations
        for webhook in one.get("webhooks") or ()
    ]
