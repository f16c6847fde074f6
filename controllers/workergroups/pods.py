"""The manifests of a RayCluster: head pod, worker pods, head Service.

What is added to the user's template is what Ray needs to form a cluster, as KubeRay v1.3 to v1.5
add it: labels, the `ray start` command, environment, and on workers a container that waits for
the head. Nothing else of the template changes, and fields unknown here stay. Unlike KubeRay, no
probes, no /dev/shm volume and no telemetry variables are added: whoever wants them writes them
into the template. Manifests carry no owner; who creates them adds it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .quantity import Quantity, parse_quantity
from .status import TPU, is_gpu
from .views import CLUSTER_LABEL, GROUP_LABEL, NODE_TYPE_LABEL, ClusterView, GroupView, NodeType, Object

Manifest = dict[str, Any]

HEAD_GROUP = "headgroup"
OVERWRITE_COMMAND_ANNOTATION = "ray.io/overwrite-container-cmd"
GCS_PORT = 6379
DASHBOARD_AGENT_PORT = 52365
METRICS_PORT = 8080
_DEFAULT_PORTS = {"dashboard": 8265, "client": 10001, "metrics": METRICS_PORT, "serve": 8000}
_SHELL = ["/bin/bash", "-c", "--"]
_OPEN_FILES = "ulimit -n 65536"
_FIXED_LABELS = (CLUSTER_LABEL, NODE_TYPE_LABEL, GROUP_LABEL)
_OPTIONS_WITH_BOOLEAN_VALUE = ("log-color", "include-dashboard")
_ACCELERATORS = {TPU: "TPU", "aws.amazon.com/neuroncore": "neuron_cores"}
# Patience before the probe's own complaints are worth showing, in seconds.
_QUIET = 120
_WAIT_RESOURCES = {"cpu": "200m", "memory": "256Mi"}


def head_pod(cluster: ClusterView) -> Manifest:
    """The head pod; the API server completes its generated name."""
    labels = _pod_labels(cluster, "head", HEAD_GROUP, cluster.head.template)
    pod = _pod_from(cluster, cluster.head.template, labels, pod_prefix(cluster.name, "head"))
    params = _head_params(cluster.head.ray_start_params)
    environment = {"RAY_ADDRESS": f"127.0.0.1:{head_port(cluster)}"}
    return _with_ray(cluster, pod, "ray start --head", params, environment)


def worker_pod(cluster: ClusterView, group: GroupView) -> Manifest:
    """One worker of the group; the API server completes its generated name."""
    labels = _pod_labels(cluster, "worker", group.name, group.template)
    pod = _pod_from(cluster, group.template, labels, pod_prefix(f"{cluster.name}-{group.name}", "worker"))
    pod["spec"]["initContainers"] = [*pod["spec"].get("initContainers", ()), _wait_for_gcs(cluster, pod)]
    address = f"{head_host(cluster)}:{head_port(cluster)}"
    params = _params(group.ray_start_params, {"address": address})
    return _with_ray(
        cluster, pod, "ray start", params, {**_head_environment(cluster), "RAY_ADDRESS": address}
    )


def head_service(cluster: ClusterView) -> Manifest:
    """The Service that workers and drivers reach the head by.

    Headless unless the user asks for another type or gives `headService`, whose own metadata and
    spec are kept; its selector is always ours, and of equally named ports ours win.
    """
    own = thawed(cluster.head.service or {})
    labels = _service_labels(cluster)
    metadata, spec = own.get("metadata") or {}, own.get("spec") or {}
    kind = spec.get("type") or cluster.head.service_type or "ClusterIP"
    headless = cluster.head.service is None and kind == "ClusterIP"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            **metadata,
            "name": head_service_name(cluster),
            "namespace": cluster.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **cluster.head.service_annotations},
        },
        "spec": {
            **spec,
            **({"clusterIP": "None", "publishNotReadyAddresses": True} if headless else {}),
            "type": kind,
            "selector": labels,
            "ports": _service_ports(cluster, spec.get("ports") or ()),
        },
    }


def head_service_name(cluster: ClusterView) -> str:
    """`<cluster>-head-svc`, or the name given in `headService`."""
    given = ((cluster.head.service or {}).get("metadata") or {}).get("name")
    return given or short_name(f"{cluster.name}-head-svc")


def head_host(cluster: ClusterView) -> str:
    """The head's name within the Kubernetes cluster, of the default domain."""
    return f"{head_service_name(cluster)}.{cluster.namespace}.svc.cluster.local"


def head_port(cluster: ClusterView) -> str:
    """The port of the head's GCS server."""
    return cluster.head.ray_start_params.get("port") or str(GCS_PORT)


def pod_prefix(owner: str, node_type: NodeType) -> str:
    """The generateName of a pod, short enough for the five characters to come."""
    return f"{owner[:50]}-{node_type}-".lower()


def short_name(name: str, longest: int = 50) -> str:
    """The name's end, at most `longest` characters, beginning with a letter; KubeRay's rule for names."""
    end = name[-longest:]
    return end if end[0].isalpha() else f"r{end[1:]}"


def thawed(value: Any) -> Any:
    """A plain, mutable copy of a JSON value, whatever mappings and sequences it is made of."""
    if isinstance(value, Mapping):
        return {name: thawed(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [thawed(part) for part in value]
    return value


def _pod_from(cluster: ClusterView, template: Object, labels: dict[str, str], prefix: str) -> Manifest:
    metadata, rest = thawed(template.get("metadata") or {}), thawed(template)
    metadata.pop("name", None)
    if cluster.annotations.get(OVERWRITE_COMMAND_ANNOTATION, "").lower() == "true":
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            OVERWRITE_COMMAND_ANNOTATION: "true",
        }
    placed = {**metadata, "generateName": prefix, "namespace": cluster.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", **rest, "metadata": placed}


def _pod_labels(cluster: ClusterView, node_type: NodeType, group: str, template: Object) -> dict[str, str]:
    """The user's labels win, save the three by which pods are told apart."""
    ours = {
        "ray.io/is-ray-node": "yes",
        CLUSTER_LABEL: cluster.name,
        NODE_TYPE_LABEL: node_type,
        GROUP_LABEL: group,
        "ray.io/identifier": short_name(f"{cluster.name}-{node_type}", 63),
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    given = (template.get("metadata") or {}).get("labels") or {}
    return {**ours, **{name: value for name, value in given.items() if name not in _FIXED_LABELS}}


def _service_labels(cluster: ClusterView) -> dict[str, str]:
    """Also the selector, so each is taken as the head pod really has it."""
    pod = _pod_labels(cluster, "head", HEAD_GROUP, cluster.head.template)
    names = (CLUSTER_LABEL, NODE_TYPE_LABEL, "ray.io/identifier")
    return {name: pod[name] for name in (*names, "app.kubernetes.io/name", "app.kubernetes.io/created-by")}


def _params(given: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    common = {
        "metrics-export-port": str(METRICS_PORT),
        "dashboard-agent-listen-port": str(DASHBOARD_AGENT_PORT),
    }
    return {**common, **defaults, **given, "block": "true"}


def _head_params(given: Mapping[str, str]) -> dict[str, str]:
    # Ray's own default is localhost, which nothing outside the pod could reach.
    return _params(given, {"dashboard-host": "0.0.0.0"})


def _with_ray(
    cluster: ClusterView, pod: Manifest, verb: str, params: dict[str, str], environment: dict[str, str]
) -> Manifest:
    """The pod with its first container starting Ray."""
    ray = pod["spec"]["containers"][0]
    start = f"{verb} {_flags(_with_resources(params, ray.get('resources') or {}))}"
    _set_command(pod, ray, f"{_OPEN_FILES}; {start}")
    for container in pod["spec"].get("initContainers") or ():
        _add_environment(container, _values(_head_environment(cluster)))
    references = {
        "RAY_CLUSTER_NAME": f"metadata.labels['{CLUSTER_LABEL}']",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name",
        "RAY_NODE_TYPE_NAME": f"metadata.labels['{GROUP_LABEL}']",
    }
    fields = {name: {"valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in references.items()}
    values = {**environment, "RAY_PORT": head_port(cluster), "KUBERAY_GEN_RAY_START_CMD": start}
    _add_environment(ray, {**fields, **_values(values)})
    return pod


def _set_command(pod: Manifest, ray: Manifest, start: str) -> None:
    """Leave a command alone that starts Ray itself; run any other before, since `ray start` blocks."""
    given = " ".join([*(ray.get("command") or ()), *(ray.get("args") or ())])
    annotations = pod["metadata"].get("annotations") or {}
    if "ray start" in given or annotations.get(OVERWRITE_COMMAND_ANNOTATION, "").lower() == "true":
        return
    ray["command"] = list(_SHELL)
    ray["args"] = [f"{given} && {start}" if given else start]


def _with_resources(params: dict[str, str], resources: Object) -> dict[str, str]:
    """Params with what the container may use, so that Ray schedules no more than that."""
    limits = {name: parse_quantity(text) for name, text in (resources.get("limits") or {}).items()}
    requests = {name: parse_quantity(text) for name, text in (resources.get("requests") or {}).items()}
    cpu = limits.get("cpu", Quantity()).ceiling() or requests.get("cpu", Quantity()).ceiling()
    gpu = next((limits[name].ceiling() for name in sorted(limits) if is_gpu(name) and limits[name].amount), 0)
    found = {"num-cpus": cpu, "memory": limits.get("memory", Quantity()).ceiling(), "num-gpus": gpu}
    known = {name: str(amount) for name, amount in found.items() if amount}
    return {**known, **_accelerators(params, limits), **{k: v for k, v in params.items() if k != "resources"}}


def _accelerators(params: Mapping[str, str], limits: Mapping[str, Quantity]) -> dict[str, str]:
    """The `resources` option, with the first custom accelerator of the limits unless one is named."""
    given = params.get("resources")
    named = _custom_resources(given)
    first = next((name for name in sorted(limits) if name in _ACCELERATORS and limits[name].amount), None)
    if first is None or named is None or not named.keys().isdisjoint(_ACCELERATORS.values()):
        return {} if given is None else {"resources": given}
    everything = {**named, _ACCELERATORS[first]: limits[first].ceiling()}
    return {"resources": f"'{msgspec.json.encode(everything).decode()}'"}


def _custom_resources(option: str | None) -> dict[str, float] | None:
    """What the user's option names, or None when its quoting is beyond reading: then it stays as it is."""
    if option is None:
        return {}
    try:
        return msgspec.json.decode(option.strip("'\"` "), type=dict[str, float])
    except msgspec.DecodeError:
        return None


def _flags(params: Mapping[str, str]) -> str:
    return " ".join(flag for name in sorted(params) for flag in _flag(name, params[name]))


def _flag(name: str, value: str) -> Iterator[str]:
    is_switch = value.lower() in ("true", "false") and name not in _OPTIONS_WITH_BOOLEAN_VALUE
    if not is_switch:
        yield f"--{name}={value}"
    elif value.lower() == "true":
        yield f"--{name}"


def _head_environment(cluster: ClusterView) -> dict[str, str]:
    return {"FQ_RAY_IP": head_host(cluster), "RAY_IP": head_service_name(cluster)}


def _values(values: Mapping[str, str]) -> dict[str, Manifest]:
    return {name: {"value": value} for name, value in values.items()}


def _add_environment(container: Manifest, variables: Mapping[str, Manifest]) -> None:
    """Variables the user set stay as they are."""
    given = container.get("env") or []
    names = {variable["name"] for variable in given}
    added = [{"name": name, **source} for name, source in variables.items() if name not in names]
    container["env"] = [*given, *added]


def _wait_for_gcs(cluster: ClusterView, pod: Manifest) -> Manifest:
    """A worker that starts before the head's GCS answers would crash; this holds it back.

    It has the Ray container's environment and mounts because TLS settings may be in them, and its
    own small resources because it must fit a quota and must not claim a GPU.
    """
    ray = pod["spec"]["containers"][0]
    copied = {name: thawed(ray[name]) for name in ("env", "volumeMounts", "securityContext") if name in ray}
    pulled = {"imagePullPolicy": ray["imagePullPolicy"]} if "imagePullPolicy" in ray else {}
    return {
        "name": "wait-gcs-ready",
        "image": ray.get("image", ""),
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
        f"until if (( SECONDS < {_QUIET} )); then {check} > /dev/null 2>&1; else {check}; fi; do "
        'echo "waiting for the head for ${SECONDS} s"; sleep 5; done'
    )


def _service_ports(cluster: ClusterView, given: Sequence[Object]) -> list[Manifest]:
    """The head container's ports and the defaults it does not name, then the user's others, by name."""
    ours = _head_ports(cluster)
    names = {port["name"] for port in ours}
    others = [dict(port) for port in given if port.get("name") not in names]
    return sorted([*ours, *others], key=lambda port: str(port.get("name", "")))


def _head_ports(cluster: ClusterView) -> list[Manifest]:
    containers = (cluster.head.template.get("spec") or {}).get("containers") or ()
    declared = containers[0].get("ports") or () if containers else ()
    ports = [
        _service_port(port.get("name"), port["containerPort"], port.get("protocol")) for port in declared
    ]
    names, numbers = {port["name"] for port in ports}, {port["port"] for port in ports}
    defaults = {"gcs-server": int(head_port(cluster)), **_DEFAULT_PORTS}
    missing = [(name, n) for name, n in defaults.items() if name not in names and n not in numbers]
    return [*ports, *(_service_port(name, number, None) for name, number in missing)]


def _service_port(name: str | None, number: int, protocol: str | None) -> Manifest:
    """With the API server's defaults written out, so that what it stores is what was asked for."""
    return {
        "name": name or f"{number}-port",
        "port": number,
        "targetPort": number,
        "protocol": protocol or "TCP",
        "appProtocol": "tcp",
    }
