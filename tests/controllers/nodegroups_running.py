"""Node groups in a simulated cluster."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from controllers.nodegroups import NodeGroupSettings, make_controller
from reconcile import Manager
from reconcile.simulation import Delays
from reconcile.testing import Fault, FaultPlan, FaultyTransport
from tests.controllers.nodegroups import API, MACHINES, autoscaler, definitions, say
from tests.controllers.world import World, world


@asynccontextmanager
async def at_work(
    *groups: Mapping[str, Any],
    faults: tuple[Fault, ...] = (),
    priorities: str | None = None,
    published: bool = False,
    **spec: Any,
) -> AsyncIterator[tuple[World, FaultyTransport]]:
    """Groups, machines that come, and our controller behind faults."""
    async with world(1, *definitions(published=published), delays=Delays()) as here:
        for one in groups:
            await here.user.create(one)
        if priorities is not None:
            await say(here, priorities)
            spec.setdefault("expanders", ("priority",))
        await here.user.create(autoscaler(**spec))
        recorded = FaultyTransport(here.transport, FaultPlan(faults))
        ours = make_controller(NodeGroupSettings(API))
        async with (
            Manager(MACHINES.controller, transport=here.transport, clock=here.clock),
            Manager(ours, transport=recorded, clock=here.clock),
        ):
            await anyio.sleep(15)
            yield here, recorded
