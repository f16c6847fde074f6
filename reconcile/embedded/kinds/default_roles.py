"""The roles and bindings that every cluster has, as far as they concern what is served here.

`admin`, `edit` and `view` aggregate, as in a real cluster: a ClusterRole with the label
`rbac.authorization.k8s.io/aggregate-to-view: "true"` adds its rules to them.
"""

import uuid
from collections.abc import Iterator
from typing import Any

from reconcile.embedded.auth.roles import GROUP

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_NAMES = uuid.UUID("6f1f2f5e-3a0c-5d0e-9f59-1b1a0d5d8d10")
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", *_HEALTH, "/openapi", "/openapi/*"]

_READABLE = {
    "": [
        "configmaps", "endpoints", "events", "limitranges", "namespaces", "namespaces/status",
        "persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "pods/log", "pods/status",
        "replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status",
        "resourcequotas", "resourcequotas/status", "serviceaccounts", "services", "services/status",
    ],
    "apps": [
        "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale",
        "deployments/status", "replicasets", "replicasets/scale", "replicasets/status", "statefulsets",
        "statefulsets/scale", "statefulsets/status",
    ],
    "autoscaling": ["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    "batch": ["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
    "discovery.k8s.io": ["endpointslices"],
    "networking.k8s.io": ["ingresses", "ingresses/status", "networkpolicies"],
    "policy": ["poddisruptionbudgets", "poddisruptionbudgets/status"],
}  # fmt: skip
_WRITABLE = {
    "": [
        "configmaps", "endpoints", "events", "persistentvolumeclaims", "pods", "replicationcontrollers",
        "replicationcontrollers/scale", "secrets", "serviceaccounts", "services",
    ],
    "apps": [
        "daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets",
        "replicasets/scale", "statefulsets", "statefulsets/scale",
    ],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs", "jobs"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
}  # fmt: skip


def default_roles() -> Iterator[dict[str, Any]]:
    """The ClusterRoles."""
    yield _role("cluster-admin", [_rule(["*"], ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}])
    yield _role("system:discovery", [{"verbs": ["get"], "nonResourceURLs": _DISCOVERY}])
    yield _role("system:public-info-viewer", [{"verbs": ["get"], "nonResourceURLs": _HEALTH}])
    yield _role(
        "system:basic-user",
        [
            _rule(
                ["create"], ["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
            ),
            _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
        ],
    )
    for name, part_of in (("admin", ""), ("edit", "admin"), ("view", "edit")):
        yield _aggregating(name, part_of)
    yield _part("view", [_rule(_READ, [group], names) for group, names in _READABLE.items()])
    yield _part(
        "edit",
        [
            *(_rule(_WRITE, [group], names) for group, names in _WRITABLE.items()),
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
    """The ClusterRoleBindings."""
    yield _binding("cluster-admin", "system:masters")
    yield _binding("system:discovery", "system:authenticated")
    yield _binding("system:basic-user", "system:authenticated")
    yield _binding("system:public-info-viewer", "system:authenticated", "system:unauthenticated")


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> dict[str, Any]:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _role(name: str, rules: list[dict[str, Any]], **labels: str) -> dict[str, Any]:
    return _object("ClusterRole", name, labels) | {"rules": rules}


def _part(of: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """A role that exists to be aggregated."""
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
