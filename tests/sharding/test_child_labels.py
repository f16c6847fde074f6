"""Labels of children: who needs which, and that all get theirs whatever happens to a write of one."""

from typing import TypeAlias

import anyio
import pytest

from informers import Informer
from reconcile import Client
from reconcile.client.buckets import BUCKET_LABEL, Buckets
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.models import ObjectMeta, definition_of, kind_of
from reconcile.owners import with_owner
from reconcile.sharding.child_labels import ChildLabels
from reconcile.testing import (
    Drop,
    Fault,
    FaultPlan,
    FaultyTransport,
    LoseReply,
    Refuse,
    RefuseAsStale,
    VirtualClock,
    When,
)
from tests.helpers.managers import Toy
from tests.helpers.scenarios import simulated

BUCKETS = Buckets(16)
CONFIG_MAPS = kind_of(ConfigMap).resource
TOYS = kind_of(Toy).resource
Cause: TypeAlias = Refuse | Drop | LoseReply | RefuseAsStale
TWO_PATCHES = When(verb="patch", path="*/configmaps/*", times=2)


class Nursery:
    """A server with owners and children, and what labels the children through a connection with faults."""

    def __init__(self, plan: FaultPlan | None = None) -> None:
        clock = VirtualClock(0)
        self.server = ApiServer(clock=clock)
        self.user = Client(InProcessTransport(self.server), clock=clock)
        faulty = FaultyTransport(InProcessTransport(self.server), plan or FaultPlan())
        self.labels = ChildLabels(Client(faulty, clock=clock), BUCKETS, {(TOYS.group, TOYS.kind)})

    async def owner(self, name: str) -> Toy:
        return await self.user.create(Toy(metadata=ObjectMeta(name, "default")))

    async def child(
        self, name: str, owner: Toy | None, label: str = "", controller: bool = True
    ) -> ConfigMap:
        labels = {BUCKET_LABEL: label} if label else {}
        child = ConfigMap(metadata=ObjectMeta(name, "default", labels=labels))
        owned = child if owner is None else with_owner(child, owner, controller=controller)
        return await self.user.create(owned)

    async def label(self, name: str) -> str:
        child = await self.user.get(ConfigMap, name, "default")
        return child.metadata.labels.get(BUCKET_LABEL, "")


async def nursery(plan: FaultPlan | None = None) -> Nursery:
    made = Nursery(plan)
    await made.user.apply(definition_of(Toy))
    return made


def bucket_of(owner: Toy) -> str:
    return BUCKETS.label(BUCKETS.of(owner.uid))


@simulated
async def test_all_children_are_labelled_and_nothing_else_is() -> None:
    made = await nursery()
    owner = await made.owner("a")
    await made.child("without", owner)
    await made.child("wrong", owner, "zz")
    await made.child("right", owner, bucket_of(owner))
    await made.child("foreign", None)
    await made.child("not-controlled", owner, controller=False)
    before = (await made.user.get(ConfigMap, "right", "default")).metadata.resource_version
    await made.labels.label_all(CONFIG_MAPS)
    assert {await made.label(name) for name in ("without", "wrong", "right")} == {bucket_of(owner)}
    assert not await made.label("foreign")
    assert not await made.label("not-controlled")
    after = (await made.user.get(ConfigMap, "right", "default")).metadata.resource_version
    assert after == before, "a child with the right label is not written"


@pytest.mark.parametrize(
    "cause", [Refuse(500), Refuse(403), Drop(), LoseReply(), RefuseAsStale()], ids=lambda cause: str(cause)
)
@simulated
async def test_a_label_that_could_not_be_written_is_written_later(cause: Cause) -> None:
    made = await nursery(FaultPlan((Fault(TWO_PATCHES, cause),)))
    owner = await made.owner("a")
    for number in range(3):
        await made.child(f"c{number}", owner)
    with anyio.fail_after(60):
        await made.labels.label_all(CONFIG_MAPS)
    assert {await made.label(f"c{number}") for number in range(3)} == {bucket_of(owner)}


@simulated
async def test_children_that_come_without_a_label_are_labelled_as_they_come() -> None:
    made = await nursery()
    async with anyio.create_task_group() as group:
        owner = await made.owner("a")
        group.start_soon(made.labels.keep, CONFIG_MAPS)
        await anyio.sleep(1)
        await made.child("late", owner)
        await anyio.sleep(1)
        assert await made.label("late") == bucket_of(owner)
        group.cancel_scope.cancel()


@simulated
async def test_a_child_that_another_owner_adopts_gets_the_label_of_that_owner() -> None:
    made = await nursery()
    async with anyio.create_task_group() as group:
        old = await made.owner("a")
        others = [await made.owner(f"b{number}") for number in range(8)]
        new = next(owner for owner in others if bucket_of(owner) != bucket_of(old))
        await made.child("child", old, bucket_of(old))
        informer = Informer(InProcessTransport(made.server), CONFIG_MAPS, clock=made.user.clock)
        made.labels.watch(informer)
        group.start_soon(informer.run)
        group.start_soon(made.labels.correct)

        def adopted(child: ConfigMap) -> ConfigMap:
            return with_owner(child.with_metadata(owner_references=()), new, controller=True)

        await made.user.modify(ConfigMap, "child", "default", adopted)
        await anyio.sleep(1)
        assert await made.label("child") == bucket_of(new) != bucket_of(old)
        group.cancel_scope.cancel()
