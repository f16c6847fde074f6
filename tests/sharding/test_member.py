"""A member and what it sees: its informers give up what it lost, and what it sees never goes back in time."""

from collections.abc import Collection, Mapping
from typing import cast

import anyio
import pytest
from attrs import define, field

from informers import SystemClock, Transport
from informers.broadcast import Broadcast
from reconcile.kinds import Lease
from reconcile.models import ObjectMeta
from reconcile.sharding.assignment import Assignment, Holding
from reconcile.sharding.member import LATER_SECONDS, BucketWork, Member
from reconcile.sharding.member_lease import MemberLease
from reconcile.sharding.member_steps import View
from reconcile.sharding.options import Sharding
from reconcile.sharding.ring import ASSIGNMENT, ORDERS, Ring
from reconcile.testing import simulate

SHARDING = Sharding("shop", buckets=2, identity="me")


def assigned(version: int, *owners: str) -> Lease:
    text = Assignment(tuple(Holding(owner, version) for owner in owners)).to_text()
    metadata = ObjectMeta(
        "shop-assignment", resource_version=str(version), annotations={ASSIGNMENT: text, ORDERS: ""}
    )
    return Lease(metadata=metadata)


@pytest.mark.rule("shard-one-owner")
def test_the_answer_to_a_write_that_comes_after_a_later_assignment_is_ignored() -> None:
    ring = Ring(SHARDING, cast(Transport, None), SystemClock())
    for version, owner in ((10, "me"), (12, "other"), (11, "me")):
        ring.note_written(assigned(version, owner, owner, owner))
    assert ring.view.assignment.owned_by("other") == [0, 1, 2]


@define(eq=False)
class SeenRing:
    view: View
    changes: Broadcast = field(factory=Broadcast)

    def check(self) -> None:
        """It has the right number of buckets."""


@define
class Work:
    followed: list[frozenset[int]] = field(factory=list)

    async def follow(self, buckets: frozenset[int]) -> None:
        self.followed.append(buckets)

    async def catch_up(self, buckets: Collection[int], reached: Mapping[str, int] | None) -> None:
        await anyio.sleep_forever()

    def late(self) -> bool:
        return False


class Silent:
    def say(self) -> None:
        pass


@pytest.mark.rule("shard-caught-up")
@pytest.mark.parametrize(
    ("seconds", "followed"),
    [(2 * LATER_SECONDS, [{0, 1}, {0}, {0, 1}]), (LATER_SECONDS / 2, [{0, 1}, {0, 1}])],
)
def test_informers_give_up_a_lost_bucket_after_a_while_and_list_one_again_that_came_back_later(
    seconds: float, followed: list[set[int]]
) -> None:
    def view(*owners: str) -> View:
        return View(Assignment(tuple(Holding(owner, 1) for owner in owners)))

    ring, work = SeenRing(view("me", "me")), Work()
    member = Member(SHARDING, cast(Ring, ring), cast(MemberLease, Silent()), cast(BucketWork, work))

    async def play() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(member.run)
            for owners in (("me", "me"), ("me", "other"), ("me", "me")):
                ring.view = view(*owners)
                ring.changes.notify()
                await anyio.sleep(seconds)
            tasks.cancel_scope.cancel()

    simulate(play)
    assert work.followed == followed
    assert member.state.followed == {0, 1}


def test_a_bucket_is_followed_at_once_while_others_that_are_lost_are_still_followed() -> None:
    def view(*owners: str) -> View:
        return View(Assignment(tuple(Holding(owner, 1) for owner in owners)))

    ring, work = SeenRing(view("me", "me", "other")), Work()
    member = Member(SHARDING, cast(Ring, ring), cast(MemberLease, Silent()), cast(BucketWork, work))

    async def play() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(member.run)
            for owners in (("me", "me", "other"), ("me", "other", "other"), ("me", "other", "me")):
                ring.view = view(*owners)
                ring.changes.notify()
                await anyio.sleep(LATER_SECONDS / 10)
            tasks.cancel_scope.cancel()

    simulate(play)
    assert work.followed == [{0, 1}, {0, 2}]


async def test_buckets_that_are_to_come_are_followed_after_those_that_catch_up() -> None:
    ring, work = SeenRing(View(Assignment((Holding("me", 1), Holding("other", 1))))), Work()
    member = Member(SHARDING, cast(Ring, ring), cast(MemberLease, Silent()), cast(BucketWork, work))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(member.run)
        await anyio.wait_all_tasks_blocked()
        ring.view = View(Assignment((Holding("me", 1), Holding("other", 1, "me"))))
        ring.changes.notify()
        await anyio.wait_all_tasks_blocked()
        assert work.followed == [{0}]
        ring.view = View(Assignment((Holding("other", 2), Holding("other", 1, "me"))))
        ring.changes.notify()
        await anyio.wait_all_tasks_blocked()
        assert work.followed == [{0}, {1}]
        tasks.cancel_scope.cancel()
