"""Roles and their bindings, and the roles that every cluster has."""

import datetime
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal

from informers.apimachinery.name_rules import path_segment_faults, subdomain_faults
from reconcile.embedded.auth.roles import GROUP
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, one_of, required
from reconcile.embedded.kinds.label_selectors import is_parsable, selector_causes
from reconcile.embedded.kubectl.printing import AGE, CREATED, NAMES, Cell, View, pick
from reconcile.embedded.kubectl.protobuf import Messages
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_not_supported, value_required
from reconcile.embedded.served import CellColumn

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_NAMES = uuid.UUID("6f1f2f5e-3a0c-5d0e-9f59-1b1a0d5d8d10")
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", *_HEALTH, "/openapi", "/openapi/*"]


def _default_binding(binding: Object) -> None:
    reference = binding.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = GROUP


def _validate_binding(binding: Object, old: Object | None) -> Iterator[FieldCause]:
    reference = binding.get("roleRef") or {}
    clusterwide = binding["kind"] != "RoleBinding"
    yield from one_of(reference, "roleRef.apiGroup", (GROUP,))
    yield from one_of(reference, "roleRef.kind", ("ClusterRole",) if clusterwide else ("Role", "ClusterRole"))
    name = reference.get("name") or ""
    yield from required(reference, "roleRef", "name")
    yield from (value_invalid("roleRef.name", name, fault) for fault in path_segment_faults(name))
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_causes(subject, f"subjects[{index}]", clusterwide)
    if old is not None and (old.get("roleRef") or {}) != reference:
        yield value_invalid("roleRef", reference, "cannot change roleRef")


def _subject_causes(subject: Mapping[str, Any], path: str, clusterwide: bool) -> Iterator[FieldCause]:
    kind, name, group = (subject.get(field) or "" for field in ("kind", "name", "apiGroup"))
    yield from required(subject, path, "name")
    if kind == "ServiceAccount":
        for fault in subdomain_faults(name) if name else ():
            yield value_invalid(f"{path}.name", name, fault)
        if group:
            yield value_not_supported(f"{path}.apiGroup", group, ("",))
        if clusterwide:
            yield from required(subject, path, "namespace")
    elif kind in ("User", "Group"):
        yield from one_of(subject, f"{path}.apiGroup", (GROUP,))
    else:
        yield value_not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


def _validate_role(role: Object, old: Object | None) -> Iterator[FieldCause]:
    for index, rule in enumerate(role.get("rules") or ()):
        yield from _rule_causes(rule, f"rules[{index}]", namespaced=role["kind"] == "Role")
    aggregation = role.get("aggregationRule")
    if aggregation is not None:
        yield from _aggregation_causes(aggregation, "aggregationRule.clusterRoleSelectors")


def _aggregation_causes(aggregation: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    selectors = aggregation.get("clusterRoleSelectors") or ()
    if not selectors:
        yield value_required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for index, selector in enumerate(selectors):
        yield from selector_causes(selector, f"{path}[{index}]")
        if not is_parsable(selector):
            yield value_invalid(f"{path}[{index}]", selector, "invalid label selector.")


def _rule_causes(rule: Mapping[str, Any], path: str, *, namespaced: bool) -> Iterator[FieldCause]:
    if not rule.get("verbs"):
        yield value_required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            yield value_invalid(f"{path}.nonResourceURLs", urls, why)
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield value_invalid(f"{path}.nonResourceURLs", urls, why)
        return
    for name, what in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(name):
            yield value_required(f"{path}.{name}", f"resource rules must supply at least one {what}")
    if rule.get("resourceNames") and len(rule.get("resources") or ()) > 1:
        yield value_required(f"{path}.resourceNames", "resource names cannot apply to multiple resources")


def _subjects(kind: str) -> Cell:
    def cell(obj: View, _now: datetime.datetime) -> str:
        found = [item for item in obj.get("subjects") or () if item.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{item.get('namespace', '')}/{item['name']}" for item in found)
        return ", ".join(item["name"] for item in found)

    return cell


_RULES: Final[Messages] = {
    "PolicyRule": {
        1: "verbs:[string]", 2: "apiGroups:[string]", 3: "resources:[string]", 4: "resourceNames:[string]",
        5: "nonResourceURLs:[string]",
    },
    "AggregationRule": {1: "clusterRoleSelectors:[LabelSelector]"},
}  # fmt: skip
_SUBJECTS: Final[Messages] = {
    "Subject": {1: "kind:string", 2: "apiGroup:string", 3: "name:string", 4: "namespace:string"},
    "RoleRef": {1: "apiGroup:string", 2: "kind:string", 3: "name:string"},
}
_ROLE: Final[dict[str, Any]] = {
    "create_on_update": True,
    "names_missing_fields": True,
    "checks": _validate_role,
    "check_name": path_segment_faults,
    "columns": (NAMES, CREATED),
}

KINDS: Final = (
    BuiltInKind(
        GROUP, "Role",
        messages=_RULES | {"Role": {1: "metadata:ObjectMeta", 2: "rules:[PolicyRule]"}},
        **_ROLE,
    ),
    BuiltInKind(
        GROUP, "ClusterRole", namespaced=False,
        messages=_RULES | {
            "ClusterRole": {
                1: "metadata:ObjectMeta", 2: "rules:[PolicyRule]", 3: "aggregationRule:*AggregationRule",
            },
        },
        **_ROLE,
    ),
    *(
        BuiltInKind(
            GROUP, name, namespaced=name == "RoleBinding",
            messages=_SUBJECTS | {
                name: {1: "metadata:ObjectMeta", 2: "subjects:[Subject]", 3: "roleRef:RoleRef"},
            },
            create_on_update=True,
            defaults=_default_binding,
            names_missing_fields=True,
            checks=_validate_binding,
            check_name=path_segment_faults,
            columns=(
                NAMES,
                CellColumn(
                    "Role", lambda obj, _: f"{pick(obj, 'roleRef', 'kind')}/{pick(obj, 'roleRef', 'name')}"
                ),
                AGE,
                CellColumn("Users", _subjects("User"), wide=True),
                CellColumn("Groups", _subjects("Group"), wide=True),
                CellColumn("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
            ),
        )
        for name in ("RoleBinding", "ClusterRoleBinding")
    ),
)  # fmt: skip


# --- default roles -----------------------------------------------------------------------------


_NOT_SERVED: Final = {
    "viewed": ("replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status"),
    "edited": ("replicationcontrollers", "replicationcontrollers/scale"),
}
"""Resources of the core group in a real cluster's default roles that this server does not serve."""


@cache
def _names(kinds: tuple[BuiltInKind, ...], part: Literal["viewed", "edited"]) -> dict[str, list[str]]:
    """Resources with their subresources, as roles write them, by group."""
    named: dict[str, list[str]] = {"": list(_NOT_SERVED[part])}
    for kind in kinds:
        for subresource in getattr(kind, part):
            name = f"{kind.plural_name}/{subresource}" if subresource else kind.plural_name
            named.setdefault(kind.group, []).append(name)
    return {group: sorted(names) for group, names in sorted(named.items())}


def default_roles(kinds: tuple[BuiltInKind, ...]) -> Iterator[dict[str, Any]]:
    """The ClusterRoles of a server that has these kinds."""
    yield _role("cluster-admin", [_rule(["*"], ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}])
    yield _role("system:discovery", [{"verbs": ["get"], "nonResourceURLs": _DISCOVERY}])
    yield _role("system:public-info-viewer", [{"verbs": ["get"], "nonResourceURLs": _HEALTH}])
    reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    yield _role(
        "system:basic-user",
        [
            _rule(["create"], ["authorization.k8s.io"], reviews),
            _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
        ],
    )
    yield _role(
        "system:auth-delegator",
        [
            _rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
            _rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews"]),
        ],
    )
    for name, part_of in (("admin", ""), ("edit", "admin"), ("view", "edit")):
        yield _aggregating(name, part_of)
    yield _part("view", [_rule(_READ, [group], names) for group, names in _names(kinds, "viewed").items()])
    yield _part(
        "edit",
        [
            *(_rule(_WRITE, [group], names) for group, names in _names(kinds, "edited").items()),
            _rule(_READ, [""], ["secrets"]),
            _rule(["create"], [""], ["pods/eviction", "serviceaccounts/token"]),
            _rule(["impersonate"], [""], ["serviceaccounts"]),
            _rule([*_READ, *_WRITE], ["coordination.k8s.io"], ["leases"]),
        ],
    )
    yield _part(
        "admin",
        [
            _rule([*_READ, *_WRITE], [GROUP], ["rolebindings", "roles"]),
            _rule(["create"], ["authorization.k8s.io"], ["localsubjectaccessreviews"]),
        ],
    )


def default_bindings() -> Iterator[dict[str, Any]]:
    yield _binding("cluster-admin", "system:masters")
    yield _binding("system:discovery", "system:authenticated")
    yield _binding("system:basic-user", "system:authenticated")
    yield _binding("system:public-info-viewer", "system:authenticated", "system:unauthenticated")


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> dict[str, Any]:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _role(name: str, rules: list[dict[str, Any]], **labels: str) -> dict[str, Any]:
    return _object("ClusterRole", name, labels) | {"rules": rules}


def _part(of: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """A role that is aggregated into `of`."""
    return _role(f"system:aggregate-to-{of}", rules, **{f"{GROUP}/aggregate-to-{of}": "true"})


def _aggregating(name: str, part_of: str) -> dict[str, Any]:
    labels = {f"{GROUP}/aggregate-to-{part_of}": "true"} if part_of else {}
    selector = {"matchLabels": {f"{GROUP}/aggregate-to-{name}": "true"}}
    return _role(name, [], **labels) | {"aggregationRule": {"clusterRoleSelectors": [selector]}}


def _binding(role: str, *groups: str) -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    subjects = [{"kind": "Group", "apiGroup": GROUP, "name": group} for group in groups]
    return _object("ClusterRoleBinding", role, {}) | {"roleRef": reference, "subjects": subjects}


def _object(kind: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    metadata = {
        "name": name,
        "uid": str(uuid.uuid5(_NAMES, f"{kind}/{name}")),
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **labels},
        "annotations": {f"{GROUP}/autoupdate": "true"},
    }
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata}
