"""A load that could not be read is taken for no load (vllm-project/aibrix#2591)."""

import math

from attrs import frozen

from reconcile import Context, Controller, Object, ObjectMeta, Watch, resource
from reconcile.testing import Apply, Recreate, Scenario, World


@frozen
class MeterSpec:
    load: float = 0.0


@resource("kit.example.com/v1")
class Meter(Object):
    spec: MeterSpec = MeterSpec()


@frozen
class ServiceSpec:
    load_per_replica: int = 10


@frozen
class ServiceStatus:
    replicas: int = 0


@resource("kit.example.com/v1")
class ModelService(Object):
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


async def keep(ctx: Context[ModelService]) -> None:
    service = ctx.object
    meter = await ctx.client.find(Meter, service.name, service.namespace)
    load = meter.spec.load if meter is not None else 0.0
    ctx.status(replicas=max(1, math.ceil(load / service.spec.load_per_replica)))


def what_runs_under_load_is_not_taken_away(world: World) -> None:
    seen: dict[str, list[int]] = {}
    for one in world.changes:
        if one.change.resource[1] == "modelservices" and one.change.new is not None:
            status = one.change.new.decode().get("status", {})
            seen.setdefault(one.change.new.uid, []).append(status.get("replicas", 0))
    for replicas in seen.values():
        assert replicas == sorted(replicas), f"the load has never fallen, and replicas went {replicas}"


METER = Meter(metadata=ObjectMeta("model", "default"), spec=MeterSpec(45))
SERVICE = ModelService(metadata=ObjectMeta("model", "default"))

scenario = Scenario(
    controllers=lambda: Controller(
        ModelService, keep, watches=[Watch(Meter, by=lambda service: service.name)]
    ),
    steps=[Apply(METER), Apply(SERVICE), Recreate(METER)],
    invariants=[what_runs_under_load_is_not_taken_away],
)
