"""The status of a PodAutoscaler."""

import datetime
from collections.abc import Iterable
from typing import Any

from reconcile.blocks import ReplicaBounds, Scaled, Schedule

from .models import PodAutoscaler, ScalingDecision, ScheduledBounds

HISTORY = 5
_UNKNOWN = datetime.datetime.min.replace(tzinfo=datetime.UTC)


def claims_first(autoscaler: PodAutoscaler, others: Iterable[PodAutoscaler]) -> PodAutoscaler | None:
    """The autoscaler with the same target that takes precedence: the oldest, then the first by name."""
    rivals = [
        other
        for other in others
        if not other.terminating
        and _target(other) == _target(autoscaler)
        and _rank(other) < _rank(autoscaler)
    ]
    return min(rivals, key=_rank, default=None)


def _target(autoscaler: PodAutoscaler) -> tuple[Any, ...]:
    """The identity of a target; it does not depend on the version of its API group."""
    ref, role = autoscaler.spec.scale_target_ref, autoscaler.spec.sub_target_selector
    group = ref.api_version.rpartition("/")[0] if ref.api_version else ""
    return group, ref.kind, ref.name, role.role_name if role is not None else None


def _rank(autoscaler: PodAutoscaler) -> tuple[datetime.datetime, str]:
    return autoscaler.metadata.creation_timestamp or _UNKNOWN, autoscaler.name


def history_after(
    autoscaler: PodAutoscaler, scaled: Scaled, now: datetime.datetime
) -> tuple[ScalingDecision, ...]:
    """The last five decisions; a repeated refusal is not added again."""
    history = autoscaler.status.scaling_history
    change = scaled.change
    if change is None:
        return history
    new = ScalingDecision(
        change.before, change.after, change.reason, not change.error, now, error=change.error or None
    )
    if history and change.error:
        last = history[-1]
        if (last.previous_scale, last.new_scale, last.error) == (change.before, change.after, change.error):
            return history
    return (*history, new)[-HISTORY:]


def bounds_shown(bounds: ReplicaBounds, schedule: Schedule | None) -> ScheduledBounds:
    return ScheduledBounds(bounds.minimum, bounds.maximum, schedule.name if schedule is not None else None)
