"""Replicas of a ring from their start to their end: controllers, children, and what people do to Leases."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup
from msgspec.structs import replace

from informers.transport import HttpRequest, PassingTransport, Response, StreamingResponse, Transport
from reconcile import Context, Controller, Manager
from reconcile.client.buckets import BUCKET_LABEL, Buckets
from reconcile.client.certainty import LeadershipLost
from reconcile.kinds import ConfigMap, Lease, Secret
from reconcile.manager.option_list import ConfigurationError
from reconcile.models import Intent, ObjectMeta
from reconcile.sharding import Sharding
from tests.helpers.managers import Toy, World, idle, played
from tests.helpers.scenarios import in_world

BUCKETS = Buckets(8)
RING = "ring"


async def keep_child(ctx: Context[Toy]) -> None:
    size = str(ctx.object.spec.size)
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"of-{ctx.object.name}"), data={"size": size}))


def controlled_by(owner: Toy) -> dict[str, Any]:
    """A patch of a child."""
    kind = {"apiVersion": "toys.example.com/v1", "kind": "Toy"}
    reference = {**kind, "name": owner.name, "uid": owner.uid, "controller": True}
    return {"metadata": {"ownerReferences": [reference]}}


class Replicas:
    """The replicas of one ring, as processes that start and end."""

    def __init__(self, world: World, group: TaskGroup) -> None:
        self.world = world
        self.group = group
        self.ended: dict[str, BaseException | None] = {}
        self.seen: dict[str, set[str]] = {}

    def controllers(self, identity: str) -> list[Controller[Any]]:
        seen = self.seen.setdefault(identity, set())

        async def keep(ctx: Context[Toy]) -> None:
            seen.add(ctx.object.name)
            await keep_child(ctx)

        async def look(ctx: Context[Toy]) -> None:
            seen.add(f"all:{ctx.object.name}")

        return [
            Controller(Toy, keep, owns=[ConfigMap], name="keeper"),
            Controller(Toy, look, name="looker", sharded=False),
        ]

    async def start(self, identity: str, *controllers: Controller[Any], **options: Any) -> Manager:
        ring = Sharding(RING, buckets=8, identity=identity)
        given = {"sharding": ring, "stop_seconds": 10, **options}
        manager = self.world.manager(*(controllers or self.controllers(identity)), **given)
        self.group.start_soon(self._run, identity, manager)
        await anyio.sleep(5)
        return manager

    async def _run(self, identity: str, manager: Manager) -> None:
        try:
            await manager.run()
        except* Exception as errors:
            self.ended[identity] = errors.exceptions[0]
        else:
            self.ended[identity] = None

    async def leases(self) -> set[str]:
        return {lease.name for lease in await self.world.client.list(Lease, "default")}


@asynccontextmanager
async def _replicas(world: World) -> AsyncIterator[Replicas]:
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        yield Replicas(world, group)
        group.cancel_scope.cancel()


def rings(scenario: Callable[[Replicas], Awaitable[None]]) -> None:
    async def run(world: World) -> None:
        async with _replicas(world) as replicas:
            await scenario(replicas)

    played(run)


@in_world(rings)
async def test_a_single_replica_does_all_and_leaves_nothing_but_the_assignment(replicas: Replicas) -> None:
    for name in "abcdef":
        await replicas.world.make(name)
    manager = await replicas.start("one")
    assert replicas.seen["one"] == {*"abcdef", *(f"all:{name}" for name in "abcdef")}
    assert await replicas.leases() == {"ring-one", "ring-assignment"}
    assert manager.status().leading
    manager.stop()
    await anyio.sleep(10)
    assert replicas.ended == {"one": None}
    assert await replicas.leases() == {"ring-assignment"}


@in_world(rings)
async def test_a_second_replica_of_the_same_identity_ends_and_the_first_goes_on(replicas: Replicas) -> None:
    await replicas.start("one")
    await replicas.start("one")
    await anyio.sleep(30)
    assert isinstance(replicas.ended["one"], LeadershipLost)
    assert "another process" in str(replicas.ended["one"])
    await replicas.world.make("late")
    await anyio.sleep(1)
    assert "late" in replicas.seen["one"]
    assert "ring-one" in await replicas.leases()


@in_world(rings)
async def test_a_replica_ends_when_its_lease_is_deleted_and_others_take_over(replicas: Replicas) -> None:
    for name in "abcdef":
        await replicas.world.make(name)
    await replicas.start("one")
    await replicas.start("two")
    await anyio.sleep(20)
    await replicas.world.client.delete(await replicas.world.client.get(Lease, "ring-one", "default"))
    await anyio.sleep(3)
    assert isinstance(replicas.ended["one"], LeadershipLost)
    await anyio.sleep(20)
    assert {*"abcdef"} <= replicas.seen["two"]


@in_world(rings)
async def test_a_controller_that_needs_all_objects_runs_in_one_replica_and_moves(replicas: Replicas) -> None:
    for name in "abcdef":
        await replicas.world.make(name)
    everything = {f"all:{name}" for name in "abcdef"}
    managers = {name: await replicas.start(name) for name in ("one", "two")}
    await anyio.sleep(20)
    for seen in replicas.seen.values():
        seen.clear()
    for name in "abcdef":
        await replicas.world.client.raw.merge(
            await replicas.world.client.get(Toy, name, "default"), {"spec": {"size": 7}}
        )
    await anyio.sleep(2)
    (leading,) = [name for name, seen in replicas.seen.items() if seen & everything]
    (other,) = {*managers} - {leading}
    assert replicas.seen[leading] >= everything
    managers[leading].stop()
    await anyio.sleep(12)
    assert replicas.seen[other] >= everything


@in_world(rings)
async def test_children_without_the_right_label_get_it_before_any_bucket_is_held(replicas: Replicas) -> None:
    """Those from before sharding was on, of a ring with other buckets, and adopted ones."""
    world = replicas.world
    owners = [await world.make(name) for name in "abc"]
    for owner, labels in zip(owners, ({}, {BUCKET_LABEL: "ff"}, {"mine": "yes"}), strict=True):
        metadata = ObjectMeta(f"of-{owner.name}", "default", labels=labels)
        child = ConfigMap(metadata=metadata, data={"size": "1"})
        made = await world.client.create(child)
        await world.client.raw.merge(made, controlled_by(owner))
    await replicas.start("one")
    for owner in owners:
        child = await world.client.get(ConfigMap, f"of-{owner.name}", "default")
        assert child.metadata.labels[BUCKET_LABEL] == BUCKETS.label(BUCKETS.of(owner.uid))
    # While it runs: one that a program makes without a label for an owner of ours.
    stray = await world.client.create(ConfigMap(metadata=ObjectMeta("stray", "default")))
    await world.client.raw.merge(stray, controlled_by(owners[0]))
    await anyio.sleep(10)
    stray = await world.client.get(ConfigMap, "stray", "default")
    assert stray.metadata.labels[BUCKET_LABEL] == BUCKETS.label(BUCKETS.of(owners[0].uid))


class Unsharded(PassingTransport):
    """A server that knows no shards: it ignores their selector."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.asked = 0

    def _plain(self, request: HttpRequest) -> HttpRequest:
        if "shardSelector" not in request.query:
            return request
        self.asked += 1
        return replace(request, query={k: v for k, v in request.query.items() if k != "shardSelector"})

    async def request(self, request: HttpRequest) -> Response:
        return await self._inner.request(self._plain(request))

    def stream(self, request: HttpRequest) -> Any:
        return self._inner.stream(self._plain(request))


@pytest.mark.parametrize("shards", [True, False])
@in_world(rings)
async def test_servers_with_and_without_shards_do(replicas: Replicas, shards: bool) -> None:
    world = replicas.world
    if not shards:
        world.transport = Unsharded(world.transport)  # type: ignore[assignment]
    owners = {name: await world.make(name) for name in "abcdefgh"}
    managers = {name: await replicas.start(name) for name in ("one", "two")}
    await anyio.sleep(20)
    for seen in replicas.seen.values():
        seen.clear()
    for owner in owners.values():
        await world.client.raw.merge(owner, {"spec": {"size": 9}})
    await anyio.sleep(2)
    ran = {name: {one for one in seen if ":" not in one} for name, seen in replicas.seen.items()}
    assert ran["one"] | ran["two"] == {*"abcdefgh"}
    assert not ran["one"] & ran["two"]
    assert all(manager.status().leading for manager in managers.values())


@in_world(rings)
async def test_a_controller_that_shares_nothing_more_can_be_added(replicas: Replicas) -> None:
    await replicas.world.make("a")
    manager = await replicas.start("one")
    ran: list[str] = []

    async def count(ctx: Context[Toy]) -> None:
        ran.append(ctx.object.name)

    await manager.add(Controller(Toy, count, name="counter", sharded=False))
    await anyio.sleep(1)
    assert ran == ["a"]


class SlowSecrets(PassingTransport):
    """Lists Secrets 20 s after it was asked."""

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:  # type: ignore[override]
        if request.path.endswith("/secrets"):
            await anyio.sleep(20)
        async with super().stream(request) as stream:
            yield stream


@in_world(rings)
async def test_buckets_that_come_while_a_controller_is_added_are_its_own_too(replicas: Replicas) -> None:
    for name in "abcdefghijkl":
        await replicas.world.make(name)
    both = Controller(Toy, idle, reads=[Secret], name="both")
    one = await replicas.start("one", both, transport=SlowSecrets(replicas.world.transport))
    two = await replicas.start("two", both)
    await anyio.sleep(60)
    ran: set[str] = set()

    async def note(ctx: Context[Toy]) -> None:
        ran.add(ctx.object.name)

    await one.remove("both")
    async with anyio.create_task_group() as group:
        group.start_soon(one.add, Controller(Toy, note, reads=[Secret], name="late"))
        await anyio.sleep(1)
        two.stop()
    await anyio.sleep(60)
    assert ran == {*"abcdefghijkl"}


@in_world(rings)
async def test_a_controller_may_be_removed_while_its_buckets_change_hands(replicas: Replicas) -> None:
    async def slow(ctx: Context[Toy]) -> None:
        await anyio.sleep(8)
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"of-{ctx.object.name}")))

    def controllers() -> list[Controller[Any]]:
        slowly = Controller(Toy, slow, owns=[ConfigMap], name="slow", every=1, workers=20)
        return [slowly, Controller(Toy, idle, name="other")]

    for name in "abcdefgh":
        await replicas.world.make(name)
    one = await replicas.start("one", *controllers())
    replicas.group.start_soon(lambda: replicas.start("two", *controllers()))
    while not one.state()["sharding"]["closing"]:
        await anyio.sleep(0.001)
    await one.remove("slow")
    await anyio.sleep(60)
    assert "one" not in replicas.ended
    assert not one.state()["sharding"]["closing"]


@pytest.mark.parametrize(
    "added",
    [
        Controller(ConfigMap, idle, name="added"),
        Controller(Toy, idle, name="added", owns=[Secret]),
        Controller(Toy, idle, name="added", reads=[ConfigMap]),
        Controller(ConfigMap, idle, name="added", sharded=False),
    ],
)
@in_world(rings)
async def test_a_controller_that_changes_what_is_shared_cannot_be_added(
    replicas: Replicas, added: Controller[Any]
) -> None:
    manager = await replicas.start("one", Controller(Toy, keep_child, owns=[ConfigMap], name="keeper"))
    with pytest.raises(ConfigurationError, match="change which kinds the replicas of ring ring share"):
        await manager.add(added)
    assert {one.name for one in manager.status().controllers} == {"keeper"}
