"""Replicas: which of them count, which are deleted first, and which to create and delete.

Counting, status and the choice of victims share one definition of "active". A Terminating replica neither
counts nor can be chosen: so it is deleted once, and one that never goes away does not delay its replacement
(KubeRay #3286, #4078).
"""

import datetime
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

from attrs import frozen

from reconcile.models import Object, encode

__all__ = [
    "DELETION_COST_ANNOTATION",
    "FINAL_PHASES",
    "Removal",
    "Replica",
    "ReplicaDiff",
    "ReplicaLike",
    "deletion_cost",
    "diff_replicas",
    "is_active",
    "rank_victims",
    "replica_of",
]

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
"""The annotation for the cost of losing a pod (an integer; 0 without it); cheaper ones go first."""

_COST = re.compile(r"-[0-9]{1,10}|0|[1-9][0-9]{0,9}")
"""A cost as Kubernetes reads it: without a plus or leading zeros, and within 32 bits."""

FINAL_PHASES = ("Failed", "Succeeded")
"""The phases of a pod that has ended."""

Reason = Literal["listed", "not-ready", "cheapest", "newest"]


class ReplicaLike(Protocol):
    """The properties of a replica. `finished`: it has ended and will not be restarted."""

    @property
    def name(self) -> str: ...
    @property
    def created(self) -> datetime.datetime: ...
    @property
    def ready(self) -> bool: ...
    @property
    def terminating(self) -> bool: ...
    @property
    def finished(self) -> bool: ...
    @property
    def deletion_cost(self) -> int: ...


R = TypeVar("R", bound=ReplicaLike)


@frozen
class Replica:
    """A replica for `diff_replicas`; `object` is its source."""

    name: str
    created: datetime.datetime
    ready: bool = False
    terminating: bool = False
    finished: bool = False
    deletion_cost: int = 0
    object: Object | None = None


def replica_of(obj: Object) -> Replica:
    """A stored object as a replica. Raises ValueError for one that no server has stored.

    It is ready if its condition Ready is True, finished if its phase is final (a pod's), and has the cost in
    the annotation of pods; an annotation that is not an integer is ignored, as in Kubernetes.
    """
    created = obj.metadata.creation_timestamp
    if created is None:
        raise ValueError(f"{type(obj).__name__} {str(obj.key)!r} has no creationTimestamp: it was not read")
    status: Mapping[str, Any] = encode(obj).get("status") or {}
    return Replica(
        name=obj.name,
        created=created,
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
        terminating=obj.terminating,
        finished=status.get("phase") in FINAL_PHASES,
        deletion_cost=deletion_cost(obj.metadata.annotations),
        object=obj,
    )


def deletion_cost(annotations: Mapping[str, str]) -> int:
    """The cost in a pod's annotations, as Kubernetes reads it: 0 unless it is a 32-bit integer."""
    text = annotations.get(DELETION_COST_ANNOTATION)
    cost = int(text) if text is not None and _COST.fullmatch(text) else 0
    return cost if -(2**31) <= cost < 2**31 else 0


def is_active(replica: ReplicaLike) -> bool:
    """Whether a replica counts: it is neither Terminating nor finished. There is no other definition."""
    return not replica.terminating and not replica.finished


@frozen
class Removal(Generic[R]):
    """A replica to delete (with its uid), and the reason for the choice."""

    replica: R
    reason: Reason


@frozen
class ReplicaDiff(Generic[R]):
    """The changes that lead from the observed replicas to the desired ones.

    `create` is how many are missing; where names were desired, `names` are theirs, and `held` the names that
    Terminating objects still have: their deletion wakes the owner. `active` count now, `terminating` are on
    their way out and left alone, `finished` have ended and keep their names until their controller deletes
    them.
    """

    create: int
    names: tuple[str, ...]
    held: tuple[str, ...]
    delete: tuple[Removal[R], ...]
    active: tuple[R, ...]
    terminating: tuple[R, ...]
    finished: tuple[R, ...]


def rank_victims(observed: Collection[R], listed: Collection[str] = ()) -> tuple[Removal[R], ...]:
    """The active replicas in the order in which they are deleted.

    A total order, so that two runs choose the same ones, however they were read: those `listed` by name
    first, then not ready, then of lower deletion cost, then the newest, then by name.
    """
    ranked = sorted(filter(is_active, observed), key=lambda replica: replica.name)
    ranked.sort(key=lambda replica: replica.created, reverse=True)
    ranked.sort(key=lambda replica: (replica.name not in listed, replica.ready, replica.deletion_cost))
    dearest = max((replica.deletion_cost for replica in ranked), default=0)
    return tuple(Removal(replica, _reason(replica, listed, dearest)) for replica in ranked)


def diff_replicas(
    desired: int | Collection[str], observed: Collection[R], *, listed: Collection[str] = ()
) -> ReplicaDiff[R]:
    """What to create and delete, so that the active replicas are the `desired` ones.

    `desired` is a number, or the names of replicas that have fixed names. A `listed` replica goes even where
    there are not too many, and is then replaced; a listed name without an active replica is ignored.
    Terminating and finished replicas are never deleted. Raises ValueError for a number below 0.
    """
    active = tuple(replica for replica in _by_name(observed) if is_active(replica))
    terminating = tuple(replica for replica in _by_name(observed) if replica.terminating)
    finished = tuple(r for r in _by_name(observed) if r.finished and not r.terminating)
    names: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    if isinstance(desired, int):
        delete = _surplus(desired, active, listed)
        create = max(0, desired - (len(active) - len(delete)))
    else:
        delete = tuple(
            victim
            for victim in rank_victims(active, listed)
            if victim.replica.name not in desired or victim.replica.name in listed
        )
        names, held = _missing(desired, observed)
        create = len(names)
    return ReplicaDiff(create, names, held, delete, active, terminating, finished)


def _surplus(desired: int, active: Sequence[R], listed: Collection[str]) -> tuple[Removal[R], ...]:
    if desired < 0:
        raise ValueError(f"expected a number of replicas of 0 or more, got {desired}")
    named = sum(replica.name in listed for replica in active)
    return rank_victims(active, listed)[: max(len(active) - desired, named)]


def _missing(
    desired: Collection[str], observed: Collection[ReplicaLike]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The desired names that are free, and those that a Terminating object still has."""
    names = tuple(dict.fromkeys(desired))
    taken = {replica.name for replica in observed}
    leaving = {replica.name for replica in observed if replica.terminating}
    return tuple(n for n in names if n not in taken), tuple(n for n in names if n in leaving)


def _reason(replica: ReplicaLike, listed: Collection[str], dearest: int) -> Reason:
    if replica.name in listed:
        return "listed"
    if not replica.ready:
        return "not-ready"
    return "cheapest" if replica.deletion_cost < dearest else "newest"


def _by_name(observed: Collection[R]) -> list[R]:
    return sorted(observed, key=lambda replica: replica.name)
