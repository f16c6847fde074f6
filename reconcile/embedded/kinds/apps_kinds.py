"""Deployments, ReplicaSets, StatefulSets, DaemonSets and ControllerRevisions."""

import datetime
from collections.abc import Iterator
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import (
    BuiltInKind,
    Object,
    fill,
    fixed,
    not_negative,
    required,
    spec_and_status,
)
from reconcile.embedded.kinds.pod_kinds import OF_TEMPLATE, POD_MESSAGES, complete_template, template_causes
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, View, at, labels, pick
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_invalid
from reconcile.embedded.served import CellColumn, ScalePaths

_APPS_SCALE = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_STATEFUL_SET_CHANGES = frozenset(
    {
        "minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "replicas",
        "revisionHistoryLimit", "template", "updateStrategy",
    }
)  # fmt: skip


def _default_deployment(deployment: Object) -> None:
    spec = deployment["spec"]
    _complete_strategy(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    complete_template(spec)


def _complete_strategy(spec: Object, field: str, **rolling: Any) -> None:
    fill(spec, {field: {"type": "RollingUpdate"}})
    if spec[field]["type"] == "RollingUpdate":
        fill(spec[field], {"rollingUpdate": rolling})


def _default_stateful_set(stateful_set: Object) -> None:
    spec = stateful_set["spec"]
    _complete_strategy(spec, "updateStrategy", partition=0)
    kept = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    claim = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "status": {"phase": "Pending"},
        "spec": {"volumeMode": "Filesystem"},
    }
    fill(spec, {"persistentVolumeClaimRetentionPolicy": kept, "volumeClaimTemplates": [claim]})
    complete_template(spec)


def _validate_stateful_set(stateful_set: Object, old: Object | None) -> Iterator[FieldCause]:
    for cause in _validate_workload(stateful_set, None):
        if old is None or not cause.field:
            yield cause
    if old is None:
        return
    spec, before = stateful_set["spec"], old["spec"]
    changed = {name for name in {*spec, *before} if spec.get(name) != before.get(name)}
    if not changed <= _STATEFUL_SET_CHANGES:
        why = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden"
        )
        yield value_forbidden("spec", why)


def _default_daemon_set(daemon_set: Object) -> None:
    spec = daemon_set["spec"]
    _complete_strategy(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    complete_template(spec)


def _prepare_daemon_set(daemon_set: Object, old: Object | None) -> None:
    spec = daemon_set["spec"]
    before = ((old or {}).get("metadata") or {}).get("annotations") or {}
    count = int(before.get(_TEMPLATE_GENERATION) or 0)
    if old is None or spec["template"] != old["spec"].get("template"):
        count += 1
    metadata = daemon_set["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(count)}


def _validate_workload(workload: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = workload["spec"]
    selector = spec.get("selector") or {}
    yield from required(spec, "spec", "selector")
    labels = ((spec["template"].get("metadata") or {}).get("labels")) or {}
    matched = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in matched.items()):
        why = "`selector` does not match template `labels`"
        yield value_invalid("spec.template.metadata.labels", labels, why)
    yield from template_causes(spec["template"], "spec.template", ("Always",))
    if old is not None and _filled(old["spec"].get("selector")) != _filled(spec.get("selector")):
        yield value_invalid("spec.selector", selector, "field is immutable")
    yield from not_negative(spec, "spec", "replicas")


def _filled(selector: Object | None) -> Object:
    """A selector without its empty members, which mean the same as missing ones."""
    return {name: value for name, value in (selector or {}).items() if value}


def _ready_of_replicas(obj: View, _now: datetime.datetime) -> str:
    desired = pick(obj, "spec", "replicas")
    return f"{pick(obj, 'status', 'readyReplicas') or 0}/{1 if desired is None else desired}"


def _controller(obj: View, _now: datetime.datetime) -> str:
    owners = pick(obj, "metadata", "ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is None:
        return NONE
    group, _, _ = str(owner.get("apiVersion", "")).rpartition("/")
    return f"{owner.get('kind', '').lower()}.{group}/{owner.get('name')}"


KINDS: Final = (
    BuiltInKind(
        "apps", "Deployment", short_names=("deploy",), categories=("all",), has_status=True,
        has_generation=True, scale=_APPS_SCALE,
        fills={"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}},
        defaults=_default_deployment,
        first_status={},
        checks=_validate_workload,
        columns=(
            NAMES,
            CellColumn("Ready", _ready_of_replicas),
            CellColumn("Up-to-date", at("status", "updatedReplicas", default=0), "integer"),
            CellColumn("Available", at("status", "availableReplicas", default=0), "integer"),
            AGE,
            *OF_TEMPLATE,
        ),
        messages=POD_MESSAGES | {
            **spec_and_status("Deployment"),
            "DeploymentSpec": {
                1: "replicas:*int", 2: "selector:*LabelSelector", 3: "template:PodTemplateSpec",
                4: "strategy:DeploymentStrategy", 5: "minReadySeconds:int", 6: "revisionHistoryLimit:*int",
                7: "paused:bool", 9: "progressDeadlineSeconds:*int",
            },
            "DeploymentStrategy": {1: "type:string"},
            "DeploymentStatus": {
                1: "observedGeneration:int", 2: "replicas:int", 3: "updatedReplicas:int",
                4: "availableReplicas:int", 5: "unavailableReplicas:int", 7: "readyReplicas:int",
            },
        },
        viewed=("", "scale", "status"),
        edited=("", "rollback", "scale"),
    ),
    BuiltInKind(
        "apps", "ReplicaSet", short_names=("rs",), categories=("all",), has_status=True,
        has_generation=True, scale=_APPS_SCALE, selectable_fields=(".status.replicas",),
        fills={"spec": {"replicas": 1}},
        defaults=lambda replica_set: complete_template(replica_set["spec"]),
        first_status={"replicas": 0},
        checks=_validate_workload,
        columns=(
            NAMES,
            CellColumn("Desired", at("spec", "replicas", default=0), "integer"),
            CellColumn("Current", at("status", "replicas", default=0), "integer"),
            CellColumn("Ready", at("status", "readyReplicas", default=0), "integer"),
            AGE,
            *OF_TEMPLATE,
        ),
        viewed=("", "scale", "status"),
        edited=("", "scale"),
    ),
    BuiltInKind(
        "apps", "StatefulSet", short_names=("sts",), categories=("all",), has_status=True,
        has_generation=True, scale=_APPS_SCALE,
        fills={"spec": {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"}},
        defaults=_default_stateful_set,
        first_status={"replicas": 0, "availableReplicas": 0},
        checks=_validate_stateful_set,
        columns=(NAMES, CellColumn("Ready", _ready_of_replicas), AGE, *OF_TEMPLATE[:2]),
        viewed=("", "scale", "status"),
        edited=("", "scale"),
    ),
    BuiltInKind(
        "apps", "DaemonSet", short_names=("ds",), categories=("all",), has_status=True, has_generation=True,
        fills={"spec": {"revisionHistoryLimit": 10}},
        defaults=_default_daemon_set,
        prepare=_prepare_daemon_set,
        first_status={
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
        checks=_validate_workload,
        columns=(
            NAMES,
            CellColumn("Desired", at("status", "desiredNumberScheduled", default=0), "integer"),
            CellColumn("Current", at("status", "currentNumberScheduled", default=0), "integer"),
            CellColumn("Ready", at("status", "numberReady", default=0), "integer"),
            CellColumn("Up-to-date", at("status", "updatedNumberScheduled", default=0), "integer"),
            CellColumn("Available", at("status", "numberAvailable", default=0), "integer"),
            CellColumn("Node Selector", labels("spec", "template", "spec", "nodeSelector")),
            AGE,
            *OF_TEMPLATE,
        ),
        viewed=("", "status"),
        edited=("",),
    ),
    BuiltInKind(
        "apps", "ControllerRevision",
        checks=lambda revision, old: fixed(revision, old, "data"),
        columns=(
            NAMES,
            CellColumn("Controller", _controller),
            CellColumn("Revision", at("revision", default=0), "integer"),
            AGE,
        ),
        viewed=("",),
    ),
)  # fmt: skip
