"""The values of a chart, each declared once: its file of defaults and its schema follow. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from reconcile.shipping.documents import Document, as_yaml
from reconcile.shipping.installation import Installation, Monitoring, documents_of
from reconcile.shipping.monitoring import INTERVAL, POD_MONITOR, SERVICE_MONITOR, tls_config, token_secret

# Where the values that decide between two cases are, and what a template asks of them.
SHARDED: Final = ".Values.sharding.enabled"
NAMESPACED: Final = ".Values.namespaces"
BY_CERT_MANAGER: Final = 'eq .Values.webhooks.certificates "cert-manager"'
KEEPS_DATA: Final = ".Values.uninstall.keepData"
MONITORED: Final = ".Values.monitoring.enabled"
MONITOR: Final = ".Values.monitoring.monitor"
RUNBOOK_ADDRESS: Final = "$.Values.monitoring.runbooks"

_NAME: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_A_NAME: Final[Document] = {"type": "string", "pattern": f"^{_NAME}$"}
_OPTIONAL_NAME: Final[Document] = {"type": "string", "pattern": f"^({_NAME})?$"}
_NAMES: Final[Document] = {"type": "array", "items": _A_NAME, "uniqueItems": True}
_SWITCH: Final[Document] = {"type": "boolean"}
_TEXTS: Final[Document] = {"type": "object", "additionalProperties": {"type": "string"}}
_TEXT: Final[Document] = {"type": "string"}
_QUANTITIES: Final[Document] = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}


def _closed(required: Sequence[str] = (), /, **properties: Document) -> Document:
    """The schema of an object that has no other properties."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


_RESOURCES: Final = _closed(requests=_QUANTITIES, limits=_QUANTITIES)
_ENVIRONMENT: Final[Document] = {
    "type": "array",
    "items": _closed(["name"], name=_TEXT, value=_TEXT, valueFrom={"type": "object"}),
}
_NAMED_OBJECTS: Final[Document] = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": _TEXT}, "required": ["name"]},
}
_TOLERATIONS: Final[Document] = {
    "type": "array",
    "items": _closed(
        key=_TEXT, operator=_TEXT, value=_TEXT, effect=_TEXT, tolerationSeconds={"type": "integer"}
    ),
}
_AFFINITY: Final = _closed(
    nodeAffinity={"type": "object"}, podAffinity={"type": "object"}, podAntiAffinity={"type": "object"}
)


@frozen
class Choices:
    """What the operator's code leaves to the values of its chart."""

    sharding: bool = False
    """Whether its pods may share the objects or elect a leader."""
    namespaces: bool = False
    """Whether it may be kept to namespaces, where Roles are enough."""
    definitions: bool = True
    """Whether there are definitions to install: some of its kinds are not Kubernetes's own."""


@frozen
class Value:
    """One value: where it is (`image.tag`), its default, what it may be and what it does."""

    path: str
    default: Any
    schema: Document
    comment: str


def values_file(values: Sequence[Value]) -> str:
    """values.yaml: the defaults, each with its comment."""
    return "\n".join(["# What may vary. values.schema.json has what each may be.", *_lines(values), ""])


def _lines(values: Sequence[Value]) -> Iterator[str]:
    group: tuple[str, ...] = ()
    for value in values:
        *parents, name = value.path.split(".")
        shared = _shared(group, parents)
        for depth, parent in list(enumerate(parents))[shared:]:
            yield f"{'  ' * depth}{parent}:"
        group = tuple(parents)
        margin = "  " * len(parents)
        yield f"{margin}# {value.comment}"
        yield from (f"{margin}{line}" for line in as_yaml({name: value.default}).splitlines())


def _shared(group: Sequence[str], parents: Sequence[str]) -> int:
    """How many of the first names of both are the same."""
    pairs = zip(group, parents, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(group), len(parents)))


def values_schema(values: Iterable[Value]) -> Document:
    """values.schema.json: no value that is not declared is taken, and none that is null.

    Helm leaves a null value out, and a template would take a switch that is not there for one that is off.
    Lists and mappings may be null, which is how Helm empties a mapping.
    """
    root = _closed()
    for value in values:
        *parents, name = value.path.split(".")
        place = root
        for parent in parents:
            _require(place, parent)
            place = place["properties"].setdefault(parent, _closed())
        place["properties"][name] = {"description": value.comment, **value.schema}
        if not isinstance(value.default, list | dict):
            _require(place, name)
    # Helm itself adds it where this chart is a dependency of another.
    root["properties"]["global"] = {"type": "object", "description": "Values of a chart around this one."}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **root}


def _require(schema: dict[str, Any], name: str) -> None:
    required = schema.setdefault("required", [])
    if name not in required:
        required.append(name)


def image_parts(image: str) -> Mapping[str, str]:
    """The repository, tag and digest of an image's name; what it does not have is empty."""
    name, _, digest = image.partition("@")
    path, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")  # a colon before the last slash is that of a port
    return {"repository": f"{path}{slash}{last}", "tag": tag, "digest": digest}


def values_of(operator: Installation, choices: Choices) -> Iterator[Value]:
    """What may vary in the chart of an operator, each with an effect on what is rendered."""
    yield Value(
        "namespace",
        operator.namespace,
        _OPTIONAL_NAME,
        "Namespace of the operator, made with the release if that is in another. Empty: the release's.",
    )
    if operator.namespaces or choices.namespaces:
        least = {"minItems": 1} if operator.namespaces else {}
        everywhere = "" if operator.namespaces else " Empty: all, with a ClusterRole."
        yield Value(
            "namespaces",
            list(operator.namespaces),
            {**_NAMES, **least},
            f"Namespaces that it works in, with a Role in each.{everywhere}",
        )
    yield from _image_values(operator)
    yield Value(
        "replicas",
        operator.replicas,
        {"type": "integer", "minimum": 0, "maximum": 100},
        "Pods; one leads and the others stand by, unless they share the objects.",
    )
    yield from _sharding_values(operator, choices)
    yield from _pod_values(operator)
    if choices.definitions:
        stay = "Install the definitions of its kinds. They stay when the release is uninstalled."
        yield Value("crds.install", True, _SWITCH, stay)
    hook = "Run `reconcile uninstall` before the release is deleted, so that nothing hangs."
    yield Value("uninstall.enabled", True, _SWITCH, hook)
    data = "Keep definitions and objects then. If false, they are deleted: this cannot be undone."
    yield Value("uninstall.keepData", True, _SWITCH, data)
    yield from _webhook_values(operator)
    yield from _monitoring_values(operator)


def _image_values(operator: Installation) -> Iterator[Value]:
    parts = image_parts(operator.image)
    text = {"type": "string"}
    yield Value("image.repository", parts["repository"], {**text, "minLength": 1}, "Image without a tag.")
    yield Value("image.tag", parts["tag"], {**text, "pattern": r"^[\w.-]*$"}, "Tag of the image.")
    digest = {**text, "pattern": "^(sha256:[0-9a-f]{64})?$"}
    yield Value("image.digest", parts["digest"], digest, "Digest that pins the image: sha256:...")
    policies = {"enum": ["", "Always", "IfNotPresent", "Never"]}
    yield Value("image.pullPolicy", "", policies, "When it is pulled. Empty: as Kubernetes decides.")
    yield Value("image.pullSecrets", [], _NAMED_OBJECTS, "Secrets to pull it with: - name: ...")


def _sharding_values(operator: Installation, choices: Choices) -> Iterator[Value]:
    if not choices.sharding:
        return
    ring = operator.ring
    yield Value(
        "sharding.enabled",
        ring is not None,
        _SWITCH,
        "All pods work, each on a part of the objects, instead of one that leads.",
    )
    yield Value(
        "sharding.name",
        operator.name if ring is None else ring[1],
        _A_NAME,
        "Name of the ring.",
    )


def _pod_values(operator: Installation) -> Iterator[Value]:
    deployment = documents_of(operator, ())["deployment.yaml"][0]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    yield Value("logLevel", "info", {"enum": ["info", "debug"]}, "info, or debug for tracebacks too.")
    environment = "Variables, such as RECONCILE_WORKERS: as in a container's env."
    yield Value("extraEnv", [], _ENVIRONMENT, environment)
    yield Value("extraVolumes", [], _NAMED_OBJECTS, "Volumes of the pods.")
    yield Value("extraVolumeMounts", [], _NAMED_OBJECTS, "Where the operator has them.")
    yield Value(
        "resources",
        container["resources"],
        _RESOURCES,
        "Requests and limits of a pod.",
    )
    yield Value("podAnnotations", {}, _TEXTS, "Annotations of the pods.")
    yield Value("nodeSelector", {}, _TEXTS, "Labels of the nodes for the pods.")
    yield Value("tolerations", [], _TOLERATIONS, "Taints that the pods tolerate.")
    yield Value("affinity", {}, _AFFINITY, "Nodes and pods that they prefer or avoid.")


def _webhook_values(operator: Installation) -> Iterator[Value]:
    if not operator.routes:
        return
    if chooses_certificates(operator):
        yield Value(
            "webhooks.certificates",
            "operator",
            {"enum": ["operator", "cert-manager"]},
            "What makes the certificate of the webhooks: the operator itself, or cert-manager.",
        )
    yield Value(
        "webhooks.issuer.name",
        "",
        {"type": "string"},
        "cert-manager's issuer of the certificate. Empty: you make a Certificate of that name yourself.",
    )
    kinds = {"enum": ["Issuer", "ClusterIssuer"]}
    yield Value("webhooks.issuer.kind", "Issuer", kinds, "Its kind; an Issuer is in the same namespace.")


def _monitoring_values(operator: Installation) -> Iterator[Value]:
    monitoring = operator.monitoring or Monitoring()
    opened = "." if operator.review else "; /metrics is then open to the cluster: add a NetworkPolicy."
    watched = f"Have Prometheus and Grafana watch the operator{opened}"
    yield Value("monitoring.enabled", operator.monitoring is not None, _SWITCH, watched)
    kinds = {"enum": [SERVICE_MONITOR, POD_MONITOR, ""]}
    monitor = "What has Prometheus's operator collect: ServiceMonitor, PodMonitor, or nothing but a Service."
    yield Value("monitoring.monitor", POD_MONITOR if monitoring.pods else SERVICE_MONITOR, kinds, monitor)
    interval = {"type": "string", "minLength": 2, "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"}
    yield Value("monitoring.interval", INTERVAL, interval, "How often it collects: at most 1m.")
    labels = "Labels by which Prometheus selects monitors and rules, such as release: prometheus."
    yield Value("monitoring.labels", dict(monitoring.labels), _TEXTS, labels)
    rules = "A PrometheusRule with service levels and alerts."
    yield Value("monitoring.rules", True, _SWITCH, rules)
    dashboards = "ConfigMaps with dashboards, as Grafana's sidecar takes them."
    yield Value("monitoring.dashboards", True, _SWITCH, dashboards)
    address = {"type": "string", "pattern": "^(https?://[A-Za-z0-9][A-Za-z0-9:/._~%+@-]*)?$"}
    books = "Address of your copies of the runbooks, to which alerts then lead."
    yield Value("monitoring.runbooks", monitoring.runbooks, address, books)
    if operator.review:
        reader = "ServiceAccount that may get /metrics, such as Prometheus's. Empty: bind one yourself."
        namespace, account = monitoring.reader or ("", "")
        yield Value("monitoring.reader.name", account, {"type": "string"}, reader)
        yield Value("monitoring.reader.namespace", namespace, _OPTIONAL_NAME, "Its namespace.")
        token = "Secret with the token that a PodMonitor sends; a ServiceMonitor sends Prometheus's own."
        yield Value("monitoring.tokenSecret", token_secret(operator), _A_NAME, token)
    if operator.tls:
        tls = {"type": "object"}
        check = "How Prometheus checks the certificate of the pods. Empty: by the CAs of its own."
        yield Value("monitoring.tlsConfig", tls_config(operator, monitoring), tls, check)


def chooses_certificates(operator: Installation) -> bool:
    """Whether a value decides what makes the certificate of webhooks: the manager does not say."""
    return bool(operator.routes) and not operator.webhook_certificates
