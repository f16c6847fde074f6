"""Small models of built-in kinds: the fields that controllers read most, under their Python names.

They are views: a field that is not here is neither seen nor lost. Where a manifest needs more,
apply a mapping instead.
"""

import datetime
from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

from reconcile.models import Condition, LabelRequirement, LabelSelector, Object, field, resource


@frozen
class ContainerState:
    """What a container does: one of the three is set."""

    running: Mapping[str, Any] | None = None
    waiting: Mapping[str, Any] | None = None
    terminated: Mapping[str, Any] | None = None


@frozen
class ContainerStatus:
    """A container of a running pod."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


@frozen
class PodSpec:
    """What a pod runs, and where."""

    containers: tuple[Mapping[str, Any], ...] = ()
    node_name: str | None = None
    restart_policy: str | None = None
    service_account_name: str | None = None


@frozen
class PodCondition:
    """A condition of a pod, whose reason and message may be missing."""

    type: str
    status: str
    reason: str = ""


@frozen
class PodStatus:
    """What became of a pod."""

    phase: str = ""
    pod_ip: str = field(default="", wire="podIP")
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


@resource("v1")
class Pod(Object):
    """v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


@frozen
class NodeSpec:
    """Whether a node takes pods."""

    unschedulable: bool = False
    pod_cidr: str | None = field(default=None, wire="podCIDR")


@frozen
class NodeStatus:
    """What a node offers and how it is."""

    capacity: Mapping[str, str] = attrs.field(factory=dict)
    allocatable: Mapping[str, str] = attrs.field(factory=dict)
    conditions: tuple[PodCondition, ...] = ()


@resource("v1", namespaced=False)
class Node(Object):
    """v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


@frozen
class NamespaceStatus:
    """Active or Terminating."""

    phase: str = ""


@resource("v1", namespaced=False)
class Namespace(Object):
    """v1 Namespace."""

    status: NamespaceStatus = NamespaceStatus()


@resource("v1")
class Secret(Object):
    """v1 Secret; `data` is base64 and never shown."""

    type: str | None = None
    data: Mapping[str, str] = field(factory=dict, secret=True)
    immutable: bool | None = None


@resource("v1")
class ConfigMap(Object):
    """v1 ConfigMap."""

    data: Mapping[str, str] = attrs.field(factory=dict)
    immutable: bool | None = None


@frozen
class ServicePort:
    """A port of a service."""

    port: int
    name: str | None = None
    protocol: str | None = None
    target_port: int | str | None = None


@frozen
class ServiceSpec:
    """Which pods a service stands for."""

    selector: Mapping[str, str] = attrs.field(factory=dict)
    ports: tuple[ServicePort, ...] = ()
    type: str | None = None
    cluster_ip: str | None = field(default=None, wire="clusterIP")


@resource("v1")
class Service(Object):
    """v1 Service."""

    spec: ServiceSpec = ServiceSpec()


@resource("v1")
class ServiceAccount(Object):
    """v1 ServiceAccount."""


@frozen
class DeploymentSpec:
    """What a deployment keeps running; `template` is a pod template as manifests write it."""

    selector: LabelSelector
    template: Mapping[str, Any]
    replicas: int | None = None


@frozen
class DeploymentStatus:
    """How far a deployment has come."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("apps/v1")
class Deployment(Object):
    """apps/v1 Deployment."""

    spec: DeploymentSpec
    status: DeploymentStatus = DeploymentStatus()


@frozen
class LeaseSpec:
    """Who holds a lease, and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@resource("coordination.k8s.io/v1")
class Lease(Object):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = LeaseSpec()


@frozen
class ObjectReference:
    """Which object an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


@resource("v1")
class Event(Object):
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


__all__ = [
    "ConfigMap",
    "ContainerState",
    "ContainerStatus",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "Event",
    "LabelRequirement",
    "LabelSelector",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "NamespaceStatus",
    "Node",
    "NodeSpec",
    "NodeStatus",
    "ObjectReference",
    "Pod",
    "PodCondition",
    "PodSpec",
    "PodStatus",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServicePort",
    "ServiceSpec",
]
