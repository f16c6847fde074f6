"""The columns of the kinds around the workloads: policies, networking, storage, webhooks, autoscalers."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from reconcile.embedded.kubectl.printing import (
    AGE,
    CREATED,
    NAMES,
    NONE,
    Object,
    Printer,
    at,
    count,
    joined,
    pick,
)

_UNSET = "<unset>"
_UNKNOWN = "<unknown>"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_SHOWN_ENDPOINTS = 3


def _quota(prefix: str, *, limits: bool) -> Any:
    """Used of hard, of limits or of everything else."""

    def cell(obj: Object, _now: datetime.datetime) -> str:
        hard, used = pick(obj, "status", "hard") or {}, pick(obj, "status", "used") or {}
        names = sorted(name for name in hard if name.startswith(prefix) is limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _amount(field: str) -> Any:
    def cell(obj: Object, _now: datetime.datetime) -> str:
        value = pick(obj, "spec", field)
        return "N/A" if value is None else str(value)

    return cell


def _truth(*path: str) -> Any:
    return lambda obj, _now: "true" if pick(obj, *path) else "false"


def _slice_ports(obj: Object, _now: datetime.datetime) -> str:
    return _cut([str(port.get("port", "*")) for port in pick(obj, "ports") or ()], _UNSET)


def _slice_endpoints(obj: Object, _now: datetime.datetime) -> str:
    found = [address for one in pick(obj, "endpoints") or () for address in one.get("addresses") or ()]
    return _cut(found, _UNSET)


def _cut(values: list[str], nothing: str) -> str:
    if not values:
        return nothing
    more = len(values) - _SHOWN_ENDPOINTS
    text = ",".join(values[:_SHOWN_ENDPOINTS])
    return f"{text} + {more} more..." if more > 0 else text


def _endpoints(obj: Object, _now: datetime.datetime) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in pick(obj, "subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    return _cut(found, NONE)


def _pod_selector(obj: Object, _now: datetime.datetime) -> str:
    labels = pick(obj, "spec", "podSelector", "matchLabels") or {}
    return joined(f"{key}={labels[key]}" for key in sorted(labels))


def _modes(obj: Object, _now: datetime.datetime) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in pick(obj, "spec", "accessModes") or ())


def _claim(obj: Object, _now: datetime.datetime) -> str:
    reference = pick(obj, "spec", "claimRef")
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""


def _scale_target(obj: Object, _now: datetime.datetime) -> str:
    reference = pick(obj, "spec", "scaleTargetRef") or {}
    return f"{reference.get('kind')}/{reference.get('name')}"


def _metrics(obj: Object, _now: datetime.datetime) -> str:
    wanted = pick(obj, "spec", "metrics") or ()
    current = pick(obj, "status", "currentMetrics") or ()
    return ", ".join(
        _metric(metric, current[at] if at < len(current) else {}) for at, metric in enumerate(wanted)
    ) or NONE  # fmt: skip


def _metric(metric: Object, current: Object) -> str:
    source = {"Resource": "resource", "ContainerResource": "containerResource"}.get(metric.get("type", ""))
    target = pick(metric, source, "target") if source else None
    if not isinstance(target, Mapping):
        return f"{_UNKNOWN}/{metric.get('type', '')}"
    name = pick(metric, str(source), "name")
    now = pick(current, str(source), "current") or {}
    share = target.get("averageUtilization")
    if share is not None:
        used = now.get("averageUtilization")
        return f"{name}: {_UNKNOWN if used is None else f'{used}%'}/{share}%"
    return f"{name}: {now.get('averageValue', _UNKNOWN)}/{target.get('averageValue')}"


def _controller(obj: Object, _now: datetime.datetime) -> str:
    owners = pick(obj, "metadata", "ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    return f"{owner.get('kind', '').lower()}.{_group(owner)}/{owner.get('name')}" if owner else NONE


def _group(owner: Object) -> str:
    group, _, _ = str(owner.get("apiVersion", "")).rpartition("/")
    return group


_WEBHOOKS = (NAMES, Printer("Webhooks", count("webhooks"), "integer"), AGE)

CLUSTER_PRINTERS: Mapping[tuple[str, str], Sequence[Printer]] = {
    ("", "ResourceQuota"): (
        NAMES,
        Printer("Request", _quota("limits.", limits=False)),
        Printer("Limit", _quota("limits.", limits=True)),
        AGE,
    ),
    ("", "LimitRange"): (NAMES, CREATED),
    ("", "Endpoints"): (NAMES, Printer("Endpoints", _endpoints), AGE),
    ("", "PersistentVolume"): (
        NAMES,
        Printer("Capacity", at("spec", "capacity", "storage")),
        Printer("Access Modes", _modes),
        Printer("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy")),
        Printer("Status", at("status", "phase")),
        Printer("Claim", _claim),
        Printer("StorageClass", at("spec", "storageClassName")),
        Printer("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=_UNSET)),
        Printer("Reason", at("status", "reason")),
        AGE,
        Printer("VolumeMode", at("spec", "volumeMode", default=_UNSET), wide=True),
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("apps", "ControllerRevision"): (
        NAMES,
        Printer("Controller", _controller),
        Printer("Revision", at("revision", default=0), "integer"),
        AGE,
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        NAMES,
        Printer("Reference", _scale_target),
        Printer("Targets", _metrics),
        Printer("MinPods", at("spec", "minReplicas", default=_UNSET)),
        Printer("MaxPods", at("spec", "maxReplicas"), "integer"),
        Printer("Replicas", at("status", "currentReplicas", default=0), "integer"),
        AGE,
    ),
    ("discovery.k8s.io", "EndpointSlice"): (
        NAMES,
        Printer("AddressType", at("addressType")),
        Printer("Ports", _slice_ports),
        Printer("Endpoints", _slice_endpoints),
        AGE,
    ),
    ("networking.k8s.io", "IngressClass"): (
        NAMES,
        Printer("Controller", at("spec", "controller")),
        Printer("Parameters", at("spec", "parameters", "name", default=NONE)),
        AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (NAMES, Printer("Pod-Selector", _pod_selector), AGE),
    ("policy", "PodDisruptionBudget"): (
        NAMES,
        Printer("Min Available", _amount("minAvailable")),
        Printer("Max Unavailable", _amount("maxUnavailable")),
        Printer("Allowed Disruptions", at("status", "disruptionsAllowed", default=0), "integer"),
        AGE,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        NAMES,
        Printer("Value", at("value", default=0), "integer"),
        Printer("Global-Default", _truth("globalDefault")),
        AGE,
        Printer("PreemptionPolicy", at("preemptionPolicy")),
    ),
    ("storage.k8s.io", "StorageClass"): (
        NAMES,
        Printer("Provisioner", at("provisioner")),
        Printer("ReclaimPolicy", at("reclaimPolicy")),
        Printer("VolumeBindingMode", at("volumeBindingMode")),
        Printer("AllowVolumeExpansion", _truth("allowVolumeExpansion")),
        AGE,
    ),
}
