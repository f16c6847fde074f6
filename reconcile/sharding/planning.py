"""Who is to own which bucket: the coordinator's decision, on the assignment and what members say. Pure.

Each member gets as many buckets as any other, give or take one, by as few moves as possible. A bucket whose
owner lives changes hands only when that owner has released it; one whose owner is gone is given away at once.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from attrs import evolve, frozen

from reconcile.sharding.assignment import Assignment, Holding, MemberRecord, Orders

MOVES_AT_ONCE = 32
"""Buckets in hand-over at one time: each costs its next owner lists, and runs of all its keys."""

SPARED_SHARE = 8
"""A slow member is spared an eighth of its share at a time, and half of it at most."""


@frozen
class Group:
    """Members that share `buckets` buckets among each other."""

    members: Sequence[str]
    buckets: int


def plan(
    assignment: Assignment,
    members: Mapping[str, MemberRecord],
    orders: Orders,
    moves_at_once: int = MOVES_AT_ONCE,
) -> Assignment:
    """The next assignment. `members` are those that live; an owner that is not among them owns nothing."""
    groups = groups_of(members, orders, len(assignment.holdings))
    wanted = _wanted(assignment, groups, _pins(orders, groups, len(assignment.holdings)))
    moving = sum(1 for one in assignment.holdings if one.next_owner in members and one.owner in members)
    holdings: list[Holding] = []
    reached = dict(assignment.reached)
    for bucket, holding in enumerate(assignment.holdings):
        target, owner = wanted.get(bucket, ""), members.get(holding.owner)
        if owner is None:
            holdings.append(_given(holding, target, clean=False))
        elif owner.released.get(bucket) == holding.epoch:
            # Without anyone to take it, it stays released, and is given away later.
            holdings.append(_given(holding, target, clean=True) if target else holding)
            _raise_to(reached, owner.seen)
        elif not target or target == holding.owner:
            holdings.append(evolve(holding, next_owner=""))
        elif holding.next_owner == target:
            holdings.append(holding)
        elif holding.next_owner in members or moving < moves_at_once:
            moving += holding.next_owner not in members
            holdings.append(evolve(holding, next_owner=target))
        else:
            holdings.append(evolve(holding, next_owner=""))
    return evolve(assignment, holdings=tuple(holdings), reached=reached)


def groups_of(members: Mapping[str, MemberRecord], orders: Orders, buckets: int) -> Sequence[Group]:
    """The members that may own buckets: canaries, which share a part of all, and the others.

    Without others, canaries get all: keys that nothing works on would be worse than an unproven version.
    """
    staying = [
        name for name, record in sorted(members.items()) if not record.draining and name not in orders.drained
    ]
    canaries = [name for name in staying if members[name].canary > 0]
    others = [name for name in staying if name not in canaries]
    if not others or not canaries:
        return [Group(staying, buckets)] if staying else []
    share = max(members[name].canary for name in canaries)
    of_canaries = min(buckets - 1, math.ceil(buckets * min(share, 1.0)))
    return [Group(canaries, of_canaries), Group(others, buckets - of_canaries)]


def spared(assignment: Assignment, members: Mapping[str, MemberRecord], changed: bool) -> Mapping[str, int]:
    """How many buckets fewer than its share each member is to get, at one more look at who is late.

    It only grows while the members stay the same, so that no bucket goes back and forth; with other members
    (`changed`) it begins anew. Where half of the members are late, the cause is not one of them.
    """
    if changed:
        return {}
    late = [name for name, record in sorted(members.items()) if record.late and not record.draining]
    if not late or len(late) * 2 >= len(members):
        return assignment.spared
    share = len(assignment.holdings) / len(members)
    step, most = max(1, int(share / SPARED_SHARE)), int(share / 2)
    grown = {name: min(most, assignment.spared.get(name, 0) + step) for name in late}
    return {**assignment.spared, **grown}


def _pins(orders: Orders, groups: Collection[Group], buckets: int) -> Mapping[int, str]:
    present = {name for group in groups for name in group.members}
    return {b: name for b, name in orders.pins.items() if name in present and 0 <= b < buckets}


def _wanted(assignment: Assignment, groups: Sequence[Group], pins: Mapping[int, str]) -> Mapping[int, str]:
    """The owner of each bucket when all is handed over; empty without members."""
    allowed = {name for group in groups for name in group.members}
    wanted: dict[int, str] = {}
    by_member: dict[str, list[int]] = {name: [] for name in sorted(allowed)}
    for bucket, holding in enumerate(assignment.holdings):
        candidates = (pins.get(bucket, ""), holding.next_owner, holding.owner)
        name = next((name for name in candidates if name in allowed), "")
        if name:
            wanted[bucket] = name
            by_member[name].append(bucket)
    sizes = _sizes(groups, assignment.spared, Counter(wanted.values()))
    free = [bucket for bucket in range(len(assignment.holdings)) if bucket not in wanted]
    for name, having in by_member.items():
        movable = [bucket for bucket in having if bucket not in pins]
        # Buckets that are about to come go first: they have not moved yet.
        movable.sort(key=lambda bucket: (assignment.holdings[bucket].owner == name, bucket))
        free += movable[: max(0, len(having) - sizes[name])]
    room = {name: max(0, sizes[name] - len(having)) for name, having in by_member.items()}
    takers = [name for name, places in room.items() for _ in range(places)]
    # Pins may leave more buckets than places: those go round.
    takers += [name for name in by_member for _ in range(len(free))] if len(takers) < len(free) else []
    return {**wanted, **dict(zip(sorted(free), takers, strict=False))} if takers else wanted


def _sizes(
    groups: Sequence[Group], spared: Mapping[str, int], having: Mapping[str, int]
) -> Mapping[str, int]:
    """How many buckets each member is to have; who has more gets the odd ones, for fewer moves."""
    sizes: dict[str, int] = {}
    for group in groups:
        less = {name: spared.get(name, 0) for name in group.members}
        share = (group.buckets + sum(less.values())) // len(group.members)
        wanted = {name: max(0, share - less[name]) for name in group.members}
        order = sorted(group.members, key=lambda name: (less[name], -having.get(name, 0), name))
        odd = group.buckets - sum(wanted.values())
        for number in range(abs(odd)):
            wanted[order[number % len(order)]] += 1 if odd > 0 else -1
        sizes |= wanted
    return sizes


def _given(holding: Holding, target: str, *, clean: bool) -> Holding:
    if not target and not holding.owner:
        return holding
    return Holding(target, holding.epoch + 1, clean=clean)


def _raise_to(reached: dict[str, int], seen: Mapping[str, int]) -> None:
    for resource, version in seen.items():
        reached[resource] = max(version, reached.get(resource, 0))
