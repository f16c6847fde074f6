"""Templates of RayClusters: what is put into them, what makes two the same, what is wrong with one."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attrs import evolve, frozen

from reconcile import LabelSelector, Object
from reconcile.blocks import HASH_LABEL, Rollout, bounds_of
from reconcile.models import encode, thaw

from .models import FleetSpec, RayClusterFleet

FLEET_LABEL = "orchestration.aibrix.ai/raycluster-fleet-name"
NODE_TYPE_LABEL = "ray.io/node-type"
STRATEGIES = ("RollingUpdate", "Recreate")
NAME_LENGTH = 63

Manifest: TypeAlias = dict[str, Any]


def scaling_selector(fleet: str) -> LabelSelector:
    """What finds one pod for each replica of a fleet: their heads (AIBrix #1082)."""
    return LabelSelector({FLEET_LABEL: fleet, NODE_TYPE_LABEL: "head"})


def canonical(template: Mapping[str, Any]) -> Manifest:
    """What a template says itself: without what is put into it, and without what is empty anyway."""
    plain: Manifest = thaw(template)
    metadata = _without_labels(plain.get("metadata"), HASH_LABEL)
    spec = plain.get("spec") or {}
    for pod in _pod_templates(spec):
        pod["metadata"] = _without_labels(pod.get("metadata"), FLEET_LABEL)
        if not pod["metadata"]:
            del pod["metadata"]
    return {**({"metadata": metadata} if metadata else {}), "spec": spec}


def prepared(template: Mapping[str, Any], fleet: str, mark: str) -> Manifest:
    """The template of a replica set: its clusters carry the hash, their pods the name of the fleet."""
    plain: Manifest = thaw(template)
    metadata = plain.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: mark}
    for pod in _pod_templates(plain.get("spec") or {}):
        pod["metadata"] = {**(pod.get("metadata") or {})}
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), FLEET_LABEL: fleet}
    return {**plain, "metadata": {**metadata, "labels": labels}}


def is_of_template(replica_set: Object, wanted: Mapping[str, Any]) -> bool:
    """Whether a replica set that carries no digest was made of that canonical template."""
    return canonical(encode(replica_set)["spec"]["template"]) == wanted


def _pod_templates(spec: Manifest) -> list[Manifest]:
    """The pod templates in the spec of a RayCluster, to change."""
    groups = [spec.get("headGroupSpec"), *(spec.get("workerGroupSpecs") or ())]
    found = []
    for group in groups:
        if isinstance(group, dict) and isinstance(group.get("template"), dict):
            found.append(group["template"])
    return found


def _without_labels(metadata: Mapping[str, Any] | None, *names: str) -> Manifest:
    rest = dict(metadata or {})
    labels = {name: value for name, value in (rest.pop("labels", None) or {}).items() if name not in names}
    rest = {name: value for name, value in rest.items() if value not in (None, {}, "")}
    return {**rest, "labels": labels} if labels else rest


# --- what a fleet asks for ----------------------------------------------------------------------------------


@frozen
class SpecFault:
    """What is wrong with a spec, and where: the path of the field."""

    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def rollout_of(spec: FleetSpec) -> Rollout:
    """The strategy of a fleet; where it names none, or none of its bounds, that of a Deployment: 25%/25%.

    Raises ValueError for bounds that are none.
    """
    strategy = spec.strategy
    rollout = Rollout(spec.replicas, paused=spec.paused)
    if strategy is None:
        return rollout
    if strategy.type == "Recreate":
        return evolve(rollout, recreate=True)
    update = strategy.rolling_update
    if update is None:
        return rollout
    surge = rollout.max_surge if update.max_surge is None else update.max_surge
    missing = rollout.max_unavailable if update.max_unavailable is None else update.max_unavailable
    return evolve(rollout, max_surge=surge, max_unavailable=missing)


def faults_of(fleet: RayClusterFleet) -> Sequence[SpecFault]:
    """What is wrong with a fleet; nothing is done for one that has a fault."""
    spec, faults = fleet.spec, list(_strategy_faults(fleet.spec))
    if len(fleet.name) > NAME_LENGTH:
        faults.append(
            SpecFault("metadata.name", f"more than {NAME_LENGTH} characters, and it becomes a label")
        )
    for name in ("replicas", "min_ready_seconds", "revision_history_limit", "progress_deadline_seconds"):
        if (value := getattr(spec, name)) < 0:
            faults.append(SpecFault(f"spec.{_wire(name)}", f"0 or more is wanted, not {value}"))
    if 0 <= spec.progress_deadline_seconds <= spec.min_ready_seconds:
        faults.append(SpecFault("spec.progressDeadlineSeconds", "it has to be greater than minReadySeconds"))
    faults.extend(selector_faults(spec.selector, spec.template.metadata))
    if not spec.template.spec.get("headGroupSpec"):
        faults.append(SpecFault("spec.template.spec.headGroupSpec", "it is missing"))
    return faults


def selector_faults(selector: LabelSelector, metadata: Mapping[str, Any]) -> Sequence[SpecFault]:
    """An empty selector would select everything; one that the template does not fit would never be met."""
    if not selector.match_labels and not selector.match_expressions:
        return [SpecFault("spec.selector", "an empty selector would select every cluster")]
    if not selector.matches(metadata.get("labels") or {}):
        return [SpecFault("spec.template.metadata.labels", "they do not fit spec.selector")]
    return []


def _strategy_faults(spec: FleetSpec) -> Sequence[SpecFault]:
    strategy = spec.strategy
    if strategy is None:
        return []
    if strategy.type not in (None, "", *STRATEGIES):
        return [
            SpecFault("spec.strategy.type", f"{' or '.join(STRATEGIES)} is wanted, not {strategy.type!r}")
        ]
    update = strategy.rolling_update
    if update is None:
        return []
    if strategy.type == "Recreate":
        return [SpecFault("spec.strategy.rollingUpdate", "it says nothing where the type is Recreate")]
    faults = []
    for name in ("max_surge", "max_unavailable"):
        value = getattr(update, name)
        if value is None:
            continue
        try:
            bounds_of(value, value, 0)
        except ValueError as error:
            faults.append(SpecFault(f"spec.strategy.rollingUpdate.{_wire(name)}", str(error)))
    return faults


def _wire(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
