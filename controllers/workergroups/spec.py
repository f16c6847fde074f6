"""A RayCluster's spec: its view, and what in it this version must refuse rather than ignore."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from .quantity import InvalidQuantity, parse_quantity
from .views import ClusterView, GroupView, Invalid, Object, Unsupported, group_view, head_view

OPERATOR = "ray.io/kuberay-operator"
FAULT_TOLERANCE_ANNOTATION = "ray.io/ft-enabled"
NO_HEAD_RESTART_ANNOTATION = "ray.io/disable-provisioned-head-restart"

_FEATURES = {
    "gcsFaultToleranceOptions": "no Redis clean-up job is run when the cluster is deleted; remove the field",
    "authOptions": "no token Secret is made; restrict access to the head by other means",
    "networkPolicy": "no NetworkPolicy is made; write one yourself and remove the field",
    "tlsOptions": "no certificates are made; mount your own through the pod templates",
    "historyServerOptions": "no history server is run; remove the field",
}
_GROUP_FEATURES = {
    "labels": "write the labels into rayStartParams.labels and the pod template",
    "resources": "write the resources into rayStartParams and the container",
}


def cluster_view(cluster: Object) -> ClusterView:
    """The view of a RayCluster as an API server returns it, with every reason to refuse it."""
    metadata, spec = cluster["metadata"], cluster.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    return ClusterView(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        head=head_view(spec),
        groups=tuple(group_view(group) for group in spec.get("workerGroupSpecs") or ()),
        annotations=annotations,
        refused=(*invalid_fields(spec), *unsupported_features(spec, annotations)),
    )


def is_managed(spec: Object) -> bool:
    """Whether the cluster is ours to act on: `managedBy` is absent or names this kind of operator."""
    return (spec.get("managedBy") or OPERATOR) == OPERATOR


def unsupported_features(spec: Object, annotations: Mapping[str, str] | None = None) -> list[Unsupported]:
    """Every feature the cluster asks for that this version does not have; empty means it can be run.

    A field that asks for nothing (false, empty, `upgradeStrategy.type: None`) is no reason.
    """
    return [
        *_cluster_features(spec),
        *_head_features(spec.get("headGroupSpec") or {}),
        *(found for group in spec.get("workerGroupSpecs") or () for found in _group_features(group)),
        *_annotation_features(annotations or {}),
    ]


def _cluster_features(spec: Object) -> Iterator[Unsupported]:
    if spec.get("suspend"):
        yield Unsupported("spec.suspend", "delete the cluster, or scale its groups to 0")
    if spec.get("enableInTreeAutoscaling"):
        yield Unsupported("spec.enableInTreeAutoscaling", "set the groups' replicas instead")
    strategy = (spec.get("upgradeStrategy") or {}).get("type")
    if strategy not in (None, "", "None"):
        yield Unsupported(f"spec.upgradeStrategy.type {strategy}", "delete the pods to have them made anew")
    for name, why in _FEATURES.items():
        if spec.get(name):
            yield Unsupported(f"spec.{name}", why)


def _head_features(head: Object) -> Iterator[Unsupported]:
    for name in ("enableIngress", "ingressOptions"):
        if head.get(name):
            yield Unsupported(f"spec.headGroupSpec.{name}", "make an Ingress for the head Service yourself")
    for name, why in _GROUP_FEATURES.items():
        if head.get(name):
            yield Unsupported(f"spec.headGroupSpec.{name}", why)


def _group_features(group: Object) -> Iterator[Unsupported]:
    where = f"spec.workerGroupSpecs[{group.get('groupName')}]"
    hosts = group.get("numOfHosts")
    if hosts is not None and hosts > 1:
        yield Unsupported(
            f"{where}.numOfHosts {hosts}", "a replica of several hosts is not kept whole; use 1"
        )
    if group.get("suspend"):
        yield Unsupported(f"{where}.suspend", "set minReplicas and replicas to 0 instead")
    for name, why in _GROUP_FEATURES.items():
        if group.get(name):
            yield Unsupported(f"{where}.{name}", why)


def _annotation_features(annotations: Mapping[str, str]) -> Iterator[Unsupported]:
    for name in (FAULT_TOLERANCE_ANNOTATION, NO_HEAD_RESTART_ANNOTATION):
        if annotations.get(name, "").lower() == "true":
            yield Unsupported(f"annotation {name}", "a failed head pod is always replaced, without its state")


def invalid_fields(spec: Object) -> list[Invalid]:
    """What KubeRay's schema lets through although nothing sensible can be done with it."""
    groups = [(entry, group_view(entry)) for entry in spec.get("workerGroupSpecs") or ()]
    names = Counter(view.name for _, view in groups)
    return [
        *_invalid_template("spec.headGroupSpec", spec.get("headGroupSpec") or {}),
        *(found for entry, view in groups for found in _invalid_group(entry, view)),
        *(
            Invalid("spec.workerGroupSpecs", f"group {name!r} occurs twice")
            for name, n in names.items()
            if n > 1
        ),
    ]


def _invalid_group(entry: Object, group: GroupView) -> Iterator[Invalid]:
    where = f"spec.workerGroupSpecs[{group.name}]"
    if not group.name:
        yield Invalid(where, "groupName is missing")
    for name in ("replicas", "minReplicas", "maxReplicas"):
        if (entry.get(name) or 0) < 0:
            yield Invalid(f"{where}.{name}", "must not be negative")
    if group.num_of_hosts < 1:
        yield Invalid(f"{where}.numOfHosts", "must be at least 1")
    if group.min_replicas > group.max_replicas:
        yield Invalid(
            f"{where}.minReplicas", f"{group.min_replicas} is more than maxReplicas {group.max_replicas}"
        )
    yield from _invalid_template(where, entry)


def _invalid_template(where: str, group: Object) -> Iterator[Invalid]:
    containers = ((group.get("template") or {}).get("spec") or {}).get("containers") or ()
    if not containers:
        yield Invalid(
            f"{where}.template.spec.containers", "at least one container is needed; the first runs Ray"
        )
    for container in containers:
        for path, value in _amounts(container.get("resources") or {}):
            try:
                parse_quantity(value)
            except InvalidQuantity as error:
                yield Invalid(
                    f"{where}.template.spec.containers[{container.get('name')}].resources.{path}", str(error)
                )


def _amounts(resources: Object) -> Iterator[tuple[str, Any]]:
    for kind in ("requests", "limits"):
        for name, value in (resources.get(kind) or {}).items():
            yield f"{kind}.{name}", value
