"""Replicas of one controller that share its objects by buckets, without leases: a test holds and releases."""

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
from attrs import define, field

from informers import Cache, ReachTransport, get_logger
from reconcile import Client, Context, Controller, Object, ObjectMeta, Request
from reconcile.client.buckets import Buckets
from reconcile.client.guarded_writes import HeldTransport
from reconcile.controller.blocking import InStep
from reconcile.controller.event_recorder import recorder_of
from reconcile.controller.held_buckets import HeldBuckets
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.runner import Runner
from tests.helpers.managers import Toy, ToySpec, World

FOUR = Buckets(4)


class Replica:
    """One controller at work in the world, on the buckets that `hold` names."""

    def __init__(self, world: World, controller: Controller[Any], *, debug: bool = False) -> None:
        self.held = HeldBuckets(FOUR)
        self.cache = Cache(world.transport, clock=world.clock)
        guarded = HeldTransport(ReachTransport(world.transport, self.cache.reach))
        self.client = Client(guarded, cache=self.cache, clock=world.clock)
        self.executor = RunExecutor(
            controller,
            self.client,
            recorder_of(controller, self.client),
            get_logger("reconcile.toy"),
            InStep(),
            debug=debug,
            held=self.held,
        )
        self.runner = Runner(self.executor, self.cache.reach, workers=3)
        self.runner.connect(self.cache)

    def hold(self, buckets: Collection[int], epoch: int = 1) -> None:
        for bucket in buckets:
            self.held.hold(bucket, epoch)
        self.runner.gain(buckets)

    async def release(self, buckets: Collection[int], seconds: float = 30.0) -> None:
        """A planned end: what the member of a manager does."""
        self.held.close(buckets)
        with anyio.move_on_after(seconds):
            await self.runner.release(buckets)
        self.held.drop(buckets)

    @property
    def remembered(self) -> set[Request]:
        """Every key of which anything is remembered."""
        runner, executor = self.runner, self.executor
        deleted = (Request(*key) for key in executor.tombstones._deleted)
        return {
            *runner.queue.keys(),
            *runner._backoff.keys(),
            *runner.resting,
            *runner.guard.keys(),
            *executor.journals,
            *(request for request, _ in executor._distant),
            *executor.echoes._expected,
            *runner._connected.backgrounds._tasks,
            *deleted,
        }


@asynccontextmanager
async def working(world: World, *replicas: Replica) -> AsyncIterator[None]:
    """The server and the replicas, at work."""
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        for replica in replicas:
            group.start_soon(replica.cache.run)
        for replica in replicas:
            await replica.cache.wait_synced()
            group.start_soon(replica.runner.run)
        yield
        group.cancel_scope.cancel()


@define
class Seen:
    """The runs of a reconciler: which names, and in which epochs; never two of one object at a time."""

    runs: list[str] = field(factory=list)
    epochs: list[int] = field(factory=list)
    under_way: set[str] = field(factory=set)

    @contextmanager
    def run(self, ctx: Context[Toy]) -> Iterator[None]:
        name = ctx.object.uid
        assert name not in self.under_way, f"two runs of {ctx.object.name} at a time"
        self.under_way.add(name)
        self.runs.append(ctx.object.name)
        self.epochs.append(ctx.epoch)
        try:
            yield
        finally:
            self.under_way.remove(name)

    async def keep(self, ctx: Context[Toy]) -> None:
        with self.run(ctx):
            await anyio.sleep(0.1)

    def count(self, obj: Object) -> int:
        return self.runs.count(obj.name)


async def made(world: World, bucket: int, name: str = "a", **spec: Any) -> Toy:
    """A toy in that bucket: it is created until its uid fits."""
    while True:
        toy = await world.client.create(Toy(metadata=ObjectMeta(name, "default"), spec=ToySpec(**spec)))
        if FOUR.of(toy.uid) == bucket:
            return toy
        await world.client.delete(toy)
