"""What the decisions about a RayCluster look at: a pod, a worker group, the cluster.

Views are made from plain mappings (an object's JSON) and hold no reference to a client.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from attrs import field, frozen

from reconcile.replicas import DELETION_COST

CLUSTER_LABEL = "ray.io/cluster"
NODE_TYPE_LABEL = "ray.io/node-type"
GROUP_LABEL = "ray.io/group"
NO_LIMIT = 2**31 - 1

NodeType = Literal["head", "worker"]
Object = Mapping[str, Any]


@frozen
class PodView:
    """A pod, as far as counting, choosing and reporting need it."""

    name: str
    namespace: str
    uid: str
    created: datetime
    owner_uid: str = ""
    node_type: NodeType | None = None
    group: str = ""
    phase: str = "Pending"
    ready: bool = False
    ready_reason: str = ""
    ready_message: str = ""
    terminating: bool = False
    deletion_cost: int = 0
    restart_policy: str = "Always"
    ray_container_terminated: bool = False
    ip: str = ""

    @property
    def finished(self) -> bool:
        """Whether it is in a phase that it cannot leave."""
        return self.phase in ("Failed", "Succeeded")


def is_unhealthy(pod: PodView) -> bool:
    """Whether the pod has to be replaced, since nothing will bring it back (systems.md 1d, row 8).

    Failed and Succeeded are final. A terminated Ray container is restarted by the kubelet unless
    the pod's restart policy is Never.
    """
    if pod.finished:
        return True
    return pod.phase == "Running" and pod.ray_container_terminated and pod.restart_policy == "Never"


def pod_view(pod: Object) -> PodView:
    """The view of a pod as an API server returns it.

    Raises ValueError for an object that no API server has stored (without a creationTimestamp).
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    created = metadata.get("creationTimestamp")
    if not created:
        raise ValueError(f"pod {metadata.get('name')} has no creationTimestamp; only stored pods have a view")
    labels = metadata.get("labels") or {}
    node_type = labels.get(NODE_TYPE_LABEL)
    ready = _ready_condition(status)
    return PodView(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        uid=metadata["uid"],
        created=datetime.fromisoformat(created),
        owner_uid=_controller_uid(metadata),
        node_type=node_type if node_type in ("head", "worker") else None,
        group=labels.get(GROUP_LABEL, ""),
        phase=status.get("phase") or "Pending",
        ready=ready.get("status") == "True",
        ready_reason=ready.get("reason") or "",
        ready_message=ready.get("message") or "",
        terminating=metadata.get("deletionTimestamp") is not None,
        deletion_cost=_deletion_cost(metadata),
        restart_policy=spec.get("restartPolicy") or "Always",
        ray_container_terminated=_ray_container_terminated(spec, status),
        ip=status.get("podIP") or "",
    )


def _controller_uid(metadata: Object) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _ready_condition(status: Object) -> Object:
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _deletion_cost(metadata: Object) -> int:
    """Zero when it is absent or no integer, as the ReplicaSet controller has it."""
    try:
        return int((metadata.get("annotations") or {}).get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _ray_container_terminated(spec: Object, status: Object) -> bool:
    containers = spec.get("containers") or ()
    if not containers:
        return False
    name = containers[0].get("name")
    states = [
        entry.get("state") or {}
        for entry in status.get("containerStatuses") or ()
        if entry.get("name") == name
    ]
    return any(state.get("terminated") is not None for state in states)


@frozen
class GroupView:
    """One of the cluster's worker groups. `replicas` None is not 0: it means `min_replicas`."""

    name: str
    replicas: int | None = None
    min_replicas: int = 0
    max_replicas: int = NO_LIMIT
    num_of_hosts: int = 1
    suspend: bool = False
    workers_to_delete: tuple[str, ...] = ()
    template: Object = field(factory=dict)
    ray_start_params: Mapping[str, str] = field(factory=dict)


@frozen
class HeadView:
    """The head group: exactly one pod, and the Service that workers reach it by."""

    template: Object = field(factory=dict)
    ray_start_params: Mapping[str, str] = field(factory=dict)
    service_type: str = ""
    service: Object | None = None
    service_annotations: Mapping[str, str] = field(factory=dict)


@frozen
class Unsupported:
    """A feature that the cluster asks for and this version does not have."""

    feature: str
    why: str

    def __str__(self) -> str:
        return f"{self.feature} is not supported: {self.why}"


@frozen
class Invalid:
    """A field whose value no version could act on."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


@frozen
class ClusterView:
    """A RayCluster. While `refused` is not empty, nothing of it may be acted on."""

    name: str
    namespace: str
    uid: str
    head: HeadView = HeadView()
    groups: tuple[GroupView, ...] = ()
    annotations: Mapping[str, str] = field(factory=dict)
    refused: tuple[Unsupported | Invalid, ...] = ()


def group_view(spec: Object) -> GroupView:
    """The view of an entry of `spec.workerGroupSpecs`; an explicit 0 stays 0."""
    return GroupView(
        name=spec.get("groupName") or "",
        replicas=spec.get("replicas"),
        min_replicas=_given(spec, "minReplicas", 0),
        max_replicas=_given(spec, "maxReplicas", NO_LIMIT),
        num_of_hosts=_given(spec, "numOfHosts", 1),
        suspend=bool(spec.get("suspend")),
        workers_to_delete=tuple((spec.get("scaleStrategy") or {}).get("workersToDelete") or ()),
        template=spec.get("template") or {},
        ray_start_params=spec.get("rayStartParams") or {},
    )


def head_view(spec: Object) -> HeadView:
    """The view of the head group of a RayCluster's `spec`."""
    head = spec.get("headGroupSpec") or {}
    return HeadView(
        template=head.get("template") or {},
        ray_start_params=head.get("rayStartParams") or {},
        service_type=head.get("serviceType") or "",
        service=head.get("headService"),
        service_annotations=spec.get("headServiceAnnotations") or {},
    )


def of_cluster(cluster_uid: str, pods: Sequence[PodView]) -> list[PodView]:
    """The pods that this very cluster controls. A label alone, or a namesake's pod, is not enough."""
    return [pod for pod in pods if pod.owner_uid == cluster_uid]


def _given(spec: Object, name: str, default: int) -> int:
    value = spec.get(name)
    return default if value is None else int(value)
