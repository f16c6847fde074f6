"""Replicas that share PodAutoscalers agree on who sizes a target."""

import anyio
import pytest

from controllers.autoscaling import PodAutoscaler, make_controller
from reconcile import Manager
from reconcile.blocks import AllowedHosts, ScrapeLimits
from reconcile.kinds import Deployment
from reconcile.sharding import Sharding
from reconcile.simulation import Delays
from reconcile.testing import FaultyTransport, simulate
from tests.controllers.autoscaling import (
    NAMESPACE,
    DemoWorkload,
    Metrics,
    Net,
    autoscaler,
    definition,
    deployment,
    world,
)


@pytest.mark.parametrize("identities", [("x",), ("x", "y")])
def test_of_two_autoscalers_of_one_target_the_older_one_sizes_it(identities: tuple[str, ...]) -> None:
    async def scenario() -> None:
        async with (
            world(0, definition(), delays=Delays(0.2, 0.2)) as there,
            anyio.create_task_group() as group,
        ):
            net = Net()
            net.metrics = Metrics(load=1.0)
            workload = DemoWorkload(net, 20)
            workload.begun = 3
            await group.start(Manager(workload.controller, transport=there.transport, clock=there.clock).run)
            for identity in identities:
                controller = make_controller(
                    every=2.0,
                    fetch=net.fetch,
                    limits=ScrapeLimits(pod_seconds=0.5),
                    hosts=AllowedHosts(["*"]),
                )
                ring = Sharding("ring", NAMESPACE, buckets=16, identity=identity)
                transport = FaultyTransport(there.transport)
                manager = Manager(controller, transport=transport, clock=there.clock, sharding=ring)
                await group.start(manager.run)
            await anyio.sleep(40)
            await there.user.create(deployment("model", 2))
            for name, least, most in (("a", 6, 8), ("b", 1, 3), ("c", 1, 3), ("d", 1, 3)):
                await there.user.apply(autoscaler(name, minReplicas=least, maxReplicas=most))
                await anyio.sleep(1.1)
            await anyio.sleep(60)
            for _ in range(20):
                assert (await there.user.get(Deployment, "model", NAMESPACE)).spec.replicas == 6
                await anyio.sleep(1)
            ready = {
                one.name: {condition.type: condition.status for condition in one.status.conditions}["Ready"]
                for one in await there.user.list(PodAutoscaler)
            }
            assert ready == {"a": "True", "b": "False", "c": "False", "d": "False"}
            group.cancel_scope.cancel()

    simulate(scenario, limit_seconds=3600)
