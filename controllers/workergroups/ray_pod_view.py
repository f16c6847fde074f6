"""The fields of a pod that decisions about a RayCluster read."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from attrs import frozen

from reconcile.blocks import Marks
from reconcile.replicas import FINAL_PHASES, deletion_cost

MARKS = Marks(
    replica="ray.io/worker-group-replica-name",
    replica_index="ray.io/worker-group-replica-index",
    host_index="ray.io/replica-host-index",
    failures="worker-groups.reconcile-runtime/failures",
    whole="worker-groups.reconcile-runtime/whole",
)
UPGRADE_HASH = "ray.io/upgrade-strategy-recreate-hash"
OPERATOR_VERSION = "ray.io/kuberay-version"
CLUSTER_LABEL = "ray.io/cluster"
NODE_TYPE_LABEL = "ray.io/node-type"
GROUP_LABEL = "ray.io/group"

NodeType = Literal["head", "worker"]
Object = Mapping[str, Any]


@frozen
class RayPodView:
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
    replica: str = ""
    replica_index: int = -1
    host_index: int = -1
    failures: int = 0
    whole: bool = False
    upgrade_hash: str = ""
    operator_version: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing will restart it: such a pod does not count and is replaced."""
        return is_unhealthy(self)


def is_unhealthy(pod: RayPodView) -> bool:
    """Whether nothing will restart the pod, so that it has to be replaced (systems.md 1d, row 8).

    Failed and Succeeded are final. The kubelet restarts a terminated Ray container unless the pod's restart
    policy is Never.
    """
    if pod.phase in FINAL_PHASES:
        return True
    return pod.phase == "Running" and pod.ray_container_terminated and pod.restart_policy == "Never"


def pod_view(pod: Object) -> RayPodView:
    """The view of a stored pod. Raises ValueError for one without a creationTimestamp."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    created = metadata.get("creationTimestamp")
    if not created:
        raise ValueError(f"pod {metadata.get('name')} has no creationTimestamp; only stored pods have a view")
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    node_type = labels.get(NODE_TYPE_LABEL)
    ready = _ready_condition(status)
    return RayPodView(
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
        deletion_cost=deletion_cost(annotations),
        restart_policy=spec.get("restartPolicy") or "Always",
        ray_container_terminated=_ray_container_terminated(spec, status),
        ip=status.get("podIP") or "",
        replica=labels.get(MARKS.replica, ""),
        replica_index=_integer(labels.get(MARKS.replica_index), -1),
        host_index=_integer(labels.get(MARKS.host_index), -1),
        failures=_integer(annotations.get(MARKS.failures), 0),
        whole=MARKS.whole in annotations,
        upgrade_hash=annotations.get(UPGRADE_HASH, ""),
        operator_version=annotations.get(OPERATOR_VERSION, ""),
    )


def _controller_uid(metadata: Object) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


def _ready_condition(status: Object) -> Object:
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _integer(text: str | None, otherwise: int) -> int:
    try:
        return otherwise if text is None else int(text)
    except ValueError:
        return otherwise


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


def pods_of_cluster(cluster_uid: str, pods: Sequence[RayPodView]) -> list[RayPodView]:
    """The pods that the cluster with this uid controls; its label or name is not enough."""
    return [pod for pod in pods if pod.owner_uid == cluster_uid]
