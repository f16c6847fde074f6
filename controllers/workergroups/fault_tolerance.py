"""Ray with its state in Redis: settings of pods, and steps before the deletion of a cluster."""

import datetime
from collections.abc import Mapping
from copy import deepcopy
from typing import Literal

from attrs import frozen

from .ray_pod_view import CLUSTER_LABEL, NODE_TYPE_LABEL, NodeType, Object
from .raycluster_names import Manifest, short_name
from .raycluster_view import FAULT_TOLERANCE, STORAGE_NAMESPACE, ClusterView

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
TIMEOUT = "ray.io/gcs-ft-deletion-timeout"
DEFAULT_TIMEOUT = 300
CLEANUP = "redis-cleanup"
_RECONNECT_SECONDS = "600"
_RESOURCES = {"cpu": "200m", "memory": "256Mi"}
_DELETE_STATE = """
import os
import sys
from urllib.parse import urlparse

from ray._private.gcs_utils import cleanup_redis_storage

first = os.environ["RAY_REDIS_ADDRESS"].split(",")[0]
address = urlparse(first if "://" in first else f"redis://{first}")
user = os.environ.get("REDIS_USERNAME", address.username)
done = cleanup_redis_storage(
    host=address.hostname,
    port=address.port or 6379,
    password=os.environ.get("REDIS_PASSWORD", address.password or ""),
    use_ssl=address.scheme == "rediss",
    storage_namespace=os.environ["RAY_external_storage_namespace"],
    **({"username": user} if user else {}),
)
sys.exit(0 if done else 1)
"""

JobState = Literal["none", "running", "finished"]
CleanupAction = Literal["delete-pods", "wait", "create-job", "release", "give-up"]


@frozen
class CleanupStep:
    """The next step for a deleted cluster, and the seconds left until it gives up."""

    action: CleanupAction
    seconds: float = 0.0


def storage_environment(cluster: ClusterView, node_type: NodeType) -> dict[str, Manifest]:
    """The variables that tell Ray where its state is; workers only wait for a new head."""
    options = cluster.fault_tolerance
    if options is None:
        return {}
    if node_type == "worker":
        return {"RAY_gcs_rpc_server_reconnect_timeout_s": {"value": _RECONNECT_SECONDS}}
    found: dict[str, Manifest] = {"RAY_external_storage_namespace": {"value": storage_namespace(cluster)}}
    if options.get("redisAddress"):
        found["RAY_REDIS_ADDRESS"] = {"value": options["redisAddress"]}
    for name, credential in (("REDIS_USERNAME", "redisUsername"), ("REDIS_PASSWORD", "redisPassword")):
        if options.get(credential):
            found[name] = deepcopy(options[credential])
    return found


def storage_namespace(cluster: ClusterView) -> str:
    """The namespace of the state in Redis: the given one, or the cluster's uid, which is unique."""
    given = (cluster.fault_tolerance or {}).get("externalStorageNamespace")
    return given or cluster.annotations.get(STORAGE_NAMESPACE) or cluster.uid


def storage_params(cluster: ClusterView) -> dict[str, str]:
    """The options of `ray start --head` for the credentials, which stay in the environment."""
    options = cluster.fault_tolerance or {}
    params = {
        "redisPassword": ("redis-password", "$REDIS_PASSWORD"),
        "redisUsername": ("redis-username", "$REDIS_USERNAME"),
    }
    return dict(param for field, param in params.items() if options.get(field))


def storage_annotations(cluster: ClusterView) -> dict[str, str]:
    return {} if cluster.fault_tolerance is None else {FAULT_TOLERANCE: "true"}


def deletion_timeout(annotations: Mapping[str, str]) -> int:
    """Seconds that a cluster may wait for the deletion of its state; the default if invalid."""
    try:
        seconds = int(annotations[TIMEOUT])
    except (KeyError, ValueError):
        return DEFAULT_TIMEOUT
    return seconds if seconds > 0 else DEFAULT_TIMEOUT


def plan_cleanup(
    *, live: int, heads: int, job: JobState, since: datetime.datetime, now: datetime.datetime, timeout: int
) -> CleanupStep:
    """Delete the pods, then run the job, once no head is left that could write state again.

    `live` counts pods that are not Terminating, `heads` all head pods. A failed job is not repeated: the
    cluster is released, as when the time is up.
    """
    left = timeout - (now - since).total_seconds()
    if job == "finished":
        return CleanupStep("release")
    if left <= 0:
        return CleanupStep("give-up")
    if live:
        return CleanupStep("delete-pods", left)
    if heads:
        return CleanupStep("wait", left)
    return CleanupStep("create-job" if job == "none" else "wait", left)


def cleanup_job(cluster: ClusterView, head: Manifest) -> Manifest:
    """The job that deletes the state, with the image, environment and placement of the head."""
    spec = head["spec"]
    ray = {**spec["containers"][0]}
    for name in ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        ray.pop(name, None)
    ray |= {
        "command": ["python", "-c"],
        "args": [_DELETE_STATE],
        "resources": {"limits": dict(_RESOURCES), "requests": dict(_RESOURCES)},
    }
    pod = {k: v for k, v in spec.items() if k not in ("initContainers", "serviceAccountName")}
    labels = {CLUSTER_LABEL: cluster.name, NODE_TYPE_LABEL: CLEANUP}
    template = {
        "metadata": {"labels": labels, "annotations": head["metadata"].get("annotations") or {}},
        "spec": {**pod, "containers": [ray], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": cleanup_name(cluster),
            "namespace": cluster.namespace,
            "labels": labels,
            "annotations": {FAULT_TOLERANCE: "true"},
        },
        "spec": {"backoffLimit": 0, "activeDeadlineSeconds": 300, "template": template},
    }


def cleanup_name(cluster: ClusterView) -> str:
    return short_name(f"{cluster.name}-{CLEANUP}")


def job_state(job: Object | None) -> JobState:
    """Complete and Failed both count as finished."""
    if job is None:
        return "none"
    conditions = (job.get("status") or {}).get("conditions") or ()
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    return "finished" if true & {"Complete", "Failed"} else "running"
