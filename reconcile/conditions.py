"""Conditions: what a status says of an object, one observation a type (apimachinery `meta`)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from reconcile.diffing import same

__all__ = [
    "find_condition",
    "is_true",
    "merge_conditions",
]


class _Observation(Protocol):
    """A `Condition`, or one of a pod or a Job, which has fewer fields."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=_Observation)


def merge_conditions(
    before: Sequence[Mapping[str, Any]],
    wanted: Iterable[Mapping[str, Any]],
    now: str,
    generation: int | None,
    removed: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The condition list after a run: those not `wanted` stay as they are, in their places.

    A condition's lastTransitionTime moves to `now` (RFC 3339) only when its status changes, and where
    it had none; its observedGeneration becomes `generation`. Members that nobody here knows stay. Types
    in `removed` go, unless they are wanted as well.
    """
    wanted = {condition["type"]: condition for condition in wanted}.values()
    gone = set(removed) - {condition["type"] for condition in wanted}
    merged = {c.get("type"): dict(c) for c in before if c.get("type") not in gone}
    for condition in wanted:
        old = merged.get(condition["type"], {})
        changed = not same(old.get("status"), condition["status"])
        since = now if changed or not old.get("lastTransitionTime") else old["lastTransitionTime"]
        observed = {} if generation is None else {"observedGeneration": generation}
        merged[condition["type"]] = {**old, **condition, **observed, "lastTransitionTime": since}
    return list(merged.values())


def find_condition(conditions: Iterable[C], name: str) -> C | None:
    """The condition of type `name`, if there is one; of a model of yours or of a built-in kind."""
    return next((condition for condition in conditions if condition.type == name), None)


def is_true(conditions: Iterable[_Observation], name: str, *, generation: int | None = None) -> bool:
    """Whether the condition of type `name` is True; absent and Unknown are not.

    With `generation`, also whether it was observed of that generation or a later one: what a condition
    says of an older spec says nothing of this one.
    """
    found = find_condition(conditions, name)
    if found is None or found.status != "True":
        return False
    return generation is None or (getattr(found, "observed_generation", None) or 0) >= generation
