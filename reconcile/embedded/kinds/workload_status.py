"""The rules for the status of workloads: counts that are not negative and fit together."""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from reconcile.embedded.kinds.built_in_kind import Object, not_negative
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid


@frozen
class StatusCounts:
    """Checks the counts in a status; called as the `status_checks` of a kind."""

    counts: tuple[str, ...]
    """None of them may be negative."""
    within: Mapping[str, tuple[str, ...]]
    """Counts by the one that they may not exceed."""

    def __call__(self, obj: Object, old: Object | None) -> Iterator[FieldCause]:
        """The faults of the new status of `obj`."""
        status, before = obj.get("status") or {}, (old or {}).get("status") or {}
        yield from not_negative(status, "status", *self.counts)
        for bound, names in self.within.items():
            for name in names:
                if (status.get(name) or 0) > (status.get(bound) or 0):
                    yield value_invalid(
                        f"status.{name}", status.get(name) or 0, f"cannot be greater than {bound}"
                    )
        if "collisionCount" in self.counts:
            yield from _collision_causes(status, before)


def _collision_causes(status: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[FieldCause]:
    """Names of revisions contain this count, so that it only grows; it may not vanish either."""
    last, count = before.get("collisionCount"), status.get("collisionCount")
    if last is not None and (count is None or count < last):
        yield value_invalid("status.collisionCount", count or 0, "cannot be decremented")


_OF_REPLICAS = ("observedGeneration", "replicas", "readyReplicas", "availableReplicas")
deployment_status_causes = StatusCounts(
    (*_OF_REPLICAS, "updatedReplicas", "unavailableReplicas", "collisionCount"),
    {
        "replicas": ("updatedReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas": ("availableReplicas",),
    },
)
replica_set_status_causes = StatusCounts(
    (*_OF_REPLICAS, "fullyLabeledReplicas"),
    {
        "replicas": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
        "readyReplicas": ("availableReplicas",),
    },
)
"""ReplicationControllers have the same."""
stateful_set_status_causes = StatusCounts(
    (*_OF_REPLICAS, "currentReplicas", "updatedReplicas", "collisionCount"),
    {
        "replicas": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        "readyReplicas": ("availableReplicas",),
    },
)
daemon_set_status_causes = StatusCounts(
    (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable",
        "collisionCount",
    ),
    {},
)  # fmt: skip
