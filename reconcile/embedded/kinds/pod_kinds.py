"""Pods, alone and as templates."""

import datetime
from collections.abc import Iterator, Sequence
from typing import Final

from informers.apimachinery.name_rules import label_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, one_of, required
from reconcile.embedded.kinds.pod_admission import admit_pod
from reconcile.embedded.kinds.pod_defaults import complete_template, default_pod
from reconcile.embedded.kinds.pod_resources import qos_class
from reconcile.embedded.kinds.pod_status import pod_ready, pod_restarts, pod_status
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, Cell, View, at, joined, met_conditions, pick
from reconcile.embedded.kubectl.protobuf import Messages
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_duplicate, value_forbidden, value_invalid
from reconcile.embedded.served import CellColumn

__all__ = ["KINDS", "OF_TEMPLATE", "POD_MESSAGES", "complete_template", "template_causes"]


def _prepare_pod(pod: Object, old: Object | None) -> None:
    if old is None:
        pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}


def _validate_pod(pod: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = pod.get("spec") or {}
    if old is None:
        yield from container_causes(spec, "spec")
        return
    before = old.get("spec", {})
    changed = {name for name in {*spec, *before} if spec.get(name) != before.get(name)}
    free = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates"}
    if _only_images_differ(spec, before):
        free |= {"containers", "initContainers"}
    if not changed <= free:
        why = (
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions "
            "to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
            "was previously negative)"
        )
        yield value_forbidden("spec", why)


def container_causes(spec: Object, place: str) -> Iterator[FieldCause]:
    yield from required(spec, place, "containers")
    seen: set[str] = set()
    for index, container in enumerate(spec.get("containers") or ()):
        name, path = container.get("name") or "", f"{place}.containers[{index}]"
        yield from required(container, path, "name")
        if name and name in seen:
            yield value_duplicate(f"{path}.name", name)
        elif name:
            yield from (value_invalid(f"{path}.name", name, fault) for fault in label_faults(name))
        yield from required(container, path, "image")
        seen.add(name)


def _only_images_differ(spec: Object, old: Object) -> bool:
    def without_images(held: Object) -> list[list[Object]]:
        parts = (held.get(name) or () for name in ("containers", "initContainers"))
        return [[{**container, "image": ""} for container in part] for part in parts]

    return without_images(spec) == without_images(old)


def template_causes(template: Object, path: str, policies: Sequence[str]) -> Iterator[FieldCause]:
    spec = template.get("spec") or {}
    yield from container_causes(spec, f"{path}.spec")
    yield from one_of(spec, f"{path}.spec.restartPolicy", policies)


# --- columns ---------------------------------------------------------------------------------


def _pod_ip(obj: View, _now: datetime.datetime) -> str:
    ips = pick(obj, "status", "podIPs") or ()
    return (ips[0].get("ip") if ips else pick(obj, "status", "podIP")) or NONE


def _readiness_gates(obj: View, _now: datetime.datetime) -> str:
    gates = [gate.get("conditionType") for gate in pick(obj, "spec", "readinessGates") or ()]
    if not gates:
        return NONE
    true = met_conditions(obj)
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _containers(field: str) -> Cell:
    def cell(obj: View, _now: datetime.datetime) -> str:
        containers = pick(obj, "spec", "template", "spec", "containers") or ()
        return joined(container.get(field) for container in containers)

    return cell


def _selector(obj: View, _now: datetime.datetime) -> str:
    pairs = pick(obj, "spec", "selector", "matchLabels") or {}
    expressions = pick(obj, "spec", "selector", "matchExpressions") or ()
    return joined([*(f"{key}={pairs[key]}" for key in sorted(pairs)), *map(_expression, expressions)])


def _expression(expression: View) -> str:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    if operator in ("Exists", "DoesNotExist"):
        return f"{'!' if operator == 'DoesNotExist' else ''}{key}"
    return f"{key} {operator.lower()} ({','.join(expression.get('values', ()))})"


OF_TEMPLATE: Final = (
    CellColumn("Containers", _containers("name"), wide=True),
    CellColumn("Images", _containers("image"), wide=True),
    CellColumn("Selector", _selector, wide=True),
)
"""The last columns of kinds with a pod template."""


# --- the kind --------------------------------------------------------------------------------


POD_MESSAGES: Final[Messages] = {
    "PodTemplateSpec": {1: "metadata:ObjectMeta", 2: "spec:PodSpec"},
    "PodSpec": {
        2: "containers:[Container]", 3: "restartPolicy:string", 4: "terminationGracePeriodSeconds:*int",
        5: "activeDeadlineSeconds:*int", 6: "dnsPolicy:string", 7: "nodeSelector:{string}",
        8: "serviceAccountName:string", 9: "serviceAccount:string", 10: "nodeName:string",
        11: "hostNetwork:bool", 12: "hostPID:bool", 13: "hostIPC:bool",
        14: "securityContext:*PodSecurityContext", 15: "imagePullSecrets:[LocalObjectReference]",
        16: "hostname:string", 17: "subdomain:string", 19: "schedulerName:string",
        20: "initContainers:[Container]", 21: "automountServiceAccountToken:*bool",
        24: "priorityClassName:string", 25: "priority:*int",
    },
    "PodSecurityContext": {
        2: "runAsUser:*int", 3: "runAsNonRoot:*bool", 4: "supplementalGroups:[int]", 5: "fsGroup:*int",
        6: "runAsGroup:*int",
    },
    "Container": {
        1: "name:string", 2: "image:string", 3: "command:[string]", 4: "args:[string]",
        5: "workingDir:string", 6: "ports:[ContainerPort]", 7: "env:[EnvVar]",
        8: "resources:ResourceRequirements", 13: "terminationMessagePath:string",
        14: "imagePullPolicy:string", 16: "stdin:bool", 17: "stdinOnce:bool", 18: "tty:bool",
        20: "terminationMessagePolicy:string", 24: "restartPolicy:*string",
    },
    "ContainerPort": {
        1: "name:string", 2: "hostPort:int", 3: "containerPort:int", 4: "protocol:string", 5: "hostIP:string",
    },
    "EnvVar": {1: "name:string", 2: "value:string"},
    "ResourceRequirements": {1: "limits:{quantity}", 2: "requests:{quantity}"},
}  # fmt: skip
"""The messages of kinds with a pod template."""

KINDS: Final = (
    BuiltInKind(
        "", "Pod", short_names=("po",), categories=("all",), has_status=True, has_generation=True,
        answers_object_on_delete=True,
        selectable_fields=(
            ".spec.nodeName", ".spec.restartPolicy", ".spec.schedulerName", ".spec.serviceAccountName",
            ".spec.hostNetwork", ".status.phase", ".status.podIP", ".status.nominatedNodeName",
        ),
        defaults=default_pod,
        admit=admit_pod,
        prepare=_prepare_pod,
        checks=_validate_pod,
        columns=(
            NAMES,
            CellColumn("Ready", lambda obj, _now: pod_ready(obj)),
            CellColumn("Status", lambda obj, _now: pod_status(obj)),
            CellColumn("Restarts", pod_restarts),
            AGE,
            CellColumn("IP", _pod_ip, wide=True),
            CellColumn("Node", at("spec", "nodeName", default=NONE), wide=True),
            CellColumn("Nominated Node", at("status", "nominatedNodeName", default=NONE), wide=True),
            CellColumn("Readiness Gates", _readiness_gates, wide=True),
        ),
        messages={
            "Eviction": {1: "metadata:ObjectMeta", 2: "deleteOptions:*DeleteOptions"},
            "DeleteOptions": {
                1: "gracePeriodSeconds:*int", 2: "preconditions:*Preconditions",
                3: "orphanDependents:*bool", 4: "propagationPolicy:*string", 5: "dryRun:[string]",
            },
            "Preconditions": {1: "uid:*string", 2: "resourceVersion:*string"},
        },
        subresource_bodies=(("policy/v1", "Eviction"),),
        viewed=("", "log", "status"),
        edited=("",),
    ),
)  # fmt: skip
