"""Stale state: a decision on an old state of the cluster does harm (Sieve, OSDI 2022)."""

from attrs import evolve

from reconcile import Context, ObjectMeta
from reconcile.kinds import ConfigMap, Pod
from reconcile.owners import with_owner
from reconcile.testing import Apply, Scenario, Wait
from tests.verification.zoo.kinds import Cluster, becomes, cluster, pod, scenario, unguarded
from tests.verification.zoo.patterns import BugPattern


def created_twice(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        client = ctx.client if mended else unguarded(ctx)
        for _ in range(ctx.object.spec.replicas - len(await ctx.owned(Pod))):
            made = evolve(pod(ctx, 0), metadata=ObjectMeta("", ctx.object.namespace, generate_name="db-"))
            await client.create(with_owner(made, ctx.object, controller=True))

    return scenario(keep, Apply(cluster(replicas=2)), becomes(version="2"), owns=[Pod])


def lost_update(mended: bool) -> Scenario:
    def joined(register: ConfigMap, name: str) -> ConfigMap:
        return register.replace(data={**register.data, "members": f"{register.data['members']}{name},"})

    async def keep(ctx: Context[Cluster]) -> None:
        register = await ctx.client.get(ConfigMap, "register", "default")
        if ctx.object.name in register.data["members"].split(","):
            return
        if mended:
            await ctx.client.modify(
                ConfigMap, "register", "default", lambda now: joined(now, ctx.object.name)
            )
        else:
            members = joined(register, ctx.object.name).data
            await unguarded(ctx).raw.merge(register, {"data": dict(members)}, guard={})

    return scenario(
        keep,
        Apply(cluster("one")),
        Wait(0.2),
        Apply(cluster("two")),
        objects=[ConfigMap(metadata=ObjectMeta("register", "default"), data={"members": ""})],
        controller={"reads": [ConfigMap], "writes": [ConfigMap]},
    )


BUGS = (
    BugPattern(
        name="created-twice",
        bug="children with generated names are counted in a cache that does not show the last ones yet",
        family="stale state",
        sources=("https://github.com/kubernetes/kubernetes/issues/129795",),
        scenario=created_twice,
        found_by="seeds",
    ),
    BugPattern(
        name="lost-update",
        bug="two runs read a shared list, and each writes it back with its own entry alone",
        family="order of tasks",
        sources=(),
        scenario=lost_update,
        found_by="seeds",
    ),
)
