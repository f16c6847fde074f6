"""Deployments, ReplicaSets, StatefulSets, DaemonSets and ControllerRevisions."""

import datetime
from typing import Any, Final

from informers.apimachinery.name_rules import label_faults
from reconcile.embedded.kinds.built_in_kind import (
    BuiltInKind,
    Object,
    fill,
    fill_empty,
    fixed,
    spec_and_status,
)
from reconcile.embedded.kinds.pod_kinds import OF_TEMPLATE, POD_MESSAGES, complete_template
from reconcile.embedded.kinds.stateful_sets import (
    default_stateful_set,
    prepare_stateful_set,
    stateful_set_causes,
    stateful_set_warnings,
)
from reconcile.embedded.kinds.workload_checks import (
    daemon_set_causes,
    deployment_causes,
    name_warnings,
    replica_set_causes,
)
from reconcile.embedded.kinds.workload_status import (
    daemon_set_status_causes,
    deployment_status_causes,
    replica_set_status_causes,
    stateful_set_status_causes,
)
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, View, at, labels, pick
from reconcile.embedded.served import CellColumn, ScalePaths

SCALE: Final = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_INT64_DIGITS: Final = 19


def _default_deployment(deployment: Object) -> None:
    spec = deployment["spec"]
    _complete_strategy(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    complete_template(spec)


def _complete_strategy(spec: Object, field: str, **rolling: Any) -> None:
    strategy = spec[field] = spec.get(field) or {}
    fill_empty(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy, {"rollingUpdate": rolling})


def _default_daemon_set(daemon_set: Object) -> None:
    spec = daemon_set["spec"]
    _complete_strategy(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
    complete_template(spec)
    # A field of the server's own type, which every version shows as an annotation.
    metadata = daemon_set["metadata"]
    metadata["annotations"] = {_TEMPLATE_GENERATION: "0", **(metadata.get("annotations") or {})}


def _prepare_daemon_set(daemon_set: Object, old: Object | None) -> None:
    annotations = daemon_set["metadata"]["annotations"]
    if old is None:
        annotations[_TEMPLATE_GENERATION] = str(max(_template_generation(daemon_set), 1))
        return
    changed = daemon_set["spec"]["template"] != old["spec"].get("template")
    annotations[_TEMPLATE_GENERATION] = str(_template_generation(old) + changed)


def _template_generation(daemon_set: Object) -> int:
    text = (daemon_set["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _INT64_DIGITS else 0


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


REPLICA_COLUMNS: Final = (
    NAMES,
    CellColumn("Desired", at("spec", "replicas", default=0), "integer"),
    CellColumn("Current", at("status", "replicas", default=0), "integer"),
    CellColumn("Ready", at("status", "readyReplicas", default=0), "integer"),
    AGE,
)

KINDS: Final = (
    BuiltInKind(
        "apps", "Deployment", short_names=("deploy",), categories=("all",), has_status=True,
        has_generation=True, scale=SCALE,
        fills={"spec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}},
        defaults=_default_deployment,
        first_status={},
        names_missing_fields=True,
        checks=deployment_causes,
        status_checks=deployment_status_causes,
        status_keeps=("labels",),
        generation_follows=("annotations",),
        warnings=name_warnings,
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
        has_generation=True, scale=SCALE, selectable_fields=(".status.replicas",),
        fills={"spec": {"replicas": 1}},
        defaults=lambda replica_set: complete_template(replica_set["spec"]),
        first_status={"replicas": 0},
        names_missing_fields=True,
        checks=replica_set_causes,
        status_checks=replica_set_status_causes,
        warnings=name_warnings,
        columns=(*REPLICA_COLUMNS, *OF_TEMPLATE),
        viewed=("", "scale", "status"),
        edited=("", "scale"),
    ),
    BuiltInKind(
        "apps", "StatefulSet", short_names=("sts",), categories=("all",), has_status=True,
        has_generation=True, scale=SCALE,
        fills={"spec": {"replicas": 1, "revisionHistoryLimit": 10}},
        defaults=default_stateful_set,
        prepare=prepare_stateful_set,
        first_status={"replicas": 0, "availableReplicas": 0},
        names_missing_fields=True,
        checks=stateful_set_causes,
        status_checks=stateful_set_status_causes,
        check_name=label_faults,
        warnings=stateful_set_warnings,
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
        names_missing_fields=True,
        checks=daemon_set_causes,
        status_checks=daemon_set_status_causes,
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
