"""node-groups beside cluster-autoscaler, in shadow, and for some autoscalers only."""

from typing import Any

import anyio
import pytest

from controllers.nodegroups import NodeAutoscaler, NodeGroupSettings, make_controller
from reconcile import Manager
from reconcile.errors import PredecessorActive
from reconcile.simulation import Delays
from reconcile.testing import FaultyTransport
from tests.controllers.nodegroups import (
    API,
    OFFER,
    ask,
    autoscaler,
    definitions,
    group,
    size_of,
)
from tests.controllers.world import NAMESPACE, World, world
from tests.helpers.scenarios import simulated

IMAGE = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.33.0"


def deployment(image: str) -> dict[str, object]:
    labels = {"app": "ca"}
    containers = [{"name": "a", "image": image}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "scaler", "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


async def asked(here: World, **options: Any) -> FaultyTransport:
    """A manager for a while, in a world where a pod waits for a node."""
    await here.user.create(group("first", 0, ("0", "3"), **OFFER))
    await here.user.create(autoscaler())
    await ask(here, "p")
    recorded = FaultyTransport(here.transport)
    controller = make_controller(NodeGroupSettings(API))
    async with Manager(controller, transport=recorded, clock=here.clock, **options):
        await anyio.sleep(30)
    return recorded


@pytest.mark.rule("node-groups-takeover")
@simulated
async def test_it_does_not_start_beside_cluster_autoscaler_unless_told_to_take_over() -> None:
    async with world(0, *definitions(), delays=Delays()) as here:
        await here.user.create(deployment(IMAGE))
        with pytest.raises(PredecessorActive, match="cluster-autoscaler"):
            await asked(here)
        assert await size_of(here.user, "first") == 0
    async with world(0, *definitions(), delays=Delays()) as here:
        await here.user.create(deployment(IMAGE))
        await asked(here, take_over=True)
        assert await size_of(here.user, "first") == 1


@pytest.mark.rule("node-groups-takeover")
@simulated
async def test_in_shadow_no_group_is_sized() -> None:
    async with world(0, *definitions(), delays=Delays()) as here:
        assert (await asked(here, dry_run=True)).writes == []
        assert await size_of(here.user, "first") == 0


@pytest.mark.rule("node-groups-takeover")
@simulated
async def test_a_selector_leaves_other_autoscalers_alone_and_sees_all_pods() -> None:
    async with world(0, *definitions(), delays=Delays()) as here:
        await asked(here, selector="mine=yes")
        assert await size_of(here.user, "first") == 0
        found = await here.user.get(NodeAutoscaler, "all", NAMESPACE)
        await here.user.raw.merge(found, {"metadata": {"labels": {"mine": "yes"}}}, guard={})
        recorded = FaultyTransport(here.transport)
        controller = make_controller(NodeGroupSettings(API))
        async with Manager(controller, transport=recorded, clock=here.clock, selector="mine=yes"):
            await anyio.sleep(30)
        assert await size_of(here.user, "first") == 1
