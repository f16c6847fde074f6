"""An object that does not fit its model: an error of its own key, with the path, and of nothing else."""

import logging
from typing import Any

import anyio
import pytest
from attrs import frozen
from prometheus_client import CollectorRegistry

from reconcile import Context, Controller, Object, ObjectMeta, Watch, field, resource
from reconcile.errors import DecodeError
from reconcile.kinds import ConfigMap
from reconcile.testing.cluster_actor import ClusterActor
from tests.helpers.managers import World, played
from tests.helpers.scenarios import in_world

SECRET = "do-not-show-this"


@frozen
class LampSpec:
    watts: int = 1
    token: int = field(default=0, secret=True)
    settings: str | None = None


@frozen
class LampStatus:
    lit: bool = False


@resource("lamps.example.com/v1")
class Lamp(Object):
    spec: LampSpec = LampSpec()
    status: LampStatus = LampStatus()


DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.lamps.example.com"


async def served(world: World) -> None:
    """A server whose definition allows more than the model does, as an older one may."""
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    actor = ClusterActor(world.server, user_agent="")
    actor.serve(Lamp)
    definition = actor.request("GET", DEFINITION)
    (version,) = definition["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = loose
    actor.request("PATCH", DEFINITION, {"spec": {"versions": [version]}})


def lamp(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "lamps.example.com/v1", "kind": "Lamp", "metadata": metadata, "spec": spec}


@pytest.mark.rule("misfit-1")
@pytest.mark.parametrize("seed", range(2))
def test_an_object_that_does_not_fit_its_model_is_reported_with_its_path_and_others_continue(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def light(ctx: Context[Lamp]) -> None:
        seen.append(ctx.object.name)
        ctx.status(lit=True)

    async def scenario(world: World) -> None:
        await served(world)
        await world.client.create(lamp("early-misfit", watts="many"))
        registry = CollectorRegistry()
        watching = Watch(ConfigMap, by=lambda one: one.spec.settings)
        lamps = Controller(Lamp, light, watches=[watching])
        async with world.running(lamps, metrics=registry) as manager:
            await anyio.sleep(2)
            await world.client.create(lamp("good", watts=5, settings="s"))
            await world.client.create(lamp("late-misfit", token=SECRET))
            await anyio.sleep(2)
            await world.client.create(ConfigMap(metadata=ObjectMeta("s", "default")))
            await anyio.sleep(2)
            assert (await world.client.get(Lamp, "good", "default")).status.lit
            assert seen == ["good", "good"]
            assert {informer.state for informer in manager.status().informers} == {"watching"}
            state = str(manager.state())
            assert ".spec.watts" in state
            assert ".spec.token" in state
            assert SECRET not in state
            failures = registry.get_sample_value(
                "controller_runtime_terminal_reconcile_errors_total", {"controller": "lamp"}
            )
            assert failures == 2
            wrong = await world.client.get(
                type(await world.client.raw.unstructured(lamp("x"))), "early-misfit", "default"
            )
            async with world.client.editing(wrong) as draft:
                draft["spec"]["watts"] = 4
            await anyio.sleep(2)
            assert (await world.client.get(Lamp, "early-misfit", "default")).status.lit

    with caplog.at_level(logging.WARNING, logger="reconcile.lamp"):
        played(scenario, seed)
    told = [str(record.__dict__) for record in caplog.records]
    assert len(told) == 2
    assert ".spec.watts" in told[0]
    assert ".spec.token" in told[1]
    assert not any(SECRET in line for line in told)


@in_world(played)
async def test_an_object_that_does_not_fit_its_model_fails_only_the_run_that_reads_it(world: World) -> None:
    await served(world)
    ran: list[str] = []

    async def count(ctx: Context[Lamp]) -> None:
        ran.append(str(ctx.request))

    async def read_twice(ctx: Context[Lamp]) -> None:
        with pytest.raises(DecodeError, match=r"\.spec\.watts"):
            _ = ctx.object
        ran.append(ctx.object.name)

    await world.client.create(lamp("misfit", watts="many"))
    counting, reading = Controller(Lamp, count, name="count"), Controller(Lamp, read_twice, name="read")
    async with world.running(counting, reading) as manager:
        await anyio.sleep(2)
        failures = {status.name: status.failures for status in manager.status().controllers}
    assert ran == ["default/misfit"]
    assert failures == {"count": 0, "read": 1}


@in_world(played)
async def test_a_run_that_records_an_event_for_an_unreadable_object_fails_with_the_path(world: World) -> None:
    await served(world)

    async def tell(ctx: Context[Lamp]) -> None:
        ctx.event("Lit", "it is lit")

    await world.client.create(lamp("misfit", watts="many"))
    async with world.running(Controller(Lamp, tell)) as manager:
        await anyio.sleep(2)
        assert ".spec.watts" in str(manager.state())
