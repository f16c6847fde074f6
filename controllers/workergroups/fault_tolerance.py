"""Ray with its state in Redis: what pods need for it, and what is to be done before a cluster may go."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen

from .ray_pod_view import CLUSTER_LABEL, NODE_TYPE_LABEL, NodeType
from .raycluster_names import Manifest, short_name, thawed
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
    """What to do next about a cluster that is going. `seconds` until its time is up, where it has to wait."""

    action: CleanupAction
    seconds: float = 0.0


def storage_environment(cluster: ClusterView, node_type: NodeType) -> dict[str, Manifest]:
    """The variables by which Ray finds its state; workers only learn to wait for a head that comes again."""
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
            found[name] = thawed(options[credential])
    return found


def storage_namespace(cluster: ClusterView) -> str:
    """Under what the state is kept: as the cluster says, or its uid, so that no two share one."""
    given = (cluster.fault_tolerance or {}).get("externalStorageNamespace")
    return given or cluster.annotations.get(STORAGE_NAMESPACE) or cluster.uid


def storage_params(cluster: ClusterView) -> dict[str, str]:
    """The options of `ray start --head` for the credentials, which stay in the environment."""
    options = cluster.fault_tolerance or {}
    params = {"redis-password": "redisPassword", "redis-username": "redisUsername"}
    variables = {"redis-password": "$REDIS_PASSWORD", "redis-username": "$REDIS_USERNAME"}
    return {param: variables[param] for param, field in params.items() if options.get(field)}


def storage_annotations(cluster: ClusterView) -> dict[str, str]:
    """What pods say of it."""
    return {} if cluster.fault_tolerance is None else {FAULT_TOLERANCE: "true"}


def deletion_timeout(annotations: Mapping[str, str]) -> int:
    """Seconds that a cluster may wait for its state to be deleted; what is no such number is the default."""
    try:
        seconds = int(annotations[TIMEOUT])
    except (KeyError, ValueError):
        return DEFAULT_TIMEOUT
    return seconds if seconds > 0 else DEFAULT_TIMEOUT


def plan_farewell(
    *, live: int, heads: int, job: JobState, since: datetime.datetime, now: datetime.datetime, timeout: int
) -> CleanupStep:
    """The next step for a cluster that is going: pods, then the job, once no head writes any more.

    `live` pods are not Terminating, `heads` are the head pods that there still are. A job that failed is
    not tried again: the cluster goes, as it does when the time is up.
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
    """The job that deletes the state: the head's own image, environment and place, without Ray's start."""
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
    """The name of the job."""
    return short_name(f"{cluster.name}-{CLEANUP}")


def job_state(job: Mapping[str, object] | None) -> JobState:
    """What has become of the job: Complete and Failed are both its end."""
    if job is None:
        return "none"
    return "finished" if any(_ended(job)) else "running"


def _ended(job: Mapping[str, object]) -> Iterator[bool]:
    status = job.get("status")
    conditions = status.get("conditions") or () if isinstance(status, Mapping) else ()
    for condition in conditions:
        yield condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
