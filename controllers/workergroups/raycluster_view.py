"""The parts of a RayCluster's spec that decisions read: the head, the worker groups, the features."""

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from .ray_pod_view import Object

NO_LIMIT = 2**31 - 1

FAULT_TOLERANCE = "ray.io/ft-enabled"
STORAGE_NAMESPACE = "ray.io/external-storage-namespace"
NO_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
ENABLE_SERVE_SERVICE = "ray.io/enable-serve-service"


@frozen
class GroupView:
    """A worker group. `replicas` None is not 0: it means `min_replicas`."""

    name: str
    replicas: int | None = None
    min_replicas: int = 0
    max_replicas: int = NO_LIMIT
    num_of_hosts: int = 1
    suspend: bool = False
    workers_to_delete: tuple[str, ...] = ()
    template: Object = field(factory=dict)
    ray_start_params: Mapping[str, str] = field(factory=dict)
    labels: Mapping[str, str] = field(factory=dict)
    resources: Mapping[str, Any] = field(factory=dict)


@frozen
class HeadView:
    template: Object = field(factory=dict)
    ray_start_params: Mapping[str, str] = field(factory=dict)
    service_type: str = ""
    service: Object | None = None
    service_annotations: Mapping[str, str] = field(factory=dict)
    labels: Mapping[str, str] = field(factory=dict)
    resources: Mapping[str, Any] = field(factory=dict)
    ingress: bool = False
    ingress_options: Object = field(factory=dict)


def annotation_is(annotations: Mapping[str, str], name: str, word: Literal["true", "false"]) -> bool:
    """Whether an annotation has this value, in upper or lower case."""
    return name in annotations and annotations[name].lower() == word


@frozen
class ClusterView:
    """A RayCluster. If it is `refused`, for these reasons, nothing of it may be acted on.

    Attributes:
        autoscaler: The options of the in-tree autoscaler; None if it is off.
        fault_tolerance: The options of state in Redis; None if it is off.
        token_secret: The Secret of the token that Ray asks for; empty without one.
        owns_token: Whether that Secret is created by this controller.
        recreates: Whether pods with another `upgrade_hash` are replaced.
        scaled: Whether `spec.replicas` sets the size of the only group, for /scale.
    """

    name: str
    namespace: str
    uid: str
    head: HeadView = HeadView()
    groups: tuple[GroupView, ...] = ()
    annotations: Mapping[str, str] = field(factory=dict)
    labels: Mapping[str, str] = field(factory=dict)
    suspend: bool = False
    autoscaler: Object | None = None
    fault_tolerance: Object | None = None
    token_secret: str = ""
    owns_token: bool = False
    recreates: bool = False
    upgrade_hash: str = ""
    scaled: bool = False
    refused: tuple[str, ...] = ()

    def asks(self, annotation: str) -> bool:
        """Whether an annotation of the cluster is true."""
        return annotation_is(self.annotations, annotation, "true")

    @property
    def autoscaler_v2(self) -> bool:
        """Ray's autoscaler v2, under which no pod may restart its containers."""
        return self.autoscaler is not None and self.autoscaler.get("version") == "v2"

    @property
    def multi_host(self) -> bool:
        return any(group.num_of_hosts > 1 for group in self.groups)


def group_view(spec: Object, replicas: int | None = None) -> GroupView:
    """The view of an entry of `spec.workerGroupSpecs`. `replicas` replaces its own."""
    return GroupView(
        name=spec.get("groupName") or "",
        replicas=spec.get("replicas") if replicas is None else replicas,
        min_replicas=_given(spec, "minReplicas", 0),
        max_replicas=_given(spec, "maxReplicas", NO_LIMIT),
        num_of_hosts=_given(spec, "numOfHosts", 1),
        suspend=bool(spec.get("suspend")),
        workers_to_delete=tuple((spec.get("scaleStrategy") or {}).get("workersToDelete") or ()),
        template=spec.get("template") or {},
        ray_start_params=spec.get("rayStartParams") or {},
        labels=spec.get("labels") or {},
        resources=spec.get("resources") or {},
    )


def head_view(spec: Object) -> HeadView:
    head = spec.get("headGroupSpec") or {}
    return HeadView(
        template=head.get("template") or {},
        ray_start_params=head.get("rayStartParams") or {},
        service_type=head.get("serviceType") or "",
        service=head.get("headService"),
        service_annotations=spec.get("headServiceAnnotations") or {},
        labels=head.get("labels") or {},
        resources=head.get("resources") or {},
        ingress=bool(head.get("enableIngress")),
        ingress_options=head.get("ingressOptions") or {},
    )


def _given(spec: Object, name: str, default: int) -> int:
    value = spec.get(name)
    return default if value is None else int(value)
