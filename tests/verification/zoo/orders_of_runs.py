"""Bugs that need two runs, or a run and an event, in one order of several."""

import asyncio

from reconcile import Context, Controller
from reconcile.kinds import ConfigMap
from reconcile.testing import Apply, Scenario, Wait, World
from tests.verification.zoo.kinds import Cluster, cluster, config_map
from tests.verification.zoo.patterns import BugPattern


def same_port_twice(mended: bool) -> Scenario:
    def make() -> Controller[Cluster]:
        turn = asyncio.Lock()
        given: dict[str, int] = {}

        async def keep(ctx: Context[Cluster]) -> None:
            if ctx.object.status.replicas:
                return
            if mended:
                async with turn:
                    noted = {each.uid: each.status.replicas for each in await ctx.client.list(Cluster)}
                    taken = {**given, **{uid: port for uid, port in noted.items() if port}}
                    given[ctx.object.uid] = max(taken.values(), default=0) + 1
                ctx.status(replicas=given[ctx.object.uid])
            else:
                taken = {each.uid: each.status.replicas for each in await ctx.client.list(Cluster)}
                ctx.status(replicas=max(taken.values(), default=0) + 1)

        return Controller(Cluster, keep, name="clusters")

    def ports_differ(world: World) -> None:
        ports = [each.status.replicas for each in world.objects(Cluster) if each.status.replicas]
        assert len(set(ports)) == len(ports), f"ports were given twice: {ports}"

    steps = (Apply(cluster("one")), Wait(0.2), Apply(cluster("two")))
    return Scenario(controllers=make, steps=steps, invariants=[ports_differ])


def variable_of_another_run(mended: bool) -> Scenario:
    def make() -> Controller[Cluster]:
        present = {"version": ""}

        async def keep(ctx: Context[Cluster]) -> None:
            if ctx.object.status.phase == "configured":
                return
            version = present["version"] = ctx.object.spec.version
            await ctx.apply(config_map(ctx, "lock"))
            if not mended:
                version = present["version"]
            await ctx.apply(config_map(ctx, "config", version=version))
            ctx.status(phase="configured")

        return Controller(Cluster, keep, owns=[ConfigMap], name="clusters")

    def own_versions(world: World) -> None:
        for each in world.objects(Cluster):
            config = world.find(ConfigMap, f"{each.name}-config")
            assert config is None or config.data["version"] == each.spec.version, each.name

    steps = (Apply(cluster("one")), Wait(0.2), Apply(cluster("two", version="2")))
    return Scenario(controllers=make, steps=steps, invariants=[own_versions])


BUGS = (
    BugPattern(
        name="same-port-twice",
        bug="two runs look for a free port at once, and both take the first",
        family="order of tasks",
        sources=(),
        scenario=same_port_twice,
        found_by="seeds",
    ),
    BugPattern(
        name="variable-of-another-run",
        bug="a variable that all runs share is set before a request, and read after it",
        family="order of tasks",
        sources=(),
        scenario=variable_of_another_run,
        found_by="seeds",
    ),
)
