"""A server with simulated nodes, and a manager that plays them, in virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from reconcile import Client, Controller, Manager
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.simulation import Delays, SimulatedNodes
from reconcile.testing import LateTransport, VirtualClock, simulate

Story = Callable[[Client], Awaitable[None]]


def played(story: Story, seed: int = 0, *beside: Controller[Any]) -> None:
    """Tell a story where pods run on three nodes, with more controllers beside those of the nodes."""

    async def run() -> None:
        clock = VirtualClock(seed)
        server = ApiServer(clock=clock)
        client = Client(InProcessTransport(server), clock=clock)
        nodes = SimulatedNodes(3, Delays(start=1, stop=2))
        manager = Manager(
            nodes.controller,
            *beside,
            transport=LateTransport(InProcessTransport(server), seed),
            clock=clock,
            stop_seconds=1,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(server.run)
            await nodes.register(client)
            await group.start(manager.run)
            await story(client)
            group.cancel_scope.cancel()

    simulate(run, seed=seed)
