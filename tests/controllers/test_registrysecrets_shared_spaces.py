"""A namespace that another pipeline uses stays, whichever replica or manager has that pipeline."""

from typing import Any

import anyio
import pytest
from attrs import evolve

from controllers.registrysecrets import KuberoPipeline, make_controller
from controllers.registrysecrets.models import KuberoPipelineSpec, PipelinePhase
from reconcile import ObjectMeta
from reconcile.blocks import Consent
from reconcile.kinds import Namespace
from reconcile.models import definition_of, kind_of
from reconcile.sharding import Sharding
from reconcile.testing import Fault, FaultPlan, Refuse, When
from tests.helpers.managers import World, played
from tests.helpers.scenarios import in_world

MANAGERS: dict[str, list[dict[str, Any]]] = {
    "one manager": [{}],
    "a manager for each namespace": [{"namespace": "a"}, {"namespace": "b"}],
    "two replicas": [
        {"sharding": Sharding("ring", "kubero", buckets=16, identity=identity)} for identity in "xy"
    ],
}


def pipeline(name: str, namespace: str) -> KuberoPipeline:
    phases = (PipelinePhase("test", True),)
    spec = KuberoPipelineSpec(name="shop", deploymentstrategy="docker", phases=phases, removal="namespaces")
    return KuberoPipeline(metadata=ObjectMeta(name, namespace), spec=spec)


@pytest.mark.parametrize("forbidden", [False, True])
@pytest.mark.parametrize("managers", MANAGERS.values(), ids=MANAGERS)
@in_world(played)
async def test_a_namespace_that_another_pipeline_uses_is_not_removed(
    world: World, managers: list[dict[str, Any]], forbidden: bool
) -> None:
    await world.client.apply(definition_of(KuberoPipeline))
    for name in ("a", "b", "kubero"):
        await world.client.create(Namespace(metadata=ObjectMeta(name)))
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        for options in managers:
            controller = make_controller(Consent.of_authors())
            await group.start(world.manager(controller, stop_seconds=5, **options).run)
        await anyio.sleep(40)
        await world.client.create(pipeline("one", "a"))
        await anyio.sleep(5)
        await world.client.create(pipeline("two", "b"))
        await anyio.sleep(10)
        made = await world.client.get(Namespace, "shop-test")
        if forbidden:  # to list pipelines everywhere, as for a manager of one namespace
            where = When("list", kind_of(KuberoPipeline).resource.path(), times=None)
            world.transport.plan = FaultPlan([Fault(where, Refuse(403))])
            world.transport._counts = [0]
        await world.client.modify(
            KuberoPipeline, "one", "a", lambda one: one.replace(spec=evolve(one.spec, phases=()))
        )
        await anyio.sleep(10)
        assert bool(world.transport.injected) is forbidden
        left = await world.client.find(Namespace, "shop-test")
        assert left is not None
        assert (left.uid, left.terminating) == (made.uid, False)
        group.cancel_scope.cancel()
