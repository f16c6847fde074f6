"""Reads a RayCluster's spec, and refuses what this version would otherwise ignore silently."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .pod_upgrade import spec_hash
from .ray_pod_view import Object
from .raycluster_validation import invalid_fields
from .raycluster_view import FAULT_TOLERANCE, ClusterView, annotation_is, group_view, head_view

OPERATOR = "ray.io/kuberay-operator"

MAX_SPEC_BYTES = 256 * 1024
TOO_LARGE = "(too large)"
_FEATURES = {
    "networkPolicy": "no NetworkPolicy is made; write one yourself and remove the field",
    "historyServerOptions": "no history server is run; remove the field",
}


def cluster_view(cluster: Object) -> ClusterView:
    """The view of a RayCluster as an API server returns it, with all reasons to refuse it."""
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    auth = spec.get("authOptions") or {}
    token = auth.get("mode") == "token"
    refused = faults_of(cluster)
    return ClusterView(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        head=head_view(spec),
        groups=tuple(group_view(group, spec.get("replicas")) for group in spec.get("workerGroupSpecs") or ()),
        annotations=annotations,
        labels=metadata.get("labels") or {},
        suspend=bool(spec.get("suspend")),
        autoscaler=(spec.get("autoscalerOptions") or {}) if spec.get("enableInTreeAutoscaling") else None,
        fault_tolerance=_fault_tolerance(spec, annotations),
        token_secret=(auth.get("secretName") or metadata["name"]) if token else "",
        owns_token=token and not auth.get("secretName"),
        recreates=(spec.get("upgradeStrategy") or {}).get("type") == "Recreate",
        upgrade_hash="" if refused else spec_hash(spec),
        scaled=spec.get("replicas") is not None,
        refused=refused,
    )


def faults_of(cluster: Object) -> tuple[str, ...]:
    """Every reason to leave a RayCluster alone, within bounds or not."""
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    if size := (within_bounds(cluster).get("spec") or {}).get(TOO_LARGE):
        limit = f"has {size} bytes, and {MAX_SPEC_BYTES} are the most"
        return (f"spec: {limit}: move what is in it to ConfigMaps",)
    return (*invalid_fields(metadata, spec), *unsupported_features(spec))


def within_bounds(cluster: Object) -> Object:
    """The RayCluster, or one with only the size of its spec if that is too large.

    Every pod is created from the spec, so each byte of it costs many times over, and holds up other clusters.
    """
    size = len(msgspec.json.encode(cluster.get("spec") or {}))
    return cluster if size <= MAX_SPEC_BYTES else {**cluster, "spec": {TOO_LARGE: size}}


def is_managed(spec: Object) -> bool:
    """Whether `managedBy` is absent or names this kind of operator."""
    return (spec.get("managedBy") or OPERATOR) == OPERATOR


def unsupported_features(spec: Object) -> Iterator[str]:
    """The features that the cluster asks for and this version lacks; false or empty asks for nothing."""
    for name, why in _FEATURES.items():
        if spec.get(name):
            yield f"spec.{name} is not supported: {why}"
    if (spec.get("tlsOptions") or {}).get("enabled"):
        why = "no certificates are made; mount your own through the pod templates"
        yield f"spec.tlsOptions.enabled is not supported: {why}"
    if (spec.get("authOptions") or {}).get("enableK8sTokenAuth"):
        yield "spec.authOptions.enableK8sTokenAuth is not supported: use mode token with a Secret"
    options = spec.get("gcsFaultToleranceOptions") or {}
    if options.get("backend") == "rocksdb" or options.get("storage"):
        yield "spec.gcsFaultToleranceOptions.backend rocksdb is not supported: use redis"


def _fault_tolerance(spec: Object, annotations: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The options if it is on, by its field or by KubeRay's older annotation."""
    options: Mapping[str, Any] | None = spec.get("gcsFaultToleranceOptions")
    if options is not None:
        return options
    return {} if annotation_is(annotations, FAULT_TOLERANCE, "true") else None
