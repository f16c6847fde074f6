"""Discovery documents: the groups, versions and resources that are served, aggregated or plain."""

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from attrs import frozen

from reconcile.embedded.served import ServedResource

Document = dict[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS = ("get", "patch", "update")

_KUBE_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_PLURAL = attrgetter("plural")
_STABILITY = {"": 2, "beta": 1, "alpha": 0}


@frozen
class Group:
    """An API group with its served versions, preferred first."""

    name: str
    versions: Mapping[str, Sequence[ServedResource]]


@frozen
class Subresource:
    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...] = SUBRESOURCE_VERBS


_CREATED_UNDER: Mapping[tuple[str, str], tuple[Subresource, ...]] = {
    ("", "pods"): (
        Subresource("binding", "", "v1", "Binding", ("create",)),
        Subresource("eviction", "policy", "v1", "Eviction", ("create",)),
    ),
    ("", "serviceaccounts"): (
        Subresource("token", "authentication.k8s.io", "v1", "TokenRequest", ("create",)),
    ),
}


def verbs_of(resource: ServedResource) -> list[str]:
    if resource.create_only:
        return ["create"]
    return [verb for verb in VERBS if verb != "deletecollection" or resource.collection_deletable]


def groups_of(resources: Iterable[ServedResource]) -> dict[str, Group]:
    """All groups by name, in the order of `resources`; versions by priority, resources by plural."""
    found: dict[str, dict[str, list[ServedResource]]] = {}
    for resource in resources:
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {
        name: Group(
            name, {key: sorted(versions[key], key=_PLURAL) for key in sorted(versions, key=by_priority)}
        )
        for name, versions in found.items()
    }


def by_priority(version: str) -> tuple[int, int, int, str]:
    """The sort key of a version: v2, v1, v1beta2, v1beta1, v1alpha1, then names of other forms."""
    found = _KUBE_VERSION.fullmatch(version)
    if found is None:
        return (1, 0, 0, version)
    major, stability, minor = found.groups()
    return (0, -_STABILITY[stability or ""], -(int(major) * 10_000 + int(minor or 0)), version)


def subresources_of(resource: ServedResource) -> list[Subresource]:
    found = list(_CREATED_UNDER.get((resource.group, resource.plural), ()))
    if resource.scale is not None:
        found.append(Subresource("scale", "autoscaling", "v1", "Scale"))
    if resource.has_status:
        found.append(Subresource("status", resource.group, resource.version, resource.kind))
    return found


# --- the plain documents -----------------------------------------------------------------------


def api_versions(address: str) -> Document:
    """The answer to /api."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group_list(groups: Iterable[Group]) -> Document:
    """The answer to /apis."""
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group_entry(group) for group in groups]}


def api_group(group: Group) -> Document:
    """The answer to /apis/<group>."""
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group_entry(group)


def _group_entry(group: Group) -> Document:
    versions = [{"groupVersion": f"{group.name}/{version}", "version": version} for version in group.versions]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def api_resource_list(resources: Sequence[ServedResource]) -> Document:
    """The answer to /api/v1 and /apis/<group>/<version>, which have these resources."""
    entries: list[Document] = []
    for resource in resources:
        entries.append(_resource_entry(resource))
        entries.extend(_subresource_entry(resource, subresource) for subresource in subresources_of(resource))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": resources[0].api_version,
        "resources": entries,
    }


def _resource_entry(resource: ServedResource) -> Document:
    return {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs_of(resource),
        **_names(resource),
    }


def _names(resource: ServedResource) -> Document:
    names = (("shortNames", resource.short_names), ("categories", resource.categories))
    return {key: list(values) for key, values in names if values}


def _subresource_entry(resource: ServedResource, subresource: Subresource) -> Document:
    foreign = (subresource.group, subresource.version) != (resource.group, resource.version)
    return {
        "name": f"{resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        **({"group": subresource.group, "version": subresource.version} if foreign else {}),
        "kind": subresource.kind,
        "verbs": list(subresource.verbs),
    }


# --- the aggregated documents ------------------------------------------------------------------


def aggregated(groups: Iterable[Group], version: str) -> Document:
    """The APIGroupDiscoveryList in `version` v2, or v2beta1 for older clients."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(group) for group in groups],
    }


def _aggregated_group(group: Group) -> Document:
    return {
        "metadata": {"name": group.name} if group.name else {},
        "versions": [
            {
                "version": version,
                "resources": [_aggregated_resource(resource) for resource in resources],
                "freshness": "Current",
            }
            for version, resources in group.versions.items()
        ],
    }


def _aggregated_resource(resource: ServedResource) -> Document:
    entry: Document = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": verbs_of(resource),
        **_names(resource),
    }
    if subresources := subresources_of(resource):
        entry["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": _kind(subresource.group, subresource.version, subresource.kind),
                "verbs": list(subresource.verbs),
            }
            for subresource in subresources
        ]
    return entry


def _kind(group: str, version: str, kind: str) -> Document:
    return {"group": group, "version": version, "kind": kind}
