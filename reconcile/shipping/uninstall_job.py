"""The Job that runs `reconcile uninstall` in the cluster, under rights of its own. Pure functions.

Its objects are labelled as those of `NAME-uninstall`, so an uninstall of NAME does not take away its own
rights, and no Service or budget of the operator selects its pod.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from attrs import evolve

from reconcile.controller.permissions import Permission, merged
from reconcile.models import kind_of
from reconcile.models.versions import is_custom
from reconcile.shipping.documents import Document
from reconcile.shipping.finalizers import held_by
from reconcile.shipping.installation import RBAC, Installation, granted, head_of, metrics_reader
from reconcile.webhooks.configurations import API_VERSION
from reconcile.webhooks.policies import policies_of
from reconcile.webhooks.routes import CONVERT, DEFAULTS, admissions_of

DEADLINE: Final = 300
"""Seconds for all attempts together, as long as `helm uninstall` waits for a hook."""
TIMEOUT: Final = 240
"""Seconds for what the command waits for: then it still has time to say what is stuck."""
ATTEMPTS: Final = 3
_ADMISSION: Final = API_VERSION.partition("/")[0]
_DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
_LEASES: Final = ("coordination.k8s.io", "leases")


def uninstall_documents(operator: Installation, keep_data: bool = False) -> Sequence[Document]:
    """The account, the least rights and the Job that uninstall the operator: all named NAME-uninstall.

    With `keep_data` the Job may not delete definitions, nor objects of their kinds.
    """
    own = evolve(operator, name=f"{operator.name}-uninstall")
    documents = [head_of("v1", "ServiceAccount", own, own.name)]
    documents += granted(own, own.name, merged(_in_the_cluster(operator, keep_data)), None)
    for namespace in dict.fromkeys([operator.namespace, *_other_namespaces(operator)]):
        documents += granted(own, own.name, merged(_in_namespace(operator, namespace, keep_data)), namespace)
    return [*documents, _job(operator, own, keep_data)]


def _other_namespaces(operator: Installation) -> Sequence[str]:
    """Where its objects are besides its own: those that it works in, and that of its ring."""
    return [*operator.namespaces, *([operator.ring[0]] if operator.ring else [])]


# --- rights -------------------------------------------------------------------------------------------


def _in_the_cluster(operator: Installation, keep_data: bool) -> Iterable[Permission]:
    yield Permission("", "namespaces", ("get",), (operator.namespace,))
    yield Permission(*_DEFINITIONS, ("list",))
    yield Permission("apps", "deployments", ("list",))
    own = tuple(sorted({kind_of(kind).resource.name for kind in _custom_kinds(operator)}))
    converted = [route.resource for route in operator.routes if route.function == CONVERT]
    if converted:
        names = tuple(sorted({resource.name for resource in converted}))
        yield Permission(*_DEFINITIONS, ("update",), names)
        yield Permission(_DEFINITIONS[0], f"{_DEFINITIONS[1]}/status", ("update",), names)
    for resource in converted:  # all objects are written anew before their versions cannot be converted
        yield Permission(resource.group, resource.plural, ("list", "patch"))
        yield Permission(resource.group, f"{resource.plural}/status", ("patch",))
    if not operator.namespaces:
        if own and not keep_data:
            yield Permission(*_DEFINITIONS, ("delete",), own)
        yield from _on_objects(operator, keep_data)
    roles = (operator.name, metrics_reader(operator.name), f"{operator.name}-webhooks")
    for kind in ("clusterroles", "clusterrolebindings"):
        yield from _listed(RBAC, kind, roles)
    for kind, named in _admission_objects(operator):
        yield from _listed(_ADMISSION, kind, named)


def _admission_objects(operator: Installation) -> Iterable[tuple[str, Sequence[str]]]:
    called = [route for route in operator.routes if route.function != CONVERT]
    defaults = [route.admission.operator for route in called if route.function == DEFAULTS]
    yield "mutatingwebhookconfigurations", defaults
    judged = [route.admission.operator for route in called if route.function != DEFAULTS]
    yield "validatingwebhookconfigurations", judged
    policies = policies_of(admissions_of(operator.controllers), operator.installed())
    names = [policy["metadata"]["name"] for policy in policies]
    yield "validatingadmissionpolicies", names
    yield "validatingadmissionpolicybindings", names


def _in_namespace(operator: Installation, namespace: str, keep_data: bool) -> Iterable[Permission]:
    if namespace in operator.namespaces:
        yield from _on_objects(operator, keep_data)
    names = (operator.name, f"{operator.name}-leader", f"{operator.name}-ring", f"{operator.name}-webhooks")
    yield from _listed(RBAC, "roles", names)
    yield from _listed(RBAC, "rolebindings", names)
    if operator.ring is not None and namespace == operator.ring[0]:
        yield Permission(*_LEASES, ("list", "delete"))
    if namespace != operator.namespace:
        return
    if operator.ring is None:
        yield Permission(*_LEASES, ("get", "delete"), (operator.lease,))
    yield Permission("apps", "deployments", ("delete",), (operator.name,))
    yield Permission("apps", "deployments/scale", ("patch",), (operator.name,))
    yield Permission("", "pods", ("list",))
    yield from _listed("policy", "poddisruptionbudgets", [operator.name])
    yield from _listed("", "serviceaccounts", [operator.name])
    service = operator.webhook_service
    yield from _listed("", "services", [service.name] if service else [])
    if service is not None:
        yield Permission("", "secrets", ("get", "delete"), (service.secret,))


def _listed(group: str, resource: str, names: Iterable[str]) -> Iterable[Permission]:
    """A right to list cannot name objects."""
    yield Permission(group, resource, ("list",))
    if named := tuple(sorted(set(names))):
        yield Permission(group, resource, ("delete",), named)


def _on_objects(operator: Installation, keep_data: bool) -> Iterable[Permission]:
    """On the objects of its kinds, and on others that it holds with a finalizer."""
    for kind in _custom_kinds(operator):
        resource = kind_of(kind).resource
        yield Permission(resource.group, resource.plural, ("list",) if keep_data else ("list", "delete"))
    for held in held_by(operator.controllers):
        yield Permission(held.group, held.plural, ("list", "patch"))


def _custom_kinds(operator: Installation) -> Sequence[type]:
    """Those whose definitions are in its manifests."""
    return list(dict.fromkeys(one.kind for one in operator.controllers if is_custom(one.kind)))


# --- the Job --------------------------------------------------------------------------------------------


def _job(operator: Installation, own: Installation, keep_data: bool) -> Document:
    labels = {"app.kubernetes.io/name": own.name}
    pod = {
        "serviceAccountName": own.name,
        "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(operator, keep_data)],
    }
    return {
        **head_of("batch/v1", "Job", own, own.name),
        "spec": {
            "backoffLimit": ATTEMPTS - 1,
            "activeDeadlineSeconds": DEADLINE,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _container(operator: Installation, keep_data: bool) -> Document:
    return {
        "name": "uninstall",
        "image": operator.image,
        "command": ["reconcile"],
        "args": [
            "uninstall",
            operator.name,
            f"--namespace={operator.namespace}",
            "--yes",
            f"--timeout={TIMEOUT}",
            *(["--keep-data"] if keep_data else []),
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
