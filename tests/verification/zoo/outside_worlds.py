"""What exists outside the cluster is made twice, or left behind."""

from reconcile import Context, Controller, Deleted
from reconcile.testing import Apply, Delete, Scenario, World
from tests.verification.zoo.kinds import DB, Cluster, becomes, cluster, is_current
from tests.verification.zoo.patterns import BugPattern


def nothing_leaks(world: World) -> None:
    leaked = set(world.outside) - {each.name for each in world.objects(Cluster)}
    assert not leaked, f"records of clusters that are gone: {leaked}"


def made_twice_outside(mended: bool) -> Scenario:
    def make(records: list[str]) -> Controller[Cluster]:
        async def keep(ctx: Context[Cluster]) -> None:
            if ctx.object.status.phase == "recorded" or not await is_current(ctx):
                return
            if not mended or ctx.object.uid not in records:
                records.append(ctx.object.uid)
            ctx.status(phase="recorded")

        return Controller(Cluster, keep, name="clusters")

    def made_once(world: World) -> None:
        assert len(set(world.outside)) == len(world.outside), "a record was made twice"

    return Scenario(controllers=make, outside=list, steps=[Apply(DB)], invariants=[made_once])


def released_before_it_is_clean(mended: bool) -> Scenario:
    def make(records: set[str]) -> Controller[Cluster]:
        async def keep(ctx: Context[Cluster]) -> None:
            if ctx.object.name not in records and await is_current(ctx):
                records.add(ctx.object.name)

        async def forget(ctx: Context[Cluster]) -> None:
            if ctx.object.status.phase == "clean" and not mended:
                return
            await ctx.client.raw.merge(ctx.object, {"status": {"phase": "clean"}}, subresource="status")
            records.discard(ctx.object.name)

        return Controller(Cluster, keep, cleanup=forget, name="clusters")

    return Scenario(controllers=make, outside=set, steps=[Apply(DB), Delete(DB)], invariants=[nothing_leaks])


def deletion_missed_while_down(mended: bool) -> Scenario:
    def make(records: set[str]) -> Controller[Cluster]:
        async def keep(ctx: Context[Cluster]) -> None:
            if ctx.object.name not in records and await is_current(ctx):
                records.add(ctx.object.name)

        async def forget(ctx: Context[Cluster]) -> None:
            records.discard(ctx.object.name)

        async def gone(deleted: Deleted[Cluster]) -> None:
            records.discard(deleted.object.name)

        if mended:
            return Controller(Cluster, keep, cleanup=forget, name="clusters")
        return Controller(Cluster, keep, on_deleted=gone, name="clusters")

    steps = [Apply(DB), Apply(cluster("two")), Delete(DB), becomes(version="2")]
    return Scenario(controllers=make, outside=set, steps=steps, invariants=[nothing_leaks])


BUGS = (
    BugPattern(
        name="made-twice-outside",
        bug="a record is made before the status says so: after a crash it is made again",
        family="outside world",
        sources=(),
        scenario=made_twice_outside,
        found_by="sweep",
    ),
    BugPattern(
        name="released-before-it-is-clean",
        bug="a cleanup is noted as done before it is: after a crash the record stays",
        family="outside world",
        sources=(),
        scenario=released_before_it_is_clean,
        found_by="sweep",
    ),
    BugPattern(
        name="deletion-missed-while-down",
        bug="a record outside is removed by an event, which is missed if no process runs then",
        family="outside world",
        sources=(),
        scenario=deletion_missed_while_down,
        found_by="sweep",
    ),
)
