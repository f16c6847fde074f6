"""Kinds of the core group, v1."""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any

import attrs
from attrs import frozen

from reconcile.kinds.built_in import BuiltIn
from reconcile.models import ExtraFields, ResourceAmounts, Schema, field, resource


@frozen
class PodCondition(ExtraFields):
    """A condition of a pod, whose reason and message may be missing."""

    type: str
    status: str
    reason: str = ""


@frozen
class NodeSpec(ExtraFields):
    """Whether a node accepts pods."""

    unschedulable: bool = False
    pod_cidr: Annotated[str | None, Schema(wire="podCIDR")] = None


@frozen
class NodeStatus(ExtraFields):
    """The capacity and the conditions of a node."""

    capacity: Mapping[str, str] = attrs.field(factory=dict)
    allocatable: Mapping[str, str] = attrs.field(factory=dict)
    conditions: tuple[PodCondition, ...] = ()


@resource("v1", namespaced=False)
class Node(BuiltIn):
    """v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


@frozen
class NamespaceStatus(ExtraFields):
    """The phase: Active or Terminating."""

    phase: str = ""


@resource("v1", namespaced=False)
class Namespace(BuiltIn):
    """v1 Namespace."""

    status: NamespaceStatus = NamespaceStatus()


@resource("v1")
class Secret(BuiltIn):
    """v1 Secret; `data` is base64 and never shown."""

    type: str | None = None
    data: Mapping[str, str] = field(factory=dict, secret=True)
    immutable: bool | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@resource("v1")
class ConfigMap(BuiltIn):
    """v1 ConfigMap."""

    data: Mapping[str, str] = attrs.field(factory=dict)
    immutable: bool | None = None


@frozen
class ServicePort(ExtraFields):
    """A port of a service."""

    port: int
    name: str | None = None
    protocol: str | None = None
    target_port: int | str | None = None


@frozen
class ServiceSpec(ExtraFields):
    """The pods that a service selects, and its ports."""

    selector: Mapping[str, str] = attrs.field(factory=dict)
    ports: tuple[ServicePort, ...] = ()
    type: str | None = None
    cluster_ip: Annotated[str | None, Schema(wire="clusterIP")] = None


@resource("v1")
class Service(BuiltIn):
    """v1 Service."""

    spec: ServiceSpec = ServiceSpec()


@resource("v1")
class ServiceAccount(BuiltIn):
    """v1 ServiceAccount."""


@frozen
class ObjectReference(ExtraFields):
    """A reference to an object, such as that of an event."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


@resource("v1")
class Event(BuiltIn):
    """v1 Event."""

    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int = 1
    first_timestamp: datetime.datetime | None = None
    last_timestamp: datetime.datetime | None = None
    source: Mapping[str, str] = attrs.field(factory=dict)
    reporting_component: str = ""


@frozen
class PersistentVolumeClaimSpec(ExtraFields):
    """The requested storage."""

    access_modes: tuple[str, ...] | None = None
    resources: Mapping[str, Any] | None = None
    storage_class_name: str | None = None
    volume_name: str | None = None


@frozen
class PersistentVolumeClaimStatus(ExtraFields):
    """The present storage; the phase Bound means that there is some."""

    phase: str = ""
    capacity: ResourceAmounts = attrs.field(factory=dict)


@resource("v1")
class PersistentVolumeClaim(BuiltIn):
    """v1 PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


@frozen
class EndpointConditions(ExtraFields):
    """Whether an endpoint accepts traffic; None is unknown, and for `ready` and `serving` means yes."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


@frozen
class Endpoint(ExtraFields):
    """A backend of a service."""

    addresses: tuple[str, ...]
    conditions: EndpointConditions | None = None
    hostname: str | None = None
    node_name: str | None = None
    zone: str | None = None
    target_ref: ObjectReference | None = None


@frozen
class EndpointPort(ExtraFields):
    """A port on which the endpoints of a slice listen."""

    port: int | None = None
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None


@resource("discovery.k8s.io/v1")
class EndpointSlice(BuiltIn):
    """discovery.k8s.io/v1 EndpointSlice; `address_type` is IPv4, IPv6 or FQDN."""

    address_type: str
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()
