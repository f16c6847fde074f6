"""Orders to the replicas of a ring, as people type them. Pure."""

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import evolve, frozen

from reconcile.commands.problems import Problem
from reconcile.commands.shard_map import LEADER, ShardMap
from reconcile.sharding.assignment import Orders


@frozen
class Order:
    """What is to be changed of a ring's orders, and what is said once it is. `change` raises Problem."""

    change: Callable[[ShardMap], Orders]
    said: str


def order_of(words: Sequence[str]) -> Order:
    """The order that words give. Raises Problem."""
    match words:
        case ("drain", member):
            return Order(lambda found: _drained(found, member), f"{member} is to give away what it holds")
        case ("undrain", member):
            return Order(lambda found: _undrained(found, member), f"{member} gets its share again")
        case ("pin", bucket, member):
            return Order(
                lambda found: _pinned(found, bucket, member), f"bucket {bucket} is pinned to {member}"
            )
        case ("unpin", bucket):
            return Order(lambda found: _unpinned(found, bucket), f"bucket {bucket} is not pinned any more")
    known = "drain MEMBER, undrain MEMBER, pin BUCKET MEMBER, unpin BUCKET, of KIND/NAMESPACE/NAME"
    raise Problem(f"{' '.join(words)!r} is not an order", f"expected {known}")


def nearest(word: str, known: Collection[str], what: str) -> str:
    """The next step after a name that is not known."""
    near = difflib.get_close_matches(word, known, 1, 0.0)
    return f"the nearest is {near[0]}" if near else f"there are no {what}"


def _drained(found: ShardMap, member: str) -> Orders:
    _check_member(found, member)
    return evolve(found.orders, drained=tuple(dict.fromkeys((*found.orders.drained, member))))


def _undrained(found: ShardMap, member: str) -> Orders:
    before = found.orders.drained
    if member not in before:
        raise Problem(f"{member} is not drained", nearest(member, before, "drained members"))
    return evolve(found.orders, drained=tuple(name for name in before if name != member))


def _pinned(found: ShardMap, bucket: str, member: str) -> Orders:
    _check_member(found, member)
    return _with_pins(found, {**found.orders.pins, _bucket(found, bucket): member})


def _unpinned(found: ShardMap, bucket: str) -> Orders:
    number, pins = _bucket(found, bucket), found.orders.pins
    if number not in pins:
        known = [found.name_of(one) for one in pins]
        raise Problem(f"bucket {bucket} is not pinned", nearest(bucket, known, "pinned buckets"))
    return _with_pins(found, {one: name for one, name in pins.items() if one != number})


def _with_pins(found: ShardMap, pins: Mapping[int, str]) -> Orders:
    return evolve(found.orders, pins=pins)


def _check_member(found: ShardMap, member: str) -> None:
    known = [one.identity for one in found.members]
    if member not in known:
        raise Problem(f"the ring has no member {member}", nearest(member, known, "members"))


def _bucket(found: ShardMap, bucket: str) -> int:
    if bucket == LEADER:
        return found.buckets
    digits = bucket.isascii() and bucket.isdecimal() and len(bucket) < 10
    if not digits or int(bucket) >= found.buckets:
        raise Problem(f"there is no bucket {bucket}", f"use 0 to {found.buckets - 1}, or {LEADER}")
    return int(bucket)
