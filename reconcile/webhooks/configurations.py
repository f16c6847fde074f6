"""The objects with which API servers are made to call a manager's webhooks. Pure: from routes to objects.

Safe by default: exactly the writes that the functions are for, no longer than the operator allows, and never
the operator's own, which would wait for themselves once no replica answers.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from reconcile.controller.admission import Admission
from reconcile.models import LabelSelector, kind_of, unstructure
from reconcile.models.versions import is_custom
from reconcile.webhooks.routes import CONVERT, DEFAULTS, Route

Document: TypeAlias = dict[str, Any]

API_VERSION: Final = "admissionregistration.k8s.io/v1"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""A label that API servers give each namespace."""
NOT_THE_OPERATOR: Final = "not-the-operator"
"""The name of the match condition that leaves out the writes of the operator itself."""
HTTPS: Final = 443


@frozen
class WebhookService:
    """The Service in front of the replicas, by which API servers call them and which certificates name.

    `ca_bundle` is PEM in base64; empty: it is filled in later.
    """

    namespace: str
    name: str
    ca_bundle: str = ""

    @classmethod
    def of(cls, text: str) -> "WebhookService":
        """That of the option `webhook_service`: NAMESPACE/NAME."""
        namespace, _, name = text.partition("/")
        return cls(namespace, name)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Those in the certificate; API servers ask for the first."""
        host = f"{self.name}.{self.namespace}.svc"
        return (host, f"{host}.cluster.local")

    @property
    def secret(self) -> str:
        """The Secret of its certificates, in the same namespace."""
        return f"{self.name}-certificates"

    def client_config(self, path: str) -> Document:
        service = {"namespace": self.namespace, "name": self.name, "path": path, "port": HTTPS}
        return {"service": service, **_bundle(self.ca_bundle)}


@frozen
class Url:
    """An address outside of the cluster, such as `https://192.0.2.1:9443`."""

    base: str
    ca_bundle: str = ""

    def client_config(self, path: str) -> Document:
        return {"url": f"{self.base}{path}", **_bundle(self.ca_bundle)}


def _bundle(ca_bundle: str) -> Document:
    return {"caBundle": ca_bundle} if ca_bundle else {}


@frozen
class Installed:
    """Where webhooks are served, and by whom: the operator's service account and its namespace.

    `metadata` are labels and annotations of the configurations, such as cert-manager's.
    """

    at: WebhookService | Url
    namespace: str = ""
    account: str = ""
    metadata: Mapping[str, Any] = field(factory=dict)

    @property
    def user(self) -> str:
        """The name under which the operator's requests come; empty if it is not known."""
        return f"system:serviceaccount:{self.namespace}:{self.account}" if self.account else ""


def conversion_of(route: Route, at: WebhookService | Url) -> Document:
    """The `spec.conversion` of the definition of a kind that is converted."""
    assert route.function == CONVERT, route
    webhook = {"clientConfig": at.client_config(route.path), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def configurations_of(routes: Iterable[Route], installed: Installed) -> Sequence[Document]:
    """A mutating and a validating configuration for each operator, named by its domain; none is empty."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for route in routes:
        if route.function == CONVERT:
            continue
        sort = "Mutating" if route.function == DEFAULTS else "Validating"
        groups.setdefault((sort, route.admission.operator), []).append(_webhook(route, installed))
    return [
        {
            "apiVersion": API_VERSION,
            "kind": f"{sort}WebhookConfiguration",
            "metadata": {"name": operator, **installed.metadata},
            "webhooks": webhooks,
        }
        for (sort, operator), webhooks in sorted(groups.items(), key=lambda one: one[0])
    ]


def _webhook(route: Route, installed: Installed) -> Document:
    admission = route.admission
    operations = [one for one in admission.operations if route.function != DEFAULTS or one != "DELETE"]
    conditions = _conditions(admission, installed)
    return {
        "name": route.name,
        "clientConfig": installed.at.client_config(route.path),
        **matching("rules", admission, operations, installed),
        **({"matchConditions": conditions} if conditions else {}),
        "failurePolicy": "Fail" if admission.is_required else "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": admission.timeout,
        "admissionReviewVersions": ["v1"],
        **({"reinvocationPolicy": "IfNeeded"} if route.function == DEFAULTS else {}),
    }


def matching(
    rules: str, admission: Admission[Any], operations: Iterable[str], installed: Installed
) -> Document:
    """Which writes a webhook or a policy judges; `rules` is the name of the member for the kind."""
    resource = kind_of(admission.kind).resource
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [resource.plural],
        "operations": list(operations),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }
    namespaces = _namespaces(admission, installed)
    return {
        rules: [rule],
        "matchPolicy": "Equivalent",
        **({"namespaceSelector": namespaces} if namespaces else {}),
        **({"objectSelector": unstructure(admission.labels)} if admission.labels is not None else {}),
    }


def _namespaces(admission: Admission[Any], installed: Installed) -> Document:
    """The selector of the namespaces whose objects are judged; empty for all."""
    chosen = LabelSelector() if admission.namespaces is None else admission.namespaces
    selector: Document = unstructure(chosen)
    if is_custom(admission.kind) or not installed.namespace:
        return selector
    # The operator's pods could not start while none of them answers.
    own = {"key": NAMESPACE_NAME, "operator": "NotIn", "values": [installed.namespace]}
    return {**selector, "matchExpressions": [*selector.get("matchExpressions", ()), own]}


def _conditions(admission: Admission[Any], installed: Installed) -> list[Document]:
    conditions = dict(admission.conditions)
    if installed.user:
        conditions = {NOT_THE_OPERATOR: f'request.userInfo.username != "{installed.user}"', **conditions}
    return [{"name": name, "expression": expression} for name, expression in conditions.items()]
