"""Who is to own which bucket: a coordinator's decision, on the assignment and what members say. Pure.

Each member gets as many buckets as any other, give or take one, by as few moves as possible. A bucket whose
owner lives changes hands only when that owner has released it; one whose owner is gone is given away at once.

Any number of coordinators may plan at the same time if each sees the members at least as late as the
assignment, writes the assignment by compare-and-swap alone, and takes a member for gone only when its Lease
has been deleted.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

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
    wanted = _wanted(assignment, members, orders)
    known_to_all = all(record.beginning == assignment.beginning for record in members.values())
    holdings: list[Holding] = []
    releasing: set[str] = set()
    for bucket, holding in enumerate(assignment.holdings):
        target, owner = wanted.get(bucket, ""), members.get(holding.owner)
        if holding.epoch == assignment.beginning and not known_to_all:
            holdings.append(holding)
        elif owner is None:
            clean = holding.clean and not holding.owner  # the last one released it, to nobody
            holdings.append(_given(holding, target, clean=clean) if target or holding.owner else holding)
        elif owner.released.get(bucket) == holding.epoch:
            releasing.add(holding.owner)
            # Without a target the last member leaves: nobody owns it then, so that who comes next need not
            # wait for this member's Lease.
            holdings.append(_given(holding, target, clean=True))
        else:
            holdings.append(_redirected(holding, target))
    _begin_moves(holdings, wanted, moves_at_once)
    reached = dict(assignment.reached)
    for member in releasing:
        for resource, version in members[member].seen.items():
            reached[resource] = max(version, reached.get(resource, 0))
    return evolve(assignment, holdings=tuple(holdings), reached=reached)


def _given(holding: Holding, target: str, *, clean: bool) -> Holding:
    return Holding(target, holding.epoch + 1, clean=clean)


def _redirected(holding: Holding, target: str) -> Holding:
    """With the right next owner, if it has one."""
    next_owner = "" if target == holding.owner else target
    return holding if holding.next_owner in ("", next_owner) else evolve(holding, next_owner=next_owner)


def _begin_moves(holdings: list[Holding], wanted: Mapping[int, str], moves_at_once: int) -> None:
    """Name the next owners of buckets that are not with the right one, of as many as may move."""
    room = moves_at_once - sum(1 for holding in holdings if holding.next_owner)
    for bucket, holding in enumerate(holdings):
        target = wanted.get(bucket, "")
        if room > 0 and holding.owner and not holding.next_owner and target not in ("", holding.owner):
            holdings[bucket] = evolve(holding, next_owner=target)
            room -= 1


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
    pinned = Counter(name for bucket, name in orders.pins.items() if 0 <= bucket < buckets)
    share = min(1.0, max(members[name].canary for name in canaries))
    of_canaries = max(1, int(buckets * share), sum(pinned[name] for name in canaries))
    of_canaries = min(of_canaries, buckets - sum(pinned[name] for name in others))
    return [Group(canaries, of_canaries), Group(others, buckets - of_canaries)]


def spared(assignment: Assignment, members: Mapping[str, MemberRecord], orders: Orders) -> Mapping[str, int]:
    """How many buckets fewer than its share each member is to get, at one more look at who is late.

    It only grows, so that no bucket goes back and forth. Where half of the members are late, the cause is not
    one of them.
    """
    late = [name for name, record in members.items() if record.late and not record.draining]
    if len(late) * 2 >= len(members):
        return assignment.spared
    found = dict(assignment.spared)
    for group in groups_of(members, orders, len(assignment.holdings)):
        share = group.buckets / len(group.members)
        step, most = max(1, int(share / SPARED_SHARE)), int(share / 2)
        found |= {name: min(most, found.get(name, 0) + step) for name in group.members if name in late}
    return found


def _wanted(assignment: Assignment, members: Mapping[str, MemberRecord], orders: Orders) -> Mapping[int, str]:
    """The owner of each bucket when all is handed over."""
    holdings = assignment.holdings
    orders = _led(holdings, members, orders)
    groups = groups_of(members, orders, len(holdings))
    having: dict[str, list[int]] = {name: [] for group in groups for name in sorted(group.members)}
    if not having:  # better with one that is to be drained than with none
        return _among_drained(holdings, [name for name, one in sorted(members.items()) if not one.draining])
    pins = {b: name for b, name in orders.pins.items() if name in having and 0 <= b < len(holdings)}
    free: list[int] = []
    for bucket, holding in enumerate(holdings):
        candidates = (pins.get(bucket, ""), holding.next_owner, holding.owner)
        name = next((name for name in candidates if name in having), "")
        (having[name] if name else free).append(bucket)
    sizes = {name: size for group in groups for name, size in _sizes(group, having, pins, assignment.spared)}
    wanted = {bucket: name for name, buckets in having.items() for bucket in buckets}
    for name, buckets in having.items():
        # Buckets that are about to come go first: they have not moved yet.
        movable = [bucket for bucket in buckets if bucket not in pins]
        movable.sort(key=lambda bucket: (holdings[bucket].owner == name, bucket))
        free += movable[: max(0, len(buckets) - sizes[name])]
    takers = [name for name, buckets in having.items() for _ in range(sizes[name] - len(buckets))]
    return wanted | dict(zip(sorted(free), takers, strict=True))


def _among_drained(holdings: Sequence[Holding], staying: Sequence[str]) -> Mapping[int, str]:
    """Each bucket where it is, and those of members that go or are gone with any of the others in turn."""
    if not staying:
        return {}
    return {
        bucket: one.owner if one.owner in staying else staying[bucket % len(staying)]
        for bucket, one in enumerate(holdings)
    }


def _led(holdings: Sequence[Holding], members: Mapping[str, MemberRecord], orders: Orders) -> Orders:
    """With the last bucket, the leader's, pinned to a member that is no canary, if there are both.

    What runs there concerns all objects. People may pin it otherwise.
    """
    groups, leading = groups_of(members, orders, len(holdings)), len(holdings) - 1
    if len(groups) < 2 or any(orders.pins.get(leading) in group.members for group in groups):
        return orders
    others, present = groups[-1].members, holdings[leading]
    leader = next((name for name in (present.next_owner, present.owner) if name in others), others[0])
    return evolve(orders, pins={**orders.pins, leading: leader})


def _sizes(
    group: Group, having: Mapping[str, Sequence[int]], pins: Mapping[int, str], spared: Mapping[str, int]
) -> Sequence[tuple[str, int]]:
    """How many buckets each member of a group is to have: as many as any other, but what it is spared.

    No member gets less than what is pinned to it. Those that have most get the odd ones, for fewer moves.
    """
    pinned = Counter(pins.values())
    less = {name: spared.get(name, 0) for name in group.members}

    def size(name: str, share: int) -> int:
        return max(pinned[name], share - less[name])

    def total(share: int) -> int:
        return sum(size(name, share) for name in group.members)

    if pinned or any(less.values()):
        shares = range(1, group.buckets + max(less.values()) + 1)
        share = bisect_right(shares, group.buckets, key=total)
    else:  # nearly always, and each member plans at each change of the ring
        share = group.buckets // len(group.members)
    odd = group.buckets - total(share)
    growing = [name for name in group.members if size(name, share + 1) > size(name, share)]
    growing.sort(key=lambda name: (less[name], -len(having[name]), name))
    return [(name, size(name, share) + (name in growing[:odd])) for name in group.members]
