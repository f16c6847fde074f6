"""What is particular to built-in kinds: defaults, derived fields and rules beyond their schema."""

import base64
import binascii
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from reconcile.embedded.kinds import cluster_kinds as cluster
from reconcile.embedded.kinds import workload_kinds as workloads
from reconcile.embedded.kinds.autoscaler_checks import prepare_autoscaler, validate_autoscaler
from reconcile.embedded.kinds.custom_definitions import (
    definition_warnings,
    prepare_definition,
    validate_definition,
)
from reconcile.embedded.kinds.kind_rules import KindRules, Object, accept, leave
from reconcile.embedded.kinds.pod_kind import prepare_pod, validate_pod
from reconcile.embedded.kinds.quota_names import warn_of_uncounted
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_required,
    value_too_long,
)
from reconcile.embedded.protocol.names import label_faults, path_segment_faults, service_name_faults
from reconcile.embedded.refusals import bad_request

__all__ = ["KindRules", "built_in_rules"]

MAX_DATA_BYTES = 1024 * 1024
_JSON_DATA = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(Z|[+-]\d\d:\d\d)", re.ASCII)


def built_in_rules() -> Mapping[tuple[str, str], KindRules]:
    """The rules by group and kind, for one server."""
    service = KindRules(ClusterIPs().prepare, accept, service_name_faults, checks=4)
    return {**_rules_of_all(), ("", "Service"): service}


@cache
def _rules_of_all() -> Mapping[tuple[str, str], KindRules]:
    """Those in which no server keeps anything."""
    return {**_core_rules(), **_workload_rules(), **_cluster_rules()}


def _core_rules() -> dict[tuple[str, str], KindRules]:
    return {
        ("", "Namespace"): KindRules(_prepare_namespace, check_name=label_faults),
        ("", "Pod"): KindRules(prepare_pod, validate_pod),
        ("", "Secret"): KindRules(_prepare_secret, _validate_secret, checks=4),
        ("", "ConfigMap"): KindRules(_prepare_config_map, _validate_config_map, checks=4),
        ("", "Endpoints"): KindRules(cluster.prepare_endpoints),
        ("", "PersistentVolume"): KindRules(cluster.prepare_volume),
        ("", "PersistentVolumeClaim"): KindRules(cluster.prepare_claim),
        ("", "ResourceQuota"): KindRules(cluster.prepare_quota, warn=warn_of_uncounted),
        ("", "Event"): KindRules(leave, _validate_core_event),
        ("events.k8s.io", "Event"): KindRules(leave, _validate_event),
        ("coordination.k8s.io", "Lease"): KindRules(_prepare_lease, _validate_lease),
        ("apiextensions.k8s.io", "CustomResourceDefinition"): KindRules(
            prepare_definition, validate_definition, warn=definition_warnings
        ),
    }


def _workload_rules() -> dict[tuple[str, str], KindRules]:
    return {
        ("apps", "ControllerRevision"): KindRules(leave, workloads.validate_revision),
        ("apps", "DaemonSet"): KindRules(workloads.prepare_daemon_set, workloads.validate_daemon_set),
        ("apps", "Deployment"): KindRules(workloads.prepare_deployment, workloads.validate_selector),
        ("apps", "ReplicaSet"): KindRules(workloads.prepare_replica_set, workloads.validate_selector),
        ("apps", "StatefulSet"): KindRules(workloads.prepare_stateful_set, workloads.validate_stateful_set),
        ("batch", "CronJob"): KindRules(workloads.prepare_cron_job, workloads.validate_cron_job),
        ("batch", "Job"): KindRules(workloads.prepare_job, workloads.validate_job),
        ("autoscaling", "HorizontalPodAutoscaler"): KindRules(prepare_autoscaler, validate_autoscaler),
    }


def _cluster_rules() -> dict[tuple[str, str], KindRules]:
    role = KindRules(leave, cluster.validate_role, path_segment_faults)
    binding = KindRules(cluster.prepare_binding, cluster.validate_binding, path_segment_faults)
    webhooks = KindRules(cluster.prepare_webhooks, cluster.validate_webhooks, warn=cluster.warn_of_webhooks)
    return {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): webhooks,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): webhooks,
        ("discovery.k8s.io", "EndpointSlice"): KindRules(
            cluster.prepare_endpoint_slice, cluster.validate_endpoint_slice
        ),
        ("networking.k8s.io", "Ingress"): KindRules(cluster.prepare_ingress, cluster.validate_ingress),
        ("networking.k8s.io", "NetworkPolicy"): KindRules(cluster.prepare_network_policy),
        ("policy", "PodDisruptionBudget"): KindRules(cluster.prepare_budget, cluster.validate_budget),
        ("scheduling.k8s.io", "PriorityClass"): KindRules(
            cluster.prepare_priority_class, cluster.validate_priority_class
        ),
        ("storage.k8s.io", "StorageClass"): KindRules(
            cluster.prepare_storage_class, cluster.validate_storage_class
        ),
        (cluster.RBAC, "Role"): role,
        (cluster.RBAC, "ClusterRole"): role,
        (cluster.RBAC, "RoleBinding"): binding,
        (cluster.RBAC, "ClusterRoleBinding"): binding,
    }


# --- namespaces, services --------------------------------------------------------------------


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


def _prepare_config_map(config_map: Object, old: Object | None) -> None:
    _drop_empty(config_map, "data", "binaryData")


def _drop_empty(obj: Object, *members: str) -> None:
    """Take out the members that hold nothing, which a real server never shows."""
    for member in members:
        if member in obj and not obj[member]:
            del obj[member]


def _prepare_secret(secret: Object, old: Object | None) -> None:
    text = secret.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    if not secret.get("type"):
        secret["type"] = "Opaque"
    _drop_empty(secret, "data")


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
    causes += _secret_type_causes(secret, data)
    if old is not None and old.get("type") != secret["type"]:
        causes.append(value_invalid("type", secret["type"], "field is immutable"))
    return causes + _immutable_causes(secret, old, ("data",))


def _secret_type_causes(secret: Object, data: Mapping[str, Any]) -> list[FieldCause]:
    """What a type asks for beyond keys that must be there."""
    kind = secret["type"]
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        return [value_required("data[username]"), value_required("data[password]")]
    if kind == "kubernetes.io/service-account-token":
        annotation = "kubernetes.io/service-account.name"
        named = (secret["metadata"].get("annotations") or {}).get(annotation)
        return [] if named else [value_required(f"metadata.annotations[{annotation}]")]
    key = _JSON_DATA.get(kind)
    if key is None or key not in data:
        return []
    try:
        msgspec.json.decode(_decoded(data[key], f"data.{key}"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [value_invalid(f"data[{key}]", "<secret contents redacted>", "is no JSON")]
    return []


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
