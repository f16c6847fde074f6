"""The Lease of a member: whatever happens to answers, to it and to its process, it never writes too long."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import pytest
from attrs import evolve

from reconcile import Client
from reconcile.client.certainty import Certainty, LeadershipLost, LeaseTerms
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Lease, LeaseSpec
from reconcile.models import ObjectMeta
from reconcile.sharding import Sharding
from reconcile.sharding.assignment import MemberRecord
from reconcile.sharding.member_lease import RECORD, RING_LABEL, MemberLease
from reconcile.testing import (
    Drop,
    Fault,
    FaultyTransport,
    LoseReply,
    Refuse,
    RefuseAsStale,
    SlowReply,
    VirtualClock,
    When,
    simulate,
)
from tests.helpers.scenarios import in_world
from tests.helpers.tasks import beside

TERMS = LeaseTerms(15, 10, 2)
NAME = "ring-a"


class Place:
    """A server, the Lease of one member, and a client of the test."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0)
        self.transport = InProcessTransport(ApiServer(clock=self.clock))
        self.client = Client(self.transport, clock=self.clock)
        self.record = MemberRecord()
        self.certainty = Certainty(self.clock)
        self.faults = FaultyTransport(self.transport)
        self.lease = self.made(self.faults, self.certainty)

    def made(self, transport: Any, certainty: Certainty, identity: str = "a") -> MemberLease:
        client = Client(transport, clock=self.clock)
        ring = Sharding("ring", identity=identity)
        return MemberLease(client, ring, TERMS, certainty, lambda: self.record)

    async def stored(self) -> Lease | None:
        return await self.client.find(Lease, NAME, "default", live=True)

    async def said(self) -> MemberRecord:
        found = await self.stored()
        assert found is not None
        return MemberRecord.from_text(found.metadata.annotations[RECORD])

    def fail(self, verb: Any, what: Any, **when: Any) -> None:
        self.faults.add(Fault(When(verb, "*/leases*", **when), what))

    async def lost(self, seconds: float = 100) -> str:
        """Hold the Lease until it is lost, and say why and how."""
        with pytest.raises(LeadershipLost) as lost, anyio.fail_after(seconds):
            await self.lease.hold()
        assert not self.certainty.holds
        return str(lost.value)


def played(scenario: Callable[[Place], Awaitable[None]]) -> None:
    simulate(lambda: scenario(Place()), limit_seconds=1000)


@in_world(played)
async def test_a_member_is_certain_for_less_time_than_others_wait(place: Place) -> None:
    await place.lease.join()
    found = await place.stored()
    assert found is not None
    assert found.metadata.labels == {RING_LABEL: "ring"}
    assert (found.spec.holder_identity, found.spec.lease_duration_seconds) == ("a", 15)
    assert place.certainty.deadline == anyio.current_time() + 10
    async with beside(place.lease.hold):
        await anyio.sleep(60)
        assert place.certainty.holds


@pytest.mark.parametrize("what", [LoseReply(), Drop(), Refuse(500), Refuse(429), Refuse(504, applied=True)])
@in_world(played)
async def test_a_member_joins_although_its_first_answers_are_lost(place: Place, what: Any) -> None:
    place.fail("create", what, times=2)
    await place.lease.join()
    async with beside(place.lease.hold):
        await anyio.sleep(30)
        assert place.certainty.holds


@pytest.mark.parametrize(
    "what", [LoseReply(), Drop(), Refuse(500), RefuseAsStale(), Refuse(504, applied=True)]
)
@in_world(played)
async def test_a_few_lost_or_refused_renewals_do_no_harm(place: Place, what: Any) -> None:
    await place.lease.join()
    place.fail("update", what, nth=2, times=3)
    async with beside(place.lease.hold):
        await anyio.sleep(5)
        place.record = MemberRecord(warm={3: 9})
        place.lease.say()
        await anyio.sleep(15)
        assert place.certainty.holds
        assert await place.said() == MemberRecord(warm={3: 9})


@pytest.mark.parametrize("what", [LoseReply(), Drop(), Refuse(403), SlowReply(60.0)])
@in_world(played)
async def test_a_member_that_cannot_renew_ends_at_its_deadline(place: Place, what: Any) -> None:
    await place.lease.join()
    place.fail("update", what, times=None)
    began = anyio.current_time()
    assert "could not be renewed within 10 s" in await place.lost()
    assert anyio.current_time() - began <= 10


@in_world(played)
async def test_a_member_whose_lease_was_deleted_ends_at_its_next_renewal(place: Place) -> None:
    await place.lease.join()
    found = await place.stored()
    assert found is not None
    await place.client.delete(found)
    assert "was deleted" in await place.lost(5)
    assert await place.stored() is None


@in_world(played)
async def test_a_member_whose_lease_was_replaced_ends_and_leaves_the_other_alone(place: Place) -> None:
    await place.lease.join()
    found = await place.stored()
    assert found is not None
    await place.client.delete(found)
    await place.client.create(
        Lease(metadata=ObjectMeta(NAME, "default"), spec=LeaseSpec(holder_identity="a"))
    )
    assert "was deleted" in await place.lost(5)
    await place.lease.leave()
    assert await place.stored() is not None


@in_world(played)
async def test_a_second_process_with_the_same_identity_does_not_join(place: Place) -> None:
    await place.lease.join()
    async with beside(place.lease.hold):
        await anyio.sleep(1)
        with pytest.raises(LeadershipLost, match="another process"), anyio.fail_after(30):
            await place.made(place.transport, Certainty(place.clock)).join()
        assert place.certainty.holds


@in_world(played)
async def test_annotations_of_others_on_its_lease_stay_and_do_no_harm(place: Place) -> None:
    await place.lease.join()
    found = await place.stored()
    assert found is not None
    hostile: Mapping[str, Any] = {"metadata": {"annotations": {RECORD: "{", "mine": "x" * 1000}}}
    await place.client.raw.merge(found, hostile)
    async with beside(place.lease.hold):
        await anyio.sleep(8)
        assert await place.said() == MemberRecord()
        found = await place.stored()
        assert found is not None
        assert found.metadata.annotations["mine"] == "x" * 1000


@in_world(played)
async def test_a_machine_that_was_suspended_past_the_lease_renews_nothing(place: Place) -> None:
    await place.lease.join()
    place.clock.suspended_seconds += 12
    assert not place.certainty.holds
    sent = len(place.faults.writes)
    assert "could not be renewed" in await place.lost(5)
    assert len(place.faults.writes) == sent


@in_world(played)
async def test_what_a_member_says_is_written_soon_and_said_once(place: Place) -> None:
    await place.lease.join()
    async with beside(place.lease.hold):
        await anyio.sleep(0.1)
        place.record = MemberRecord(released={1: 5})
        assert not place.lease.says_all
        place.lease.say()
        await anyio.sleep(0.1)
        assert await place.said() == MemberRecord(released={1: 5})
        sent = len(place.faults.writes)
        place.lease.say()
        await anyio.sleep(0.1)
        assert len(place.faults.writes) == sent


@pytest.mark.parametrize("draining", [True, False])
@in_world(played)
async def test_a_member_that_leaves_says_so_before_its_lease_goes(place: Place, draining: bool) -> None:
    await place.lease.join()
    place.record = evolve(place.record, draining=draining)
    if draining:
        await place.lease.say_now()
    await place.lease.leave()
    assert not place.certainty.holds
    assert await place.stored() is None
    *_, last, gone = place.faults.writes
    assert gone.verb == "delete"
    assert MemberRecord.from_text((last.body or {})["metadata"]["annotations"][RECORD]).left


@pytest.mark.parametrize("what", [Drop(), Refuse(500), RefuseAsStale()])
@in_world(played)
async def test_a_farewell_that_fails_keeps_no_lease(place: Place, what: Any) -> None:
    await place.lease.join()
    place.fail("update", what)
    await place.lease.leave()
    assert await place.stored() is None


@in_world(played)
async def test_leaving_does_not_wait_for_a_server_for_ever(place: Place) -> None:
    await place.lease.join()
    place.fail("*", SlowReply(1000.0), times=None)
    began = anyio.current_time()
    await place.lease.leave()
    assert anyio.current_time() - began <= 10
    await place.made(place.transport, Certainty(place.clock), "never-joined").leave()


@in_world(played)
async def test_what_changes_while_it_is_said_is_said_too_before_a_member_goes_on(place: Place) -> None:
    await place.lease.join()
    place.record = evolve(place.record, version="2")
    place.fail("update", SlowReply(1.0))
    async with beside(place.lease.say_now):
        await anyio.sleep(0.5)
        place.record = evolve(place.record, version="3")
        await anyio.sleep(1.0)
    assert (await place.said()).version == "3"


@in_world(played)
async def test_what_nobody_asked_to_say_is_written_with_the_next_renewal(place: Place) -> None:
    await place.lease.join()
    async with beside(place.lease.hold):
        await anyio.sleep(0.1)
        before, place.record = await place.said(), MemberRecord(canary=0.1)
        await anyio.sleep(0.1)
        assert await place.said() == before
        await anyio.sleep(TERMS.retry)
        assert await place.said() == place.record
