"""A small simulated cluster: an embedded server, nodes that play kubelet, controllers on late watches."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from attrs import define, field

from reconcile import Client, Controller, Manager, ObjectMeta, Transport
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Namespace
from reconcile.simulation import Delays, IncidentStage, SimulatedNodes
from reconcile.testing import FaultyTransport, LateTransport, VirtualClock

SAMPLES = Path(os.environ.get("USERS_SAMPLES") or Path(__file__).parents[2].parent / "shared" / "samples")
NAMESPACE = "stage"


@define
class World:
    """What a simulation is played in; `user` writes and reads at once, controllers hear late."""

    seed: int
    clock: VirtualClock
    transport: Transport
    user: Client
    lives: int = field(default=0, init=False)

    @property
    def stage(self) -> IncidentStage:
        """The same as an incident is given it."""
        return IncidentStage(self.transport, self.transport, NAMESPACE, lambda _: None, self.clock)

    @asynccontextmanager
    async def running(
        self, controller: Controller[Any], lag: tuple[float, float] = (0.05, 0.5)
    ) -> AsyncIterator[FaultyTransport]:
        """A manager with the controller, as long as the context lasts; then its process dies at once.

        Yields the record of the requests that it makes.
        """
        self.lives += 1
        recorded = FaultyTransport(self.transport)
        late = LateTransport(recorded, 100 * self.seed + self.lives, lag=lag)
        manager = Manager(controller, transport=late, clock=self.clock)
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            yield recorded
            group.cancel_scope.cancel()


@asynccontextmanager
async def world(seed: int, *definitions: Mapping[str, Any], delays: Delays) -> AsyncIterator[World]:
    """A server with the definitions and an empty namespace, and three nodes."""
    clock = VirtualClock(seed)
    server = ApiServer(clock=clock)
    transport = InProcessTransport(server)
    user = Client(transport, clock=clock)
    nodes = SimulatedNodes(3, delays)
    async with anyio.create_task_group() as group:
        group.start_soon(server.run)
        for definition in definitions:
            await user.apply(definition)
        await user.create(Namespace(metadata=ObjectMeta(NAMESPACE)))
        await nodes.register(user)
        await group.start(Manager(nodes.controller, transport=transport, clock=clock).run)
        yield World(seed, clock, transport, user)
        group.cancel_scope.cancel()
