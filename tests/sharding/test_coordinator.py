"""Coordinators that keep one assignment: the first that lives writes it, and none without need."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from attrs import evolve

from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Lease, LeaseSpec
from reconcile.models import ObjectMeta
from reconcile.sharding import Sharding
from reconcile.sharding.assignment import Assignment, MemberRecord, Orders
from reconcile.sharding.coordinator import TURN_SECONDS, Coordinator
from reconcile.sharding.member_lease import RECORD, RING_LABEL
from reconcile.sharding.ring import ASSIGNMENT, ORDERS, Ring, assignment_name
from reconcile.testing import (
    Delay,
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

SECONDS = 15


class Council:
    """Members, of which some coordinate; the test writes what they say of themselves."""

    def __init__(self, group: TaskGroup) -> None:
        self.clock = VirtualClock(0)
        self.transport = InProcessTransport(ApiServer(clock=self.clock))
        self.client = Client(self.transport, clock=self.clock)
        self.group = group
        self.transports: dict[str, FaultyTransport] = {}
        self.leases: dict[str, Lease] = {}

    async def join(self, *names: str) -> None:
        for name in names:
            metadata = ObjectMeta(f"ring-{name}", "default", labels={RING_LABEL: "ring"})
            spec = LeaseSpec(holder_identity=name, lease_duration_seconds=SECONDS)
            self.leases[name] = await self.client.create(Lease(metadata=metadata, spec=spec))

    async def say(self, name: str, record: MemberRecord) -> None:
        patch = {"metadata": {"annotations": {RECORD: record.to_text()}}}
        self.leases[name] = await self.client.raw.merge(self.leases[name], patch)
        await anyio.sleep(0.5)

    async def renew(self, *names: str) -> None:
        while True:
            for name in names:
                patch = {"spec": {"renewTime": self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
                self.leases[name] = await self.client.raw.merge(self.leases[name], patch)
            await anyio.sleep(2)

    async def coordinate(self, *names: str) -> None:
        for name in names:
            transport = self.transports[name] = FaultyTransport(self.transport)
            ring = Ring(
                Sharding("ring", buckets=4, identity=name), transport, self.clock, lease_seconds=SECONDS
            )
            self.group.start_soon(ring.run)
            await ring.informer.wait_synced()
            self.group.start_soon(Coordinator(Client(transport, clock=self.clock), ring).run)

    async def assignment(self) -> Assignment:
        lease = await self.client.get(Lease, assignment_name("ring"), "default", live=True)
        return Assignment.from_text(lease.metadata.annotations[ASSIGNMENT])

    async def owners(self) -> set[str]:
        return {holding.owner for holding in (await self.assignment()).holdings}

    async def beginning(self) -> int:
        return (await self.assignment()).beginning


def played(scenario: Callable[[Council], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with anyio.create_task_group() as group:
            await scenario(Council(group))
            group.cancel_scope.cancel()

    simulate(run, limit_seconds=1000)


async def begun(council: Council, *names: str) -> None:
    """Members that all go by the assignment."""
    await council.join(*names)
    await council.coordinate(*names)
    await anyio.sleep(5)
    beginning = await council.beginning()
    for name in names:
        await council.say(name, MemberRecord(beginning=beginning))
    council.group.start_soon(council.renew, *names)


@in_world(played)
async def test_members_begin_an_assignment_and_give_each_other_all_buckets(council: Council) -> None:
    await begun(council, "a", "b")
    await anyio.sleep(2)
    assert await council.owners() == {"a", "b"}


@in_world(played)
async def test_no_bucket_is_given_to_anyone_before_each_member_goes_by_the_assignment(
    council: Council,
) -> None:
    await council.join("a", "b")
    await council.coordinate("a", "b")
    council.group.start_soon(council.renew, "b")
    await anyio.sleep(5)
    await council.say("a", MemberRecord(beginning=await council.beginning()))
    await anyio.sleep(2)
    assert await council.owners() == {""}


@in_world(played)
async def test_only_the_first_that_lives_writes_and_none_without_need(council: Council) -> None:
    await begun(council, "a", "b", "c")
    await anyio.sleep(60)
    writes = {name: len(one.writes) for name, one in council.transports.items()}
    assert writes["b"] == writes["c"] == 0
    assert 0 < writes["a"] < 8


@pytest.mark.parametrize(
    "what", [Drop(), Refuse(500), Refuse(429), LoseReply(), RefuseAsStale(), SlowReply(30.0)]
)
@in_world(played)
async def test_another_writes_where_the_first_cannot(council: Council, what: Any) -> None:
    await begun(council, "a", "b", "c")
    await anyio.sleep(2)
    council.transports["a"].add(Fault(When("write", times=None), what))
    await council.join("d")
    await council.say("d", MemberRecord(beginning=await council.beginning()))
    council.group.start_soon(council.renew, "d")
    await anyio.sleep(3 * TURN_SECONDS + 2)
    assert {one.next_owner for one in (await council.assignment()).holdings} == {"", "d"}


@in_world(played)
async def test_a_dead_member_loses_its_lease_and_its_buckets_uncleanly(council: Council) -> None:
    await council.join("dead")
    await council.say("dead", MemberRecord())
    await council.coordinate("a")
    await council.join("a")
    await anyio.sleep(5)
    beginning = await council.beginning()
    for name in ("a", "dead"):
        await council.say(name, MemberRecord(beginning=beginning))
    council.group.start_soon(council.renew, "a")
    await anyio.sleep(2)
    assert await council.owners() == {"a", "dead"}
    await anyio.sleep(SECONDS)
    assignment = await council.assignment()
    assert {one.owner for one in assignment.holdings} == {"a"}
    taken = [one for one in assignment.holdings if one.epoch > beginning + 1]
    assert taken
    assert not any(one.clean for one in taken)
    assert {lease.name for lease in await council.client.list(Lease, "default")} == {
        "ring-a",
        "ring-assignment",
    }


@in_world(played)
async def test_a_member_that_renewed_meanwhile_is_not_dead(council: Council) -> None:
    """Its Lease is deleted only at the version that was not renewed in time."""
    await begun(council, "a")
    await council.join("late")
    await council.say("late", MemberRecord(beginning=await council.beginning()))
    council.transports["a"].add(Fault(When("delete", "*/leases/ring-late"), Delay(3.0)))
    await anyio.sleep(SECONDS)
    council.group.start_soon(council.renew, "late")  # while the deletion is on its way
    await anyio.sleep(60)
    (deletion,) = [one for one in council.transports["a"].writes if one.verb == "delete"]
    assert deletion.status == 409
    assert await council.client.find(Lease, "ring-late", "default") is not None


@in_world(played)
async def test_a_member_whose_lease_lost_its_label_keeps_its_buckets_as_long_as_it_renews(
    council: Council,
) -> None:
    await begun(council, "a", "b")
    await anyio.sleep(5)
    patch = {"metadata": {"labels": {RING_LABEL: None}}}
    council.leases["b"] = await council.client.raw.merge(council.leases["b"], patch)
    await anyio.sleep(2 * SECONDS - 5)  # it renews, which no watch of the ring shows
    assert await council.owners() == {"a", "b"}
    assert not [one for one in council.transports["a"].writes if one.verb == "delete"]


@in_world(played)
async def test_a_member_that_has_just_joined_gives_nothing_away_of_one_whose_lease_was_deleted_by_hand(
    council: Council,
) -> None:
    """It has never seen that Lease, and its member learns of the deletion only when it next renews."""
    await council.join("a", "b")
    await council.coordinate("a")
    await anyio.sleep(5)
    for name in ("a", "b"):
        await council.say(name, MemberRecord(beginning=await council.beginning()))
    council.group.start_soon(council.renew, "a")
    await anyio.sleep(2)
    assert await council.owners() == {"a", "b"}
    await council.client.delete(council.leases["b"])
    await council.join("0")  # the first by name, so it acts before the others
    await council.coordinate("0")
    await council.say("0", MemberRecord(beginning=await council.beginning()))
    council.group.start_soon(council.renew, "0")
    await anyio.sleep(SECONDS - 2)
    assert "b" in await council.owners()
    await anyio.sleep(2 * SECONDS)
    assert await council.owners() == {"0", "a"}


@in_world(played)
async def test_a_deleted_assignment_is_begun_anew_above_all_epochs_and_with_the_orders(
    council: Council,
) -> None:
    await begun(council, "a")
    await anyio.sleep(2)
    before = await council.assignment()
    lease = await council.client.get(Lease, assignment_name("ring"), "default")
    orders = Orders(pins={1: "a"})
    lease = await council.client.raw.merge(lease, {"metadata": {"annotations": {ORDERS: orders.to_text()}}})
    await anyio.sleep(2)
    await council.client.delete(lease)
    await anyio.sleep(5)
    after = await council.assignment()
    assert after.beginning > max(one.epoch for one in before.holdings)
    assert {one.owner for one in after.holdings} == {""}
    found = await council.client.get(Lease, assignment_name("ring"), "default", live=True)
    assert Orders.from_text(found.metadata.annotations[ORDERS]) == orders


@in_world(played)
async def test_an_assignment_that_lost_its_label_gets_it_back(council: Council) -> None:
    await begun(council, "a")
    await anyio.sleep(2)
    before = await council.assignment()
    lease = await council.client.get(Lease, assignment_name("ring"), "default")
    await council.client.raw.merge(lease, {"metadata": {"labels": {RING_LABEL: None}}})
    await anyio.sleep(2)
    await council.join("b")
    await council.say("b", MemberRecord(beginning=before.beginning))
    await anyio.sleep(2)
    after = await council.assignment()
    assert after.beginning == before.beginning
    assert {one.next_owner for one in after.holdings} == {"", "b"}


@pytest.mark.rule("shard-spared")
@pytest.mark.parametrize("joining", ["a", "d"])
@in_world(played)
async def test_a_slow_member_gets_its_share_back_when_another_joins(council: Council, joining: str) -> None:
    await begun(council, "b", "c")
    await anyio.sleep(2)
    lease = await council.client.get(Lease, assignment_name("ring"), "default")
    spared = evolve(await council.assignment(), spared={"c": 1})
    await council.client.raw.merge(lease, {"metadata": {"annotations": {ASSIGNMENT: spared.to_text()}}})
    await anyio.sleep(2)
    assert (await council.assignment()).spared == {"c": 1}
    await council.join(joining)
    await council.coordinate(joining)
    council.group.start_soon(council.renew, joining)
    await anyio.sleep(3 * TURN_SECONDS)
    assert (await council.assignment()).spared == {}


@in_world(played)
async def test_leases_with_anything_in_them_do_not_stop_the_others(council: Council) -> None:
    for number, text in enumerate(("{", '{"warm":{"9999":1}}', '{"released":{"0":99}}', '{"canary":7}')):
        await council.join(f"x{number}")
        patch = {"metadata": {"annotations": {RECORD: text}}}
        await council.client.raw.merge(council.leases[f"x{number}"], patch)
    await begun(council, "a")
    await anyio.sleep(SECONDS + 5)
    assert await council.owners() == {"a"}
