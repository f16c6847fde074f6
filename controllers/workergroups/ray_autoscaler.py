"""Ray's in-tree autoscaler: a container in the head pod, and its permissions."""

from collections.abc import Mapping
from copy import deepcopy

from .ray_pod_view import CLUSTER_LABEL, GROUP_LABEL, Object
from .raycluster_names import Manifest, short_name
from .raycluster_view import ClusterView

_AMOUNTS = {"cpu": "500m", "memory": "512Mi"}
_LOGS = {"name": "ray-logs", "mountPath": "/tmp/ray"}
CONTAINER = "autoscaler"


def service_account_name(cluster: ClusterView) -> str:
    """The account of the head's template, or the one that is created for the cluster."""
    return _given_account(cluster) or short_name(cluster.name)


def _given_account(cluster: ClusterView) -> str:
    return (cluster.head.template.get("spec") or {}).get("serviceAccountName") or ""


def permissions(cluster: ClusterView) -> list[Manifest]:
    """A ServiceAccount, unless the template names one, a Role, and their RoleBinding."""
    if cluster.autoscaler is None:
        return []
    name, account = short_name(cluster.name), service_account_name(cluster)
    labels = {CLUSTER_LABEL: cluster.name, "app.kubernetes.io/name": "kuberay"}

    def metadata(of: str) -> Manifest:
        return {"name": of, "namespace": cluster.namespace, "labels": labels}

    group = "rbac.authorization.k8s.io"
    made: Manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(account)}
    role = {
        "apiVersion": f"{group}/v1",
        "kind": "Role",
        "metadata": metadata(name),
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
            {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
            {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
        ],
    }
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(name),
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": cluster.namespace}],
    }
    return [*([] if _given_account(cluster) else [made]), role, binding]


def with_autoscaler(cluster: ClusterView, pod: Manifest, environment: Mapping[str, Manifest]) -> Manifest:
    """The head pod with the autoscaler, which shares Ray's logs and `environment`."""
    options = cluster.autoscaler
    if options is None:
        return pod
    spec = pod["spec"]
    ray = spec["containers"][0]
    spec["serviceAccountName"] = service_account_name(cluster)
    spec["containers"] = [*spec["containers"], _container(options, ray, environment)]
    if not any(mount.get("mountPath") == _LOGS["mountPath"] for mount in ray.get("volumeMounts") or ()):
        ray["volumeMounts"] = [*(ray.get("volumeMounts") or ()), dict(_LOGS)]
        if not any(volume.get("name") == _LOGS["name"] for volume in spec.get("volumes") or ()):
            spec["volumes"] = [*(spec.get("volumes") or ()), {"name": _LOGS["name"], "emptyDir": {}}]
    return pod


def _container(options: Object, ray: Object, environment: Mapping[str, Manifest]) -> Manifest:
    references = {
        "RAY_CLUSTER_NAME": f"metadata.labels['{CLUSTER_LABEL}']",
        "RAY_CLUSTER_NAMESPACE": "metadata.namespace",
        "RAY_HEAD_POD_NAME": "metadata.name",
        "RAY_NODE_TYPE_NAME": f"metadata.labels['{GROUP_LABEL}']",
    }
    fields = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in references.items()
    ]
    given = {variable["name"] for variable in options.get("env") or ()}
    shared = [{"name": name, **source} for name, source in environment.items() if name not in given]
    start = "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME)"
    made: Manifest = {
        "name": CONTAINER,
        "image": options.get("image") or ray.get("image"),
        "imagePullPolicy": options.get("imagePullPolicy") or "IfNotPresent",
        "command": options.get("command") or ["/bin/bash", "-c", "--"],
        "args": options.get("args") or [f"{start} --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"],
        "env": [*fields, {"name": "KUBERAY_CRD_VER", "value": "v1"}, *shared, *(options.get("env") or ())],
        "envFrom": options.get("envFrom") or [],
        "resources": options.get("resources") or {"limits": dict(_AMOUNTS), "requests": dict(_AMOUNTS)},
        "securityContext": options.get("securityContext") or {},
        "volumeMounts": [_shared_logs(ray), *(options.get("volumeMounts") or ())],
    }
    container: Manifest = deepcopy({name: value for name, value in made.items() if value not in ({}, [])})
    return container


def _shared_logs(ray: Object) -> Manifest:
    mounts = ray.get("volumeMounts") or ()
    own = next((mount for mount in mounts if mount.get("mountPath") == _LOGS["mountPath"]), _LOGS)
    return {"name": own["name"], "mountPath": _LOGS["mountPath"]}
