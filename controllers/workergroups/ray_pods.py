"""The pods of a RayCluster: its head and its workers.

The user's template gets what Ray needs to form a cluster, as in KubeRay v1.3 to v1.5: labels, the
`ray start` command, environment variables, and on workers a container that waits for the head. Other fields
stay. Unlike KubeRay, no probes, no /dev/shm volume and no telemetry variables are added: templates can have
them. Manifests have no owner yet; the create adds it.
"""

from collections.abc import Mapping
from copy import deepcopy

from reconcile.blocks import NewHost

from .fault_tolerance import storage_annotations, storage_environment, storage_params
from .pod_upgrade import HASH_VERSION
from .ray_autoscaler import with_autoscaler
from .ray_pod_view import CLUSTER_LABEL, GROUP_LABEL, MARKS, OPERATOR_VERSION, UPGRADE_HASH, Object
from .ray_start import common_params, start_command
from .raycluster_names import (
    HEAD_GROUP,
    Manifest,
    head_host,
    head_port,
    head_service_name,
    headless_service_name,
    pod_labels,
    pod_prefix,
    scheduler_labels,
)
from .raycluster_view import ClusterView, GroupView, annotation_is

OVERWRITE_COMMAND_ANNOTATION = "ray.io/overwrite-container-cmd"
TOKEN_KEY = "auth_token"
_SHELL = ["/bin/bash", "-c", "--"]
_OPEN_FILES = "ulimit -n 65536"
# For so many seconds a head that does not answer is normal, so the health check's errors are not shown.
_QUIET_SECONDS = 120
_WAIT_RESOURCES = {"cpu": "200m", "memory": "256Mi"}


def head_pod(cluster: ClusterView, failures: int = 0) -> Manifest:
    """With a generated name. `failures`: how many heads in a row broke before."""
    head = cluster.head
    labels = pod_labels(cluster, "head", HEAD_GROUP, head.template, head.labels)
    pod = _pod_from(cluster, head.template, labels, pod_prefix(cluster.name, "head"))
    counted = {MARKS.failures: str(failures)} if failures else {}
    _annotate(pod, {**upgrade_marks(cluster), **counted})
    # Ray's own default is localhost, which is not reachable from outside the pod.
    defaults = {"dashboard-host": "0.0.0.0", **storage_params(cluster)}
    if cluster.autoscaler is not None:
        defaults["no-monitor"] = "true"
    params = common_params(head.ray_start_params, defaults)
    start = start_command(
        "ray start --head", params, _resources(pod), resources=head.resources, labels=head.labels
    )
    environment = {
        **storage_environment(cluster, "head"),
        **_values({"RAY_ADDRESS": f"127.0.0.1:{head_port(cluster)}"}),
    }
    return with_autoscaler(cluster, _with_ray(cluster, pod, start, environment), _shared_environment(cluster))


def worker_pod(cluster: ClusterView, group: GroupView, host: NewHost | None = None) -> Manifest:
    """With a generated name; `host` says which host of which replica it is."""
    labels = pod_labels(cluster, "worker", group.name, group.template, group.labels)
    pod = _pod_from(cluster, group.template, labels, pod_prefix(f"{cluster.name}-{group.name}", "worker"))
    if host is not None:
        pod = host.marked(pod, MARKS)
    if group.num_of_hosts > 1:
        pod["spec"].setdefault("subdomain", headless_service_name(cluster))
    pod["spec"]["initContainers"] = [*pod["spec"].get("initContainers", ()), _wait_for_gcs(cluster, pod)]
    address = f"{head_host(cluster)}:{head_port(cluster)}"
    params = common_params(group.ray_start_params, {"address": address})
    start = start_command(
        "ray start", params, _resources(pod), resources=group.resources, labels=group.labels
    )
    environment = {
        **storage_environment(cluster, "worker"),
        **_values({**_head_environment(cluster), "RAY_ADDRESS": address}),
    }
    return _with_ray(cluster, pod, start, environment)


def upgrade_marks(cluster: ClusterView) -> dict[str, str]:
    """The annotations of the head that identify the spec the pods were created from."""
    return {UPGRADE_HASH: cluster.upgrade_hash, OPERATOR_VERSION: HASH_VERSION}


def _resources(pod: Manifest) -> Object:
    found: Object = pod["spec"]["containers"][0].get("resources") or {}
    return found


def _annotate(pod: Manifest, annotations: Mapping[str, str]) -> None:
    if annotations:
        metadata = pod["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}


def _pod_from(cluster: ClusterView, template: Object, labels: dict[str, str], prefix: str) -> Manifest:
    metadata, rest = deepcopy(template.get("metadata") or {}), deepcopy(template)
    metadata.pop("name", None)
    annotations = {**scheduler_labels(cluster.annotations), **(metadata.get("annotations") or {})}
    if cluster.asks(OVERWRITE_COMMAND_ANNOTATION):
        annotations[OVERWRITE_COMMAND_ANNOTATION] = "true"
    if annotations:
        metadata["annotations"] = annotations
    placed = {**metadata, "generateName": prefix, "namespace": cluster.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", **rest, "metadata": placed}


def _with_ray(
    cluster: ClusterView, pod: Manifest, start: str, environment: Mapping[str, Manifest]
) -> Manifest:
    ray = pod["spec"]["containers"][0]
    _annotate(pod, storage_annotations(cluster))
    _set_command(pod, ray, f"{_OPEN_FILES}; {start}")
    for container in pod["spec"].get("initContainers") or ():
        _add_environment(container, {**_values(_head_environment(cluster)), **_shared_environment(cluster)})
    references = {
        "RAY_CLUSTER_NAME": f"metadata.labels['{CLUSTER_LABEL}']",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name",
        "RAY_NODE_TYPE_NAME": f"metadata.labels['{GROUP_LABEL}']",
    }
    fields = {name: {"valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in references.items()}
    values = _values({"RAY_PORT": head_port(cluster), "KUBERAY_GEN_RAY_START_CMD": start})
    _add_environment(ray, {**fields, **environment, **_shared_environment(cluster), **values})
    if cluster.autoscaler_v2:
        pod["spec"]["restartPolicy"] = "Never"
    return pod


def _set_command(pod: Manifest, ray: Manifest, start: str) -> None:
    """Unless the container starts Ray itself. Its own command runs first, since `ray start` blocks."""
    given = " ".join([*(ray.get("command") or ()), *(ray.get("args") or ())])
    annotations = pod["metadata"].get("annotations") or {}
    if "ray start" in given or annotation_is(annotations, OVERWRITE_COMMAND_ANNOTATION, "true"):
        return
    ray["command"] = list(_SHELL)
    ray["args"] = [f"{given} && {start}" if given else start]


def _head_environment(cluster: ClusterView) -> dict[str, str]:
    return {"FQ_RAY_IP": head_host(cluster), "RAY_IP": head_service_name(cluster)}


def _values(values: Mapping[str, str]) -> dict[str, Manifest]:
    return {name: {"value": value} for name, value in values.items()}


def _add_environment(container: Manifest, variables: Mapping[str, Manifest]) -> None:
    """Add variables that the user has not set."""
    given = container.get("env") or []
    names = {variable["name"] for variable in given}
    added = [{"name": name, **source} for name, source in variables.items() if name not in names]
    container["env"] = [*given, *added]


def _wait_for_gcs(cluster: ClusterView, pod: Manifest) -> Manifest:
    """An init container that waits for the head's GCS, without which a worker would crash.

    It has the Ray container's environment and mounts, which may hold TLS settings, and small resources of its
    own, since it must fit into a quota and must not claim a GPU.
    """
    ray = pod["spec"]["containers"][0]
    copied = {name: deepcopy(ray[name]) for name in ("env", "volumeMounts", "securityContext") if name in ray}
    pulled = {"imagePullPolicy": ray["imagePullPolicy"]} if "imagePullPolicy" in ray else {}
    return {
        "name": "wait-gcs-ready",
        "image": ray.get("image"),
        **pulled,
        **copied,
        "command": list(_SHELL),
        "args": [_wait_script(f"{head_host(cluster)}:{head_port(cluster)}")],
        "resources": {"limits": dict(_WAIT_RESOURCES), "requests": dict(_WAIT_RESOURCES)},
    }


def _wait_script(address: str) -> str:
    check = f"ray health-check --address {address}"
    return (
        "SECONDS=0; "
        f"until if (( SECONDS < {_QUIET_SECONDS} )); then {check} > /dev/null 2>&1; else {check}; fi; do "
        'echo "waiting for the head for ${SECONDS} s"; sleep 5; done'
    )


def _shared_environment(cluster: ClusterView) -> dict[str, Manifest]:
    """For every container that connects to Ray: the token, and the version of the autoscaler."""
    v2 = {"RAY_enable_autoscaler_v2": {"value": "1"}} if cluster.autoscaler_v2 else {}
    if not cluster.token_secret:
        return v2
    reference = {"secretKeyRef": {"name": cluster.token_secret, "key": TOKEN_KEY}}
    return {"RAY_AUTH_MODE": {"value": "token"}, "RAY_AUTH_TOKEN": {"valueFrom": reference}, **v2}
