"""A kind for tests, and a server with managers that run in virtual time, on late watches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import frozen

from reconcile import Client, Condition, Context, Controller, Manager, Object, ObjectMeta, resource
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.models import definition_of
from reconcile.testing import FaultyTransport, LateTransport, VirtualClock, simulate


@frozen
class ToySpec:
    size: int = 1
    secret: str | None = None


@frozen
class ToyStatus:
    size: int = 0
    note: str | None = None
    conditions: tuple[Condition, ...] = ()


@resource("toys.example.com/v1")
class Toy(Object):
    """Has a size, which a status may show, and a secret."""

    spec: ToySpec = ToySpec()
    status: ToyStatus = ToyStatus()


class World:
    """A server, a client of the test, and managers whose watches are late."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.clock = VirtualClock(seed)
        self.server = ApiServer(clock=self.clock)
        self.client = Client(InProcessTransport(self.server), clock=self.clock)
        self.transport = FaultyTransport(LateTransport(InProcessTransport(self.server), seed))

    def manager(self, *controllers: Controller[Any], **options: Any) -> Manager:
        options = {"transport": self.transport, **options}
        return Manager(*controllers, clock=self.clock, **options)

    @asynccontextmanager
    async def running(self, *controllers: Controller[Any], **options: Any) -> AsyncIterator[Manager]:
        manager = self.manager(*controllers, **{"stop_seconds": 5, **options})
        async with anyio.create_task_group() as group:
            group.start_soon(self.server.run)
            await group.start(manager.run)
            yield manager
            manager.stop()
            while manager.status().informers[0].state != "stopped":
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    async def define(self) -> None:
        await self.client.apply(definition_of(Toy))

    async def make(self, name: str = "a", **spec: Any) -> Toy:
        return await self.client.create(Toy(metadata=ObjectMeta(name, "default"), spec=ToySpec(**spec)))


async def idle(ctx: Context[Any]) -> None:
    """Do nothing."""


async def keep_size(ctx: Context[Toy]) -> None:
    ctx.status(size=ctx.object.spec.size)


def played(scenario: Any, seed: int = 0) -> None:
    """Run `scenario(world)` in virtual time, in a world that serves the kind."""
    world = World(seed)

    async def run() -> None:
        await world.define()
        await scenario(world)

    simulate(run, seed=seed, limit_seconds=3600)
