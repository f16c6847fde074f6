"""`ray.io/v1 RayCluster`: the fields that this controller reads, and the status that it writes.

Pod templates and the options of unsupported features are plain mappings. Fields that are missing here are
not lost, since writes are patches.
"""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any

from attrs import frozen

from reconcile import Condition, Object, field, resource
from reconcile.models import Column, Schema, definition_of, thaw

from .raycluster_view import NO_LIMIT


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
    """Workers to delete by name, whatever the size of the group."""

    workers_to_delete: tuple[str, ...] = ()


@frozen
class WorkerGroupSpec:
    """Workers from one template. `replicas` None means `min_replicas`; 0 is 0."""

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
    """One head and any number of worker groups.

    `replicas` is our addition: it sets the size of the only group, so that /scale can be served.
    """

    head_group_spec: HeadGroupSpec
    worker_group_specs: Annotated[tuple[WorkerGroupSpec, ...], Schema(max_items=200)] = ()
    replicas: int | None = None
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
    """The addresses of the head. The IP of a headless Service is the pod's."""

    pod_name: str = ""
    pod_ip: Annotated[str, Schema(wire="podIP")] = ""
    service_name: str = ""
    service_ip: Annotated[str, Schema(wire="serviceIP")] = ""


@frozen
class RayClusterStatus:
    """The state of the cluster.

    `last_update_time` and `state_transition_times` are written only with other changes: a time that changes
    by itself would make every run a write. `replicas` and `selector` are ours, for /scale.
    """

    state: str = ""
    reason: str = ""
    desired_worker_replicas: int = 0
    min_worker_replicas: int = 0
    max_worker_replicas: int = 0
    available_worker_replicas: int = 0
    ready_worker_replicas: int = 0
    desired_cpu: Annotated[int | str | None, Schema(wire="desiredCPU")] = None
    desired_memory: int | str | None = None
    desired_gpu: Annotated[int | str | None, Schema(wire="desiredGPU")] = None
    desired_tpu: Annotated[int | str | None, Schema(wire="desiredTPU")] = None
    head: HeadInfo = HeadInfo()
    endpoints: Mapping[str, str] | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    last_update_time: datetime.datetime | None = None
    state_transition_times: Mapping[str, str] | None = None
    replicas: int | None = None
    selector: str | None = None


@resource(
    "ray.io/v1",
    categories=("all",),
    columns={
        "desired workers": ".status.desiredWorkerReplicas",
        "available workers": ".status.availableWorkerReplicas",
        "cpus": ".status.desiredCPU",
        "memory": ".status.desiredMemory",
        "gpus": ".status.desiredGPU",
        "tpus": Column(".status.desiredTPU", priority=1),
        "status": ".status.state",
        "head pod IP": Column(".status.head.podIP", priority=1),
        "head service IP": Column(".status.head.serviceIP", priority=1),
    },
)
class RayCluster(Object):
    """A Ray cluster: one head pod, and groups of worker pods."""

    spec: RayClusterSpec
    status: RayClusterStatus = RayClusterStatus()


def definition() -> dict[str, Any]:
    """Our own CustomResourceDefinition, for servers that do not have KubeRay's.

    It also serves /scale for clusters of one group whose size is `spec.replicas`; without that field /scale
    answers 404, as Kubernetes does.
    """
    made: dict[str, Any] = thaw(definition_of(RayCluster))
    made["spec"]["versions"][0]["subresources"]["scale"] = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    return made
