"""A new template in place of the old one, step by step: the size of each revision's set of replicas.

A set is an object with `spec.replicas`, which another controller fills; its status says how many replicas
exist and how many are available. The decision is pure (`Rollout.plan`) and keeps two bounds: there are never
more than `replicas` + `max_surge`, and no step of its own leaves fewer than `replicas` - `max_unavailable`
available, as far as the sets report it (Kubernetes, Deployment: strategy).
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import field, frozen

from reconcile.models import Object, encode

DESIRED = "deployment.kubernetes.io/desired-replicas"
"""The annotation of a set with the desired replicas of the whole when the set was last sized."""
LIMIT = "deployment.kubernetes.io/max-replicas"
"""The annotation of a set with the highest number of replicas at that time, the surge included."""

Amount: TypeAlias = int | str
"""A number of replicas, or a share of them: `25%`."""

NEW = ""
"""The name in a plan for a set that does not exist yet."""


@frozen
class RevisionSet:
    """A set of replicas of one revision, as `Rollout` sees it.

    `replicas` are desired, `present` exist and `available` of those serve. `observed`: the last two are newer
    than the last change of `replicas`. `desired` and `limit` are those of the whole when it was last sized,
    None if not noted. A shrinking set is taken to give up unavailable replicas first.
    """

    name: str
    created: datetime.datetime
    replicas: int
    present: int = 0
    available: int = 0
    observed: bool = True
    desired: int | None = None
    limit: int | None = None
    revision: int = 0
    object: Object | None = field(default=None, eq=False, repr=False)

    @property
    def stored(self) -> Object:
        """The object of the set. Raises ValueError if it has none."""
        if self.object is None:
            raise ValueError(f"the set {self.name!r} was not made of an object")
        return self.object

    @property
    def most(self) -> int:
        """How many replicas it may have at this moment."""
        return max(self.replicas, self.present)

    @property
    def sure(self) -> int:
        """How many replicas are available and stay so without a further step."""
        return min(self.available, self.replicas)


_UNMADE = RevisionSet(NEW, datetime.datetime.min.replace(tzinfo=datetime.UTC), 0)


def revision_set_of(obj: Object, revision: int = 0) -> RevisionSet:
    """A stored object with `spec.replicas`, and a ReplicaSet's status. Raises ValueError if not stored."""
    created = obj.metadata.creation_timestamp
    if created is None:
        raise ValueError(f"{type(obj).__name__} {str(obj.key)!r} has no creationTimestamp: it was not read")
    manifest = encode(obj)
    replicas, status = manifest["spec"].get("replicas"), manifest.get("status") or {}
    return RevisionSet(
        name=obj.name,
        created=created,
        replicas=1 if replicas is None else replicas,
        present=status.get("replicas") or 0,
        available=status.get("availableReplicas") or 0,
        observed=(status.get("observedGeneration") or 0) >= obj.metadata.generation,
        desired=_number(obj.metadata.annotations.get(DESIRED)),
        limit=_number(obj.metadata.annotations.get(LIMIT)),
        revision=revision,
        object=obj,
    )


@frozen
class RolloutBounds:
    """How many replicas may exist beyond the desired ones, and how many of those may be missing."""

    surge: int
    unavailable: int


def bounds_of(max_surge: Amount, max_unavailable: Amount, replicas: int) -> RolloutBounds:
    """The bounds in numbers: shares of the surge are rounded up, those of missing replicas down.

    If both come to 0, one may be missing, or nothing could move (Kubernetes, ResolveFenceposts). Raises
    ValueError for anything but a number of 0 or more or a share.
    """
    surge = _amount(max_surge, replicas, up=True)
    unavailable = _amount(max_unavailable, replicas, up=False)
    return RolloutBounds(surge, unavailable or (0 if surge else 1))


@frozen
class RolloutPlan:
    """The next step. `sizes` are the sets to resize, by name.

    `create` is the size of a new set for the new revision, or None. `waiting`: old replicas must be gone
    before anything else happens (Recreate).
    """

    sizes: dict[str, int] = field(factory=dict)
    create: int | None = None
    waiting: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do now."""
        return not self.sizes and self.create is None


@frozen
class Rollout:
    """`replicas` of the newest revision, within the bounds all the way there.

    `recreate`: all old ones go first, and bounds do not apply. `paused`: no step towards the new revision,
    but changes of `replicas` are followed. Raises ValueError for invalid bounds.
    """

    replicas: int
    max_surge: Amount = "25%"
    max_unavailable: Amount = "25%"
    recreate: bool = False
    paused: bool = False

    def __attrs_post_init__(self) -> None:
        if self.replicas < 0:
            raise ValueError(f"expected 0 or more replicas, got {self.replicas}")
        bounds_of(self.max_surge, self.max_unavailable, self.replicas)

    @property
    def bounds(self) -> RolloutBounds:
        """The bounds at this size."""
        return RolloutBounds(0, 0) if self.recreate else self._rolling_bounds

    @property
    def limit(self) -> int:
        """The largest number of replicas; 0 if none are asked for."""
        return self.replicas + self.bounds.surge if self.replicas else 0

    @property
    def floor(self) -> int:
        """How many must stay available."""
        return 0 if self.recreate else max(0, self.replicas - self._rolling_bounds.unavailable)

    def plan(
        self, new: RevisionSet | None, old: Sequence[RevisionSet] = (), *, leftover: bool = False
    ) -> RolloutPlan:
        """The next step, given the set of the new revision and those of all others.

        `leftover`: replicas of old sets are still terminating (they do not count as present, but Recreate
        waits for them). A change of `replicas` while several sets have some is shared out in proportion to
        their sizes, so that it does not hasten the rollout (Kubernetes, Deployment).
        """
        older = sorted(old, key=lambda one: (one.created, one.name))
        sets = [new, *older] if new else older
        if self.paused or self._is_resized(sets):
            return self._plan(sets, self._followed(new, sets))
        fresh = new or _UNMADE
        if self.recreate:
            return self._recreated(fresh, older, leftover)
        return self._plan([fresh, *older], self._rolled(fresh, older))

    def _is_resized(self, sets: Iterable[RevisionSet]) -> bool:
        return any(
            one.replicas > 0 and one.desired is not None and one.desired != self.replicas for one in sets
        )

    # --- following a change of `replicas` ---------------------------------------------------------

    def _followed(self, new: RevisionSet | None, sets: Sequence[RevisionSet]) -> dict[str, int]:
        active = [one for one in sets if one.replicas > 0]
        if not sets:
            return {}
        if len(active) <= 1:
            one = active[0] if active else new or sets[-1]
            return {one.name: self.replicas}
        if new is not None and self._is_saturated(new):
            return {one.name: 0 for one in active if one is not new}
        return {} if self.recreate else self._shared(active)

    def _is_saturated(self, new: RevisionSet) -> bool:
        return {new.desired, new.replicas, new.available} == {self.replicas}

    def _shared(self, active: Sequence[RevisionSet]) -> dict[str, int]:
        """Each set's share; the largest gives or takes the rest of the rounding."""
        total = sum(one.replicas for one in active)
        more = self.limit - total
        ordered = sorted(active, key=lambda one: (one.created, one.name), reverse=more > 0)
        ordered.sort(key=lambda one: -one.replicas)
        sizes, given = {}, 0
        for one in ordered:
            share = self._share(one, total) - one.replicas
            left = more - given
            share = min(max(share, 0), left) if more > 0 else max(min(share, 0), left)
            sizes[one.name] = one.replicas + share
            given += share
        largest = ordered[0].name
        sizes[largest] = max(0, sizes[largest] + more - given)
        return sizes

    def _share(self, one: RevisionSet, total: int) -> int:
        before = one.limit or total
        return (2 * one.replicas * self.limit + before) // (2 * before)

    # --- rolling -----------------------------------------------------------------------------------

    def _rolled(self, new: RevisionSet, old: Sequence[RevisionSet]) -> dict[str, int]:
        """Old sets first lose unavailable replicas, unless these are needed once they serve."""
        sizes = {new.name: self.replicas}
        needless = max(0, new.sure + sum(one.replicas for one in old) - self.floor)
        for one in old:
            idle = one.replicas - one.sure
            gone = min(idle, needless)
            needless -= gone
            sizes[one.name] = 0 if gone == idle else one.replicas - gone
        return sizes

    def _recreated(self, new: RevisionSet, old: Sequence[RevisionSet], leftover: bool) -> RolloutPlan:
        sizes = {one.name: 0 for one in old if one.replicas > 0}
        if sizes or leftover or any(one.present or not one.observed for one in old):
            return RolloutPlan(sizes, waiting=True)
        return self._plan([new], {new.name: self.replicas})

    # --- the bounds --------------------------------------------------------------------------------

    def _plan(self, sets: Sequence[RevisionSet], wanted: dict[str, int]) -> RolloutPlan:
        """The wanted sizes as far as the bounds allow; the first set shrinks first."""
        wanted = {one.name: one.replicas for one in sets} | wanted
        sizes = self._smaller(sets, wanted)
        self._trim(sets, sizes)
        self._grow(sets, wanted, sizes)
        changed = {one.name: sizes[one.name] for one in sets if sizes[one.name] != one.replicas}
        create = changed.pop(NEW, 0) if NEW in sizes else None
        return RolloutPlan(changed, create)

    def _smaller(self, sets: Sequence[RevisionSet], wanted: Mapping[str, int]) -> dict[str, int]:
        sizes, spare = {}, sum(one.sure for one in sets) - self.floor
        for one in sets:
            size = min(one.replicas, wanted[one.name])
            lost = min(max(0, one.sure - size), max(0, spare))
            spare -= lost
            sizes[one.name] = max(size, one.sure - lost)
        return sizes

    def _trim(self, sets: Sequence[RevisionSet], sizes: dict[str, int]) -> None:
        """Remove unavailable replicas beyond the limit: the new size of one may have been rounded up."""
        excess = sum(sizes.values()) - self.limit
        for one in sets if not self.recreate else ():
            taken = min(max(0, excess), max(0, sizes[one.name] - one.sure))
            sizes[one.name] -= taken
            excess -= taken

    def _grow(self, sets: Sequence[RevisionSet], wanted: Mapping[str, int], sizes: dict[str, int]) -> None:
        """Within the room beside all that may still exist; not while a set has not answered."""
        if not all(one.observed for one in sets):
            return
        room = self.limit - sum(one.most for one in sets)
        for one in sets:
            more = min(max(0, wanted[one.name] - one.replicas), max(0, room + one.most - one.replicas))
            sizes[one.name] += more
            room -= max(0, one.replicas + more - one.most)

    @property
    def _rolling_bounds(self) -> RolloutBounds:
        return bounds_of(self.max_surge, self.max_unavailable, self.replicas)


def _amount(amount: Amount, replicas: int, *, up: bool) -> int:
    if isinstance(amount, int) and not isinstance(amount, bool):
        number = amount
    else:
        text = str(amount)
        if not (text.endswith("%") and text[:-1].isdecimal()):
            raise ValueError(f"expected a number of replicas or a share (`25%`), got {amount!r}")
        number = (int(text[:-1]) * replicas + (99 if up else 0)) // 100
    if number < 0:
        raise ValueError(f"expected 0 or more replicas, got {amount!r}")
    return number


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
