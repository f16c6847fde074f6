"""The objects that run an operator in a cluster. From values to values: nothing is read or written here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen

from reconcile.controller import Controller
from reconcile.permissions import (
    Permission,
    lease_permissions,
    lookout_permissions,
    merged,
    permissions_of,
    review_permissions,
)

Document: TypeAlias = dict[str, Any]

PORT: Final = 8080
STOP_MARGIN: Final = 15
"""Seconds beyond `stop_seconds` until a pod is killed: to give the Lease away and to close."""
_RBAC: Final = "rbac.authorization.k8s.io"


@frozen
class Deployed:
    """An operator as it is to run. Without `namespaces` it works in all of them.

    `namespace` is where its pods and its Leases are. `lease` is the name of a Lease; it and `name` get the
    namespace appended where there is a Deployment for each of several.
    """

    name: str
    lease: str
    namespace: str
    image: str
    targets: Sequence[str]
    controllers: Sequence[Controller[Any]]
    replicas: int = 2
    namespaces: Sequence[str] = ()
    tls: bool = False
    review: bool = False
    owner_finalizers: bool = False
    stop_seconds: float = 30.0


def documents_of(operator: Deployed, definitions: Sequence[Document]) -> Mapping[str, Sequence[Document]]:
    """The files of a kustomize base, by their names, in the order in which they can be applied."""
    files: dict[str, Sequence[Document]] = {}
    for definition in definitions:
        names = definition["spec"]["names"]
        files[f"crd_{definition['spec']['group']}_{names['plural']}.yaml"] = [definition]
    files["namespace.yaml"] = [_object("v1", "Namespace", operator, operator.namespace, "")]
    files["service-account.yaml"] = [_object("v1", "ServiceAccount", operator, operator.name)]
    files["rbac.yaml"] = list(_roles(operator))
    files["deployment.yaml"] = [_deployment(operator, watched) for watched in operator.namespaces or ("",)]
    files["disruption-budget.yaml"] = [_budget(operator, watched) for watched in operator.namespaces or ("",)]
    return files


def kustomization(files: Iterable[str]) -> Document:
    """The kustomization.yaml over those files."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
    }


# --- rights -------------------------------------------------------------------------------------------


def _roles(operator: Deployed) -> Iterable[Document]:
    rights = permissions_of(operator.controllers, owner_finalizers=operator.owner_finalizers)
    leases = [right for one in _instances(operator) for right in lease_permissions(one.lease)]
    if not operator.namespaces:
        rights = [*rights, *lookout_permissions(operator.controllers)]
        rights = [*rights, *(review_permissions() if operator.review else ())]
        yield from _granted(operator, operator.name, merged(rights), None)
    for watched in operator.namespaces:
        yield from _granted(operator, operator.name, merged(rights), watched)
    yield from _granted(operator, f"{operator.name}-leader", merged(leases), operator.namespace)


def _granted(
    operator: Deployed, name: str, rights: Sequence[Permission], namespace: str | None
) -> Iterable[Document]:
    """A role and its binding: of one namespace, or, for None, of the whole cluster."""
    prefix = "Cluster" if namespace is None else ""
    where = namespace or ""
    role = _object(f"{_RBAC}/v1", f"{prefix}Role", operator, name, where)
    yield {**role, "rules": [right.rule() for right in rights]}
    account = {"kind": "ServiceAccount", "name": operator.name, "namespace": operator.namespace}
    yield {
        **_object(f"{_RBAC}/v1", f"{prefix}RoleBinding", operator, name, where),
        "roleRef": {"apiGroup": _RBAC, "kind": f"{prefix}Role", "name": name},
        "subjects": [account],
    }


# --- what runs ------------------------------------------------------------------------------------------


@frozen
class _Instance:
    """One Deployment: its name, its Lease, and the namespace it is kept to (empty: none)."""

    name: str
    lease: str
    watched: str


def _instance(operator: Deployed, watched: str) -> _Instance:
    """A manager is kept to one namespace, so several make as many Deployments, each with its Lease."""
    if len(operator.namespaces) < 2:
        return _Instance(operator.name, operator.lease, watched)
    return _Instance(f"{operator.name}-{watched}", f"{operator.lease}-{watched}", watched)


def _instances(operator: Deployed) -> Sequence[_Instance]:
    return [_instance(operator, watched) for watched in operator.namespaces or ("",)]


def arguments_of(operator: Deployed, watched: str) -> Sequence[str]:
    """What `reconcile` is told in a pod."""
    lease = _instance(operator, watched).lease
    namespace = [f"--namespace={watched}"] if watched else []
    return [
        "run",
        *operator.targets,
        "--yes",
        *namespace,
        f"--leader-election={operator.namespace}/{lease}",
        f"--serve=:{PORT}",
        "--ready-when=synced",
    ]


def _deployment(operator: Deployed, watched: str) -> Document:
    instance = _instance(operator, watched)
    selected = _selected(operator, instance)
    pod = {
        "serviceAccountName": operator.name,
        "terminationGracePeriodSeconds": int(operator.stop_seconds) + STOP_MARGIN,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(operator, watched)],
    }
    return {
        **_object("apps/v1", "Deployment", operator, instance.name),
        "spec": {
            "replicas": operator.replicas,
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": pod},
        },
    }


def _container(operator: Deployed, watched: str) -> Document:
    return {
        "name": "manager",
        "image": operator.image,
        "command": ["reconcile"],
        "args": list(arguments_of(operator, watched)),
        "ports": [{"name": "serve", "containerPort": PORT}],
        "livenessProbe": {"httpGet": _page(operator, "/healthz"), "initialDelaySeconds": 15},
        "readinessProbe": {"httpGet": _page(operator, "/readyz"), "periodSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _page(operator: Deployed, path: str) -> Document:
    page: Document = {"path": path, "port": "serve"}
    return {**page, "scheme": "HTTPS"} if operator.tls else page


def _budget(operator: Deployed, watched: str) -> Document:
    """At most one pod may be evicted at a time; so a single replica does not hold up the drain of a node."""
    instance = _instance(operator, watched)
    return {
        **_object("policy/v1", "PodDisruptionBudget", operator, instance.name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _selected(operator, instance)}},
    }


def _selected(operator: Deployed, instance: _Instance) -> Document:
    return {"app.kubernetes.io/name": operator.name, "app.kubernetes.io/instance": instance.name}


def _object(
    api_version: str, kind: str, operator: Deployed, name: str, namespace: str | None = None
) -> Document:
    """The head of an object, in the operator's namespace; an empty one is for what has none."""
    where = operator.namespace if namespace is None else namespace
    metadata = {"name": name, **({"namespace": where} if where else {})}
    labels = {"app.kubernetes.io/name": operator.name}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**metadata, "labels": labels}}
