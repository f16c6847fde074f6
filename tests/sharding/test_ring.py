"""What a member sees of its ring, whatever people do to its Leases."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Lease, LeaseSpec
from reconcile.models import ObjectMeta
from reconcile.sharding import Sharding
from reconcile.sharding.assignment import Assignment, MemberRecord, Orders
from reconcile.sharding.member_lease import RECORD, RING_LABEL
from reconcile.sharding.ring import ASSIGNMENT, ORDERS, Ring, assignment_name
from reconcile.testing import VirtualClock, simulate
from tests.helpers.scenarios import in_world

SHARDING = Sharding("ring", buckets=4, identity="a")
SECONDS = 15


class Watched:
    """A ring that is followed, and a client that writes its Leases."""

    def __init__(self, client: Client, ring: Ring) -> None:
        self.client = client
        self.ring = ring

    async def put(self, name: str, identity: str = "", **annotations: str) -> Lease:
        metadata = ObjectMeta(name, "default", labels={RING_LABEL: "ring"}, annotations=annotations)
        spec = LeaseSpec(holder_identity=identity, lease_duration_seconds=SECONDS)
        made = await self.client.create(Lease(metadata=metadata, spec=spec))
        await anyio.sleep(0.1)
        return made

    async def member(self, identity: str, record: MemberRecord | None = None) -> Lease:
        return await self.put(f"ring-{identity}", identity, **{RECORD: (record or MemberRecord()).to_text()})

    async def assign(self, text: str, orders: str = "") -> Lease:
        return await self.put(assignment_name("ring"), **{ASSIGNMENT: text, ORDERS: orders})

    async def delete(self, lease: Lease) -> None:
        await self.client.delete(lease)
        await anyio.sleep(0.1)


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    clock = VirtualClock(0)
    transport = InProcessTransport(ApiServer(clock=clock))
    ring = Ring(SHARDING, transport, clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ring.run)
        await ring.informer.wait_synced()
        yield Watched(Client(transport, clock=clock), ring)
        tasks.cancel_scope.cancel()


def played(scenario: Callable[[Watched], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with watched() as seen:
            await scenario(seen)

    simulate(run, limit_seconds=1000)


@in_world(played)
async def test_a_member_that_leaves_is_gone_with_its_lease(seen: Watched) -> None:
    await seen.delete(await seen.member("b", MemberRecord(draining=True, left=True)))
    assert not seen.ring.members


@pytest.mark.parametrize("draining", [False, True])
@in_world(played)
async def test_a_member_whose_lease_someone_deleted_counts_until_it_would_have_run_out(
    seen: Watched, draining: bool
) -> None:
    """It learns of that only when it renews, and writes until then, also while it drains."""
    await seen.delete(await seen.member("b", MemberRecord(draining=draining)))
    assert seen.ring.records["b"].draining  # it gets nothing more
    assert not seen.ring.overdue()
    await anyio.sleep(SECONDS)
    (overdue,) = seen.ring.overdue()
    assert overdue.gone


@in_world(played)
async def test_a_member_whose_lease_lost_its_label_is_as_before_when_it_has_renewed(seen: Watched) -> None:
    lease = await seen.member("b", MemberRecord(canary=0.5))
    lost = await seen.client.raw.merge(lease, {"metadata": {"labels": {RING_LABEL: None}}})
    await anyio.sleep(0.1)
    assert seen.ring.records["b"].draining
    await seen.client.raw.merge(lost, {"metadata": {"labels": {RING_LABEL: "ring"}}})
    await anyio.sleep(0.1)
    assert seen.ring.records["b"] == MemberRecord(canary=0.5)
    assert not seen.ring.members["b"].gone


@in_world(played)
async def test_a_dead_member_is_gone_with_its_lease(seen: Watched) -> None:
    dead = await seen.member("b")
    await anyio.sleep(SECONDS)
    assert [member.identity for member in seen.ring.overdue()] == ["b"]
    await seen.delete(dead)
    assert not seen.ring.members


@in_world(played)
async def test_a_renewal_tells_nothing_new_and_makes_a_member_younger(seen: Watched) -> None:
    lease = await seen.member("b")
    number = seen.ring.number
    await anyio.sleep(SECONDS - 1)
    await seen.client.raw.merge(lease, {"spec": {"renewTime": "2026-01-01T00:00:14.000000Z"}})
    await anyio.sleep(SECONDS - 1)
    assert not seen.ring.overdue()
    assert seen.ring.number == number


@in_world(played)
async def test_a_record_that_cannot_be_read_leaves_a_member_one(seen: Watched) -> None:
    for number, text in enumerate(("{", '{"warm": 1}', "[" * 100_000, '{"warm": {"x": 1}}', '"x"')):
        await seen.put(f"ring-x{number}", f"x{number}", **{RECORD: text})
    assert all(seen.ring.records[f"x{number}"] == MemberRecord() for number in range(5))


@in_world(played)
async def test_a_copy_of_the_lease_of_a_member_tells_nothing_of_it(seen: Watched) -> None:
    """Its deletion, when it is not renewed, would not prove that the member is dead."""
    lease = await seen.member("b", MemberRecord(canary=0.5))
    await seen.put("ring-copy", "b")
    assert seen.ring.members["b"].lease.uid == lease.uid
    assert seen.ring.records == {"b": MemberRecord(canary=0.5)}


@in_world(played)
async def test_a_lease_without_a_holder_is_no_member(seen: Watched) -> None:
    await seen.put("ring-unheld", "")
    assert not seen.ring.members


@in_world(played)
async def test_an_assignment_that_cannot_be_read_changes_nothing(seen: Watched) -> None:
    first = Assignment.empty(SHARDING.parts, 7)
    lease = await seen.assign(first.to_text())
    for text in ("", "{", '{"owners": [0], "epochs": [1]}', '{"owners": [], "epochs": []}'):
        lease = await seen.client.raw.merge(lease, {"metadata": {"annotations": {ASSIGNMENT: text}}})
        await anyio.sleep(0.1)
        assert seen.ring.last is not None
        assert seen.ring.last.assignment == first


@in_world(played)
async def test_an_assignment_of_another_number_of_buckets_is_refused(seen: Watched) -> None:
    await seen.assign(Assignment.empty(9, 7).to_text())
    assert seen.ring.last is None


@in_world(played)
async def test_an_assignment_that_was_deleted_holds_until_there_is_another(seen: Watched) -> None:
    first = Assignment.empty(SHARDING.parts, 7)
    lease = await seen.assign(first.to_text(), Orders(drained=("b",)).to_text())
    assert not seen.ring.absent
    await seen.delete(lease)
    assert seen.ring.absent
    assert seen.ring.view.assignment == first
    second = Assignment.empty(SHARDING.parts, 900)
    await seen.assign(second.to_text())
    assert not seen.ring.absent
    assert seen.ring.view.assignment == second


@in_world(played)
async def test_an_assignment_that_this_process_wrote_does_not_undo_a_later_one(seen: Watched) -> None:
    lease = await seen.assign(Assignment.empty(SHARDING.parts, 7).to_text())
    later = Assignment.empty(SHARDING.parts, 8)
    await seen.client.raw.merge(lease, {"metadata": {"annotations": {ASSIGNMENT: later.to_text()}}})
    await anyio.sleep(0.1)
    seen.ring.note_written(lease)
    assert seen.ring.view.assignment == later
