"""What is particular to built-in kinds: defaults, derived fields and rules beyond their schema."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from reconcile.embedded.crds import prepare_definition, validate_definition
from reconcile.embedded.failures import (
    bad_request,
    value_forbidden,
    value_invalid,
    value_required,
    value_too_long,
)
from reconcile.embedded.metadata import (
    NameCheck,
    label_faults,
    path_segment_faults,
    service_name_faults,
    subdomain_faults,
)
from reconcile.embedded.status import FieldCause

Object = dict[str, Any]
Prepare = Callable[[Object, Object | None], None]
Validate = Callable[[Object, Object | None], list[FieldCause]]

MAX_DATA_BYTES = 1024 * 1024
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(Z|[+-]\d\d:\d\d)")


def _leave(obj: Object, old: Object | None) -> None:
    """Nothing to prepare."""


def _accept(obj: Object, old: Object | None) -> list[FieldCause]:
    """Nothing to object to."""
    return []


@frozen
class KindRules:
    """`prepare` completes an object in place before it is checked; `validate` names its faults."""

    prepare: Prepare = _leave
    validate: Validate = _accept
    check_name: NameCheck = subdomain_faults


def built_in_rules() -> Mapping[tuple[str, str], KindRules]:
    """The rules by group and kind, for one server."""
    addresses = ClusterIPs()
    rbac = KindRules(check_name=path_segment_faults)
    return {
        ("", "Namespace"): KindRules(_prepare_namespace, check_name=label_faults),
        ("", "Pod"): KindRules(_prepare_pod, _validate_pod),
        ("", "Service"): KindRules(addresses.prepare, _accept, service_name_faults),
        ("", "Secret"): KindRules(_prepare_secret, _validate_secret),
        ("", "ConfigMap"): KindRules(_leave, _validate_config_map),
        ("", "PersistentVolumeClaim"): KindRules(_prepare_claim),
        ("", "Event"): KindRules(_leave, _validate_core_event),
        ("events.k8s.io", "Event"): KindRules(_leave, _validate_event),
        ("coordination.k8s.io", "Lease"): KindRules(_prepare_lease, _validate_lease),
        ("apps", "Deployment"): KindRules(_prepare_deployment, _validate_selector),
        ("apps", "ReplicaSet"): KindRules(_prepare_replica_set, _validate_selector),
        ("batch", "Job"): KindRules(_prepare_job),
        ("autoscaling", "HorizontalPodAutoscaler"): KindRules(_prepare_autoscaler, _validate_autoscaler),
        ("apiextensions.k8s.io", "CustomResourceDefinition"): KindRules(
            prepare_definition, validate_definition
        ),
        ("rbac.authorization.k8s.io", "Role"): rbac,
        ("rbac.authorization.k8s.io", "ClusterRole"): rbac,
        ("rbac.authorization.k8s.io", "RoleBinding"): rbac,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"): rbac,
    }


# --- namespaces, pods, services ---------------------------------------------------------------


def _prepare_namespace(namespace: Object, old: Object | None) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        "kubernetes.io/metadata.name": metadata.get("name", ""),
    }
    if old is not None:
        namespace["spec"] = old.get("spec") or {}
        return
    spec = namespace["spec"] = namespace.get("spec") or {}
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    namespace["status"] = {"phase": "Active"}


def _prepare_pod(pod: Object, old: Object | None) -> None:
    if old is not None:
        return
    _default_pod_spec(pod.setdefault("spec", {}))
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(pod["spec"])}


def _default_pod_spec(spec: Object) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        _default_container(container)


def _default_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    latest = tag == "latest" or (not tag and "@" not in image)
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _qos_class(spec: Object) -> str:
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    demands = [container.get("resources") or {} for container in containers]
    if not any(demand.get("requests") or demand.get("limits") for demand in demands):
        return "BestEffort"
    return "Guaranteed" if all(_is_guaranteed(demand) for demand in demands) else "Burstable"


def _is_guaranteed(demand: Object) -> bool:
    limits, requests = demand.get("limits") or {}, demand.get("requests") or {}
    named = {"cpu", "memory"} <= limits.keys()
    return named and all(requests.get(name, limits[name]) == limits[name] for name in ("cpu", "memory"))


def _validate_pod(pod: Object, old: Object | None) -> list[FieldCause]:
    spec = pod.get("spec") or {}
    if old is None:
        return _container_causes(spec)
    changed = {
        name for name in {*spec, *old.get("spec", {})} if spec.get(name) != old.get("spec", {}).get(name)
    }
    free = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates"}
    if _only_images_differ(spec, old.get("spec", {})):
        free |= {"containers", "initContainers"}
    if changed <= free:
        return []
    why = (
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
        "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
        "previously negative)"
    )
    return [value_forbidden("spec", why)]


def _container_causes(spec: Object) -> list[FieldCause]:
    containers = spec.get("containers") or []
    if not containers:
        return [value_required("spec.containers")]
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        name, path = container.get("name") or "", f"spec.containers[{index}]"
        if not name:
            causes.append(value_required(f"{path}.name"))
        elif name in seen:
            causes.append(FieldCause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name"))
        else:
            causes += [value_invalid(f"{path}.name", name, fault) for fault in label_faults(name)]
        if not container.get("image"):
            causes.append(value_required(f"{path}.image"))
        seen.add(name)
    return causes


def _only_images_differ(spec: Object, old: Object) -> bool:
    for name in ("containers", "initContainers"):
        ours, theirs = spec.get(name) or [], old.get(name) or []
        if len(ours) != len(theirs):
            return False
        if any({**a, "image": ""} != {**b, "image": ""} for a, b in zip(ours, theirs, strict=True)):
            return False
    return True


class ClusterIPs:
    """Hands out the addresses of services, 10.96.0.0/12, one after another."""

    def __init__(self) -> None:
        self._given = 0

    def prepare(self, service: Object, old: Object | None) -> None:
        """Complete a service; its address stays the one it was given."""
        spec = service.setdefault("spec", {})
        if old is None:
            service["status"] = {"loadBalancer": {}}
        elif (old.get("spec") or {}).get("clusterIP"):
            spec.setdefault("clusterIP", old["spec"]["clusterIP"])
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
        if spec["type"] == "ExternalName":
            return
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._next()
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("internalTrafficPolicy", "Cluster")

    def _next(self) -> str:
        self._given += 1
        high, low = divmod(self._given, 254)
        return f"10.{96 + high // 256}.{high % 256}.{low + 1}"


def _prepare_claim(claim: Object, old: Object | None) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    if old is None:
        claim["status"] = {"phase": "Pending"}


# --- config maps and secrets ------------------------------------------------------------------


def _validate_config_map(config: Object, old: Object | None) -> list[FieldCause]:
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key, value in binary.items():
        _decoded(value, f"binaryData.{key}")
    causes = _data_key_causes("data", data) + _data_key_causes("binaryData", binary)
    causes += [
        value_invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in data
        if key in binary
    ]
    size = sum(len(value.encode()) for value in data.values()) + sum(
        len(value) * 3 // 4 for value in binary.values()
    )
    if size > MAX_DATA_BYTES:
        causes.append(value_too_long("[]", MAX_DATA_BYTES))
    return causes + _immutable_causes(config, old, ("data", "binaryData"))


def _prepare_secret(secret: Object, old: Object | None) -> None:
    text = secret.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    if not secret.get("type"):
        secret["type"] = "Opaque"


_REQUIRED_DATA = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _validate_secret(secret: Object, old: Object | None) -> list[FieldCause]:
    data = secret.get("data") or {}
    size = sum(len(_decoded(value, f"data.{key}")) for key, value in data.items())
    causes = _data_key_causes("data", data)
    if size > MAX_DATA_BYTES:
        causes.append(value_too_long("data", MAX_DATA_BYTES))
    for key in _REQUIRED_DATA.get(secret["type"], ()):
        if key not in data:
            causes.append(value_required(f"data[{key}]"))
    if old is not None and old.get("type") != secret["type"]:
        causes.append(value_invalid("type", secret["type"], "field is immutable"))
    return causes + _immutable_causes(secret, old, ("data",))


def _data_key_causes(field: str, data: Mapping[str, Any]) -> list[FieldCause]:
    why = (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
        "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    )
    bad = (key for key in data if not _DATA_KEY.fullmatch(key) or key in (".", "..") or len(key) > 253)
    return [value_invalid(f"{field}[{key}]", key, why) for key in bad]


def _decoded(value: object, path: str) -> bytes:
    try:
        return base64.b64decode(value or "", validate=True)  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request(f"{path}: illegal base64 data: {error}") from error


def _immutable_causes(obj: Object, old: Object | None, fields: tuple[str, ...]) -> list[FieldCause]:
    if old is None or not old.get("immutable"):
        return []
    why = "field is immutable when `immutable` is set"
    causes = [] if obj.get("immutable") else [value_forbidden("immutable", why)]
    return causes + [
        value_forbidden(name, why) for name in fields if (obj.get(name) or {}) != (old.get(name) or {})
    ]


# --- events and leases ------------------------------------------------------------------------


def _validate_core_event(event: Object, old: Object | None) -> list[FieldCause]:
    involved = event.get("involvedObject") or {}
    namespace, own = involved.get("namespace") or "", event["metadata"].get("namespace", "")
    if (namespace or "default") != own:
        why = "does not match event.namespace"
        return [value_invalid("involvedObject.namespace", namespace, why)]
    return []


def _validate_event(event: Object, old: Object | None) -> list[FieldCause]:
    causes: list[FieldCause] = []
    controller = event.get("reportingController") or ""
    if old is None and not event.get("eventTime"):
        causes.append(value_required("eventTime"))
    if not controller:
        causes += [value_required("reportingController")]
        causes += [value_invalid("reportingController", "", "name part must be non-empty")] * 2
    for field in ("reportingInstance", "action", "reason"):
        if not event.get(field):
            causes.append(value_required(field))
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(value_invalid("type", event.get("type", ""), "has invalid value: "))
    return causes if old is None else []


def _prepare_lease(lease: Object, old: Object | None) -> None:
    for field in ("acquireTime", "renewTime"):
        value = (lease.get("spec") or {}).get(field)
        if value and not _MICRO_TIME.fullmatch(value):
            raise bad_request(f'parsing time "{value}": spec.{field} needs a fraction of a second')


def _validate_lease(lease: Object, old: Object | None) -> list[FieldCause]:
    spec = lease.get("spec") or {}
    causes: list[FieldCause] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(value_invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.append(
            value_invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
        )
    return causes


# --- workloads --------------------------------------------------------------------------------


def _prepare_deployment(deployment: Object, old: Object | None) -> None:
    spec = deployment.setdefault("spec", {})
    _default(spec, "replicas", 1)
    _default(spec, "revisionHistoryLimit", 10)
    _default(spec, "progressDeadlineSeconds", 600)
    strategy = spec.get("strategy") or {}
    spec["strategy"] = strategy
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    _prepare_template(spec)
    if old is None:
        deployment["status"] = {}


def _prepare_replica_set(replica_set: Object, old: Object | None) -> None:
    spec = replica_set.setdefault("spec", {})
    _default(spec, "replicas", 1)
    _prepare_template(spec)
    if old is None:
        replica_set["status"] = {"replicas": 0}


def _prepare_job(job: Object, old: Object | None) -> None:
    spec = job.setdefault("spec", {})
    for field, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6), ("suspend", False)):
        _default(spec, field, value)
    _default(spec, "completionMode", "NonIndexed")
    _prepare_template(spec)
    if old is not None:
        return
    job["status"] = {}
    if not spec.get("manualSelector"):
        uid, name = job["metadata"]["uid"], job["metadata"]["name"]
        labels = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
        template = spec["template"].setdefault("metadata", {})
        template["labels"] = {
            **(template.get("labels") or {}),
            **labels,
            "controller-uid": uid,
            "job-name": name,
        }
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _default(spec: Object, field: str, value: Any) -> None:
    if spec.get(field) is None:
        spec[field] = value


def _prepare_template(spec: Object) -> None:
    template = spec.setdefault("template", {})
    if template is None:
        template = spec["template"] = {}
    _default_pod_spec(template.setdefault("spec", {}))


def _validate_selector(workload: Object, old: Object | None) -> list[FieldCause]:
    spec = workload["spec"]
    selector = spec.get("selector") or {}
    causes: list[FieldCause] = []
    if not selector:
        causes.append(value_required("spec.selector"))
    labels = ((spec["template"].get("metadata") or {}).get("labels")) or {}
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        why = "`selector` does not match template `labels`"
        causes.append(value_invalid("spec.template.metadata.labels", labels, why))
    if old is not None and old["spec"].get("selector") != spec.get("selector"):
        causes.append(value_invalid("spec.selector", selector, "field is immutable"))
    replicas = spec["replicas"]
    if isinstance(replicas, int) and replicas < 0:
        causes.append(value_invalid("spec.replicas", replicas, "must be greater than or equal to 0"))
    return causes


def _prepare_autoscaler(autoscaler: Object, old: Object | None) -> None:
    _default(autoscaler.setdefault("spec", {}), "minReplicas", 1)
    if old is None:
        autoscaler["status"] = {"desiredReplicas": 0, "currentMetrics": None}


def _validate_autoscaler(autoscaler: Object, old: Object | None) -> list[FieldCause]:
    spec = autoscaler["spec"]
    least, most = spec["minReplicas"], spec.get("maxReplicas") or 0
    causes: list[FieldCause] = []
    if least < 1:
        causes.append(value_invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        causes.append(value_invalid("spec.maxReplicas", most, "must be greater than 0"))
    if most < least:
        why = "must be greater than or equal to `minReplicas`"
        causes.append(value_invalid("spec.maxReplicas", most, why))
    return causes
