"""Checks of a RayCluster beyond the schema."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from reconcile import Quantity

from .field_types import type_faults
from .pod_plan import desired_workers
from .ray_pod_view import Object
from .raycluster_names import FIXED_LABELS
from .raycluster_view import FAULT_TOLERANCE, GroupView, annotation_is, group_view

MAX_LABEL_LENGTH = 63
# One run creates and counts all pods of a cluster, so its size bounds how long others have to wait.
MAX_PODS = 10_000
MAX_GROUPS = 200
_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
_REDIS_ADDRESS = "RAY_REDIS_ADDRESS"
_SERVICE_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")


def invalid_fields(metadata: Object, spec: Object) -> list[str]:
    """Every fault of a RayCluster, with the path of the field.

    If a field has a wrong type, only such faults are returned: the other checks could not read the spec.
    """
    if shapes := type_faults(spec):
        return shapes
    groups = [(entry, group_view(entry)) for entry in spec.get("workerGroupSpecs") or ()]
    names = Counter(view.name for _, view in groups)
    head = spec.get("headGroupSpec") or {}
    return [
        *_invalid_name(metadata),
        *_invalid_template("spec.headGroupSpec", head),
        *_invalid_amounts("spec.headGroupSpec.resources", head.get("resources") or {}),
        *_invalid_labels("spec.headGroupSpec.labels", head.get("labels") or {}),
        *_invalid_port(head.get("rayStartParams") or {}),
        *_invalid_service(head),
        *(found for entry, view in groups for found in _invalid_group(entry, view)),
        *(f"spec.workerGroupSpecs: group {name!r} occurs twice" for name, n in names.items() if n > 1),
        *_invalid_scale(spec, [view for _, view in groups]),
        *_invalid_number(spec, groups),
        *_invalid_together(spec, [view for _, view in groups]),
        *_invalid_fault_tolerance(metadata.get("annotations") or {}, spec),
    ]


def _invalid_name(metadata: Object) -> Iterator[str]:
    if len(metadata["name"]) > MAX_LABEL_LENGTH:
        yield f"metadata.name: must have {MAX_LABEL_LENGTH} characters or fewer: it becomes a label"


def _invalid_port(params: Mapping[str, str]) -> Iterator[str]:
    port = params.get("port", "1")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        yield "spec.headGroupSpec.rayStartParams.port: must be the number of a port"


def _invalid_service(head: Object) -> Iterator[str]:
    service = (head.get("headService") or {}).get("spec") or {}
    if service.get("externalIPs"):
        why = "would take traffic for addresses of others; make such a Service yourself and remove the field"
        yield f"spec.headGroupSpec.headService.spec.externalIPs: {why}"
    kind = head.get("serviceType")
    if kind and kind not in _SERVICE_TYPES:
        yield f"spec.headGroupSpec.serviceType: expected {', '.join(_SERVICE_TYPES)}, got {kind!r}"


def _invalid_group(entry: Object, group: GroupView) -> Iterator[str]:
    where = f"spec.workerGroupSpecs[{group.name}]"
    if not group.name:
        yield f"{where}: groupName is missing"
    elif len(group.name) > MAX_LABEL_LENGTH or not _LABEL.fullmatch(group.name):
        yield f"{where}.groupName: must be the value of a label"
    for name in ("replicas", "minReplicas", "maxReplicas"):
        if (number := entry.get(name)) is not None and number < 0:
            yield f"{where}.{name}: must not be negative"
    if group.num_of_hosts < 1:
        yield f"{where}.numOfHosts: must be at least 1"
    if group.min_replicas > group.max_replicas:
        yield f"{where}.minReplicas: {group.min_replicas} is more than maxReplicas {group.max_replicas}"
    yield from _invalid_template(where, entry)
    yield from _invalid_amounts(f"{where}.resources", group.resources)
    yield from _invalid_labels(f"{where}.labels", group.labels)


def _invalid_template(where: str, group: Object) -> Iterator[str]:
    containers = ((group.get("template") or {}).get("spec") or {}).get("containers") or ()
    if not containers:
        yield f"{where}.template.spec.containers: at least one container is needed; the first runs Ray"
    for container in containers:
        path = f"{where}.template.spec.containers[{container.get('name')}].resources"
        for kind in ("requests", "limits"):
            amounts = (container.get("resources") or {}).get(kind) or {}
            yield from _invalid_amounts(f"{path}.{kind}", amounts)


def _invalid_amounts(path: str, amounts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in amounts.items():
        try:
            Quantity(value)
        except ValueError as error:
            yield f"{path}.{name}: {error}"


def _invalid_labels(path: str, labels: Mapping[str, str]) -> Iterator[str]:
    for name, value in labels.items():
        if name in FIXED_LABELS:
            yield f"{path}.{name}: is set by the controller"
        elif len(value) > MAX_LABEL_LENGTH or not _LABEL.fullmatch(value):
            yield f"{path}.{name}: must be the value of a label"


def _invalid_scale(spec: Object, groups: list[GroupView]) -> Iterator[str]:
    replicas = spec.get("replicas")
    if replicas is None:
        return
    if len(groups) != 1:
        yield f"spec.replicas: is for clusters of one worker group, and there are {len(groups)}"
    if replicas < 0:
        yield "spec.replicas: must not be negative"


def _invalid_number(spec: Object, groups: list[tuple[Object, GroupView]]) -> Iterator[str]:
    if len(groups) > MAX_GROUPS:
        yield f"spec.workerGroupSpecs: has {len(groups)} groups, and {MAX_GROUPS} are the most"
    pods = sum(
        desired_workers(group_view(entry, spec.get("replicas")) if len(groups) == 1 else view)
        for entry, view in groups
    )
    if pods > MAX_PODS:
        why = f"ask for {pods} pods, and {MAX_PODS} are the most for one cluster: divide it among several"
        yield f"spec.workerGroupSpecs: {why}"


def _invalid_together(spec: Object, groups: list[GroupView]) -> Iterator[str]:
    if not spec.get("enableInTreeAutoscaling"):
        return
    for group in groups:
        if group.suspend:
            why = "a group cannot be suspended while the autoscaler decides its size"
            yield f"spec.workerGroupSpecs[{group.name}].suspend: {why}"
    if spec.get("replicas") is not None:
        yield "spec.replicas: the autoscaler decides the sizes of groups: remove one of the two"


def _invalid_fault_tolerance(annotations: Mapping[str, str], spec: Object) -> Iterator[str]:
    options = spec.get("gcsFaultToleranceOptions")
    if options is None:
        return
    path = "spec.gcsFaultToleranceOptions"
    if annotation_is(annotations, FAULT_TOLERANCE, "false"):
        yield f"metadata.annotations.{FAULT_TOLERANCE}: says false, and {path} is set"
    if not options.get("redisAddress") and options.get("backend") != "rocksdb":
        yield f"{path}.redisAddress: is missing"
    head = spec.get("headGroupSpec") or {}
    containers = ((head.get("template") or {}).get("spec") or {}).get("containers") or ()
    environment = containers[0].get("env") or () if containers else ()
    if any(variable.get("name") == _REDIS_ADDRESS for variable in environment):
        where = "spec.headGroupSpec.template.spec.containers[0].env"
        yield f"{where}: {_REDIS_ADDRESS} is set by {path}.redisAddress"
    if "redis-password" in (head.get("rayStartParams") or {}):
        why = f"is set by {path}.redisPassword"
        yield f"spec.headGroupSpec.rayStartParams.redis-password: {why}"
