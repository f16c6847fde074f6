"""Unobserved state: something has to be done in a state that no run may ever see (Sieve, OSDI 2022)."""

from itertools import pairwise

from reconcile import Context
from reconcile.kinds import ConfigMap, Pod
from reconcile.simulation import Delays
from reconcile.testing import Apply, Scenario, Wait, World
from tests.verification.zoo.kinds import (
    Cluster,
    becomes,
    cluster,
    number_of,
    pod,
    remove,
    scenario,
    volume,
)
from tests.verification.zoo.patterns import BugPattern


def pod_never_seen_leaving(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        wanted = ctx.object.spec.replicas
        pods = {number_of(each): each for each in await ctx.owned(Pod)}
        for number in range(wanted):
            await ctx.apply(pod(ctx, number))
            await ctx.apply(volume(ctx, number))
        for each in await ctx.owned(ConfigMap):
            number = number_of(each)
            leaves = number not in pods if mended else number in pods and pods[number].terminating
            if number >= wanted and leaves:
                await remove(ctx, each, ctx.client)
        for number, each in pods.items():
            if number >= wanted and not each.terminating:
                await remove(ctx, each, ctx.client)

    steps = (Apply(cluster(replicas=2)), becomes(replicas=1))
    return scenario(keep, *steps, owns=[Pod, ConfigMap], nodes=Delays())


def half_left_node_stays(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        wanted = ctx.object.spec.replicas
        members = {number_of(each): each for each in await ctx.owned(ConfigMap)}
        for number in range(wanted):
            if number not in members:
                await ctx.client.create(volume(ctx, number).replace(data={"member": "yes"}))
            elif mended and members[number].data["member"] == "no":
                await ctx.client.raw.merge(members[number], {"data": {"member": "yes"}})
        last = max(members, default=-1)
        if last >= wanted:
            if members[last].data["member"] == "yes":  # it leaves now, and is removed in the next run
                await ctx.client.raw.merge(members[last], {"data": {"member": "no"}})
            else:
                await remove(ctx, members[last], ctx.client)

    def all_are_members(world: World) -> None:
        left = [each.name for each in world.objects(ConfigMap) if each.data.get("member") == "no"]
        assert not left, f"{left} stay, and are members no more"

    steps = (Apply(cluster(replicas=2)), becomes(replicas=1), Wait(0.25), becomes(replicas=2))
    return scenario(keep, *steps, owns=[ConfigMap], invariants=[all_are_members])


def only_growth_is_seen(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        wanted, had = ctx.object.spec.replicas, ctx.object.status.replicas
        for number in range(wanted):
            await ctx.apply(pod(ctx, number))
        for each in await ctx.owned(Pod):
            if number_of(each) >= wanted and (mended or number_of(each) < had):
                await remove(ctx, each, ctx.client)
        ctx.status(replicas=wanted)

    steps = (Apply(cluster(replicas=1)), becomes(replicas=3), becomes(replicas=1))
    return scenario(keep, *steps, owns=[Pod])


def switched_on_for_a_moment(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        version = ctx.object.spec.version
        for each in await ctx.owned(ConfigMap):
            if each.data["version"] == version:
                continue
            migrated = each.data["version"] if mended else str(int(version) - 1)
            steps = [*each.data["steps"].split(), f"{migrated}to{version}"]
            data = {"version": version, "steps": " ".join(steps)}
            await ctx.client.raw.merge(each, {"data": data})
            return
        if not await ctx.owned(ConfigMap):
            await ctx.client.create(volume(ctx, 0).replace(data={"version": version, "steps": ""}))

    def steps_join(world: World) -> None:
        for each in world.objects(ConfigMap):
            ends = [step.split("to") for step in each.data.get("steps", "").split()]
            assert all(one[1] == other[0] for one, other in pairwise(ends)), ends
            assert not ends or ends[0][0] == "1", f"the first migration is from {ends[0][0]}"

    steps = (Apply(cluster()), becomes(version="2"), Wait(0.1), becomes(version="3"))
    return scenario(keep, *steps, owns=[ConfigMap], invariants=[steps_join])


BUGS = (
    BugPattern(
        name="pod-never-seen-leaving",
        bug="a volume is deleted in the run that sees its pod terminate, and no run may",
        family="unobserved state",
        sources=(
            "https://jira.percona.com/browse/K8SPSMDB-585",
            "https://jira.percona.com/browse/K8SPXC-918",
            "https://github.com/Orange-OpenSource/casskop/issues/342",
        ),
        scenario=pod_never_seen_leaving,
        found_by="seeds",
    ),
    BugPattern(
        name="half-left-node-stays",
        bug="a node that has left is removed in the next run, unless the user wants it back meanwhile",
        family="unobserved state",
        sources=(
            "https://github.com/instaclustr/cassandra-operator/issues/410",
            "https://github.com/instaclustr/cassandra-operator/issues/398",
        ),
        scenario=half_left_node_stays,
        found_by="seeds",
    ),
    BugPattern(
        name="only-growth-is-seen",
        bug="what to remove follows from the number noted last, which a crash may leave behind",
        family="unobserved state",
        sources=(
            "https://github.com/rabbitmq/cluster-operator/issues/758",
            "https://github.com/yugabyte/yugabyte-operator/issues/39",
            "https://github.com/pravega/zookeeper-operator/issues/453",
        ),
        scenario=only_growth_is_seen,
        found_by="old views",
    ),
    BugPattern(
        name="switched-on-for-a-moment",
        bug="each version is taken for migrated from the one before it, which no run may have seen",
        family="unobserved state",
        sources=(),
        scenario=switched_on_for_a_moment,
        found_by="seeds",
    ),
)
