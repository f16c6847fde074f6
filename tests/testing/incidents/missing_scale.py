"""A kind that autoscalers are to size, and cannot: it has no scale (vllm-project/aibrix#986)."""

from attrs import frozen

from reconcile import Context, Controller, LabelSelector, Object, ObjectMeta, resource
from reconcile.errors import ApiError
from reconcile.kinds import Pod, PodSpec
from reconcile.testing import Apply, Edit, Scenario, World

CONTAINERS = ({"name": "main", "image": "model:1"},)


@frozen
class FleetSpec:
    replicas: int = 1


@frozen
class FleetStatus:
    replicas: int = 0
    selector: str = ""


@resource("kit.example.com/v1")
class Fleet(Object):
    spec: FleetSpec = FleetSpec()
    status: FleetStatus = FleetStatus()


async def keep(ctx: Context[Fleet]) -> None:
    fleet = ctx.object
    labels = {"fleet": fleet.name}
    pods = {pod.name: pod for pod in await ctx.owned(Pod) if not pod.terminating}
    wanted = [f"{fleet.name}-{number}" for number in range(fleet.spec.replicas)]
    for name in wanted:
        if name not in pods:
            meta = ObjectMeta(name, labels=labels)
            await ctx.create(Pod(metadata=meta, spec=PodSpec(containers=CONTAINERS)))
    for name in sorted(set(pods) - set(wanted)):
        await ctx.delete(pods[name])
    ctx.status(replicas=len(wanted), selector=LabelSelector(labels).text())


async def an_autoscaler_asks_for_three(world: World) -> None:
    fleet = world.find(Fleet, "fleet")
    assert fleet is not None
    try:
        await world.user.scale(fleet, lambda _: 3)
    except ApiError as error:
        raise AssertionError(f"an autoscaler cannot scale the fleet: {error}") from error


def there_are_as_many_pods_as_asked_for(world: World) -> None:
    for fleet in world.objects(Fleet):
        assert len(world.objects(Pod)) == fleet.spec.replicas


FLEET = Fleet(metadata=ObjectMeta("fleet", "default"))

scenario = Scenario(
    controllers=lambda: Controller(Fleet, keep, owns=[Pod]),
    steps=[Apply(FLEET), an_autoscaler_asks_for_three, Edit(FLEET, {"spec": {"replicas": 2}})],
    invariants=[there_are_as_many_pods_as_asked_for],
)
