"""Whether a pod exists is asked twice and answered in two ways (ray-project/kuberay#3286)."""

from attrs import define, field, frozen

from reconcile import Context, Controller, Object, ObjectMeta, resource
from reconcile.kinds import Pod, PodSpec
from reconcile.simulation import Delays
from reconcile.testing import Apply, Scenario, World

CONTAINERS = ({"name": "main", "image": "worker:1"},)


@frozen
class GroupSpec:
    replicas: int = 0


@resource("kit.example.com/v1")
class Group(Object):
    spec: GroupSpec = GroupSpec()


@define
class Groups:
    deleted: dict[str, str] = field(factory=dict)

    async def keep(self, ctx: Context[Group]) -> None:
        group = ctx.object
        pods = await ctx.owned(Pod)
        expected = self.deleted.get(group.uid, "")
        if any(pod.uid == expected and not pod.terminating for pod in pods):
            return
        surplus = len(pods) - group.spec.replicas
        for _ in range(-surplus):
            meta = ObjectMeta(generate_name=f"{group.name}-")
            await ctx.create(Pod(metadata=meta, spec=PodSpec(containers=CONTAINERS)))
        if surplus > 0:
            victim = min((pod for pod in pods if not pod.terminating), key=lambda pod: pod.name, default=None)
            if victim is not None:
                await ctx.delete(victim)
                self.deleted[group.uid] = victim.uid


def one_pod_at_most_is_deleted(world: World) -> None:
    deleted = {
        one.change.new.uid
        for one in world.changes
        if one.change.resource[1] == "pods" and one.change.new is not None and one.change.new.deleting
    }
    assert len(deleted) <= 1, f"{len(deleted)} pods were deleted to go from 2 to 1"


def there_are_as_many_pods_as_asked_for(world: World) -> None:
    for group in world.objects(Group):
        assert len(world.objects(Pod)) == group.spec.replicas


def of(replicas: int) -> Apply:
    return Apply(Group(metadata=ObjectMeta("group"), spec=GroupSpec(replicas)))


scenario = Scenario(
    controllers=lambda: Controller(Group, Groups().keep, owns=[Pod]),
    steps=[of(2), of(1)],
    invariants=[one_pod_at_most_is_deleted, there_are_as_many_pods_as_asked_for],
    nodes=Delays(stop=5),
)
