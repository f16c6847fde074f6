"""What a member sees of its ring: the assignment, and the Leases of all members, by one watch.

How old a Lease is counts by the local monotonic clock, from when this process saw its last change; no time of
another process is compared.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

import anyio
from attrs import define, evolve, field, frozen

from informers import Clock, Delta, Informer, InformerOptions, Reachability, Transport, get_logger
from informers.broadcast import Broadcast
from reconcile.client.certainty import LeaseTerms
from reconcile.kinds import Lease, LeaseSpec
from reconcile.models import DecodeError, ObjectMeta, decode_snapshot, kind_of
from reconcile.sharding.assignment import Assignment, AssignmentError, MemberRecord, Orders
from reconcile.sharding.member_lease import RECORD, RING_LABEL, member_lease_name
from reconcile.sharding.member_steps import View
from reconcile.sharding.options import Sharding

ASSIGNMENT: Final = "reconcile-runtime/assignment"
"""The annotation with the assignment, on a Lease of its own."""
ORDERS: Final = "reconcile-runtime/orders"
"""The annotation beside it, with what people ask for."""

_log = get_logger("reconcile.sharding")


def assignment_name(ring: str) -> str:
    """The name of the Lease that has the assignment of a ring."""
    return f"{ring}-assignment"


@frozen
class SeenMember:
    """A member's Lease, which this process has not seen change since that time (s).

    `gone`: someone deleted it, and not as that of a dead member or of one that leaves. Its member learns of
    that when it next renews, and writes until then. A Lease without a uid is one that this process never saw.
    """

    lease: Lease
    record: MemberRecord
    since: float
    gone: bool = False

    @property
    def identity(self) -> str:
        return self.lease.spec.holder_identity or ""

    def overdue_at(self) -> float:
        """When it is to be taken for dead."""
        return self.since + (self.lease.spec.lease_duration_seconds or 0)


@frozen
class SeenAssignment:
    """The assignment, the orders beside it, and the Lease that has both."""

    lease: Lease
    assignment: Assignment
    orders: Orders


@define(eq=False)
class Ring:
    """One ring as this process sees it, while `run` runs.

    `lease_seconds` is how long the Lease of an owner counts that this process never saw.
    """

    sharding: Sharding
    transport: Transport
    clock: Clock
    reach: Reachability | None = None
    lease_seconds: float = LeaseTerms().duration
    changes: Broadcast = field(factory=Broadcast, init=False)
    """Of the assignment, of who is a member, and of what members say; not of mere renewals."""
    number: int = field(default=0, init=False)
    """Of these changes, so far."""
    members: dict[str, SeenMember] = field(factory=dict, init=False)
    """By identity."""
    last: SeenAssignment | None = field(default=None, init=False)
    """The assignment that was seen last; `absent` if it is not there any more."""
    absent: bool = field(default=True, init=False)
    informer: Informer = field(init=False)
    _other_count: int | None = field(default=None, init=False)
    _ever_seen: frozenset[str] = field(default=frozenset(), init=False)
    """Members whose Lease this process has seen at some time, as far as they are members or own buckets."""

    def __attrs_post_init__(self) -> None:
        options = InformerOptions(
            namespaces=[self.sharding.namespace], labels=f"{RING_LABEL}={self.sharding.name}"
        )
        self.informer = Informer(
            self.transport, kind_of(Lease).resource, options=options, clock=self.clock, reach=self.reach
        )
        self.informer.add_handler(self._on_lease)

    async def run(self) -> None:
        """Follow the Leases until cancelled."""
        await self.informer.run()

    def check(self) -> None:
        """Raises AssignmentError if the ring has another number of buckets: then a member has to end.

        It would be given buckets that it cannot work on, and others would wait for it.
        """
        if self._other_count is not None:
            raise AssignmentError(
                f"the ring {self.sharding.place} has {self._other_count} buckets, and this replica "
                f"{self.sharding.buckets}: give all the same, or the ring another name"
            )

    @property
    def view(self) -> View:
        """What a member's next step needs."""
        if self.last is None:
            return View(Assignment(()))
        return View.of(self.last.assignment, self.records)

    @property
    def records(self) -> Mapping[str, MemberRecord]:
        """What each member says of itself."""
        return {identity: member.record for identity, member in sorted(self.members.items())}

    def overdue(self) -> Sequence[SeenMember]:
        """The members that are to be taken for dead."""
        now = self._now()
        return [member for member in self.members.values() if now >= member.overdue_at()]

    def seconds_until_overdue(self) -> float:
        """Until the next member is to be taken for dead, if it does not renew before."""
        now = self._now()
        return min((max(0.0, member.overdue_at() - now) for member in self.members.values()), default=60.0)

    def expect_owners(self) -> None:
        """Wait for owners whose Lease this process never saw as for members whose Lease someone deleted.

        Which of the two was the case when this process began to look cannot be told: the Lease of a dead
        member, or one that a person deleted a moment ago, whose member still writes. To be called only once
        the Leases are known.
        """
        if self.last is None:
            return
        assignment = self.last.assignment
        owners = {holding.owner for holding in assignment.holdings if holding.owner}
        self._ever_seen = (self._ever_seen & owners) | self.members.keys()
        for identity in sorted(owners - self._ever_seen):
            _log.info(
                "an owner of buckets has no Lease: they wait until it would have run out", member=identity
            )
            record = MemberRecord(draining=True, beginning=assignment.beginning)
            self.members[identity] = SeenMember(self._unseen(identity), record, self._now(), gone=True)
            self._changed()

    def _unseen(self, identity: str) -> Lease:
        metadata = ObjectMeta(member_lease_name(self.sharding.name, identity), self.sharding.namespace)
        duration = math.ceil(self.lease_seconds)
        return Lease(
            metadata=metadata, spec=LeaseSpec(holder_identity=identity, lease_duration_seconds=duration)
        )

    def note_written(self, lease: Lease) -> None:
        """Take over an assignment that this process has just written, unless it has seen a later one."""
        if self._is_later(lease):
            self._note_assignment(lease)

    def note_removed(self, member: SeenMember) -> None:
        """Forget a member whose Lease this process has just deleted."""
        if self.members.get(member.identity) is member:
            del self.members[member.identity]
            self._changed()

    def note_found(self, member: SeenMember, lease: Lease) -> None:
        """Take over a Lease that is there, though the watch said that it was deleted: it lost its label."""
        self._note_member(member.identity, lease)

    # Plain synchronous code, called in the order of changes.
    def _on_lease(self, delta: Delta) -> None:
        try:
            lease = decode_snapshot(Lease, delta.last)
        except DecodeError as error:
            _log.warning("a Lease of the ring cannot be read", lease=str(delta.last.key), error=str(error))
            return
        identity = lease.spec.holder_identity or ""
        if lease.name == assignment_name(self.sharding.name):
            if delta.new is None:
                self._note_absence(lease)
            elif self._is_later(lease):
                self._note_assignment(lease)
        elif delta.new is not None:
            self._note_member(identity, lease)
        elif (member := self.members.get(identity)) is not None and member.lease.uid == lease.uid:
            self._note_deletion(member)

    def _note_member(self, identity: str, lease: Lease) -> None:
        if lease.name != member_lease_name(self.sharding.name, identity):
            return  # a copy made by hand, say: when it runs out, the member is not dead
        known, now = self.members.get(identity), self._now()
        text = lease.metadata.annotations.get(RECORD, "")
        same = known is not None and known.lease.metadata.annotations.get(RECORD, "") == text
        if known is not None and same and not known.gone:
            self.members[identity] = SeenMember(lease, known.record, now)  # a renewal
            return
        record = MemberRecord() if known is None else known.record
        try:
            record = MemberRecord.from_text(text)
        except AssignmentError as error:
            _log.warning("a member of the ring cannot be understood", member=identity, error=str(error))
        self.members[identity] = SeenMember(lease, record, now)
        self._changed()

    def _note_deletion(self, member: SeenMember) -> None:
        # One that drains may have runs under way: only what it said last tells its own deletion from others'.
        if member.record.left or self._now() >= member.overdue_at():
            del self.members[member.identity]
        else:
            # As a rule another one took it for dead and was a moment earlier; or someone deleted it by hand.
            _log.info(
                "the Lease of a member is gone: its buckets wait until it would have run out",
                member=member.identity,
            )
            record = evolve(member.record, draining=True)
            self.members[member.identity] = evolve(member, record=record, gone=True)
        self._changed()

    def _is_later(self, lease: Lease) -> bool:
        return self.last is None or _version(lease) > _version(self.last.lease)

    def _note_absence(self, lease: Lease) -> None:
        # What was assigned stays so for this member until there is another one.
        _log.warning("the assignment of buckets was deleted", lease=str(lease.key))
        self.absent = True
        self._changed()

    def _note_assignment(self, lease: Lease) -> None:
        annotations, expected = lease.metadata.annotations, self.sharding.parts
        try:
            assignment = Assignment.from_text(annotations.get(ASSIGNMENT, ""))
            orders = Orders.from_text(annotations.get(ORDERS, ""))
        except AssignmentError as error:
            _log.error("the assignment of buckets cannot be read", lease=str(lease.key), error=str(error))
            return
        if len(assignment.holdings) != expected:
            _log.error(
                "the ring has another number of buckets: give all members the same, or the ring another name",
                ring=self.sharding.name,
                buckets=len(assignment.holdings) - 1,
                here=self.sharding.buckets,
            )
            self._other_count = len(assignment.holdings) - 1
            self._changed()
            return
        self._other_count = None
        self.last, self.absent = SeenAssignment(lease, assignment, orders), False
        self._changed()

    def _changed(self) -> None:
        self.number += 1
        self.changes.notify()

    def _now(self) -> float:
        return anyio.current_time() + self.clock.suspended()


def _version(lease: Lease) -> int:
    return int(lease.metadata.resource_version or 0)
