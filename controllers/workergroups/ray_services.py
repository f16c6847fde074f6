"""The Services of a RayCluster, and its optional Ingress."""

from collections.abc import Iterator, Sequence
from copy import deepcopy

from .ray_pod_view import CLUSTER_LABEL, NODE_TYPE_LABEL, Object
from .ray_start import METRICS_PORT
from .raycluster_names import (
    HEAD_GROUP,
    SERVE_LABEL,
    Manifest,
    head_port,
    head_service_name,
    headless_service_name,
    pod_labels,
    short_name,
)
from .raycluster_view import ENABLE_SERVE_SERVICE, ClusterView

DASHBOARD_PORT = 8265
SERVE_PORT = 8000
_DEFAULT_PORTS = {"dashboard": DASHBOARD_PORT, "client": 10001, "metrics": METRICS_PORT, "serve": SERVE_PORT}
_CLASS = "kubernetes.io/ingress.class"


def services(cluster: ClusterView) -> list[Manifest]:
    """The Services besides the head's: for hosts to find each other, and for Serve."""
    return [*_headless_service(cluster), *_serve_service(cluster)]


def endpoints(cluster: ClusterView) -> dict[str, str]:
    """The ports of the head Service by name, for the status."""
    ports = head_service(cluster)["spec"]["ports"]
    return {
        port["name"]: str(port.get("nodePort") or port.get("targetPort") or port["port"]) for port in ports
    }


def head_ingress(cluster: ClusterView) -> list[Manifest]:
    """The Ingress to the dashboard if `enableIngress` is set; an annotation names its class."""
    if not cluster.head.ingress:
        return []
    options = cluster.head.ingress_options
    rule: Manifest = {
        "http": {
            "paths": [
                {
                    "path": options.get("path") or f"/{cluster.name}/(.*)",
                    "pathType": options.get("pathType") or "ImplementationSpecific",
                    "backend": {
                        "service": {
                            "name": head_service_name(cluster),
                            "port": {"number": _dashboard(cluster)},
                        }
                    },
                }
            ]
        }
    }
    if options.get("host"):
        rule["host"] = options["host"]
    spec: Manifest = {"rules": [rule]}
    if options.get("tls"):
        spec["tls"] = deepcopy(options["tls"])
    if cluster.annotations.get(_CLASS):
        spec["ingressClassName"] = cluster.annotations[_CLASS]
    annotations = {k: v for k, v in cluster.annotations.items() if k != _CLASS and not _stays_here(k)}
    metadata = {"name": _ingress_name(cluster), "namespace": cluster.namespace}
    labels = {CLUSTER_LABEL: cluster.name, "ray.io/identifier": short_name(f"{cluster.name}-head", 63)}
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {**metadata, "labels": labels, "annotations": annotations},
            "spec": spec,
        }
    ]


def switched_off(cluster: ClusterView) -> set[str]:
    """The names that the Ingress and the Services of features have which this cluster does not use."""
    optional = {_ingress_name(cluster), headless_service_name(cluster), _serve_service_name(cluster)}
    used = {one["metadata"]["name"] for one in (*head_ingress(cluster), *services(cluster))}
    return optional - used - {head_service_name(cluster)}


def _ingress_name(cluster: ClusterView) -> str:
    return short_name(f"{cluster.name}-head-ingress")


def _serve_service_name(cluster: ClusterView) -> str:
    return short_name(f"{cluster.name}-serve-svc")


def head_service(cluster: ClusterView) -> Manifest:
    """The Service through which workers and drivers reach the head.

    It is headless unless the user sets another type or a `headService`, whose metadata and spec are kept. The
    selector is always ours, and our ports replace those of the same name.
    """
    own = deepcopy(cluster.head.service or {})
    labels = _service_labels(cluster)
    metadata, spec = own.get("metadata") or {}, own.get("spec") or {}
    kind = spec.get("type") or cluster.head.service_type or "ClusterIP"
    headless = cluster.head.service is None and kind == "ClusterIP"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            **metadata,
            "name": head_service_name(cluster),
            "namespace": cluster.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **cluster.head.service_annotations},
        },
        "spec": {
            **spec,
            **({"clusterIP": "None", "publishNotReadyAddresses": True} if headless else {}),
            "type": kind,
            "selector": labels,
            "ports": _service_ports(cluster, spec.get("ports") or ()),
        },
    }


def _headless_service(cluster: ClusterView) -> Iterator[Manifest]:
    """Lets the hosts of one replica find each other before they are Ready."""
    if cluster.multi_host:
        spec = {
            "clusterIP": "None",
            "selector": {CLUSTER_LABEL: cluster.name, NODE_TYPE_LABEL: "worker"},
            "publishNotReadyAddresses": True,
        }
        yield _service(cluster, headless_service_name(cluster), spec)


def _serve_service(cluster: ClusterView) -> Iterator[Manifest]:
    if cluster.asks(ENABLE_SERVE_SERVICE):
        port = {"name": "serve", "port": SERVE_PORT, "targetPort": SERVE_PORT, "protocol": "TCP"}
        selector = {CLUSTER_LABEL: cluster.name, SERVE_LABEL: "true"}
        yield _service(cluster, _serve_service_name(cluster), {"selector": selector, "ports": [port]})


def _service(cluster: ClusterView, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": cluster.namespace}
    labels = {CLUSTER_LABEL: cluster.name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "labels": labels}, "spec": spec}


def _dashboard(cluster: ClusterView) -> int:
    ports = {port["name"]: port["port"] for port in _head_ports(cluster)}
    return int(ports.get("dashboard", DASHBOARD_PORT))


def _stays_here(annotation: str) -> bool:
    """Not copied are kubectl's annotations, and snippets, which the ingress controller would run."""
    return annotation.startswith("kubectl.kubernetes.io/") or annotation.endswith(("-snippet", "-snippets"))


def _service_labels(cluster: ClusterView) -> dict[str, str]:
    """They are also the selector, so their values are those of the head pod."""
    pod = pod_labels(cluster, "head", HEAD_GROUP, cluster.head.template, cluster.head.labels)
    names = (CLUSTER_LABEL, NODE_TYPE_LABEL, "ray.io/identifier")
    return {name: pod[name] for name in (*names, "app.kubernetes.io/name", "app.kubernetes.io/created-by")}


def _service_ports(cluster: ClusterView, given: Sequence[Object]) -> list[Manifest]:
    """The head container's ports, missing defaults, and the user's other ports, sorted by name."""
    ours = _head_ports(cluster)
    names = {port["name"] for port in ours}
    others = [dict(port) for port in given if port.get("name") not in names]
    return sorted([*ours, *others], key=lambda port: port.get("name") or "")


def _head_ports(cluster: ClusterView) -> list[Manifest]:
    containers = (cluster.head.template.get("spec") or {}).get("containers") or ()
    declared = containers[0].get("ports") or () if containers else ()
    ports = [
        _service_port(port.get("name"), port["containerPort"], port.get("protocol")) for port in declared
    ]
    names, numbers = {port["name"] for port in ports}, {port["port"] for port in ports}
    defaults = {"gcs-server": int(head_port(cluster)), **_DEFAULT_PORTS}
    missing = [(name, n) for name, n in defaults.items() if name not in names and n not in numbers]
    return [*ports, *(_service_port(name, number, None) for name, number in missing)]


def _service_port(name: str | None, number: int, protocol: str | None) -> Manifest:
    """A port with the API server's defaults, so that an apply without changes is recognised."""
    return {
        "name": name or f"{number}-port",
        "port": number,
        "targetPort": number,
        "protocol": protocol or "TCP",
        "appProtocol": "tcp",
    }
