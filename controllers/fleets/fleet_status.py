"""The status of a fleet: numbers, and the conditions of a Deployment."""

import datetime
from collections.abc import Sequence
from typing import Literal

from attrs import evolve

from reconcile import Condition
from reconcile.blocks import Revisions, Rollout
from reconcile.conditions import find_condition

from .cluster_template import scaling_selector
from .models import FleetCondition, FleetStatus, RayClusterFleet, RayClusterReplicaSet

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
COMPLETE, UPDATED, EXCEEDED = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"
PAUSED, RESUMED, MADE = "DeploymentPaused", "DeploymentResumed", "NewReplicaSetCreated"

Word = Literal["True", "False", "Unknown"]


def status_of(
    fleet: RayClusterFleet,
    revisions: Revisions,
    rollout: Rollout,
    now: datetime.datetime,
    *,
    made: bool = False,
) -> FleetStatus:
    """The status of a valid fleet. `made`: this run created the new set."""
    before, new = fleet.status, revisions.new
    present = sum(one.present for one in revisions.sets)
    available = sum(one.available for one in revisions.sets)
    numbers = evolve(
        before,
        replicas=present,
        updated_replicas=new.present if new else 0,
        ready_replicas=sum(_ready(one.object) for one in revisions.sets),
        available_replicas=available,
        unavailable_replicas=max(0, sum(one.replicas for one in revisions.sets) - available),
        scaling_target_selector=scaling_selector(fleet.name).text(),
        observed_generation=fleet.metadata.generation,
    )
    said = [_availability(available, rollout), _progress(fleet, numbers, revisions, now, made=made)]
    failure = _failure(revisions)
    kept = before.conditions if failure else _without_failure(before)
    progressed = made or _has_progressed(before, numbers)
    conditions = _merged(kept, [*said, failure] if failure else said, now, progressed)
    return evolve(numbers, conditions=conditions)


def refused_status(fleet: RayClusterFleet, faults: Sequence[str], now: datetime.datetime) -> FleetStatus:
    text = "; ".join(faults)
    said = Condition(PROGRESSING, "False", "InvalidSpec", text)
    conditions = _merged(_without_failure(fleet.status), [said], now)
    return evolve(fleet.status, conditions=conditions, observed_generation=fleet.metadata.generation)


def failed_status(fleet: RayClusterFleet, reason: str, text: str, now: datetime.datetime) -> FleetStatus:
    said = Condition(PROGRESSING, "False", reason, text)
    return evolve(fleet.status, conditions=_merged(fleet.status.conditions, [said], now))


def deadline_in(fleet: RayClusterFleet, status: FleetStatus, now: datetime.datetime) -> float | None:
    """Seconds until the progress deadline; None if nothing is awaited."""
    progress = find_condition(status.conditions, PROGRESSING)
    if progress is None or progress.status == "False" or progress.reason in (COMPLETE, PAUSED):
        return None
    return max(1.0, fleet.spec.progress_deadline_seconds + 1 - _age(progress, now))


def is_complete(status: FleetStatus) -> bool:
    progress = find_condition(status.conditions, PROGRESSING)
    return progress is not None and progress.reason == COMPLETE


# --- one condition each -------------------------------------------------------------------------------------


def _availability(available: int, rollout: Rollout) -> Condition:
    floor = max(0, rollout.replicas - (rollout.bounds.unavailable or 0))
    if available >= floor:
        return Condition(AVAILABLE, "True", "MinimumReplicasAvailable", "enough clusters are available")
    return Condition(AVAILABLE, "False", "MinimumReplicasUnavailable", "too few clusters are available")


def _progress(
    fleet: RayClusterFleet, status: FleetStatus, revisions: Revisions, now: datetime.datetime, *, made: bool
) -> Condition:
    """Progress as in Deployments: an exceeded deadline stays until something moves."""
    before, new = find_condition(fleet.status.conditions, PROGRESSING), revisions.new
    name = new.name if new else f"{fleet.name}-{revisions.hash}"
    if fleet.spec.paused:
        if before is not None and before.reason == EXCEEDED:
            return Condition(PROGRESSING, "False", EXCEEDED, before.message)
        return Condition(PROGRESSING, "Unknown", PAUSED, "the fleet is paused")
    if _is_through(status, revisions, fleet.spec.replicas):
        return Condition(PROGRESSING, "True", COMPLETE, f"RayClusterReplicaSet {name} is complete")
    if made:
        return Condition(PROGRESSING, "True", MADE, f"RayClusterReplicaSet {name} was created")
    if before is not None and before.reason == PAUSED:
        return Condition(PROGRESSING, "Unknown", RESUMED, "the fleet is no longer paused")
    if before is None or _has_progressed(fleet.status, status) or before.reason in (COMPLETE, "InvalidSpec"):
        return Condition(PROGRESSING, "True", UPDATED, f"RayClusterReplicaSet {name} is being rolled out")
    if before.reason == EXCEEDED or _age(before, now) > fleet.spec.progress_deadline_seconds:
        text = f"RayClusterReplicaSet {name} made no progress for {fleet.spec.progress_deadline_seconds} s"
        return Condition(PROGRESSING, "False", EXCEEDED, text)
    if before.status == "False":
        return Condition(PROGRESSING, "True", UPDATED, f"RayClusterReplicaSet {name} is being rolled out")
    word: Word = "True" if before.status == "True" else "Unknown"
    return Condition(PROGRESSING, word, before.reason, before.message)


def _is_through(status: FleetStatus, revisions: Revisions, wanted: int) -> bool:
    new = revisions.new
    numbers = {status.replicas, status.updated_replicas, status.available_replicas}
    settled = new is not None and new.observed and new.replicas == wanted
    return settled and numbers == {wanted} and not any(one.most for one in revisions.old)


def _failure(revisions: Revisions) -> Condition | None:
    for one in revisions.sets:
        if not isinstance(one.object, RayClusterReplicaSet):
            continue
        for said in one.object.status.conditions:
            if said.type == FAILURE and said.status == "True":
                return Condition(FAILURE, "True", said.reason, said.message)
    return None


def _has_progressed(before: FleetStatus, now: FleetStatus) -> bool:
    """Whether more is updated, less is old, or more is ready (Kubernetes, DeploymentProgressing)."""
    return (
        now.updated_replicas > before.updated_replicas
        or now.replicas - now.updated_replicas < before.replicas - before.updated_replicas
        or now.ready_replicas > before.ready_replicas
        or now.available_replicas > before.available_replicas
    )


def _without_failure(status: FleetStatus) -> Sequence[FleetCondition]:
    return [one for one in status.conditions if one.type != FAILURE]


def _merged(
    before: Sequence[FleetCondition],
    said: Sequence[Condition],
    now: datetime.datetime,
    progressed: bool = False,
) -> tuple[FleetCondition, ...]:
    """The new conditions with their times, and the others; an unchanged one keeps its times."""
    known = {one.type: one for one in before}
    made = {one.type: _timed(known.get(one.type), one, now, progressed) for one in said}
    return tuple((known | made).values())


def _timed(
    before: FleetCondition | None, said: Condition, now: datetime.datetime, progressed: bool
) -> FleetCondition:
    if before is None:
        return FleetCondition(said.type, said.status, said.reason, said.message, now, now)
    changed = before.status != said.status
    news = changed or before.reason != said.reason or (progressed and said.type == PROGRESSING)
    updated = now if news else before.last_update_time
    turned = now if changed else before.last_transition_time
    return FleetCondition(said.type, said.status, said.reason, said.message, updated, turned)


def _age(condition: FleetCondition, now: datetime.datetime) -> float:
    since = condition.last_update_time or condition.last_transition_time
    return 0.0 if since is None else (now - since).total_seconds()


def _ready(obj: object) -> int:
    return obj.status.ready_replicas if isinstance(obj, RayClusterReplicaSet) else 0
