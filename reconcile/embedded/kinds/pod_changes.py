"""What may change in a pod: a few fields by an update, amounts by a resize, and ephemeral containers."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import Object, ObjectPart, same
from reconcile.embedded.kinds.pod_annotations import (
    MIRROR,
    annotation_rule_causes,
    changed_annotation_causes,
)
from reconcile.embedded.kinds.pod_checks import pod_causes
from reconcile.embedded.kinds.pod_containers import image_causes
from reconcile.embedded.kinds.pod_parts import each, is_sidecar, part
from reconcile.embedded.kinds.pod_placement import REQUIRED, toleration_causes
from reconcile.embedded.kinds.pod_resources import qos_class
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_invalid, value_required

_MAX_SECONDS: Final = 2**31 - 1
_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow "
    "it to be set to 1 if it was previously negative)"
)
_LISTS: Final = ("containers", "initContainers")
_RESIZABLE: Final = ("resources", "resizePolicy")
# What ResetObjectMetaForStatus keeps as it was.
_FIXED_METADATA: Final = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)

Causes = Iterator[FieldCause]


# --- an update --------------------------------------------------------------------------------


def update_causes(pod: Object, old: Object) -> Causes:
    """The faults of a change of a pod, beyond those of the pod that results (ValidatePodUpdate)."""
    spec, before = pod["spec"], old["spec"]
    yield from annotation_causes(pod, old)
    for name in _LISTS:
        new, former = each(spec, name), each(before, name)
        if len(new) != len(former):
            yield value_forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(new):
            if not container.get("image"):
                yield value_required(f"spec.{name}[{index}].image")
            yield from image_causes(container, f"spec.{name}[{index}]")
    deadline = list(_deadline_causes(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")))
    yield from deadline
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return
    yield from _toleration_causes(spec, before)
    yield from _gate_causes(spec, before)
    if not same(spec, before):
        yield from _immutable_causes(spec, before)


def annotation_causes(pod: Object, old: Object) -> Causes:
    """The faults of changed annotations; the real server checks all of them here once more."""
    annotations, path = part(pod, "metadata", "annotations"), "metadata.annotations"
    yield from changed_annotation_causes(annotations, part(old, "metadata", "annotations"), path)
    yield from annotation_rule_causes(annotations, pod["spec"], path)


def _deadline_causes(new: int | None, old: int | None) -> Causes:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield value_invalid(path, new, "must not update from a positive integer to nil value")
    elif not 0 <= new <= _MAX_SECONDS:
        yield value_invalid(path, new, f"must be between 0 and {_MAX_SECONDS}, inclusive")
    elif old is not None and old < new:
        yield value_invalid(path, new, "must be less than or equal to previous value")


def _toleration_causes(spec: Object, before: Object) -> Causes:
    new = [_without_seconds(one) for one in each(spec, "tolerations")]
    if any(_without_seconds(one) not in new for one in each(before, "tolerations")):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield value_forbidden("spec.tolerations", why)
        return
    yield from toleration_causes(each(spec, "tolerations"), "spec.tolerations")


def _without_seconds(toleration: Object) -> Object:
    return {name: value for name, value in toleration.items() if value and name != "tolerationSeconds"}


def _gate_causes(spec: Object, before: Object) -> Causes:
    known = {gate.get("name") for gate in each(before, "schedulingGates")}
    for index, gate in enumerate(each(spec, "schedulingGates")):
        if gate.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield value_forbidden(f"spec.schedulingGates[{index}].name", why)


def _immutable_causes(spec: Object, before: Object) -> Causes:
    fixed = deepcopy(spec)
    for name in _LISTS:
        for container, former in zip(each(fixed, name), each(before, name), strict=True):
            container["image"] = former.get("image")
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        fixed[name] = before.get(name)
    grace = before.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and fixed.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = grace
    if before.get("schedulingGates"):
        yield from _gated_causes(spec, before)
        fixed["nodeSelector"] = before.get("nodeSelector")
        affinity = {**part(fixed, "affinity"), "nodeAffinity": part(before, "affinity").get("nodeAffinity")}
        fixed["affinity"] = affinity
    if not same(fixed, before):
        yield value_forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}")


def _gated_causes(spec: Object, before: Object) -> Causes:
    """A pod that waits for its gates may be held to fewer nodes, and to no others."""
    selector, former = part(spec, "nodeSelector"), part(before, "nodeSelector")
    if any(selector.get(key) != value for key, value in former.items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield value_invalid("spec.nodeSelector", "", why)
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    old_terms = each(part(before, "affinity", "nodeAffinity", REQUIRED), "nodeSelectorTerms")
    new_terms = each(part(spec, "affinity", "nodeAffinity", REQUIRED), "nodeSelectorTerms")
    if old_terms and len(old_terms) != len(new_terms):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield value_invalid(path, "", why)
        return
    for index, (new, old) in enumerate(zip(new_terms, old_terms, strict=False)):
        if not _only_adds(new, old):
            why = "only additions are allowed (no mutations or deletions)"
            yield value_invalid(f"{path}[{index}]", "", why)


def _only_adds(new: Object, old: Object) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(name) for name in fields):
        return not any(new.get(name) for name in fields)
    return all(same((new.get(name) or [])[: len(old.get(name) or [])], old.get(name)) for name in fields)


# --- ephemeral containers ---------------------------------------------------------------------


def _keep_but_ephemeral(pod: Object, old: Object) -> None:
    added = pod["spec"].get("ephemeralContainers")
    _keep_but(pod, old, {**old["spec"], "ephemeralContainers": added or []})


def _keep_but(pod: Object, old: Object, spec: Object) -> None:
    """Make a pod the old one, but for this spec and for metadata that its writer may change."""
    pod["spec"] = {name: value for name, value in spec.items() if value not in (None, [])}
    pod["metadata"] = {name: value for name, value in pod["metadata"].items() if name not in _FIXED_METADATA}
    pod["metadata"] |= {name: old["metadata"][name] for name in _FIXED_METADATA if name in old["metadata"]}


def _ephemeral_causes(pod: Object, old: Object) -> Causes:
    """The faults of a change of ephemeral containers: they may be added, and nothing else."""
    if _is_mirror(old):
        yield value_forbidden("", "static pods do not support ephemeral containers")
        return
    yield from pod_causes(pod)
    yield from annotation_causes(pod, old)
    now = {container.get("name"): container for container in each(pod["spec"], "ephemeralContainers")}
    for container in each(old["spec"], "ephemeralContainers"):
        name = container.get("name")
        if name not in now:
            why = f'existing ephemeral containers "{name}" may not be removed'
            yield value_forbidden("spec.ephemeralContainers", why)
        elif not same(now[name], container):
            why = f'existing ephemeral containers "{name}" may not be changed'
            yield value_forbidden("spec.ephemeralContainers", why)


def _is_mirror(pod: Object) -> bool:
    """Whether it stands for a static pod of a node."""
    return MIRROR in part(pod, "metadata", "annotations")


# --- a resize ---------------------------------------------------------------------------------


def _keep_but_amounts(pod: Object, old: Object) -> None:
    spec, before = pod["spec"], old["spec"]
    kept = {**before, "resources": spec.get("resources")}
    for name in _LISTS:
        new, former = each(spec, name), each(before, name)
        if [one.get("name") for one in new] != [one.get("name") for one in former]:
            kept[name] = new  # which the rules refuse
            continue
        kept[name] = [
            {**old_one, **{field: one.get(field) for field in _RESIZABLE if one.get(field) is not None}}
            for one, old_one in zip(new, former, strict=True)
        ]
    _keep_but(pod, old, kept)


def _resize_causes(pod: Object, old: Object) -> Causes:
    """The faults of a change of amounts: only CPU and memory may change, and not go (ValidatePodResize)."""
    if _is_mirror(old):
        yield value_forbidden("", "static pods cannot be resized")
        return
    if part(old["spec"], "os").get("name") == "windows":
        yield value_forbidden("", "windows pods cannot be resized")
        return
    spec, before = pod["spec"], old["spec"]
    yield from pod_causes(pod)
    if part(old, "status").get("qosClass", qos_class(before)) != qos_class(spec):
        yield value_invalid("spec", "", "Pod QOS Class may not change as a result of resizing")
    statuses = each(part(old, "status"), "containerStatuses")
    running = [one for one in statuses if part(one, "state").get("running") is not None]
    if running and running[0].get("resources") is None:
        yield value_forbidden("spec", "Pod running on node without support for resize")
    differs = False
    for name in ("initContainers", "containers"):
        pairs = zip(each(spec, name), each(before, name), strict=False)
        for index, (container, former) in enumerate(pairs):
            place = f"spec.{name}[{index}].resources"
            sized = name == "containers" or is_sidecar(former)
            if sized:
                yield from _amount_causes(container, former, place)
            kept = _with_former_amounts(container, former) if sized else container
            if not same(kept, former):
                differs = True
                yield value_forbidden("spec", "only cpu and memory resources are mutable")
    if not differs and not _same_but_for_containers(spec, before):
        yield value_forbidden("spec", "only cpu and memory resources are mutable")


def _same_but_for_containers(spec: Object, before: Object) -> bool:
    return all(len(spec.get(name) or ()) == len(before.get(name) or ()) for name in _LISTS) and same(
        {**spec, **dict.fromkeys(_LISTS)}, {**before, **dict.fromkeys(_LISTS)}
    )


def _amount_causes(container: Object, former: Object, path: str) -> Causes:
    new, old = part(container, "resources"), part(former, "resources")
    for kind in ("requests", "limits"):
        if set(old.get(kind) or ()) - set(new.get(kind) or ()):
            yield value_forbidden(f"{path}.{kind}", f"resource {kind} cannot be removed")


def _with_former_amounts(container: Object, former: Object) -> Object:
    """The container with the CPU and memory that it had."""
    resources: dict[str, Any] = {}
    for kind in ("limits", "requests"):
        old = part(former, "resources").get(kind) or {}
        if not old:
            continue
        new = part(container, "resources").get(kind) or {}
        others = {name: amount for name, amount in new.items() if name not in ("cpu", "memory")}
        resources[kind] = {**others, **{name: old[name] for name in ("cpu", "memory") if name in old}}
    return {**container, "resources": resources}


PARTS: Final = {
    "ephemeralcontainers": ObjectPart(_keep_but_ephemeral, _ephemeral_causes),
    "resize": ObjectPart(_keep_but_amounts, _resize_causes),
}
"""What changes through endpoints of its own."""
