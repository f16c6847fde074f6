"""The map of a ring as text, and as values that JSON has. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict

from reconcile.client.buckets import in_ranges
from reconcile.commands.shard_map import MemberRow, Place, ShardMap

_HEAD = ("MEMBER", "VERSION", "HELD", "WARMING", "CLOSING", "RENEWED", "STATE")


def told(found: ShardMap) -> Mapping[str, Any]:
    """The map as values that JSON has."""
    return {
        "ring": found.ring,
        "buckets": found.buckets,
        "leader": found.leader,
        "epochs": list(found.epochs),
        "members": [asdict(member) for member in found.members],
        "unowned": list(found.unowned),
        "moving": [{"from": a, "to": b, "buckets": them} for (a, b), them in found.moving.items()],
        "pins": {found.name_of(number): name for number, name in sorted(found.orders.pins.items())},
        "drained": list(found.orders.drained),
    }


def lines(found: ShardMap) -> Iterator[str]:
    """The map as text."""
    low, high = found.epochs
    members = "1 member" if len(found.members) == 1 else f"{len(found.members)} members"
    yield f"ring {found.ring}: {found.buckets} buckets, {members}, epochs {low} to {high}"
    if not found.buckets:
        yield "nothing is assigned yet"
    if found.members:
        yield from _table([_HEAD, *(_cells(member) for member in found.members)])
    else:
        yield "no member is there: is the operator running?"
    for (giver, taker), buckets in found.moving.items():
        yield f"moving: {in_ranges(buckets)} from {giver or 'no member'} to {taker}"
    if found.unowned:
        yield f"unowned: {in_ranges(found.unowned)}"
    here = {member.identity for member in found.members}
    for number, name in sorted(found.orders.pins.items()):
        yield f"pinned: {found.name_of(number)} to {name}{_if_gone(name not in here)}"
    for name in found.orders.drained:
        if name not in here:
            yield f"drained: {name}{_if_gone(True)}"


def described(text: str, place: Place) -> str:
    """Where the object of that name is."""
    how = f"is in bucket {place.bucket}" if place.by == "uid" else f"is a child of bucket {place.bucket}"
    held = f"of {place.owner} in epoch {place.epoch}" if place.owner else "which has no owner"
    return f"{text} {how}, {held}" + (f", going to {place.next_owner}" if place.next_owner else "")


def _if_gone(gone: bool) -> str:
    return ", which is not there" if gone else ""


def _cells(member: MemberRow) -> Sequence[str]:
    renewed = "never" if member.renewed_ago is None else f"{member.renewed_ago:.0f} s ago"
    states = {
        "leads": member.leads,
        f"canary {member.canary:.3g}": member.canary > 0,
        "drained": member.drained,
        "leaving": member.draining,
        "late": member.late,
        "overdue": member.overdue,
    }
    counts = (len(member.held), len(member.warming), len(member.closing))
    state = ", ".join(name for name, applies in states.items() if applies)
    return (member.identity, member.version, *map(str, counts), renewed, state)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
