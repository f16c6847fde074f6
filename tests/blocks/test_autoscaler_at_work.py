"""The autoscaler at work, for the kind of its how-to page, which is nobody's original."""

import re
from pathlib import Path
from typing import Any

import anyio

from controllers.autoscaling.demo.incident import DemoWorkload
from reconcile import Controller, Manager, ObjectMeta
from reconcile.blocks import Sum
from reconcile.blocks.autoscaler.autoscaler import measure
from reconcile.kinds import Deployment
from reconcile.models import definition_of
from reconcile.simulation import Delays
from tests.controllers.autoscaling import Net, deployment
from tests.controllers.world import NAMESPACE, world
from tests.helpers.scenarios import simulated

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "autoscale-a-kind.md"
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
NAMES: dict[str, Any] = {"__name__": "autoscale_a_kind"}
exec(compile(CODE, str(PAGE), "exec"), NAMES)
Tide: Any = NAMES["Tide"]
TideSpec: Any = NAMES["TideSpec"]
tides: Controller[Any] = NAMES["tides"]


def test_the_page_is_short() -> None:
    assert len(CODE.splitlines()) < 45


@simulated
async def test_the_deployment_of_a_tide_follows_its_backlog() -> None:
    async with world(0, definition_of(Tide), delays=Delays(0.2, 0.2)) as here:
        net, waiting = Net(), [35]
        net.metrics = lambda pod: f"waiting {waiting[0]}\n"
        NAMES["autoscaler"].fetch = net.fetch
        workload = DemoWorkload(net, room=20)
        workload.begun = 3
        async with anyio.create_task_group() as group:
            await group.start(Manager(workload.controller, transport=here.transport, clock=here.clock).run)
            async with here.running(tides):
                await here.user.create(deployment("ebb", 1))
                await here.user.create(
                    Tide(metadata=ObjectMeta("low", NAMESPACE), spec=TideSpec(deployment="ebb", most=4))
                )
                await anyio.sleep(60)
                assert (await here.user.get(Deployment, "ebb", NAMESPACE)).spec.replicas == 4
                waiting[0] = 1
                await anyio.sleep(900)
                assert (await here.user.get(Deployment, "ebb", NAMESPACE)).spec.replicas == 1
                tide = await here.user.get(Tide, "low", NAMESPACE)
                assert tide.status.replicas == 1
                said = {one.type: one.status for one in tide.status.conditions}
                assert said["MetricsAvailable"] == said["ScalingActive"] == "True"
            group.cancel_scope.cancel()


async def test_two_sources_with_one_name_are_remembered_separately() -> None:
    class Same:
        name, target = "load", 500

        async def read(self, sight: Any) -> Sum:
            return Sum(1_000)

    found = await measure([Same(), Same()], sight=None)  # type: ignore[arg-type]
    assert [one.source for one in found] == ["load (1)", "load (2)"]
