"""Kinds that bound and furnish what others use: quotas, ranges, priorities, networks, storage."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from reconcile.kinds.core import BuiltIn, ObjectReference
from reconcile.models import ExtraFields, LabelSelector, Quantity, resource


@frozen
class ResourceQuotaSpec(ExtraFields):
    """How much the objects of a namespace may use together, by resource: `requests.cpu`, `pods`."""

    hard: Mapping[str, Quantity] = field(factory=dict)
    scopes: tuple[str, ...] | None = None


@frozen
class ResourceQuotaStatus(ExtraFields):
    """How much is allowed, and how much is used."""

    hard: Mapping[str, Quantity] = field(factory=dict)
    used: Mapping[str, Quantity] = field(factory=dict)


@resource("v1")
class ResourceQuota(BuiltIn):
    """v1 ResourceQuota."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


@frozen
class LimitRangeItem(ExtraFields):
    """The bounds and defaults of one type of object: Container, Pod or PersistentVolumeClaim."""

    type: str
    max: Mapping[str, Quantity] | None = None
    min: Mapping[str, Quantity] | None = None
    default: Mapping[str, Quantity] | None = None
    default_request: Mapping[str, Quantity] | None = None
    max_limit_request_ratio: Mapping[str, Quantity] | None = None


@frozen
class LimitRangeSpec(ExtraFields):
    """The bounds in a namespace."""

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
    """Which traffic the selected pods take part in; an empty selector selects all pods of the namespace.

    Rules are as manifests write them. None is no rule: with its type in `policy_types`, no traffic.
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
    """A piece of storage; where it comes from, such as `csi` or `nfs`, is in `extra`."""

    capacity: Mapping[str, Quantity] | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str | None = None
    persistent_volume_reclaim_policy: str | None = None
    volume_mode: str | None = None
    mount_options: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None


@frozen
class PersistentVolumeStatus(ExtraFields):
    """Whether a volume is Available, Bound, Released or Failed, and why."""

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
