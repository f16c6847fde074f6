"""What a fleet's status says: numbers, and the conditions of a Deployment."""

import datetime
from collections.abc import Sequence
from typing import Literal

from attrs import evolve, frozen

from reconcile.blocks import Revisions, Rollout

from .cluster_template import SpecFault, scaling_selector
from .models import FleetCondition, FleetStatus, RayClusterFleet, RayClusterReplicaSet

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
COMPLETE, UPDATED, EXCEEDED = "NewReplicaSetAvailable", "ReplicaSetUpdated", "ProgressDeadlineExceeded"
PAUSED, RESUMED, MADE = "DeploymentPaused", "DeploymentResumed", "NewReplicaSetCreated"

Word = Literal["True", "False", "Unknown"]


@frozen
class Said:
    """A condition without its times."""

    type: str
    status: Word
    reason: str
    message: str


def status_of(
    fleet: RayClusterFleet,
    revisions: Revisions,
    rollout: Rollout,
    now: datetime.datetime,
    *,
    made: bool = False,
) -> FleetStatus:
    """The status of a fleet that can be kept, from that of its sets. `made`: this run made the new set."""
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


def refused_status(
    fleet: RayClusterFleet, faults: Sequence[SpecFault], now: datetime.datetime
) -> FleetStatus:
    """The status of a fleet for which nothing is done, which says why."""
    text = "; ".join(map(str, faults))
    said = Said(PROGRESSING, "False", "InvalidSpec", text)
    conditions = _merged(_without_failure(fleet.status), [said], now)
    return evolve(fleet.status, conditions=conditions, observed_generation=fleet.metadata.generation)


def failed_status(fleet: RayClusterFleet, reason: str, text: str, now: datetime.datetime) -> FleetStatus:
    """The status of a fleet whose sets could not be written."""
    said = Said(PROGRESSING, "False", reason, text)
    return evolve(fleet.status, conditions=_merged(fleet.status.conditions, [said], now))


def deadline_in(fleet: RayClusterFleet, status: FleetStatus, now: datetime.datetime) -> float | None:
    """In how many seconds the progress deadline passes; None where nothing is awaited."""
    progress = condition_of(status, PROGRESSING)
    if progress is None or progress.status == "False" or progress.reason in (COMPLETE, PAUSED):
        return None
    return max(1.0, fleet.spec.progress_deadline_seconds + 1 - _age(progress, now))


def is_complete(status: FleetStatus) -> bool:
    """Whether the rollout is through."""
    progress = condition_of(status, PROGRESSING)
    return progress is not None and progress.reason == COMPLETE


def condition_of(status: FleetStatus, name: str) -> FleetCondition | None:
    """The condition of that type."""
    return next((one for one in status.conditions if one.type == name), None)


# --- one condition each -------------------------------------------------------------------------------------


def _availability(available: int, rollout: Rollout) -> Said:
    floor = max(0, rollout.replicas - (rollout.bounds.unavailable or 0))
    if available >= floor:
        return Said(AVAILABLE, "True", "MinimumReplicasAvailable", "as many clusters serve as have to")
    return Said(AVAILABLE, "False", "MinimumReplicasUnavailable", "fewer clusters serve than have to")


def _progress(
    fleet: RayClusterFleet, status: FleetStatus, revisions: Revisions, now: datetime.datetime, *, made: bool
) -> Said:
    """Progress as Deployments tell it: what exceeded its deadline stays so until something moves."""
    before, new = condition_of(fleet.status, PROGRESSING), revisions.new
    name = new.name if new else f"{fleet.name}-{revisions.hash}"
    if fleet.spec.paused:
        if before is not None and before.reason == EXCEEDED:
            return Said(PROGRESSING, "False", EXCEEDED, before.message)
        return Said(PROGRESSING, "Unknown", PAUSED, "the fleet is paused")
    if _is_through(status, revisions, fleet.spec.replicas):
        return Said(PROGRESSING, "True", COMPLETE, f"RayClusterReplicaSet {name} has come to its full number")
    if made:
        return Said(PROGRESSING, "True", MADE, f"RayClusterReplicaSet {name} was made")
    if before is not None and before.reason == PAUSED:
        return Said(PROGRESSING, "Unknown", RESUMED, "the fleet is no longer paused")
    if before is None or _has_progressed(fleet.status, status) or before.reason in (COMPLETE, "InvalidSpec"):
        return Said(PROGRESSING, "True", UPDATED, f"RayClusterReplicaSet {name} is on its way")
    if before.reason == EXCEEDED or _age(before, now) > fleet.spec.progress_deadline_seconds:
        text = f"RayClusterReplicaSet {name} came no further for {fleet.spec.progress_deadline_seconds} s"
        return Said(PROGRESSING, "False", EXCEEDED, text)
    if before.status == "False":
        return Said(PROGRESSING, "True", UPDATED, f"RayClusterReplicaSet {name} is on its way")
    word: Word = "True" if before.status == "True" else "Unknown"
    return Said(PROGRESSING, word, before.reason, before.message)


def _is_through(status: FleetStatus, revisions: Revisions, wanted: int) -> bool:
    new = revisions.new
    numbers = {status.replicas, status.updated_replicas, status.available_replicas}
    settled = new is not None and new.observed and new.replicas == wanted
    return settled and numbers == {wanted} and not any(one.most for one in revisions.old)


def _failure(revisions: Revisions) -> Said | None:
    """That of a set, the newest first."""
    for one in revisions.sets:
        if not isinstance(one.object, RayClusterReplicaSet):
            continue
        for said in one.object.status.conditions:
            if said.type == FAILURE and said.status == "True":
                return Said(FAILURE, "True", said.reason, said.message)
    return None


def _has_progressed(before: FleetStatus, now: FleetStatus) -> bool:
    """Whether more is new, or less is old, or more serves (Kubernetes, DeploymentProgressing)."""
    return (
        now.updated_replicas > before.updated_replicas
        or now.replicas - now.updated_replicas < before.replicas - before.updated_replicas
        or now.ready_replicas > before.ready_replicas
        or now.available_replicas > before.available_replicas
    )


def _without_failure(status: FleetStatus) -> Sequence[FleetCondition]:
    return [one for one in status.conditions if one.type != FAILURE]


def _merged(
    before: Sequence[FleetCondition], said: Sequence[Said], now: datetime.datetime, progressed: bool = False
) -> tuple[FleetCondition, ...]:
    """What is said, with its times, beside what others said; nothing moves that says the same."""
    known = {one.type: one for one in before}
    made = {one.type: _timed(known.get(one.type), one, now, progressed) for one in said}
    return tuple((known | made).values())


def _timed(
    before: FleetCondition | None, said: Said, now: datetime.datetime, progressed: bool
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
