"""Stale state after a restart: the new process first sees what was true before (Sieve, OSDI 2022)."""

from reconcile import Context, ObjectMeta
from reconcile.kinds import ConfigMap, Pod, Secret, StatefulSet
from reconcile.testing import Apply, Delete, Scenario
from tests.verification.zoo.kinds import (
    DB,
    Cluster,
    becomes,
    cluster,
    number_of,
    pod,
    remove,
    scenario,
    secret,
    stateful_set,
    unguarded,
    volume,
)
from tests.verification.zoo.patterns import BugPattern


def volumes_of_the_next_cluster(mended: bool) -> Scenario:
    def data(ctx: Context[Cluster]) -> ConfigMap:
        meta = ObjectMeta(f"{ctx.object.name}-data", ctx.object.namespace, labels={"of": ctx.object.uid})
        return ConfigMap(metadata=meta)

    async def keep(ctx: Context[Cluster]) -> None:
        await ctx.client.apply(data(ctx))

    async def remove(ctx: Context[Cluster]) -> None:
        for each in await unguarded(ctx).list(ConfigMap, ctx.object.namespace):
            own = each.metadata.labels.get("of") == ctx.object.uid
            if each.name == f"{ctx.object.name}-data" and (own or not mended):
                await unguarded(ctx).delete(each)

    return scenario(
        keep,
        Apply(DB),
        Delete(DB),
        Apply(DB),
        cleanup=remove,
        controller={"reads": [ConfigMap], "writes": [ConfigMap]},
        without=["end-state"],  # of which cluster it is
    )


def volume_of_a_new_replica(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        wanted = ctx.object.spec.replicas
        for number in range(wanted):
            await ctx.apply(volume(ctx, number))
        for each in await ctx.owned(ConfigMap):
            if number_of(each) >= wanted:
                await (remove(ctx, each) if mended else unguarded(ctx).delete(each))

    return scenario(
        keep, Apply(cluster(replicas=2)), becomes(replicas=1), becomes(replicas=2), owns=[ConfigMap]
    )


def part_switched_on_again(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        if ctx.object.spec.proxy:
            await ctx.apply(secret(ctx, "proxy-certificate"))
            return
        for each in await ctx.owned(Secret):
            await (remove(ctx, each) if mended else unguarded(ctx).delete(each))

    return scenario(keep, Apply(DB), becomes(proxy=True), owns=[Secret])


def set_made_again_as_it_was(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        wanted = stateful_set(ctx).with_metadata(labels={"size": str(ctx.object.spec.storage)})
        found = await ctx.owned(StatefulSet)
        for each in found:
            if each.metadata.labels == wanted.metadata.labels:
                return
            await (remove(ctx, each) if mended else unguarded(ctx).delete(each))
        await ctx.client.create(wanted)

    return scenario(keep, Apply(DB), becomes(storage=15), owns=[StatefulSet])


def pod_restarted_for_an_old_version(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        fresh = pod(ctx, 0, version=ctx.object.spec.version)
        for each in await ctx.owned(Pod):
            if each.metadata.annotations["version"] == ctx.object.spec.version:
                return
            await (remove(ctx, each) if mended else unguarded(ctx).delete(each))
        await ctx.client.create(fresh)

    return scenario(keep, Apply(DB), becomes(version="2"), owns=[Pod])


BUGS = (
    BugPattern(
        name="volumes-of-the-next-cluster",
        bug="a cluster that is seen as being deleted loses its volumes, which its successor of that name has",
        family="stale state",
        sources=(
            "https://github.com/pravega/zookeeper-operator/issues/312",
            "https://github.com/instaclustr/cassandra-operator/issues/402",
            "https://github.com/Orange-OpenSource/casskop/issues/316",
            "https://github.com/rabbitmq/cluster-operator/issues/648",
            "https://k8ssandra.atlassian.net/browse/K8SSAND-559",
            "https://jira.percona.com/browse/K8SPSMDB-430",
            "https://jira.percona.com/browse/K8SPXC-716",
        ),
        scenario=volumes_of_the_next_cluster,
        found_by="old views",
    ),
    BugPattern(
        name="volume-of-a-new-replica",
        bug="a cluster that is seen as small as it was before loses the volumes of its new replicas",
        family="stale state",
        sources=(
            "https://github.com/pravega/zookeeper-operator/issues/314",
            "https://github.com/instaclustr/cassandra-operator/issues/407",
        ),
        scenario=volume_of_a_new_replica,
        found_by="old views",
    ),
    BugPattern(
        name="part-switched-on-again",
        bug="a part that is seen as switched off is deleted, and made anew moments later",
        family="stale state",
        sources=(
            "https://github.com/yugabyte/yugabyte-operator/issues/35",
            "https://github.com/yugabyte/yugabyte-operator/issues/36",
            "https://github.com/Orange-OpenSource/casskop/issues/321",
            "https://jira.percona.com/browse/K8SPXC-725",
            "https://jira.percona.com/browse/K8SPXC-763",
            "https://jira.percona.com/browse/K8SPSMDB-433",
            "https://jira.percona.com/browse/K8SPSMDB-438",
        ),
        scenario=part_switched_on_again,
        found_by="old views",
    ),
    BugPattern(
        name="set-made-again-as-it-was",
        bug="a StatefulSet is replaced since the cluster is seen with the size that it had before",
        family="stale state",
        sources=("https://github.com/rabbitmq/cluster-operator/issues/653",),
        scenario=set_made_again_as_it_was,
        found_by="old views",
    ),
    BugPattern(
        name="pod-restarted-for-an-old-version",
        bug="a pod of the new version is replaced by one of the old, which is all that a restart shows",
        family="stale state",
        sources=(
            "https://github.com/elastic/cloud-on-k8s/issues/5249",
            "https://github.com/elastic/cloud-on-k8s/issues/5274",
        ),
        scenario=pod_restarted_for_an_old_version,
        found_by="old views",
    ),
)
