"""Any error of a resize counts against the group, a stale version too (kubernetes/autoscaler#7872)."""

from attrs import frozen

from reconcile import Context, Controller, Object, ObjectMeta, Request, Watch, resource
from reconcile.errors import ApiError
from reconcile.testing import Apply, Edit, Scenario, Touch, Wait, World


@frozen
class NodeGroupSpec:
    price: int = 1
    replicas: int = 0


@resource("kit.example.com/v1")
class NodeGroup(Object):
    spec: NodeGroupSpec = NodeGroupSpec()


@frozen
class PoolSpec:
    nodes: int = 0


@frozen
class PoolStatus:
    backed_off: tuple[str, ...] = ()


@resource("kit.example.com/v1")
class Pool(Object):
    spec: PoolSpec = PoolSpec()
    status: PoolStatus = PoolStatus()


async def keep(ctx: Context[Pool]) -> None:
    pool = ctx.object
    groups = sorted(await ctx.client.list(NodeGroup, pool.namespace), key=lambda group: group.spec.price)
    missing = pool.spec.nodes - sum(group.spec.replicas for group in groups)
    backed_off = list(pool.status.backed_off)
    for group in groups:
        if missing > 0 and group.name not in backed_off:
            replicas = group.spec.replicas + missing
            try:
                await ctx.client.raw.update(group.replace(spec=NodeGroupSpec(group.spec.price, replicas)))
                missing = 0
            except ApiError:
                backed_off.append(group.name)
    ctx.status(backed_off=tuple(backed_off))


def the_dear_group_is_left_alone(world: World) -> None:
    dear = world.find(NodeGroup, "dear")
    assert dear is not None
    assert dear.spec.replicas == 0, f"{dear.spec.replicas} dear nodes, and the cheap group has room"


def group(name: str, price: int) -> NodeGroup:
    return NodeGroup(metadata=ObjectMeta(name, "default"), spec=NodeGroupSpec(price))


POOL = Pool(metadata=ObjectMeta("pool", "default"), spec=PoolSpec(3))

scenario = Scenario(
    controllers=lambda: Controller(
        Pool, keep, watches=[Watch(NodeGroup, to=lambda _: [Request("default", "pool")])], writes=[NodeGroup]
    ),
    objects=[group("cheap", 1), group("dear", 9)],
    steps=[Apply(POOL), Touch(group("cheap", 1)), Wait(0), Edit(POOL, {"spec": {"nodes": 6}})],
    invariants=[the_dear_group_is_left_alone],
)
