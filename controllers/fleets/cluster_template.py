"""Templates of RayClusters: preparation and comparison, and the validation of fleets."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attrs import evolve

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
    """Selects one pod for each replica of a fleet: its head (AIBrix #1082)."""
    return LabelSelector({FLEET_LABEL: fleet, NODE_TYPE_LABEL: "head"})


def canonical(template: Mapping[str, Any]) -> Manifest:
    """A template without the controller's additions and without empty fields."""
    plain: Manifest = thaw(template)
    metadata = _without_labels(plain.get("metadata"), HASH_LABEL)
    spec = plain.get("spec") or {}
    for pod in _pod_templates(spec):
        pod["metadata"] = _without_labels(pod.get("metadata"), FLEET_LABEL)
        if not pod["metadata"]:
            del pod["metadata"]
    return {**({"metadata": metadata} if metadata else {}), "spec": spec}


def prepared(template: Mapping[str, Any], fleet: str, mark: str) -> Manifest:
    """The template of a replica set: its clusters are labelled with the hash, its pods with the fleet."""
    plain: Manifest = thaw(template)
    metadata = plain.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: mark}
    for pod in _pod_templates(plain.get("spec") or {}):
        pod["metadata"] = {**(pod.get("metadata") or {})}
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), FLEET_LABEL: fleet}
    return {**plain, "metadata": {**metadata, "labels": labels}}


def is_of_template(replica_set: Object, wanted: Mapping[str, Any]) -> bool:
    """Whether a replica set without a digest was created from that canonical template."""
    return canonical(encode(replica_set)["spec"]["template"]) == wanted


def _pod_templates(spec: Manifest) -> list[Manifest]:
    """The pod templates in the spec of a RayCluster, to be changed in place."""
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


def rollout_of(spec: FleetSpec) -> Rollout:
    """The strategy of a fleet, by default 25% and 25% as in Deployments. Raises ValueError for bad bounds."""
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


def faults_of(fleet: RayClusterFleet) -> Sequence[str]:
    """The faults of a fleet, each with the path of its field; a fleet with faults is left alone."""
    spec, faults = fleet.spec, list(_strategy_faults(fleet.spec))
    if len(fleet.name) > NAME_LENGTH:
        faults.append(f"metadata.name: more than {NAME_LENGTH} characters, and it becomes a label")
    numbers = {
        "replicas": spec.replicas,
        "minReadySeconds": spec.min_ready_seconds,
        "revisionHistoryLimit": spec.revision_history_limit,
        "progressDeadlineSeconds": spec.progress_deadline_seconds,
    }
    faults += [f"spec.{name}: expected 0 or more, got {n}" for name, n in numbers.items() if n < 0]
    if 0 <= spec.progress_deadline_seconds <= spec.min_ready_seconds:
        faults.append("spec.progressDeadlineSeconds: must be greater than minReadySeconds")
    faults.extend(selector_faults(spec.selector, spec.template.metadata))
    if not spec.template.spec.get("headGroupSpec"):
        faults.append("spec.template.spec.headGroupSpec: is missing")
    return faults


def selector_faults(selector: LabelSelector, metadata: Mapping[str, Any]) -> Sequence[str]:
    """An empty selector would match everything; the template's labels have to match."""
    if not selector.match_labels and not selector.match_expressions:
        return ["spec.selector: an empty selector would select every cluster"]
    try:
        matches = selector.matches(metadata.get("labels") or {})
    except ValueError as error:  # the schema cannot say which operators need values
        return [f"spec.selector.matchExpressions: {error}"]
    return [] if matches else ["spec.template.metadata.labels: do not match spec.selector"]


def _strategy_faults(spec: FleetSpec) -> Sequence[str]:
    strategy = spec.strategy
    if strategy is None:
        return []
    if strategy.type not in (None, "", *STRATEGIES):
        return [f"spec.strategy.type: expected {' or '.join(STRATEGIES)}, got {strategy.type!r}"]
    update = strategy.rolling_update
    if update is None:
        return []
    if strategy.type == "Recreate":
        return ["spec.strategy.rollingUpdate: must be absent if the type is Recreate"]
    faults = []
    for name, value in (("maxSurge", update.max_surge), ("maxUnavailable", update.max_unavailable)):
        amount = 0 if value is None else value
        try:
            bounds_of(amount, amount, 0)
        except ValueError as error:
            faults.append(f"spec.strategy.rollingUpdate.{name}: {error}")
    return faults
