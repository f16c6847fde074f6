"""Revisions of a template, each with a set of replicas: their templates, numbers and history.

Names, labels and annotations are those of Deployments, so that sets of another operator with Deployment
semantics are taken over as they are. A set carries a digest of its template, since a server may add defaults
on one side only.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from attrs import frozen

from informers import AlreadyExists, StaleVersion
from reconcile.blocks.rollout.rollout import (
    DESIRED,
    LIMIT,
    RevisionSet,
    Rollout,
    RolloutPlan,
    revision_set_of,
)
from reconcile.controller.context import Context
from reconcile.models import Object, thaw
from reconcile.owners import controller_of

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
HASH_LABEL = "pod-template-hash"
"""The label of a set, and of all objects that it selects: the hash of its template, as in Deployments."""
TEMPLATE = "rollout.reconcile-runtime/template"
"""The annotation of a set with the digest of its template."""

HISTORY_LENGTH = 2000
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and digits like them, so that a hash cannot be a word (Kubernetes, SafeEncodeString)."""


class HashCollision(Exception):
    """The name of the new set belongs to another object: increase the count of collisions, and try again."""


def digest_of(template: Any) -> str:
    """A digest of a template; equal for equal templates, whatever the order of their fields."""
    encoded = msgspec.json.encode(thaw(template), order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def hash_of(template: Any, collisions: int = 0) -> str:
    """The part of a set's name that stands for its template: ten characters, others after a collision."""
    seed = f"{digest_of(template)}/{collisions}" if collisions else digest_of(template)
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(10):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    return "".join(letters)


@frozen
class Revisions:
    """The sets of an object: that of its present template, if there is one, and all others.

    `number` is that of the newest revision, also before its set exists; `hash` and `digest` stand for the
    template.
    """

    new: RevisionSet | None
    old: tuple[RevisionSet, ...]
    number: int
    hash: str
    digest: str

    @property
    def sets(self) -> tuple[RevisionSet, ...]:
        """All sets, the new one first."""
        return self.old if self.new is None else (self.new, *self.old)

    def surplus(self, limit: int) -> tuple[RevisionSet, ...]:
        """The oldest of the empty old sets, beyond a history of `limit`."""
        empty = [one for one in self.old if one.observed and not one.most and one.object is not None]
        idle = [one for one in empty if one.object is not None and not one.object.terminating]
        ordered = sorted(idle, key=lambda one: (one.revision, one.created, one.name))
        return tuple(ordered[: max(0, len(ordered) - limit)])

    def numbered(self, number: int) -> RevisionSet | None:
        """The set of that revision; for 0, the one before the newest. None if it no longer exists."""
        ordered = sorted(self.sets, key=lambda one: one.revision)
        if number:
            return next((one for one in ordered if one.revision == number), None)
        return ordered[-2] if len(ordered) > 1 else None


def revisions_of(
    sets: Iterable[Object],
    template: Any,
    *,
    collisions: int = 0,
    same: Callable[[Object], bool] | None = None,
) -> Revisions:
    """Separate the set of `template` (the oldest of several) from the others.

    A set belongs to a template by its digest; one without a digest, of another operator, by `same`. Sets that
    are being deleted stay among the old ones. Raises ValueError for sets not read.
    """
    digest = digest_of(template)
    seen = [revision_set_of(one, _revision(one)) for one in sets]
    ordered = sorted(seen, key=lambda one: (one.created, one.name))
    new = next((one for one in ordered if _is_of(one.object, digest, same)), None)
    old = tuple(one for one in ordered if one is not new)
    number = max((one.revision for one in old), default=0) + 1
    if new is not None:
        number = max(number, new.revision)
    return Revisions(new, old, number, hash_of(template, collisions), digest)


def _is_of(obj: Object | None, digest: str, same: Callable[[Object], bool] | None) -> bool:
    if obj is None or obj.terminating:
        return False
    carried = obj.metadata.annotations.get(TEMPLATE)
    if carried is not None:
        return carried == digest
    return same is not None and same(obj)


def _revision(obj: Object) -> int:
    text = obj.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


# --- what a set carries -----------------------------------------------------------------------------------


def notes_of(
    has: Mapping[str, str], revisions: Revisions, rollout: Rollout, *, size: int, newest: bool
) -> dict[str, str]:
    """The annotations that a set of that size lacks; the newest has a revision, a template and a history."""
    said = {DESIRED: str(rollout.replicas), LIMIT: str(rollout.limit)} if size else {}
    if newest:
        before, number = has.get(REVISION, ""), str(revisions.number)
        said |= {REVISION: number, TEMPLATE: revisions.digest}
        if before and before != number:
            said[HISTORY] = _history(has.get(HISTORY, ""), before)
    return {name: text for name, text in said.items() if has.get(name) != text}


def _history(before: str, revision: str) -> str:
    numbers = [*filter(None, before.split(",")), revision]
    while len(",".join(numbers)) > HISTORY_LENGTH:
        numbers.pop(0)
    return ",".join(numbers)


# --- effects ------------------------------------------------------------------------------------------------

Make: TypeAlias = Callable[[str, str, int], Object]
"""Makes the new set, from its name, the hash of its template and its size; it must carry the hash as a label.
"""


async def carry_out_rollout(
    ctx: Context[Any], rollout: Rollout, revisions: Revisions, plan: RolloutPlan, make: Make
) -> None:
    """Resize the sets, note the size of the whole on them, and create the new one, according to the plan.

    Each write is for the state that was decided on: raises StaleVersion if it has changed, so that the run is
    repeated. Raises HashCollision, and the errors of requests.
    """
    for one in sorted(revisions.sets, key=lambda one: plan.sizes.get(one.name, one.replicas) > one.replicas):
        newest = one is revisions.new
        await _update(ctx, one, revisions, rollout, plan.sizes.get(one.name, one.replicas), newest=newest)
    if plan.create is not None:
        await _make(ctx, rollout, revisions, plan.create, make)


async def _update(
    ctx: Context[Any], one: RevisionSet, revisions: Revisions, rollout: Rollout, size: int, *, newest: bool
) -> None:
    obj = one.object
    if obj is None or obj.terminating:
        return
    notes = notes_of(obj.metadata.annotations, revisions, rollout, size=size, newest=newest)
    patch: dict[str, Any] = {"metadata": {"annotations": notes}} if notes else {}
    if size != one.replicas:
        patch["spec"] = {"replicas": size}
    if not patch:
        return
    guard = {"uid": obj.uid, "resourceVersion": obj.metadata.resource_version}
    await ctx.client.raw.merge(obj, patch, guard=guard)
    if size != one.replicas:
        word = "up" if size > one.replicas else "down"
        ctx.event("ScalingReplicaSet", f"scaled {word} {one.name} from {one.replicas} to {size}")


async def _make(ctx: Context[Any], rollout: Rollout, revisions: Revisions, size: int, make: Make) -> None:
    name = f"{ctx.object.name}-{revisions.hash}"
    new = make(name, revisions.hash, size)
    notes = notes_of({}, revisions, rollout, size=size, newest=True)
    try:
        await ctx.create(new.with_metadata(annotations={**new.metadata.annotations, **notes}))
    except AlreadyExists as error:
        stands = await ctx.client.find(type(new), name, ctx.object.namespace, live=True)
        if stands is None or _is_ours(stands, ctx.object, revisions.digest):
            raise StaleVersion(409, "Conflict", f"{name} was made already") from error
        raise HashCollision(f"{name} exists and is not of this template") from None
    ctx.event("ScalingReplicaSet", f"made {name} with {size} replicas")


def _is_ours(stands: Object, owner: Object, digest: str) -> bool:
    reference = controller_of(stands)
    mine = reference is not None and reference.uid == owner.uid
    return mine and stands.metadata.annotations.get(TEMPLATE) == digest and not stands.terminating
