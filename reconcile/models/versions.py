"""The versions of one kind: their classes, the stored one, and the definition that a server needs."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reconcile.models.conversions import are_convertible
from reconcile.models.objects import Object, kind_of

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY: Final = {None: 2, "beta": 1, "alpha": 0}
_BUILT_IN_GROUPS: Final = frozenset(
    f"{name}.k8s.io"
    for name in (
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "custom.metrics",
        "discovery",
        "events",
        "external.metrics",
        "flowcontrol.apiserver",
        "internal.apiserver",
        "metrics",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
        "storagemigration",
    )
)


def is_custom(kind: type[Object]) -> bool:
    """Whether a CustomResourceDefinition creates the kind: its group is a domain not used by Kubernetes."""
    group = kind_of(kind).resource.group
    return "." in group and group not in _BUILT_IN_GROUPS


def by_kind(models: Iterable[type[Object]]) -> Sequence[Sequence[type[Object]]]:
    """The classes of each kind, the one to store first: GA before beta before alpha, newer before older."""
    groups: dict[tuple[str, str], list[type[Object]]] = {}
    for model in models:
        groups.setdefault(_names(model), []).append(model)
    return [sorted(group, key=_preference, reverse=True) for group in groups.values()]


def versions_of(kind: type[Object]) -> Sequence[type[Object]]:
    """The class `kind`, and those of its other versions in the same module."""
    module = sys.modules.get(kind.__module__)
    found = {kind_of(kind).resource.version: kind}
    for value in () if module is None else list(vars(module).values()):
        if _is_kind(value) and _names(value) == _names(kind):
            found.setdefault(kind_of(value).resource.version, value)
    return tuple(found.values())


def families(kinds: Iterable[type[Object]]) -> Sequence[Sequence[type[Object]]]:
    """The custom kinds among `kinds`, each with all its versions, the one to be stored first."""
    found = (version for kind in kinds if is_custom(kind) for version in versions_of(kind))
    return by_kind(dict.fromkeys(found))


def definition_to_install(
    kind: type[Object], installed: Mapping[str, Any] | None, conversion: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A definition of all versions of a kind; other versions of `installed`, and its stored one, stay.

    `conversion` is that of `definition_of`; without one, the webhook of `installed` stays.

    Raises TypeError as `definition_of` does, and for a built-in kind, which no definition creates.
    """
    resource = kind_of(kind).resource
    if not is_custom(kind):
        raise TypeError(
            f"{resource.api_version} {resource.kind} is built into Kubernetes and not served here: "
            "a definition cannot add it"
        )
    ((newest, *older),) = families([kind])
    if conversion is None and older and are_convertible((newest, *older)):
        conversion = _webhook_of(installed)
    from reconcile.models.definition import definition_of, refuse_loss

    definition = definition_of(newest, *older, conversion=conversion)
    if installed is None:
        return definition
    before = installed["spec"]["versions"]
    stored = next(version for version in before if version["storage"])
    known = {version["name"] for version in before}
    added = [version for version in definition["spec"]["versions"] if version["name"] not in known]
    converted = {kind_of(one).resource.version for one in (newest, *older) if kind_of(one).as_installed}
    for version in added:
        if conversion is None and version["name"] not in converted:
            refuse_loss(resource.kind, stored, version)
    versions = [*before, *({**version, "storage": False} for version in added)]
    return {**definition, "spec": {**definition["spec"], "versions": versions}}


def _webhook_of(installed: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    conversion: Mapping[str, Any] = {} if installed is None else installed["spec"].get("conversion") or {}
    return conversion if conversion.get("strategy") == "Webhook" else None


def _is_kind(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Object) and "__kind__" in vars(value)


def _names(kind: type[Object]) -> tuple[str, str]:
    resource = kind_of(kind).resource
    return resource.group, resource.kind


def _preference(model: type[Object]) -> tuple[int, int, int]:
    return preference(kind_of(model).resource.version)


def preference(version: str) -> tuple[int, int, int]:
    """A key that puts the version to be stored last: GA after beta after alpha, newer after older."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (-1, 0, 0)
    return (_STABILITY[found[2]], int(found[1]), int(found[3] or 0))
