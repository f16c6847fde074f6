"""The columns of built-in kinds, as the people who use kubectl know them."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reconcile.embedded.kinds.cluster_printers import CLUSTER_PRINTERS
from reconcile.embedded.kinds.pod_status import pod_ready, pod_restarts, pod_status
from reconcile.embedded.kubectl.ages import UNKNOWN, age, human_duration, parse_time
from reconcile.embedded.kubectl.printing import (
    AGE,
    CREATED,
    NAMES,
    NONE,
    Cell,
    Object,
    Printer,
    at,
    count,
    joined,
    pick,
)

__all__ = ["PRINTERS"]


# --- workloads ---------------------------------------------------------------------------------


def _containers(field: str, *template: str) -> Cell:
    return lambda obj, _now: joined(item.get(field) for item in pick(obj, *template, "containers") or ())


def _selector(*path: str) -> Cell:
    def cell(obj: Object, _now: datetime.datetime) -> str:
        labels = pick(obj, *path, "matchLabels") or {}
        expressions = pick(obj, *path, "matchExpressions") or ()
        return joined([*(f"{key}={labels[key]}" for key in sorted(labels)), *map(_expression, expressions)])

    return cell


def _expression(expression: Object) -> str:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    if operator in ("Exists", "DoesNotExist"):
        return f"{'!' if operator == 'DoesNotExist' else ''}{key}"
    return f"{key} {operator.lower()} ({','.join(expression.get('values', ()))})"


def _labels(*path: str) -> Cell:
    def cell(obj: Object, _now: datetime.datetime) -> str:
        labels = pick(obj, *path) or {}
        return joined(f"{key}={labels[key]}" for key in sorted(labels))

    return cell


def _ready_of_replicas(obj: Object, _now: datetime.datetime) -> str:
    wanted = pick(obj, "spec", "replicas")
    return f"{pick(obj, 'status', 'readyReplicas') or 0}/{1 if wanted is None else wanted}"


def _job_status(obj: Object, _now: datetime.datetime) -> str:
    true = {
        item.get("type") for item in pick(obj, "status", "conditions") or () if item.get("status") == "True"
    }
    for condition, shown in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return shown
    return "Terminating" if pick(obj, "metadata", "deletionTimestamp") else "Running"


def _job_completions(obj: Object, _now: datetime.datetime) -> str:
    done, wanted = pick(obj, "status", "succeeded") or 0, pick(obj, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = pick(obj, "spec", "parallelism") or 0
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(obj: Object, now: datetime.datetime) -> str:
    start = parse_time(pick(obj, "status", "startTime"))
    if start is None:
        return ""
    end = parse_time(pick(obj, "status", "completionTime")) or now
    return human_duration((end - start).total_seconds())


def _cron_suspended(obj: Object, _now: datetime.datetime) -> str:
    return str(bool(pick(obj, "spec", "suspend")))


def _last_schedule(obj: Object, now: datetime.datetime) -> str:
    last = pick(obj, "status", "lastScheduleTime")
    return age(last, now) if last else NONE


def _pod_ip(obj: Object, _now: datetime.datetime) -> str:
    ips = pick(obj, "status", "podIPs") or ()
    return (ips[0].get("ip") if ips else pick(obj, "status", "podIP")) or NONE


def _readiness_gates(obj: Object, _now: datetime.datetime) -> str:
    gates = [gate.get("conditionType") for gate in pick(obj, "spec", "readinessGates") or ()]
    if not gates:
        return NONE
    true = {
        item.get("type") for item in pick(obj, "status", "conditions") or () if item.get("status") == "True"
    }
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


# --- cluster -----------------------------------------------------------------------------------


def _node_status(obj: Object, _now: datetime.datetime) -> str:
    conditions = {item.get("type"): item.get("status") for item in pick(obj, "status", "conditions") or ()}
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if pick(obj, "spec", "unschedulable") else ready


def _node_roles(obj: Object, _now: datetime.datetime) -> str:
    labels = pick(obj, "metadata", "labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return joined(sorted(roles))


def _node_address(kind: str) -> Cell:
    def cell(obj: Object, _now: datetime.datetime) -> str:
        for address in pick(obj, "status", "addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", NONE))
        return NONE

    return cell


def _subjects(kind: str) -> Cell:
    def cell(obj: Object, _now: datetime.datetime) -> str:
        found = [item for item in obj.get("subjects") or () if item.get("kind") == kind]
        names = (
            f"{item.get('namespace', '')}/{item['name']}" if kind == "ServiceAccount" else item["name"]
            for item in found
        )
        return ", ".join(names)

    return cell


def _role(obj: Object, _now: datetime.datetime) -> str:
    return f"{pick(obj, 'roleRef', 'kind')}/{pick(obj, 'roleRef', 'name')}"


# --- services, storage -------------------------------------------------------------------------


def _external_ip(obj: Object, _now: datetime.datetime) -> str:
    if pick(obj, "spec", "type") == "ExternalName":
        return pick(obj, "spec", "externalName") or NONE
    external = list(pick(obj, "spec", "externalIPs") or ())
    if pick(obj, "spec", "type") != "LoadBalancer":
        return joined(external)
    balanced = pick(obj, "status", "loadBalancer", "ingress") or ()
    shown = [item.get("ip") or item.get("hostname") for item in balanced] + external
    return joined(shown) if shown else "<pending>"


def _ports(obj: Object, _now: datetime.datetime) -> str:
    def shown(port: Object) -> str:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"

    return joined(shown(port) for port in pick(obj, "spec", "ports") or ())


def _configmap_data(obj: Object, _now: datetime.datetime) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _hosts(obj: Object, _now: datetime.datetime) -> str:
    hosts = [rule.get("host") for rule in pick(obj, "spec", "rules") or () if rule.get("host")]
    if not hosts:
        return "*"
    return ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "")


def _ingress_ports(obj: Object, _now: datetime.datetime) -> str:
    return "80, 443" if pick(obj, "spec", "tls") else "80"


def _ingress_address(obj: Object, _now: datetime.datetime) -> str:
    points = pick(obj, "status", "loadBalancer", "ingress") or ()
    return ",".join(str(point.get("ip") or point.get("hostname")) for point in points)


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _access_modes(obj: Object, _now: datetime.datetime) -> str:
    if not pick(obj, "spec", "volumeName"):
        return ""
    return ",".join(_MODES.get(mode, mode) for mode in pick(obj, "status", "accessModes") or ())


def _claim_capacity(obj: Object, _now: datetime.datetime) -> str:
    return pick(obj, "status", "capacity", "storage") or "" if pick(obj, "spec", "volumeName") else ""


def _claim_status(obj: Object, _now: datetime.datetime) -> str:
    return "Terminating" if pick(obj, "metadata", "deletionTimestamp") else pick(obj, "status", "phase") or ""


# --- events ------------------------------------------------------------------------------------


def _first(*paths: tuple[str, ...]) -> Callable[[Object], Any]:
    return lambda obj: next((found for path in paths if (found := pick(obj, *path))), None)


_event_last = _first(
    ("series", "lastObservedTime"),
    ("lastTimestamp",),
    ("deprecatedLastTimestamp",),
    ("eventTime",),
    ("firstTimestamp",),
)
_event_first = _first(("firstTimestamp",), ("deprecatedFirstTimestamp",), ("eventTime",))
_event_object = _first(("involvedObject",), ("regarding",))
_event_count = _first(("series", "count"), ("count",), ("deprecatedCount",))
_event_message = _first(("message",), ("note",))
_event_source = _first(("reportingComponent",), ("reportingController",), ("source", "component"))


def _event_target(obj: Object, _now: datetime.datetime) -> str:
    target = _event_object(obj) or {}
    return f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}"


def _of_template(*path: str) -> tuple[Printer, ...]:
    return (
        Printer("Containers", _containers("name", *path), wide=True),
        Printer("Images", _containers("image", *path), wide=True),
        Printer("Selector", _selector("spec", "selector"), wide=True),
    )


_TEMPLATE = ("spec", "template", "spec")
_EVENTS = (
    Printer("Last Seen", lambda obj, now: age(_event_last(obj), now)),
    Printer("Type", at("type")),
    Printer("Reason", at("reason")),
    Printer("Object", _event_target),
    Printer("Subobject", lambda obj, _now: (_event_object(obj) or {}).get("fieldPath", ""), wide=True),
    Printer("Source", lambda obj, _now: _event_source(obj) or "", wide=True),
    Printer("Message", lambda obj, _now: str(_event_message(obj) or "").strip()),
    Printer("First Seen", lambda obj, now: age(_event_first(obj), now), wide=True),
    Printer("Count", lambda obj, _now: _event_count(obj) or 1, "integer", wide=True),
    Printer("Name", at("metadata", "name"), wide=True),
)
_BINDING = (
    NAMES,
    Printer("Role", _role),
    AGE,
    Printer("Users", _subjects("User"), wide=True),
    Printer("Groups", _subjects("Group"), wide=True),
    Printer("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)

PRINTERS: Mapping[tuple[str, str], Sequence[Printer]] = {
    **CLUSTER_PRINTERS,
    ("", "Pod"): (
        NAMES,
        Printer("Ready", lambda obj, _now: pod_ready(obj)),
        Printer("Status", lambda obj, _now: pod_status(obj)),
        Printer("Restarts", pod_restarts),
        AGE,
        Printer("IP", _pod_ip, wide=True),
        Printer("Node", at("spec", "nodeName", default=NONE), wide=True),
        Printer("Nominated Node", at("status", "nominatedNodeName", default=NONE), wide=True),
        Printer("Readiness Gates", _readiness_gates, wide=True),
    ),
    ("", "Node"): (
        NAMES,
        Printer("Status", _node_status),
        Printer("Roles", _node_roles),
        AGE,
        Printer("Version", at("status", "nodeInfo", "kubeletVersion")),
        Printer("Internal-IP", _node_address("InternalIP"), wide=True),
        Printer("External-IP", _node_address("ExternalIP"), wide=True),
        Printer("OS-Image", at("status", "nodeInfo", "osImage", default=UNKNOWN), wide=True),
        Printer("Kernel-Version", at("status", "nodeInfo", "kernelVersion", default=UNKNOWN), wide=True),
        Printer(
            "Container-Runtime",
            at("status", "nodeInfo", "containerRuntimeVersion", default=UNKNOWN),
            wide=True,
        ),
    ),
    ("", "Namespace"): (NAMES, Printer("Status", at("status", "phase")), AGE),
    ("", "Service"): (
        NAMES,
        Printer("Type", at("spec", "type")),
        Printer("Cluster-IP", at("spec", "clusterIP", default=NONE)),
        Printer("External-IP", _external_ip),
        Printer("Port(s)", _ports),
        AGE,
        Printer("Selector", _labels("spec", "selector"), wide=True),
    ),
    ("", "Secret"): (NAMES, Printer("Type", at("type")), Printer("Data", count("data"), "integer"), AGE),
    ("", "ConfigMap"): (NAMES, Printer("Data", _configmap_data, "integer"), AGE),
    ("", "ServiceAccount"): (NAMES, Printer("Secrets", count("secrets"), "integer"), AGE),
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("", "PersistentVolumeClaim"): (
        NAMES,
        Printer("Status", _claim_status),
        Printer("Volume", at("spec", "volumeName")),
        Printer("Capacity", _claim_capacity),
        Printer("Access Modes", _access_modes),
        Printer("StorageClass", at("spec", "storageClassName")),
        Printer("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default="<unset>")),
        AGE,
        Printer("VolumeMode", at("spec", "volumeMode", default="<unset>"), wide=True),
    ),
    ("coordination.k8s.io", "Lease"): (NAMES, Printer("Holder", at("spec", "holderIdentity")), AGE),
    ("rbac.authorization.k8s.io", "Role"): (NAMES, CREATED),
    ("rbac.authorization.k8s.io", "ClusterRole"): (NAMES, CREATED),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (NAMES, CREATED),
    ("apps", "Deployment"): (
        NAMES,
        Printer("Ready", _ready_of_replicas),
        Printer("Up-to-date", at("status", "updatedReplicas", default=0), "integer"),
        Printer("Available", at("status", "availableReplicas", default=0), "integer"),
        AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("apps", "ReplicaSet"): (
        NAMES,
        Printer("Desired", at("spec", "replicas", default=0), "integer"),
        Printer("Current", at("status", "replicas", default=0), "integer"),
        Printer("Ready", at("status", "readyReplicas", default=0), "integer"),
        AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("apps", "StatefulSet"): (
        NAMES,
        Printer("Ready", _ready_of_replicas),
        AGE,
        *_of_template(*_TEMPLATE)[:2],
    ),
    ("apps", "DaemonSet"): (
        NAMES,
        Printer("Desired", at("status", "desiredNumberScheduled", default=0), "integer"),
        Printer("Current", at("status", "currentNumberScheduled", default=0), "integer"),
        Printer("Ready", at("status", "numberReady", default=0), "integer"),
        Printer("Up-to-date", at("status", "updatedNumberScheduled", default=0), "integer"),
        Printer("Available", at("status", "numberAvailable", default=0), "integer"),
        Printer("Node Selector", _labels(*_TEMPLATE, "nodeSelector")),
        AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("batch", "Job"): (
        NAMES,
        Printer("Status", _job_status),
        Printer("Completions", _job_completions),
        Printer("Duration", _job_duration),
        AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("batch", "CronJob"): (
        NAMES,
        Printer("Schedule", at("spec", "schedule")),
        Printer("Timezone", at("spec", "timeZone", default=NONE)),
        Printer("Suspend", _cron_suspended),
        Printer("Active", count("status", "active"), "integer"),
        Printer("Last Schedule", _last_schedule),
        AGE,
    ),
    ("networking.k8s.io", "Ingress"): (
        NAMES,
        Printer("Class", at("spec", "ingressClassName", default=NONE)),
        Printer("Hosts", _hosts),
        Printer("Address", _ingress_address),
        Printer("Ports", _ingress_ports),
        AGE,
    ),
}
