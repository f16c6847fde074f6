"""Keeps the assignment as it should be: each member looks, and the first of those that live writes.

Two that write at once do no harm: the assignment changes by compare-and-swap alone, a bucket whose owner
lives only after that owner has released it, and the Lease of a dead member is deleted at the version that was
not renewed in time, before anything of that member is given away. So there is no election.
"""

import math
from collections.abc import Mapping, Sequence

import anyio
from attrs import define, evolve, field, frozen

from informers import AlreadyExists, ApiError, NotFound, PreconditionFailed, StaleVersion, get_logger
from reconcile.client.client import Client
from reconcile.kinds import Lease, LeaseSpec
from reconcile.models import ObjectMeta, kind_of
from reconcile.sharding.assignment import Assignment, MemberRecord, Orders
from reconcile.sharding.member_lease import RING_LABEL
from reconcile.sharding.planning import plan, spared
from reconcile.sharding.ring import ASSIGNMENT, ORDERS, Ring, SeenAssignment, SeenMember, assignment_name

TURN_SECONDS = 1.0
"""Each member gives those before it so long to act, one after the other: the first may be stuck."""

SLOW_SECONDS = 60.0
"""How often slow members are looked at. A bucket that moves costs its next owner lists and runs."""

RETRY_SECONDS = 0.5

_log = get_logger("reconcile.sharding")


@frozen
class Due:
    """What is to be done now: dead members to remove, or the assignment to write; `begin`: anew."""

    dead: Sequence[SeenMember] = ()
    begin: bool = False
    planned: Assignment | None = None


@define(eq=False)
class Coordinator:
    """One member's part in keeping the assignment, while `run` runs. `client` bypasses guards of writes."""

    client: Client
    ring: Ring
    _settled_at: int = field(default=-1, init=False)
    """The number of changes of the ring after which a plan changed nothing."""
    _known: frozenset[str] = field(default=frozenset(), init=False)
    _looked_at: float = field(default=0.0, init=False)
    """When slow members were looked at."""

    async def run(self) -> None:
        """Look at each change of the ring, and when the Lease of a member runs out, until cancelled."""
        due_since = math.inf
        while True:
            due, now = self._look(), anyio.current_time()
            if due is None:
                due_since = math.inf
                await self._see_more(min(self.ring.seconds_until_overdue(), SLOW_SECONDS) + 0.01)
                continue
            due_since = min(due_since, now)
            wait = due_since + TURN_SECONDS * self._place(due) - now
            if wait > 0:
                await self._see_more(wait)
            else:
                await self._act(due)

    def _look(self) -> Due | None:
        """What is to be done. Planning takes milliseconds, so only where something has changed."""
        self.ring.expect_owners()
        if dead := self.ring.overdue():
            return Due(dead=dead)
        if self.ring.absent or self.ring.last is None:
            return Due(begin=True)
        seen, members = self.ring.last, self.ring.records
        slow = self._slow(seen, members)
        if self.ring.number == self._settled_at and slow is None:
            return None
        said = {one for record in members.values() for one in record.labelled}
        base = evolve(seen.assignment, labelled=tuple(sorted(said.union(seen.assignment.labelled))))
        if slow is not None:
            base = evolve(base, spared=slow)
        planned = plan(base, members, seen.orders)
        if planned == seen.assignment:
            self._settled_at = self.ring.number
            return None
        return Due(planned=planned)

    def _slow(self, seen: SeenAssignment, members: Mapping[str, MemberRecord]) -> Mapping[str, int] | None:
        """How many buckets slow members are spared, if that is to be decided anew now."""
        now = anyio.current_time()
        if members.keys() != self._known:
            if self._known and seen.assignment.spared:
                return {}  # until it is written, which may be the turn of one that has just joined
            self._known, self._looked_at = frozenset(members), now
        elif now >= self._looked_at + SLOW_SECONDS:
            self._looked_at = now
            return spared(seen.assignment, members, seen.orders)
        return None

    def _place(self, due: Due) -> int:
        """How many members act first: those before this one by name, without the dead."""
        dead = {member.identity for member in due.dead}
        mine = self.ring.sharding.identity
        living = (one.identity for one in self.ring.members.values() if not one.gone)
        return sum(1 for identity in living if identity < mine and identity not in dead)

    async def _act(self, due: Due) -> None:
        try:
            for member in due.dead:
                await self._remove(member)
            if due.begin:
                await self._begin()
            elif due.planned is not None:
                await self._write(due.planned)
        except (StaleVersion, AlreadyExists, NotFound, PreconditionFailed):
            await self._see_more(RETRY_SECONDS)  # what was decided on is old
        except ApiError as error:
            _log.info("the assignment could not be written", ring=self.ring.sharding.name, error=str(error))
            await anyio.sleep(RETRY_SECONDS)

    async def _write(self, planned: Assignment) -> None:
        seen = self.ring.last
        assert seen is not None
        annotations = {**seen.lease.metadata.annotations, ASSIGNMENT: planned.to_text()}
        metadata = evolve(seen.lease.metadata, annotations=annotations)
        written = await self.client.raw.update(seen.lease.replace(metadata=metadata), whole=True)
        self.ring.note_written(written)

    async def _begin(self) -> None:
        """Write an assignment without owners, as there is none: at the start, or after someone deleted it."""
        sharding = self.ring.sharding
        # Above all epochs before: each of them took a write, and each write takes a version of the server.
        above = await self.client.raw.version(kind_of(Lease).resource, sharding.namespace)
        orders = Orders() if self.ring.last is None else self.ring.last.orders
        assignment = Assignment.empty(sharding.parts, above)
        annotations = {ASSIGNMENT: assignment.to_text(), ORDERS: orders.to_text()}
        metadata = ObjectMeta(
            assignment_name(sharding.name),
            sharding.namespace,
            labels={RING_LABEL: sharding.name},
            annotations=annotations,
        )
        try:
            written = await self.client.create(Lease(metadata=metadata, spec=LeaseSpec()))
        except AlreadyExists:
            # Another one was faster. Or only the label was removed, so that no watch shows the Lease.
            found = await self.client.get(Lease, metadata.name, metadata.namespace, live=True)
            if RING_LABEL not in found.metadata.labels:
                labels = {**found.metadata.labels, **metadata.labels}
                labelled = found.replace(metadata=evolve(found.metadata, labels=labels))
                await self.client.raw.update(labelled, whole=True)
            raise
        self.ring.note_written(written)

    async def _remove(self, member: SeenMember) -> None:
        if member.gone:
            # Or only its label was removed: then no watch has told of its renewals.
            lease = member.lease
            found = await self.client.find(Lease, lease.name, lease.namespace, live=True)
            if found is not None and lease.uid in ("", found.uid):
                self.ring.note_found(member, found)
                return
        if not member.gone:
            _log.warning(
                "a member of the ring did not renew its Lease: its buckets are given away",
                member=member.identity,
            )
            await self.client.delete(member.lease, if_unchanged=True)
        self.ring.note_removed(member)

    async def _see_more(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self.ring.changes.wait()
