"""The names and labels of a RayCluster's objects."""

from collections.abc import Mapping
from typing import Any

from .ray_pod_view import CLUSTER_LABEL, GROUP_LABEL, NODE_TYPE_LABEL, NodeType, Object
from .raycluster_view import ENABLE_SERVE_SERVICE, ClusterView

Manifest = dict[str, Any]

HEAD_GROUP = "headgroup"
SERVE_LABEL = "ray.io/serve"
GCS_PORT = 6379
# Kueue acts on the RayCluster itself, and would hold back pods that bear its label.
_SCHEDULERS = (
    "volcano.sh",
    "yunikorn.apache.org",
    "kai.scheduler",
    "scheduling.x-k8s.io",
    "scheduling.k8s.io",
)
FIXED_LABELS = (CLUSTER_LABEL, NODE_TYPE_LABEL, GROUP_LABEL)


def pod_labels(
    cluster: ClusterView, node_type: NodeType, group: str, template: Object, labels: Mapping[str, str]
) -> dict[str, str]:
    """Ours, the cluster's for a batch scheduler, and those of its template and group.

    The template and the group win, except for the three that identify the pod.
    """
    ours = {
        "ray.io/is-ray-node": "yes",
        CLUSTER_LABEL: cluster.name,
        NODE_TYPE_LABEL: node_type,
        GROUP_LABEL: group,
        "ray.io/identifier": short_name(f"{cluster.name}-{node_type}", 63),
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    if cluster.asks(ENABLE_SERVE_SERVICE):
        ours[SERVE_LABEL] = "true"
    ours |= scheduler_labels(cluster.labels)
    given = {**((template.get("metadata") or {}).get("labels") or {}), **labels}
    return {**ours, **{name: value for name, value in given.items() if name not in FIXED_LABELS}}


def scheduler_labels(words: Mapping[str, str]) -> dict[str, str]:
    """The labels or annotations of a cluster that are meant for a batch scheduler."""
    return {name: value for name, value in words.items() if name.rpartition("/")[0].endswith(_SCHEDULERS)}


def head_service_name(cluster: ClusterView) -> str:
    """`<cluster>-head-svc`, or the name given in `headService`."""
    given = ((cluster.head.service or {}).get("metadata") or {}).get("name")
    return given or short_name(f"{cluster.name}-head-svc")


def head_host(cluster: ClusterView) -> str:
    """The head's name in the default domain of Kubernetes."""
    return f"{head_service_name(cluster)}.{cluster.namespace}.svc.cluster.local"


def head_port(cluster: ClusterView) -> str:
    """The port of the head's GCS server."""
    return cluster.head.ray_start_params.get("port") or str(GCS_PORT)


def headless_service_name(cluster: ClusterView) -> str:
    """The Service through which the hosts of a replica find each other; also their subdomain."""
    return short_name(f"{cluster.name}-headless")


def pod_prefix(owner: str, node_type: NodeType) -> str:
    """A generateName, short enough for the five characters that the API server adds."""
    return f"{owner[:50]}-{node_type}-".lower()


def short_name(name: str, longest: int = 50) -> str:
    """The last `longest` characters, starting with a letter: KubeRay's rule for names."""
    end = name[-longest:]
    return end if end[0].isalpha() else f"r{end[1:]}"
