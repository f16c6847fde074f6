"""The objects that run an operator in a cluster. Pure functions: nothing is read or written here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen

from reconcile.controller.declaration import Controller
from reconcile.controller.permissions import (
    Permission,
    bundle_permissions,
    certificate_permissions,
    definition_permissions,
    freeze_permissions,
    lease_permissions,
    merged,
    permissions_of,
    predecessor_permissions,
    review_permissions,
    ring_permissions,
)
from reconcile.shipping.documents import Document, file_of
from reconcile.shipping.finalizers import NAME, annotated, held_by
from reconcile.webhooks.calling_objects import calling_objects
from reconcile.webhooks.configurations import HTTPS, Installed, WebhookService, configurations_of
from reconcile.webhooks.policies import policies_of
from reconcile.webhooks.routes import Route, admissions_of

PORT: Final = 8080
WEBHOOK_PORT: Final = 9443
STOP_MARGIN: Final = 15
"""Seconds beyond `stop_seconds` until a pod is killed, to release the Lease and to close connections."""
RBAC: Final = "rbac.authorization.k8s.io"
_CERTIFICATES: Final = "webhook-certificates"
_INJECTED: Final = "cert-manager.io/inject-ca-from"
_ONE_MORE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
"""A new pod serves webhooks, or can take over objects, before an old one ends."""
_SPREAD: Final = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")


@frozen
class Monitoring:
    """What collects the metrics of an operator: Prometheus, run by prometheus-operator."""

    pods: bool = False
    """A PodMonitor, instead of a Service and a ServiceMonitor."""
    labels: Mapping[str, str] = field(factory=dict)
    """By which Prometheus selects monitors and rules."""
    reader: tuple[str, str] | None = None
    """The namespace and the name of Prometheus's account, which may then get /metrics."""
    runbooks: str = ""
    """The address under which copies of the runbooks are; empty: alerts lead to none."""
    authority: str = ""
    """The Secret whose `ca.crt` signed the certificate of the pages; empty: a CA that Prometheus trusts."""


@frozen
class Installation:
    """How an operator is installed: its pods, and the Lease `lease`, in `namespace`. No `namespaces`: all.

    With `ring`, a namespace and a name, the pods share the objects, and there is no Lease of a leader.
    """

    name: str
    lease: str
    namespace: str
    image: str
    targets: Sequence[str]
    controllers: Sequence[Controller[Any]]
    replicas: int = 2
    ring: tuple[str, str] | None = None
    namespaces: Sequence[str] = ()
    tls: bool = False
    review: bool = False
    """Whether the API server decides who may get /metrics and /debug; otherwise only the pod itself may."""
    owner_finalizers: bool = False
    applies_definitions: bool = False
    freezes_predecessor: bool = False
    stop_seconds: float = 30.0
    routes: Sequence[Route] = ()
    """What its webhooks serve; empty: it has none."""
    webhook_certificates: str = ""
    """The folder of the webhooks' certificate, where a Secret is mounted; empty: it makes its own."""
    monitoring: Monitoring | None = None
    """None: nothing collects its metrics, and without a review they are open to the pod alone."""

    @property
    def selected(self) -> Document:
        """The labels of its pods."""
        return {NAME: self.name, "app.kubernetes.io/instance": self.name}

    @property
    def webhook_service(self) -> WebhookService | None:
        """The Service in front of the webhooks; None if there are none."""
        return WebhookService(self.namespace, f"{self.name}-webhooks") if self.routes else None

    def installed(self, service: WebhookService | None = None) -> Installed:
        """How its webhooks and policies are installed. Policies, which call nothing, need no service."""
        at = service or WebhookService(self.namespace, "")
        return Installed(at, self.namespace, self.name, {"labels": {NAME: self.name}})


def documents_of(operator: Installation, definitions: Sequence[Document]) -> Mapping[str, Sequence[Document]]:
    """The files of a kustomize base, by their names, in the order in which they can be applied."""
    files: dict[str, Sequence[Document]] = {}
    for definition in definitions:
        files[f"crd_{file_of(definition)}"] = [_injected(operator, _labelled(operator, definition))]
    files["namespace.yaml"] = [head_of("v1", "Namespace", operator, operator.namespace, "")]
    files["service-account.yaml"] = [head_of("v1", "ServiceAccount", operator, operator.name)]
    files["rbac.yaml"] = list(_roles(operator))
    files["deployment.yaml"] = [_deployment(operator)]
    files["disruption-budget.yaml"] = [_budget(operator)]
    if operator.webhook_service is not None:
        files["webhook-service.yaml"] = [_webhook_service(operator, operator.webhook_service)]
        if configurations := webhook_configurations(operator, operator.webhook_service):
            files["webhooks.yaml"] = configurations
    if policies := policies_of(admissions_of(operator.controllers), operator.installed()):
        files["policies.yaml"] = policies
    return files


def kustomization(files: Iterable[str]) -> Document:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
    }


# --- rights -------------------------------------------------------------------------------------------


def _roles(operator: Installation) -> Iterable[Document]:
    rights = permissions_of(operator.controllers, owner_finalizers=operator.owner_finalizers)
    if operator.freezes_predecessor:
        rights = [*rights, *freeze_permissions(operator.controllers, namespaced=bool(operator.namespaces))]
    if not operator.namespaces:
        rights = [*rights, *predecessor_permissions(operator.controllers)]
        rights = [*rights, *(review_permissions() if operator.review else ())]
        if operator.applies_definitions:
            kinds = [controller.kind for controller in operator.controllers]
            rights = [*rights, *definition_permissions(kinds)]
        yield from granted(operator, operator.name, merged(rights), None)
    for watched in operator.namespaces:
        yield from granted(operator, operator.name, merged(rights), watched)
    if operator.review:  # a role to bind to the account that collects metrics
        role = head_of(f"{RBAC}/v1", "ClusterRole", operator, metrics_reader(operator.name), "")
        yield {**role, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    service = operator.webhook_service
    if service is not None and not operator.webhook_certificates:
        rights = certificate_permissions(service.secret)
        yield from granted(operator, service.name, rights, operator.namespace)
        called = [(one.resource, one.name) for one in calling_objects(operator.routes)]
        yield from granted(operator, service.name, bundle_permissions(called), None)
    if operator.ring is not None:
        yield from granted(operator, f"{operator.name}-ring", ring_permissions(), operator.ring[0])
        return
    yield from granted(
        operator, f"{operator.name}-leader", lease_permissions(operator.lease), operator.namespace
    )


def granted(
    operator: Installation, name: str, rights: Sequence[Permission], namespace: str | None
) -> Iterable[Document]:
    """A role and its binding: of one namespace, or, for None, of the whole cluster."""
    prefix = "Cluster" if namespace is None else ""
    where = namespace or ""
    role = head_of(f"{RBAC}/v1", f"{prefix}Role", operator, name, where)
    yield {**role, "rules": [right.rule() for right in rights]}
    account = {"kind": "ServiceAccount", "name": operator.name, "namespace": operator.namespace}
    yield {
        **head_of(f"{RBAC}/v1", f"{prefix}RoleBinding", operator, name, where),
        "roleRef": {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name},
        "subjects": [account],
    }


# --- workload -------------------------------------------------------------------------------------------


def arguments_of(operator: Installation) -> Sequence[str]:
    namespaces = [f"--namespaces={','.join(operator.namespaces)}"] if operator.namespaces else []
    return [
        "run",
        *operator.targets,
        "--yes",
        *namespaces,
        _together(operator),
        f"--serve=:{PORT}",
        _pages(operator),
        "--ready-when=synced",
        *_webhook_arguments(operator),
        *(["--definitions=apply"] if operator.applies_definitions else []),
        *(["--freeze-predecessor"] if operator.freezes_predecessor else []),
    ]


def _pages(operator: Installation) -> str:
    """Who may get /metrics; without a review it is everyone in the cluster, or the pod alone."""
    if operator.review:
        return "--serve-review"
    return "--serve-metrics=local" if operator.monitoring is None else "--serve-metrics=all"


def _together(operator: Installation) -> str:
    """How the pods get along: they share the objects, or one works and the others stand by."""
    if operator.ring is not None:
        return f"--sharding={'/'.join(operator.ring)}"
    return f"--leader-election={operator.namespace}/{operator.lease}"


def _webhook_arguments(operator: Installation) -> Sequence[str]:
    service = operator.webhook_service
    if service is None:
        return []
    own = [] if operator.webhook_certificates else [f"--webhook-service={service.namespace}/{service.name}"]
    return [f"--webhooks=:{WEBHOOK_PORT}", *own]


def _deployment(operator: Installation) -> Document:
    selected = operator.selected
    pod = {
        "serviceAccountName": operator.name,
        "terminationGracePeriodSeconds": int(operator.stop_seconds) + STOP_MARGIN,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(operator)],
        **({} if operator.ring is None else {"topologySpreadConstraints": _spread(selected)}),
        **_volumes(operator),
    }
    return {
        **annotated(head_of("apps/v1", "Deployment", operator, operator.name), held_by(operator.controllers)),
        "spec": {
            "replicas": operator.replicas,
            **({"strategy": _ONE_MORE} if operator.routes or operator.ring is not None else {}),
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": pod},
        },
    }


def _spread(selected: Mapping[str, str]) -> Sequence[Document]:
    """As evenly over zones and nodes as there is room: one that fails takes few replicas with it."""
    selector = {"matchLabels": selected}
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector,
        }
        for key in _SPREAD
    ]


def _container(operator: Installation) -> Document:
    return {
        "name": "manager",
        "image": operator.image,
        "command": ["reconcile"],
        "args": list(arguments_of(operator)),
        "ports": [
            {"name": "serve", "containerPort": PORT},
            *([{"name": "webhooks", "containerPort": WEBHOOK_PORT}] if operator.routes else []),
        ],
        "livenessProbe": {"httpGet": _page(operator, "/healthz"), "initialDelaySeconds": 15},
        "readinessProbe": {"httpGet": _page(operator, "/readyz"), "periodSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        **_mounts(operator),
    }


def _page(operator: Installation, path: str) -> Document:
    page: Document = {"path": path, "port": "serve"}
    return {**page, "scheme": "HTTPS"} if operator.tls else page


def _budget(operator: Installation) -> Document:
    """At most one pod may be evicted at a time. A single replica does not block the drain of a node."""
    return {
        **head_of("policy/v1", "PodDisruptionBudget", operator, operator.name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": operator.selected}},
    }


# --- webhooks -------------------------------------------------------------------------------------------


def webhook_configurations(operator: Installation, service: WebhookService) -> Sequence[Document]:
    """What makes API servers call the webhooks; cert-manager fills in the `caBundle` of its certificate."""
    made = configurations_of(operator.routes, operator.installed(service))
    return [_injected(operator, one) for one in made]


def _injected(operator: Installation, document: Document) -> Document:
    """An object that calls webhooks, with the annotation for cert-manager where it makes the certificate."""
    service = operator.webhook_service
    calls = "webhooks" in document or "conversion" in document["spec"]
    if service is None or not operator.webhook_certificates or not calls:
        return document
    before = document["metadata"].get("annotations", {})
    annotations = {**before, _INJECTED: f"{operator.namespace}/{service.name}"}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def _webhook_service(operator: Installation, service: WebhookService) -> Document:
    port = {"name": "webhooks", "port": HTTPS, "targetPort": "webhooks", "protocol": "TCP"}
    return {
        **head_of("v1", "Service", operator, service.name),
        "spec": {"selector": operator.selected, "ports": [port]},
    }


def _volumes(operator: Installation) -> Document:
    service = operator.webhook_service
    if service is None or not operator.webhook_certificates:
        return {}
    return {"volumes": [{"name": _CERTIFICATES, "secret": {"secretName": service.name}}]}


def _mounts(operator: Installation) -> Document:
    if operator.webhook_service is None or not operator.webhook_certificates:
        return {}
    mount = {"name": _CERTIFICATES, "mountPath": operator.webhook_certificates, "readOnly": True}
    return {"volumeMounts": [mount]}


# --- heads ----------------------------------------------------------------------------------------------


def _labelled(operator: Installation, definition: Document) -> Document:
    """The definition of a kind as this operator's, with the finalizers that it sets on the objects."""
    labels = {**definition["metadata"].get("labels", {}), NAME: operator.name}
    metadata = {**definition["metadata"], "labels": labels}
    own = [held for held in held_by(operator.controllers) if held.resource == metadata["name"]]
    return annotated({**definition, "metadata": metadata}, own)


def metrics_reader(name: str) -> str:
    """The ClusterRole that allows to get the metrics of an operator, and the binding of who collects them."""
    return f"{name}-metrics-reader"


def head_of(
    api_version: str, kind: str, operator: Installation, name: str, namespace: str | None = None
) -> Document:
    """The head of an object, in the operator's namespace; `namespace=""` for cluster-wide kinds."""
    where = operator.namespace if namespace is None else namespace
    metadata = {"name": name, **({"namespace": where} if where else {})}
    labels = {NAME: operator.name}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**metadata, "labels": labels}}
