"""What a run writes is refused once its bucket is dropped, by any client; `ctx.epoch` guards the rest."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from informers import get_logger
from reconcile import Client, Context, Controller, LeaderElection, ObjectMeta, SyncContext
from reconcile.controller.blocking import Threads
from reconcile.errors import ApiError, NotLeading
from reconcile.kinds import ConfigMap
from reconcile.runs.tenure import Tenure, tenure_here, within
from reconcile.testing import Fault, SlowReply, When
from tests.controller.replicas import Replica, Seen, made, working
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world

MAP = ConfigMap(metadata=ObjectMeta("c", "default"))


async def outcome(write: Callable[[], Awaitable[object]]) -> str:
    try:
        await write()
    except ApiError as error:
        return type(error).__name__
    return "written"


async def stored(world: World) -> bool:
    return await world.client.find(ConfigMap, "c", "default") is not None


@pytest.mark.parametrize("again", [None, 2])
@in_world(played)
async def test_a_write_of_a_run_is_refused_after_its_bucket_was_dropped(
    world: World, again: int | None
) -> None:
    ends: list[str] = []

    async def keep(ctx: Context[Toy]) -> None:
        if ctx.epoch > 1:
            return
        replica.held.drop([1])
        if again is not None:  # it came back meanwhile: the run is one of an earlier epoch all the same
            replica.held.hold(1, again)
        ends.append(await outcome(lambda: ctx.create(MAP)))
        ends.append(await outcome(lambda: replica.client.create(MAP)))  # another client than that of the run
        async with anyio.create_task_group() as group:
            group.start_soon(in_task, ctx.client)
        await ctx.client.list(ConfigMap)

    async def in_task(client: Client) -> None:
        ends.append(await outcome(lambda: client.create(MAP)))

    replica = Replica(world, Controller(Toy, keep, writes=[ConfigMap], operator="toys.example.com"))
    await made(world, 1)
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
        assert ends == ["BucketNotHeld"] * 3
        assert not await stored(world)
        assert await outcome(lambda: replica.client.create(MAP)) == "written"  # of no run


@in_world(played)
async def test_a_client_of_a_run_is_guarded_in_tasks_that_the_run_did_not_start(world: World) -> None:
    ends: list[str] = []
    handed: list[Client] = []
    ready = anyio.Event()

    async def keep(ctx: Context[Toy]) -> None:
        handed.append(ctx.client)
        ready.set()

    async def later() -> None:
        await ready.wait()
        [client] = handed
        replica.held.drop([1])
        assert tenure_here() is None
        ends.append(await outcome(lambda: client.create(MAP)))

    replica = Replica(world, Controller(Toy, keep))
    await made(world, 1)
    async with working(world, replica), anyio.create_task_group() as group:
        group.start_soon(later)
        replica.hold([1])
        await anyio.sleep(5)
    assert ends == ["BucketNotHeld"]


@in_world(played)
async def test_blocking_code_is_guarded_too(world: World) -> None:
    ends: list[str] = []

    def keep(ctx: SyncContext[Toy]) -> None:
        assert ctx.epoch == 7
        replica.held.drop([1])
        try:
            ctx.client.create(MAP)
        except NotLeading as error:
            ends.append(type(error).__name__)

    replica = Replica(world, Controller(Toy, keep, writes=[ConfigMap], operator="toys.example.com"))
    await made(world, 1)
    async with working(world, replica):
        replica.hold([1], epoch=7)
        await anyio.sleep(5)
    assert ends == ["BucketNotHeld"]


@in_world(played)
async def test_a_write_under_way_is_abandoned_when_the_bucket_is_dropped(world: World) -> None:
    ends: list[str] = []

    async def keep(ctx: Context[Toy]) -> None:
        ends.append(await outcome(lambda: ctx.create(MAP)))

    replica = Replica(world, Controller(Toy, keep, writes=[ConfigMap], operator="toys.example.com"))
    await made(world, 1)
    async with working(world, replica):
        world.transport.add(Fault(When("create", "*/configmaps"), SlowReply(10)))
        replica.hold([1])
        await anyio.sleep(5)
        assert ends == []
        replica.held.drop([1])
        await anyio.sleep(1)
        assert ends == ["OutcomeUnknown"]


@in_world(played)
async def test_runs_under_way_may_write_while_their_bucket_is_closed(world: World) -> None:
    ends: list[str] = []

    async def keep(ctx: Context[Toy]) -> None:
        replica.held.close([1])
        ends.append(await outcome(lambda: ctx.create(MAP)))

    replica = Replica(world, Controller(Toy, keep, writes=[ConfigMap], operator="toys.example.com"))
    await made(world, 1)
    async with working(world, replica):
        replica.hold([1])
        await anyio.sleep(5)
    assert ends == ["written"]


@in_world(played)
async def test_the_epoch_grows_with_each_holder_of_the_bucket(world: World) -> None:
    seen = Seen()
    one, two = (Replica(world, Controller(Toy, seen.keep)) for _ in range(2))
    await made(world, 1)
    async with working(world, one, two):
        for epoch, replica in ((1, one), (2, two), (3, one)):
            replica.hold([1], epoch)
            await anyio.sleep(5)
            await replica.release([1])
    assert seen.epochs == [1, 2, 3]


def test_what_is_started_outside_of_a_run_belongs_to_none() -> None:
    tenure = Tenure(1, 1, "1")
    with within(tenure):
        assert tenure_here() is tenure
        with within(None):
            assert tenure_here() is None
        assert tenure_here() is tenure
    assert tenure_here() is None


@in_world(played)
async def test_with_leader_election_the_epoch_grows_with_each_leader(world: World) -> None:
    epochs: list[int] = []

    async def keep(ctx: Context[Toy]) -> None:
        epochs.append(ctx.epoch)

    await world.make()
    for _ in range(3):
        async with world.running(Controller(Toy, keep), leader_election=LeaderElection("lock")):
            await anyio.sleep(60)
    async with world.running(Controller(Toy, keep)):
        await anyio.sleep(60)
    assert epochs == [1, 2, 3, 0]


async def test_threads_of_blocking_code_belong_to_their_run() -> None:
    tenure = Tenure(1, 1, "1")

    async def found() -> Tenure | None:
        return tenure_here()

    with within(tenure):
        assert await Threads().call_with_loop(lambda ask: ask(found), get_logger("reconcile.toy")) is tenure
