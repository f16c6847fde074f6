"""What decoding a pod or a pod template sets: SetDefaults_ of pkg/apis/core/v1, and the conversions."""

from collections.abc import Callable
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import Object, fill, fill_empty
from reconcile.embedded.kinds.image_references import image_tag
from reconcile.embedded.kinds.pod_parts import containers_of, each, hooks_of, part, probes_of
from reconcile.embedded.kinds.pod_resources import default_pod_level_resources
from reconcile.embedded.kinds.resource_amounts import rounded_up

_FILE_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
_LASTING: Final = ("containers", "initContainers")
# Annotations from which ancient servers read init containers (dropInitContainerAnnotations).
_INIT_ANNOTATIONS: Final = tuple(
    f"pod.{stage}.kubernetes.io/init-container{what}"
    for stage in ("alpha", "beta")
    for what in ("s", "-statuses")
)


def default_pod(pod: Object) -> None:
    """Complete a pod in place; a pod gets more defaults than a template."""
    spec = pod["spec"] = pod.get("spec") or {}
    _drop_init_annotations(pod)
    for name in _LASTING:
        for container in each(spec, name):
            resources = part(container, "resources")
            if limits := resources.get("limits"):
                resources["requests"] = {**limits, **(resources.get("requests") or {})}
    default_pod_level_resources(spec)
    fill(spec, {"enableServiceLinks": True})
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    default_pod_spec(spec)
    _complete_ips(part(pod, "status"))


def complete_template(spec: Object) -> None:
    """Complete the `template` of a workload's spec in place."""
    template = spec["template"] = spec.get("template") or {}
    _drop_init_annotations(template)
    template["spec"] = template.get("spec") or {}
    default_pod_spec(template["spec"])


def default_pod_spec(spec: Object) -> None:
    """Complete a pod spec in place, as in every kind that has one."""
    fill_empty(spec, dnsPolicy="ClusterFirst", restartPolicy="Always", schedulerName="default-scheduler")
    fill(spec, {"securityContext": {}, "terminationGracePeriodSeconds": 30})
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in each(spec, "volumes"):
        _default_volume(volume)
    for container in containers_of(spec):
        _default_container(container)
    _round_up(spec, "overhead")
    _round_up(part(spec, "resources"), "limits", "requests")


# --- containers -------------------------------------------------------------------------------


def _default_container(container: Object) -> None:
    fill_empty(
        container,
        imagePullPolicy=pull_policy(container.get("image") or ""),
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    fill(container, {"resources": {}})
    _round_up(container["resources"], "limits", "requests")
    for port in each(container, "ports"):
        fill_empty(port, protocol="TCP")
    for probe in probes_of(container):
        fill_empty(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
        _default_http(probe)
        if probe.get("grpc") is not None:
            fill(probe["grpc"], {"service": ""})
    for hook in hooks_of(container):
        _default_http(hook)
    for variable in each(container, "env"):
        source = part(variable, "valueFrom")
        _default_field_ref(source)
        if source.get("fileKeyRef") is not None:
            fill(source["fileKeyRef"], {"optional": False})


def pull_policy(image: str) -> str:
    """The pull policy that an image gets by default."""
    return "Always" if image_tag(image) == "latest" else "IfNotPresent"


def _default_http(handler: Object) -> None:
    if handler.get("httpGet") is not None:
        fill_empty(handler["httpGet"], path="/", scheme="HTTP")


def _default_field_ref(source: Object) -> None:
    if source.get("fieldRef") is not None:
        fill_empty(source["fieldRef"], apiVersion="v1")


def _default_host_ports(spec: Object) -> None:
    for name in _LASTING:
        for container in each(spec, name):
            for port in each(container, "ports"):
                if port.get("containerPort"):
                    fill_empty(port, hostPort=port["containerPort"])


def _round_up(holder: Object, *lists: str) -> None:
    """Round the quantities of resource lists up to thousandths."""
    for name in lists:
        amounts = holder.get(name) or {}
        for resource, amount in amounts.items():
            amounts[resource] = rounded_up(amount)


# --- volumes ----------------------------------------------------------------------------------


def _default_volume(volume: Object) -> None:
    sources = [name for name, source in volume.items() if name != "name" and source is not None]
    if not sources:
        volume["emptyDir"] = {}
    for name in sources:
        if complete := _VOLUME_DEFAULTS.get(name):
            complete(volume[name])


def _default_files(source: Object) -> None:
    fill(source, {"defaultMode": _FILE_MODE})


def _default_downward(source: Object) -> None:
    _default_files(source)
    for item in each(source, "items"):
        _default_field_ref(item)


def _default_projected(source: Object) -> None:
    _default_files(source)
    for projection in each(source, "sources"):
        for item in each(part(projection, "downwardAPI"), "items"):
            _default_field_ref(item)
        if projection.get("serviceAccountToken") is not None:
            fill(projection["serviceAccountToken"], {"expirationSeconds": _TOKEN_SECONDS})


def _default_ephemeral(source: Object) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return
    fill(template, {"metadata": {}, "spec": {"volumeMode": "Filesystem", "resources": {}}})
    _round_up(template["spec"]["resources"], "limits", "requests")


def _default_image(source: Object) -> None:
    fill_empty(source, pullPolicy=pull_policy(source.get("reference") or ""))


def _filling(**values: Any) -> Callable[[Object], None]:
    return lambda source: fill(source, values)


def _filling_empty(**values: Any) -> Callable[[Object], None]:
    return lambda source: fill_empty(source, **values)


_VOLUME_DEFAULTS: Final[dict[str, Callable[[Object], None]]] = {
    "azureDisk": _filling(cachingMode="ReadWrite", fsType="ext4", kind="Shared", readOnly=False),
    "configMap": _default_files,
    "downwardAPI": _default_downward,
    "ephemeral": _default_ephemeral,
    "hostPath": _filling(type=""),
    "image": _default_image,
    "iscsi": _filling_empty(iscsiInterface="default"),
    "projected": _default_projected,
    "rbd": _filling_empty(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "scaleIO": _filling_empty(storageMode="ThinProvisioned", fsType="xfs"),
    "secret": _default_files,
}


# --- conversions ------------------------------------------------------------------------------


def _drop_init_annotations(obj: Object) -> None:
    annotations = part(obj, "metadata", "annotations")
    for name in _INIT_ANNOTATIONS:
        annotations.pop(name, None)


def _complete_ips(status: Object) -> None:
    """Bring `podIP` and `podIPs` in line; where they differ, the single one counts."""
    single, several = status.get("podIP") or "", each(status, "podIPs")
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several and several[0].get("ip"):
        status["podIP"] = several[0]["ip"]
