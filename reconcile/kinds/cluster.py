"""Kinds that limit, size and supply others: quotas, budgets, autoscalers, networks, storage."""

import datetime
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from reconcile.kinds.built_in import BuiltIn
from reconcile.kinds.core import ObjectReference, PodCondition
from reconcile.models import ExtraFields, LabelSelector, ResourceAmounts, resource


@frozen
class ResourceQuotaSpec(ExtraFields):
    """The limits on all objects of a namespace together, by resource: `requests.cpu`, `pods`."""

    hard: ResourceAmounts = field(factory=dict)
    scopes: tuple[str, ...] | None = None


@frozen
class ResourceQuotaStatus(ExtraFields):
    """The limits, and the present usage."""

    hard: ResourceAmounts = field(factory=dict)
    used: ResourceAmounts = field(factory=dict)


@resource("v1")
class ResourceQuota(BuiltIn):
    """v1 ResourceQuota."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


@frozen
class LimitRangeItem(ExtraFields):
    """The limits and defaults for a type of object: Container, Pod or PersistentVolumeClaim."""

    type: str
    max: ResourceAmounts | None = None
    min: ResourceAmounts | None = None
    default: ResourceAmounts | None = None
    default_request: ResourceAmounts | None = None
    max_limit_request_ratio: ResourceAmounts | None = None


@frozen
class LimitRangeSpec(ExtraFields):
    """The limits in a namespace."""

    limits: tuple[LimitRangeItem, ...] = ()


@resource("v1")
class LimitRange(BuiltIn):
    """v1 LimitRange."""

    spec: LimitRangeSpec = LimitRangeSpec()


@resource("scheduling.k8s.io/v1", namespaced=False)
class PriorityClass(BuiltIn):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int
    global_default: bool | None = None
    description: str | None = None
    preemption_policy: str | None = None


@frozen
class NetworkPolicySpec(ExtraFields):
    """The allowed traffic of the selected pods; an empty selector selects all pods of the namespace.

    Rules are as manifests write them. None means no rules: with the type in `policy_types`, no traffic.
    """

    pod_selector: LabelSelector = LabelSelector()  # noqa: RUF009 - it is immutable
    policy_types: tuple[str, ...] | None = None
    ingress: tuple[Mapping[str, Any], ...] | None = None
    egress: tuple[Mapping[str, Any], ...] | None = None


@resource("networking.k8s.io/v1")
class NetworkPolicy(BuiltIn):
    """networking.k8s.io/v1 NetworkPolicy."""

    spec: NetworkPolicySpec = NetworkPolicySpec()


@frozen
class PersistentVolumeSpec(ExtraFields):
    """A piece of storage; its source, such as `csi` or `nfs`, is in `extra`."""

    capacity: ResourceAmounts | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str | None = None
    persistent_volume_reclaim_policy: str | None = None
    volume_mode: str | None = None
    mount_options: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None


@frozen
class PersistentVolumeStatus(ExtraFields):
    """The phase Available, Bound, Released or Failed, and the reason."""

    phase: str = ""
    reason: str = ""
    message: str = ""


@resource("v1", namespaced=False)
class PersistentVolume(BuiltIn):
    """v1 PersistentVolume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


@resource("storage.k8s.io/v1", namespaced=False)
class StorageClass(BuiltIn):
    """storage.k8s.io/v1 StorageClass."""

    provisioner: str
    parameters: Mapping[str, str] | None = None
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allow_volume_expansion: bool | None = None
    mount_options: tuple[str, ...] | None = None


@frozen
class ScaleTargetRef(ExtraFields):
    """The object that an autoscaler sizes."""

    kind: str
    name: str
    api_version: str | None = None


@frozen
class HorizontalPodAutoscalerSpec(ExtraFields):
    """The limits and metrics of an autoscaler; metrics and behaviour as manifests write them."""

    scale_target_ref: ScaleTargetRef
    max_replicas: int
    min_replicas: int | None = None
    metrics: tuple[Mapping[str, Any], ...] | None = None
    behavior: Mapping[str, Any] | None = None


@frozen
class HorizontalPodAutoscalerStatus(ExtraFields):
    """The observations and decisions of an autoscaler."""

    observed_generation: int | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: datetime.datetime | None = None
    current_metrics: tuple[Mapping[str, Any], ...] | None = None
    conditions: tuple[PodCondition, ...] = ()


@resource("autoscaling/v2")
class HorizontalPodAutoscaler(BuiltIn):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


@frozen
class IngressSpec(ExtraFields):
    """The routes of hosts and paths; rules and TLS as manifests write them."""

    ingress_class_name: str | None = None
    rules: tuple[Mapping[str, Any], ...] | None = None
    tls: tuple[Mapping[str, Any], ...] | None = None


@resource("networking.k8s.io/v1", plural="ingresses")
class Ingress(BuiltIn):
    """networking.k8s.io/v1 Ingress."""

    spec: IngressSpec = IngressSpec()


@frozen
class PodDisruptionBudgetSpec(ExtraFields):
    """The number of pods that evictions must leave, as a number or a percentage."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


@frozen
class PodDisruptionBudgetStatus(ExtraFields):
    """The number of evictions allowed now."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


@resource("policy/v1")
class PodDisruptionBudget(BuiltIn):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
