"""The map of a ring for people: who holds which buckets, and what people have asked for. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from attrs import field, frozen

from reconcile.client.buckets import Buckets
from reconcile.kinds import Lease
from reconcile.sharding.assignment import Assignment, Holding, MemberRecord, Orders
from reconcile.sharding.member_lease import RECORD
from reconcile.sharding.ring import ASSIGNMENT, ORDERS, assignment_name

LEADER = "leader"
"""How people call the bucket of the controllers that need all objects."""


class NoRing(LookupError):
    """There is no Lease of such a ring."""


@frozen
class MemberRow:
    """A replica. Of its buckets of objects it keeps `held`; `warming` come to it, `closing` go to others.

    `renewed_ago` are the seconds since its Lease was renewed, by the clocks of that process and of this one;
    None where the Lease does not say.
    """

    identity: str
    version: str = ""
    held: Sequence[int] = ()
    warming: Sequence[int] = ()
    closing: Sequence[int] = ()
    leads: bool = False
    canary: float = 0.0
    draining: bool = False
    drained: bool = False
    late: bool = False
    overdue: bool = False
    renewed_ago: float | None = None


@frozen
class ShardMap:
    """A ring as its Leases describe it. `assignment` has the leader's bucket last."""

    ring: str
    assignment: Assignment
    orders: Orders
    members: Sequence[MemberRow] = ()
    lease: Lease | None = field(default=None, repr=False)
    """The Lease with the assignment and the orders; None before there is one."""

    @property
    def buckets(self) -> int:
        """Of objects."""
        return max(0, len(self.assignment.holdings) - 1)

    @property
    def leader(self) -> str:
        """The owner of the leader's bucket."""
        return self.assignment.holdings[-1].owner if self.assignment.holdings else ""

    @property
    def epochs(self) -> tuple[int, int]:
        epochs = [holding.epoch for holding in self.assignment.holdings if holding.owner]
        return min(epochs, default=0), max(epochs, default=0)

    @property
    def unowned(self) -> Sequence[int]:
        """The buckets of objects without an owner that is a member."""
        here = {member.identity for member in self.members}
        return [number for number, holding in self._of_objects() if holding.owner not in here]

    @property
    def moving(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """The buckets in hand-over, by the members from which and to which they go."""
        moves: dict[tuple[str, str], list[int]] = {}
        for number, holding in self._of_objects():
            if holding.next_owner:
                moves.setdefault((holding.owner, holding.next_owner), []).append(number)
        return moves

    def name_of(self, bucket: int) -> str:
        """A bucket as people call it."""
        return LEADER if bucket == self.buckets else str(bucket)

    def _of_objects(self) -> Iterable[tuple[int, Holding]]:
        return enumerate(self.assignment.holdings[: self.buckets])


def map_of(name: str, namespace: str, leases: Iterable[Lease], now: datetime) -> ShardMap:
    """The map from all Leases of a ring. Raises NoRing, and AssignmentError for what cannot be read."""
    ring, found = f"{namespace}/{name}", {lease.name: lease for lease in leases}
    if not found:
        raise NoRing(ring)
    assigned = found.pop(assignment_name(name), None)
    annotations = {} if assigned is None else assigned.metadata.annotations
    text = annotations.get(ASSIGNMENT, "")
    assignment = Assignment.from_text(text) if text else Assignment(())
    orders = Orders.from_text(annotations.get(ORDERS, ""))
    members = [_row(lease, assignment, orders, now) for lease in found.values()]
    members.sort(key=lambda member: member.identity)
    return ShardMap(ring, assignment, orders, members, assigned)


def _row(lease: Lease, assignment: Assignment, orders: Orders, now: datetime) -> MemberRow:
    identity = lease.spec.holder_identity or lease.name
    record = MemberRecord.from_text(lease.metadata.annotations.get(RECORD, ""))
    *of_objects, of_leader = assignment.holdings or (Holding(),)
    owned = [number for number, holding in enumerate(of_objects) if holding.owner == identity]
    closing = [number for number in owned if of_objects[number].next_owner]
    renewed_ago = _seconds_since(lease.spec.renew_time, now)
    return MemberRow(
        identity=identity,
        version=record.version,
        held=[number for number in owned if not of_objects[number].next_owner],
        warming=[number for number, holding in enumerate(of_objects) if holding.next_owner == identity],
        closing=closing,
        leads=of_leader.owner == identity,
        canary=record.canary,
        draining=record.draining,
        drained=identity in orders.drained,
        late=record.late,
        overdue=renewed_ago is not None and renewed_ago > (lease.spec.lease_duration_seconds or 0),
        renewed_ago=renewed_ago,
    )


def _seconds_since(time: str | None, now: datetime) -> float | None:
    try:
        then = datetime.fromisoformat(time or "")
        return max(0.0, round((now - then).total_seconds(), 1))
    except (ValueError, TypeError):
        return None


# --- objects --------------------------------------------------------------------------------------------


@frozen
class Place:
    """Where an object is: its bucket `by` its own uid, or by the label that it has as a child."""

    by: str
    bucket: int
    owner: str
    epoch: int
    next_owner: str


def places_of(found: ShardMap, uid: str, label: str) -> Sequence[Place]:
    """The bucket of an object by its uid, and by the label with the bucket of its owner, if it has one."""
    buckets = Buckets(found.buckets)
    numbers = {"uid": buckets.of(uid)}
    if label in {buckets.label(number) for number in range(found.buckets)}:
        numbers["label"] = int(label, 16)
    holdings = found.assignment.holdings
    return [
        Place(by, number, holdings[number].owner, holdings[number].epoch, holdings[number].next_owner)
        for by, number in numbers.items()
    ]
