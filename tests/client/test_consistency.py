"""A key sees its own writes, also those whose fate it does not know."""

from typing import Any

import anyio
import pytest
from attrs import define

from informers import APIResource, Cache, Key, Snapshot
from reconcile import Context, Controller, ObjectMeta, Result
from reconcile.client.own_writes import Journal
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import AlreadyExists
from reconcile.kinds import ConfigMap
from reconcile.models import kind_of
from reconcile.testing import (
    Edit,
    Fault,
    FaultControl,
    FaultPlan,
    ManagerRunner,
    Meanwhile,
    Stall,
    VirtualCluster,
    When,
)
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world, simulated


async def ensure_one(ctx: Context[Toy]) -> None:
    """The classic: create the missing one, under a name that the server chooses."""
    if not await ctx.owned(ConfigMap):
        await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="child-")))


def kept(plan: FaultPlan, seed: int, reconcile: Any = ensure_one) -> list[str]:
    """The names of the children that stand after a minute under `plan`."""
    names: list[str] = []

    async def scenario(world: World) -> None:
        world.transport.plan = plan
        world.transport._counts = [0] * len(plan.faults)
        async with world.running(Controller(Toy, reconcile, owns=[ConfigMap])):
            await world.make()
            await anyio.sleep(60)
            names.extend(child.name for child in await world.client.list(ConfigMap, "default"))

    played(scenario, seed)
    return names


def config(uid: str, version: int) -> Snapshot:
    metadata = f'"name":"child","namespace":"default","uid":"{uid}","resourceVersion":"{version}"'
    return Snapshot.from_json(f'{{"kind":"ConfigMap","metadata":{{{metadata}}}}}'.encode())


@define
class Answers:
    """A server that has these states of one object, one look after another."""

    states: list[Snapshot | None]

    async def read(self, resource: APIResource, key: Key) -> Snapshot | None:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    async def version(self, resource: APIResource, namespace: str = "") -> int:
        raise AssertionError


@pytest.mark.rule("inv-37")
@simulated
async def test_an_object_created_after_it_was_found_absent_blocks_nothing() -> None:
    """Its create was lost and is carried out late; the cache still shows a former one of its name."""
    resource = kind_of(ConfigMap).resource
    former, late = config("former", 3), config("late", 8)

    cache = Cache(InProcessTransport(ApiServer()))
    informer = cache.declare(resource)
    informer.store.replace([former], 5)
    journal = Journal()
    journal.doubt(resource, late.key)
    async with anyio.create_task_group() as group:
        group.start_soon(journal.settle, cache, Answers([None, late]))
        await anyio.sleep(0.1)
        informer.store.replace([late], 9)
        informer._announce()
    assert not journal


@pytest.mark.parametrize("seed", range(5))
def test_a_silent_watch_is_repaired_by_one_list(seed: int) -> None:
    async def again(ctx: Context[Toy]) -> Result:
        await ensure_one(ctx)
        return Result(requeue_after=1)

    assert len(kept(FaultPlan((Fault(When("watch", "*/configmaps"), Stall()),)), seed, again)) == 1


@in_world(played)
async def test_a_cancelled_write_is_looked_for_before_the_next_run_decides(world: World) -> None:
    async def hasty(ctx: Context[Toy]) -> Result:
        await ensure_one(ctx)
        return Result()

    world.transport.plan = FaultPlan()
    async with world.running(Controller(Toy, hasty, owns=[ConfigMap], timeout=0.001)):
        await world.make()
        await anyio.sleep(30)
        assert len(await world.client.list(ConfigMap, "default")) <= 1


def test_a_name_that_turns_out_to_be_taken_is_visible_to_the_next_run() -> None:
    outcomes: list[str] = []

    async def create_if_missing(ctx: Context[Toy]) -> None:
        if await ctx.client.find(ConfigMap, "child", "default") is None:
            try:
                await ctx.create(ConfigMap(metadata=ObjectMeta("child")))
            except AlreadyExists:
                outcomes.append("taken")
                raise
        outcomes.append("there")

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, create_if_missing, owns=[ConfigMap])):
            await world.client.create(ConfigMap(metadata=ObjectMeta("child", "default")))
            await world.make()
            await anyio.sleep(30)
        assert outcomes in (["taken", "there"], ["there"])

    for seed in range(5):
        outcomes.clear()
        played(scenario, seed)


@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_a_refused_write_is_not_sent_again_before_its_object_has_been_seen_again(
    world: World, seed: int
) -> None:
    """News of its neighbours brings the store past the refused version, and says nothing of the object."""

    async def touch(ctx: Context[ConfigMap]) -> None:
        if ctx.object.name != "settings":
            return
        patch = {"data": {"seen": ctx.object.data.get("asked", "")}}
        guard = {"uid": ctx.object.uid, "resourceVersion": ctx.object.metadata.resource_version}
        if dict(ctx.object.data).get("seen") != patch["data"]["seen"]:
            await ctx.client.raw.merge(ctx.object, patch, guard=guard)

    user = world.client
    await user.create(ConfigMap(metadata=ObjectMeta("settings", "default"), data={"asked": "0"}))
    await user.create(ConfigMap(metadata=ObjectMeta("beside", "default"), data={}))
    async with world.running(Controller(ConfigMap, touch, writes=[ConfigMap], operator="example.com")):
        for number in range(20):
            for name, change in (("settings", "asked"), ("beside", "x"), ("settings", "more")):
                patch = {"data": {change: str(number)}}
                await user.raw.merge(await user.get(ConfigMap, name, "default", live=True), patch, guard={})
                await anyio.sleep(0.05)
        await anyio.sleep(30)
        assert (await user.get(ConfigMap, "settings", "default", live=True)).data["seen"] == "19"
        sent = [one for one in world.transport.requests if one.mutating and one.status == 409]
        refused = [one.body["metadata"]["resourceVersion"] for one in sent]
        assert refused
        assert len(refused) == len(set(refused))


@pytest.mark.parametrize("seed", range(5))
async def test_a_refused_deletion_is_decided_again_on_the_changed_state(
    seed: int, cluster: VirtualCluster, manager: ManagerRunner, faults: FaultControl
) -> None:
    async def clear(ctx: Context[ConfigMap]) -> None:
        if "keep" not in ctx.object.metadata.labels:
            await ctx.delete(ctx.object, if_unchanged=True)

    labelled = Meanwhile(Edit("", {"metadata": {"labels": {"keep": ""}}}))
    faults.add(Fault(When("delete", "*/configmaps/settings"), labelled))
    for name in ("settings", "beside"):
        cluster.client.add(ConfigMap(metadata=ObjectMeta(name, "default"), data={}))
    async with manager(Controller(ConfigMap, clear, writes=[ConfigMap], operator="example.com")):
        await anyio.sleep(30)
    assert [one.name for one in await cluster.client.list(ConfigMap, "default")] == ["settings"]
    sent = [(one.verb, one.status) for one in faults.requests if one.path.endswith("/settings")]
    assert sent == [("delete", 409)]  # and it was not read: the cache was waited for
