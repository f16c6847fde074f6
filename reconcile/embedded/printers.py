"""The columns of built-in kinds, as the people who use kubectl know them."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from reconcile.embedded.durations import UNKNOWN, age, human_duration, parse_time
from reconcile.embedded.pod_status import pod_ready, pod_restarts, pod_status

Object = Mapping[str, Any]
Cell = Callable[[Object, datetime.datetime], Any]

NONE = "<none>"


@frozen
class Printer:
    """One column of a built-in kind; `wide` ones appear with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    wide: bool = False


def pick(document: Any, *path: str) -> Any:
    """The value at `path`, or None where any of it is missing."""
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def _at(*path: str, default: Any = "") -> Cell:
    def cell(obj: Object, _now: datetime.datetime) -> Any:
        value = pick(obj, *path)
        return default if value in (None, "") else value

    return cell


def _count(*path: str) -> Cell:
    return lambda obj, _now: len(pick(obj, *path) or ())


def _age(obj: Object, now: datetime.datetime) -> str:
    return age(pick(obj, "metadata", "creationTimestamp"), now)


def _joined(values: Iterable[Any]) -> str:
    return ",".join(str(value) for value in values if value not in (None, "")) or NONE


# --- workloads ---------------------------------------------------------------------------------


def _containers(field: str, *template: str) -> Cell:
    return lambda obj, _now: _joined(item.get(field) for item in pick(obj, *template, "containers") or ())


def _selector(*path: str) -> Cell:
    def cell(obj: Object, _now: datetime.datetime) -> str:
        labels = pick(obj, *path, "matchLabels") or {}
        expressions = pick(obj, *path, "matchExpressions") or ()
        return _joined([*(f"{key}={labels[key]}" for key in sorted(labels)), *map(_expression, expressions)])

    return cell


def _expression(expression: Object) -> str:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    if operator in ("Exists", "DoesNotExist"):
        return f"{'!' if operator == 'DoesNotExist' else ''}{key}"
    return f"{key} {operator.lower()} ({','.join(expression.get('values', ()))})"


def _labels(*path: str) -> Cell:
    def cell(obj: Object, _now: datetime.datetime) -> str:
        labels = pick(obj, *path) or {}
        return _joined(f"{key}={labels[key]}" for key in sorted(labels))

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
    return _joined(sorted(roles))


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
            f"{item['namespace']}/{item['name']}" if kind == "ServiceAccount" else item["name"]
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
        return _joined(external)
    balanced = pick(obj, "status", "loadBalancer", "ingress") or ()
    shown = [item.get("ip") or item.get("hostname") for item in balanced] + external
    return _joined(shown) if shown else "<pending>"


def _ports(obj: Object, _now: datetime.datetime) -> str:
    def shown(port: Object) -> str:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"

    return _joined(shown(port) for port in pick(obj, "spec", "ports") or ())


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


_NAMES = Printer("Name", _at("metadata", "name"))
_AGE = Printer("Age", _age)
_CREATED = Printer("Created At", _at("metadata", "creationTimestamp", default=UNKNOWN), "date")


def _of_template(*path: str) -> tuple[Printer, ...]:
    return (
        Printer("Containers", _containers("name", *path), wide=True),
        Printer("Images", _containers("image", *path), wide=True),
        Printer("Selector", _selector("spec", "selector"), wide=True),
    )


_TEMPLATE = ("spec", "template", "spec")
_EVENTS = (
    Printer("Last Seen", lambda obj, now: age(_event_last(obj), now)),
    Printer("Type", _at("type")),
    Printer("Reason", _at("reason")),
    Printer("Object", _event_target),
    Printer("Subobject", lambda obj, _now: (_event_object(obj) or {}).get("fieldPath", ""), wide=True),
    Printer("Source", lambda obj, _now: _event_source(obj) or "", wide=True),
    Printer("Message", lambda obj, _now: str(_event_message(obj) or "").strip()),
    Printer("First Seen", lambda obj, now: age(_event_first(obj), now), wide=True),
    Printer("Count", lambda obj, _now: _event_count(obj) or 1, "integer", wide=True),
    Printer("Name", _at("metadata", "name"), wide=True),
)
_BINDING = (
    _NAMES,
    Printer("Role", _role),
    _AGE,
    Printer("Users", _subjects("User"), wide=True),
    Printer("Groups", _subjects("Group"), wide=True),
    Printer("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)

PRINTERS: Mapping[tuple[str, str], Sequence[Printer]] = {
    ("", "Pod"): (
        _NAMES,
        Printer("Ready", lambda obj, _now: pod_ready(obj)),
        Printer("Status", lambda obj, _now: pod_status(obj)),
        Printer("Restarts", pod_restarts),
        _AGE,
        Printer("IP", _pod_ip, wide=True),
        Printer("Node", _at("spec", "nodeName", default=NONE), wide=True),
        Printer("Nominated Node", _at("status", "nominatedNodeName", default=NONE), wide=True),
        Printer("Readiness Gates", _readiness_gates, wide=True),
    ),
    ("", "Node"): (
        _NAMES,
        Printer("Status", _node_status),
        Printer("Roles", _node_roles),
        _AGE,
        Printer("Version", _at("status", "nodeInfo", "kubeletVersion")),
        Printer("Internal-IP", _node_address("InternalIP"), wide=True),
        Printer("External-IP", _node_address("ExternalIP"), wide=True),
        Printer("OS-Image", _at("status", "nodeInfo", "osImage", default=UNKNOWN), wide=True),
        Printer("Kernel-Version", _at("status", "nodeInfo", "kernelVersion", default=UNKNOWN), wide=True),
        Printer(
            "Container-Runtime",
            _at("status", "nodeInfo", "containerRuntimeVersion", default=UNKNOWN),
            wide=True,
        ),
    ),
    ("", "Namespace"): (_NAMES, Printer("Status", _at("status", "phase")), _AGE),
    ("", "Service"): (
        _NAMES,
        Printer("Type", _at("spec", "type")),
        Printer("Cluster-IP", _at("spec", "clusterIP", default=NONE)),
        Printer("External-IP", _external_ip),
        Printer("Port(s)", _ports),
        _AGE,
        Printer("Selector", _labels("spec", "selector"), wide=True),
    ),
    ("", "Secret"): (_NAMES, Printer("Type", _at("type")), Printer("Data", _count("data"), "integer"), _AGE),
    ("", "ConfigMap"): (_NAMES, Printer("Data", _configmap_data, "integer"), _AGE),
    ("", "ServiceAccount"): (_NAMES, Printer("Secrets", _count("secrets"), "integer"), _AGE),
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("", "PersistentVolumeClaim"): (
        _NAMES,
        Printer("Status", _claim_status),
        Printer("Volume", _at("spec", "volumeName")),
        Printer("Capacity", _claim_capacity),
        Printer("Access Modes", _access_modes),
        Printer("StorageClass", _at("spec", "storageClassName")),
        Printer("VolumeAttributesClass", _at("spec", "volumeAttributesClassName", default="<unset>")),
        _AGE,
        Printer("VolumeMode", _at("spec", "volumeMode", default="<unset>"), wide=True),
    ),
    ("coordination.k8s.io", "Lease"): (_NAMES, Printer("Holder", _at("spec", "holderIdentity")), _AGE),
    ("rbac.authorization.k8s.io", "Role"): (_NAMES, _CREATED),
    ("rbac.authorization.k8s.io", "ClusterRole"): (_NAMES, _CREATED),
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (_NAMES, _CREATED),
    ("apps", "Deployment"): (
        _NAMES,
        Printer("Ready", _ready_of_replicas),
        Printer("Up-to-date", _at("status", "updatedReplicas", default=0), "integer"),
        Printer("Available", _at("status", "availableReplicas", default=0), "integer"),
        _AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("apps", "ReplicaSet"): (
        _NAMES,
        Printer("Desired", _at("spec", "replicas", default=0), "integer"),
        Printer("Current", _at("status", "replicas", default=0), "integer"),
        Printer("Ready", _at("status", "readyReplicas", default=0), "integer"),
        _AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("apps", "StatefulSet"): (
        _NAMES,
        Printer("Ready", _ready_of_replicas),
        _AGE,
        *_of_template(*_TEMPLATE)[:2],
    ),
    ("apps", "DaemonSet"): (
        _NAMES,
        Printer("Desired", _at("status", "desiredNumberScheduled", default=0), "integer"),
        Printer("Current", _at("status", "currentNumberScheduled", default=0), "integer"),
        Printer("Ready", _at("status", "numberReady", default=0), "integer"),
        Printer("Up-to-date", _at("status", "updatedNumberScheduled", default=0), "integer"),
        Printer("Available", _at("status", "numberAvailable", default=0), "integer"),
        Printer("Node Selector", _labels(*_TEMPLATE, "nodeSelector")),
        _AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("batch", "Job"): (
        _NAMES,
        Printer("Status", _job_status),
        Printer("Completions", _job_completions),
        Printer("Duration", _job_duration),
        _AGE,
        *_of_template(*_TEMPLATE),
    ),
    ("batch", "CronJob"): (
        _NAMES,
        Printer("Schedule", _at("spec", "schedule")),
        Printer("Timezone", _at("spec", "timeZone", default=NONE)),
        Printer("Suspend", _cron_suspended),
        Printer("Active", _count("status", "active"), "integer"),
        Printer("Last Schedule", _last_schedule),
        _AGE,
    ),
    ("networking.k8s.io", "Ingress"): (
        _NAMES,
        Printer("Class", _at("spec", "ingressClassName", default=NONE)),
        Printer("Hosts", _hosts),
        Printer("Address", _ingress_address),
        Printer("Ports", _ingress_ports),
        _AGE,
    ),
}
