"""What a chart has besides the kustomize base: a Certificate, hooks. Pure functions.

An operator here is one whose namespace and image are placeholders.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import evolve

from reconcile.shipping.chart_values import (
    BY_CERT_MANAGER,
    KEEPS_DATA,
    NAMESPACED,
    chooses_certificates,
)
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import PORT, Installation, documents_of, head_of
from reconcile.shipping.templates import Each, Either, Extended, Optional, Raw, Tree, either
from reconcile.shipping.uninstall_job import uninstall_documents

WATCHED: Final = "\ue000watched\ue000"
"""Stands in objects for each namespace that the operator works in."""
PULL_POLICY: Final = Either(".Values.image.pullPolicy", Raw("{{ .Values.image.pullPolicy }}"))
PLACED: Final[Mapping[str, Tree]] = {
    "imagePullSecrets": Optional(".Values.image.pullSecrets"),
    "nodeSelector": Optional(".Values.nodeSelector"),
    "tolerations": Optional(".Values.tolerations"),
    "affinity": Optional(".Values.affinity"),
}
"""Which nodes pods may run on, and how these get the image."""
_ASK: Final = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"
# The certificate of the pages may be anyone's, and is not checked by the probes of a kubelet either.
_ASK_OVER_TLS: Final = (
    "import ssl, sys, urllib.request as u; "
    "print(u.urlopen(sys.argv[1], timeout=5, context=ssl._create_unverified_context()).read().decode())"
)


def more(items: Sequence[Tree], path: str) -> Tree:
    """A list with the items of a value after its own."""
    return [*items, Optional(path)] if items else Optional(path)


def extended(mapping: Document, path: str) -> Tree:
    """A mapping with the entries of a value after its own."""
    return Extended(mapping, path) if mapping else Optional(path)


def certificate(operator: Installation) -> Tree:
    """cert-manager's Certificate of the webhooks, if an issuer is named."""
    service = operator.webhook_service
    assert service is not None
    issuer = {
        "group": "cert-manager.io",
        "kind": Raw("{{ .Values.webhooks.issuer.kind }}"),
        "name": Raw("{{ .Values.webhooks.issuer.name | quote }}"),
    }
    certificate = {
        **head_of("cert-manager.io/v1", "Certificate", operator, service.name),
        "spec": {
            "secretName": service.name,
            "dnsNames": list(service.host_names),
            "issuerRef": issuer,
        },
    }
    named = ".Values.webhooks.issuer.name"
    condition = f"and ({BY_CERT_MANAGER}) {named}" if chooses_certificates(operator) else named
    return Either(condition, [certificate])


def ready_test(operator: Installation) -> Iterator[Tree]:
    """A pod without any rights asks a Service, which leads to ready pods alone, for /readyz."""
    name = f"{operator.name}-test-ready"
    scheme, ask = ("https", _ASK_OVER_TLS) if operator.tls else ("http", _ASK)
    port = {"name": "serve", "port": PORT, "targetPort": "serve", "protocol": "TCP"}
    service = _hook(operator, "v1", "Service", name, weight=0)
    yield {**service, "spec": {"selector": operator.selected, "ports": [port]}}
    deployed = documents_of(operator, ())["deployment.yaml"][0]
    pod = deployed["spec"]["template"]["spec"]
    container = {
        "name": "test",
        "image": operator.image,
        "imagePullPolicy": PULL_POLICY,
        "command": ["python3", "-c", ask, f"{scheme}://{name}.{operator.namespace}.svc:{PORT}/readyz"],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": pod["containers"][0]["securityContext"],
    }
    spec = {
        "restartPolicy": "OnFailure",  # a pod may become ready only now
        "activeDeadlineSeconds": 120,
        "automountServiceAccountToken": False,
        "securityContext": pod["securityContext"],
        **PLACED,
        "containers": [container],
    }
    yield {**_hook(operator, "v1", "Pod", name, weight=1), "spec": spec}


def uninstall_hook(operator: Installation) -> Sequence[Tree]:
    """The Job that runs `reconcile uninstall` before Helm deletes anything, and its rights."""
    kept, deleted = (uninstall_documents(operator, keep_data) for keep_data in (True, False))
    trees = either(KEEPS_DATA, [*map(_hooked, kept)], [*map(_hooked, deleted)])
    return [Each(NAMESPACED, tree) if _is_watched(tree) else tree for tree in trees]


def _hooked(document: Document) -> Tree:
    """Rights come before the Job. What a failed Job leaves goes before the next attempt."""
    weight = {"ServiceAccount": -3, "Job": 0}.get(document["kind"], -1 if "subjects" in document else -2)
    hook = _annotated(document, "pre-delete", weight)
    if document["kind"] == "Job":
        return _placed_job(hook)
    if document["metadata"].get("namespace") != WATCHED:
        return hook
    # The operator's own namespace, which has a role of the other name, may be among the watched ones.
    name = f"{document['metadata']['name']}-watched"
    role = {"roleRef": {**hook["roleRef"], "name": name}} if "roleRef" in hook else {}
    return {**hook, "metadata": {**hook["metadata"], "name": name}, **role}


def _placed_job(job: Document) -> Tree:
    template = job["spec"]["template"]
    containers = [
        {**container, "imagePullPolicy": PULL_POLICY} for container in template["spec"]["containers"]
    ]
    pod = {**template["spec"], **PLACED, "containers": containers}
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": pod}}}


def _is_watched(tree: Tree) -> bool:
    return isinstance(tree, dict) and tree["metadata"].get("namespace") == WATCHED


def _hook(operator: Installation, api_version: str, kind: str, name: str, weight: int) -> Document:
    return _annotated(_head(operator, api_version, kind, name), "test", weight)


def _annotated(document: Document, hook: str, weight: int) -> Document:
    annotations = {
        "helm.sh/hook": hook,
        "helm.sh/hook-weight": str(weight),
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def _head(operator: Installation, api_version: str, kind: str, name: str) -> Document:
    """The head of an object with a label of its own: an uninstall takes what has the operator's."""
    return head_of(api_version, kind, evolve(operator, name=name), name)
