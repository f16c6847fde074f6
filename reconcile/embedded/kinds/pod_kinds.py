"""Pods, alone and as templates."""

import datetime
from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object
from reconcile.embedded.kinds.pod_admission import admit_pod
from reconcile.embedded.kinds.pod_changes import PARTS, update_causes
from reconcile.embedded.kinds.pod_checks import new_pod_causes, pod_causes
from reconcile.embedded.kinds.pod_defaults import complete_template, default_pod
from reconcile.embedded.kinds.pod_status import pod_ready, pod_restarts, pod_status
from reconcile.embedded.kinds.pod_status_rules import status_causes
from reconcile.embedded.kinds.pod_strategy import prepare_pod
from reconcile.embedded.kinds.pod_templates import template_causes
from reconcile.embedded.kinds.pod_warnings import pod_warnings, status_warnings
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, Cell, View, at, joined, met_conditions, pick
from reconcile.embedded.kubectl.protobuf import Messages
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.served import CellColumn

__all__ = ["KINDS", "OF_TEMPLATE", "POD_MESSAGES", "complete_template", "template_causes"]


def _pod_causes(pod: Object, old: Object | None) -> Iterator[FieldCause]:
    yield from pod_causes(pod)
    yield from new_pod_causes(pod) if old is None else update_causes(pod, old)


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
        answers_object_on_delete=True, metadata_fault_copies=4, status_keeps=("ownerReferences",),
        selectable_fields=(
            ".spec.nodeName", ".spec.restartPolicy", ".spec.schedulerName", ".spec.serviceAccountName",
            ".spec.hostNetwork", ".status.phase", ".status.podIP", ".status.nominatedNodeName",
        ),
        defaults=default_pod,
        admit=admit_pod,
        prepare=prepare_pod,
        checks=_pod_causes,
        names_missing_fields=True,
        status_checks=status_causes,
        warnings=pod_warnings,
        status_warnings=status_warnings,
        parts=PARTS,
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
