"""`ray.io/v1 RayCluster` as far as this controller reads it, and the status that it writes.

Pod templates and the options of features that are refused stay plain mappings: nothing here would
gain from knowing them better. What is not here is neither seen nor lost, since writes are patches.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from reconcile import Condition, Object, definition_of, field, resource

from .views import NO_LIMIT


@frozen
class HeadGroupSpec:
    """The head pod, and the Service in front of it."""

    template: Mapping[str, Any]
    ray_start_params: Mapping[str, str] = field(factory=dict)
    service_type: str | None = None
    head_service: Mapping[str, Any] | None = None
    enable_ingress: bool | None = None
    ingress_options: Mapping[str, Any] | None = None
    labels: Mapping[str, str] | None = None
    resources: Mapping[str, str] | None = None


@frozen
class ScaleStrategy:
    """Workers that shall go, by name, whatever the size of the group."""

    workers_to_delete: tuple[str, ...] = ()


@frozen
class WorkerGroupSpec:
    """Workers made from one template. `replicas` None means `min_replicas`; 0 is 0."""

    group_name: str
    template: Mapping[str, Any]
    replicas: int | None = None
    min_replicas: int = 0
    max_replicas: int = NO_LIMIT
    num_of_hosts: int = 1
    ray_start_params: Mapping[str, str] = field(factory=dict)
    scale_strategy: ScaleStrategy | None = None
    suspend: bool | None = None
    idle_timeout_seconds: int | None = None
    priority: int | None = None
    labels: Mapping[str, str] | None = None
    resources: Mapping[str, str] | None = None


@frozen
class RayClusterSpec:
    """One head and any number of worker groups."""

    head_group_spec: HeadGroupSpec
    worker_group_specs: tuple[WorkerGroupSpec, ...] = ()
    ray_version: str | None = None
    managed_by: str | None = None
    head_service_annotations: Mapping[str, str] | None = None
    suspend: bool | None = None
    upgrade_strategy: Mapping[str, str] | None = None
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: Mapping[str, Any] | None = None
    gcs_fault_tolerance_options: Mapping[str, Any] | None = None
    auth_options: Mapping[str, Any] | None = None
    network_policy: Mapping[str, Any] | None = None
    tls_options: Mapping[str, Any] | None = None
    history_server_options: Mapping[str, Any] | None = None


@frozen
class HeadInfo:
    """Where the head is. For a headless Service its IP is the pod's."""

    pod_name: str = ""
    pod_ip: str = field(default="", wire="podIP")
    service_name: str = ""
    service_ip: str = field(default="", wire="serviceIP")


@frozen
class RayClusterStatus:
    """What became of the cluster. `last_update_time` and `state_transition_times` are KubeRay's, not ours.

    A time that moves with every write would make every pass a write; conditions have their own.
    """

    state: str = ""
    reason: str = ""
    desired_worker_replicas: int = 0
    min_worker_replicas: int = 0
    max_worker_replicas: int = 0
    available_worker_replicas: int = 0
    ready_worker_replicas: int = 0
    desired_cpu: int | str | None = field(default=None, wire="desiredCPU")
    desired_memory: int | str | None = None
    desired_gpu: int | str | None = field(default=None, wire="desiredGPU")
    desired_tpu: int | str | None = field(default=None, wire="desiredTPU")
    head: HeadInfo = HeadInfo()
    endpoints: Mapping[str, str] | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    last_update_time: datetime.datetime | None = None
    state_transition_times: Mapping[str, str] | None = None


@resource(
    "ray.io/v1",
    categories=("all",),
    columns={
        "desired workers": ".status.desiredWorkerReplicas",
        "available workers": ".status.availableWorkerReplicas",
        "cpus": ".status.desiredCPU",
        "memory": ".status.desiredMemory",
        "gpus": ".status.desiredGPU",
        "status": ".status.state",
    },
)
class RayCluster(Object):
    """A Ray cluster: one head pod, and worker groups of so many pods each."""

    spec: RayClusterSpec
    status: RayClusterStatus = RayClusterStatus()


def definition() -> dict[str, Any]:
    """Our own CustomResourceDefinition, for servers that do not have KubeRay's."""
    return definition_of(RayCluster)
