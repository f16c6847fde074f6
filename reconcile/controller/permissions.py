"""The least rights that controllers need, by their declarations."""

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from informers import APIResource
from reconcile.controller.declaration import Controller
from reconcile.controller.rbac_verbs import OBJECT_VERBS, ordered
from reconcile.controller.rbac_verbs import READ_VERBS as READ
from reconcile.models import Object, kind_of
from reconcile.models.fields import fields_of
from reconcile.models.objects import status_part
from reconcile.models.versions import is_custom


@frozen
class Permission:
    """The verbs for a resource (`sites`, or a part, `sites/status`), or only for the objects `names`."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"apiGroups": [self.group], "resources": [self.resource]}
        if self.names:
            rule["resourceNames"] = list(self.names)
        return {**rule, "verbs": list(self.verbs)}


_EVENTS = Permission("events.k8s.io", "events", ("create", "patch"))


def permissions_of(
    controllers: Iterable[Controller[Any]], *, owner_finalizers: bool = False
) -> Sequence[Permission]:
    """Rights to read declared kinds, to write owned kinds and `writes=`, and to record Events.

    Of its own kind a controller writes the status, if the class has one, and with `cleanup=` or
    `former_finalizers=` the finalizers; anything else must be in `writes=`. `owner_finalizers` adds the
    rights that the admission plugin OwnerReferencesPermissionEnforcement (OpenShift) demands of creators of
    children. One permission for each resource, sorted by name.
    """
    permissions = [_EVENTS]
    for controller in controllers:
        permissions += _of_controller(controller, owner_finalizers)
    return merged(permissions)


def _of_controller(controller: Controller[Any], owner_finalizers: bool) -> Iterable[Permission]:
    yield _permission(controller.kind, (*READ, "patch") if controller.finalizers else READ)
    if any(field.name == "status" for field in fields_of(controller.kind)) and is_custom(controller.kind):
        yield _permission(controller.kind, ("patch",), status_part(controller.kind))
    if owner_finalizers and controller.owns:
        yield _permission(controller.kind, ("update",), "finalizers")
    for kind in controller.owns:
        yield _permission(kind, (*READ, *OBJECT_VERBS))
    for watch in controller.watches:
        yield _permission(watch.kind, READ)
    for kind in controller.reads:
        yield _permission(kind, READ)
    for write in controller.writes:
        yield _permission(write.kind, write.verbs, write.subresource)


def lease_permissions(name: str) -> Sequence[Permission]:
    """Rights for leader election, in the namespace of its Lease. A right to create cannot name objects."""
    leases = ("coordination.k8s.io", "leases")
    return [
        Permission(*leases, ("create",)),
        Permission(*leases, ("get", "watch", "update"), (name,)),
    ]


def ring_permissions() -> Sequence[Permission]:
    """Rights for a ring, in the namespace of its Leases: members come and go, so none of them is named."""
    verbs = (*READ, "create", "update", "delete")
    return [Permission("coordination.k8s.io", "leases", verbs)]


def certificate_permissions(secret: str) -> Sequence[Permission]:
    """Rights for certificates of the operator's own, and their Events, in the namespace of their Secret."""
    return [
        Permission("", "secrets", ("create",)),
        Permission("", "secrets", ("get", "update"), (secret,)),
        _EVENTS,
    ]


def bundle_permissions(objects: Iterable[tuple[APIResource, str]]) -> Sequence[Permission]:
    """Rights to have these objects (each a resource and a name) trust the operator's own certificates."""
    names: dict[tuple[str, str], list[str]] = {}
    for resource, name in objects:
        names.setdefault((resource.group, resource.plural), []).append(name)
    return [Permission(*kind, ("get", "patch"), tuple(sorted(them))) for kind, them in sorted(names.items())]


def review_permissions() -> Sequence[Permission]:
    return [
        Permission("authentication.k8s.io", "tokenreviews", ("create",)),
        Permission("authorization.k8s.io", "subjectaccessreviews", ("create",)),
    ]


def predecessor_permissions(controllers: Iterable[Controller[Any]]) -> Sequence[Permission]:
    """Rights to check that no predecessor of a controller still runs (option `take_over`)."""
    predecessors = [c.predecessor for c in controllers if c.predecessor is not None]
    permissions = []
    if any(predecessor.leases for predecessor in predecessors):
        permissions.append(Permission("coordination.k8s.io", "leases", ("list",)))
    if any(predecessor.deployments or predecessor.images for predecessor in predecessors):
        permissions.append(Permission("apps", "deployments", ("list",)))
    if any(predecessor.traces is not None and predecessor.traces.peering for predecessor in predecessors):
        from reconcile.predecessors import PEERINGS

        permissions += [Permission(peering.group, peering.plural, ("list",)) for peering in PEERINGS]
    return permissions


def freeze_permissions(
    controllers: Iterable[Controller[Any]], *, namespaced: bool = False
) -> Sequence[Permission]:
    """Rights to sign where an operator on kopf does that a controller replaces (`freeze_predecessor`).

    `namespaced`: those that a Role of a namespace can give.
    """
    traces = [c.predecessor.traces for c in controllers if c.predecessor is not None]
    names = tuple(dict.fromkeys(one.peering for one in traces if one is not None and one.peering))
    if not names:
        return []
    from reconcile.predecessors import PEERINGS

    kinds = [peering for peering in PEERINGS if peering.namespaced or not namespaced]
    return [
        permission
        for kind in kinds
        for permission in (
            Permission(kind.group, kind.plural, ("list",)),
            Permission(kind.group, kind.plural, ("patch",), names),
            Permission(kind.group, f"{kind.plural}/status", ("patch",), names),
        )
    ]


def definition_permissions(kinds: Iterable[type[Object]]) -> Sequence[Permission]:
    """Rights to keep the definitions of these kinds, and to rewrite what is stored (option `definitions`).

    A right to create cannot name objects.
    """
    own = [kind for kind in kinds if is_custom(kind) and not kind_of(kind).as_installed]
    resources = sorted({kind_of(kind).resource for kind in own}, key=str)
    names = tuple(dict.fromkeys(resource.name for resource in resources))
    if not names:
        return []
    definitions = ("apiextensions.k8s.io", "customresourcedefinitions")
    migrations = ("storagemigration.k8s.io", "storageversionmigrations")
    permissions = [
        Permission(*definitions, ("create",)),
        Permission(*definitions, ("get", "update"), names),
        Permission(definitions[0], f"{definitions[1]}/status", ("update",), names),
        Permission(*migrations, ("create",)),
        Permission(*migrations, ("get", "delete"), names),
    ]
    for resource in resources:
        permissions.append(Permission(resource.group, resource.plural, ("list", "patch")))
        permissions.append(Permission(resource.group, f"{resource.plural}/status", ("patch",)))
    return permissions


def merged(permissions: Iterable[Permission]) -> Sequence[Permission]:
    """One permission for each resource and names, sorted."""
    verbs: dict[tuple[str, str, tuple[str, ...]], tuple[str, ...]] = {}
    for permission in permissions:
        where = (permission.group, permission.resource, permission.names)
        verbs[where] = ordered({*verbs.get(where, ()), *permission.verbs})
    return [
        Permission(group, resource, verbs[group, resource, names], names)
        for group, resource, names in sorted(verbs)
    ]


def beyond_namespaces(controllers: Iterable[Controller[Any]]) -> Sequence[str]:
    """Why Roles of single namespaces do not suffice; empty where they do."""
    reasons = []
    for controller in controllers:
        used: list[tuple[str, type[Object]]] = [(f"Controller({controller.kind.__name__})", controller.kind)]
        used += [(f"owns={kind.__name__}", kind) for kind in controller.owns]
        used += [(f"Watch({watch.kind.__name__})", watch.kind) for watch in controller.watches]
        used += [(f"reads={kind.__name__}", kind) for kind in controller.reads]
        named = [write.kind for write in controller.writes if write.kind is not Object]
        used += [(f"Write({kind.__name__})", kind) for kind in named]
        outside = [text for text, kind in used if not kind_of(kind).resource.namespaced]
        reasons += [f"{text} is of a kind without namespaces" for text in outside]
        everywhere = [watch.kind for watch in controller.watches if watch.everywhere]
        reasons += [f"Watch({kind.__name__}, everywhere=True) follows all namespaces" for kind in everywhere]
    return list(dict.fromkeys(reasons))


def _permission(kind: type[Object], verbs: Iterable[str], part: str = "") -> Permission:
    if kind is Object:
        return Permission("*", f"*/{part}", ordered(set(verbs)))
    resource = kind_of(kind).resource
    return Permission(
        resource.group, f"{resource.plural}/{part}" if part else resource.plural, ordered(set(verbs))
    )
