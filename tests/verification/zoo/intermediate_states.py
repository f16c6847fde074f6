"""Intermediate state: a crash between two writes leaves what the next run takes for done (Sieve)."""

from reconcile import Context, ObjectMeta
from reconcile.kinds import ConfigMap, Pod, Secret, StatefulSet
from reconcile.testing import Apply, Scenario
from tests.verification.zoo.kinds import (
    DB,
    Cluster,
    becomes,
    cluster,
    config_map,
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


def second_secret_skipped(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        there = {each.name for each in await ctx.owned(Secret)}
        outer, inner = secret(ctx, "ssl"), secret(ctx, "ssl-internal")
        if outer.name not in there:
            await ctx.client.create(outer)
        if inner.name not in there and (mended or outer.name not in there):
            await ctx.client.create(inner)

    return scenario(keep, owns=[Secret])


def restart_forgotten(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        version = ctx.object.spec.version
        configured = [each.data["version"] for each in await ctx.owned(ConfigMap)]
        await ctx.apply(config_map(ctx, "config", version=version))
        running = await ctx.owned(Pod)
        for old in running:
            if mended:
                configured = [old.metadata.annotations["version"]]
            if configured != [version]:
                await remove(ctx, old)
        if not running:
            await unguarded(ctx).create(pod(ctx, 0, version=version))

    return scenario(keep, Apply(DB), becomes(version="2"), owns=[ConfigMap, Pod])


def resize_not_resumed(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        client, size = unguarded(ctx), str(ctx.object.spec.storage)
        sets, volumes = await ctx.owned(StatefulSet), await ctx.owned(ConfigMap)
        outgrown = [each for each in sets if each.metadata.labels["size"] != size]
        for old in outgrown:  # what it says of its volumes cannot be changed
            await remove(ctx, old)
        if outgrown or not sets:
            await client.create(stateful_set(ctx).with_metadata(labels={"size": size}))
        if mended or outgrown or not volumes:
            await ctx.apply(volume(ctx, 0))

    return scenario(keep, Apply(DB), becomes(storage=15), owns=[StatefulSet, ConfigMap])


def finished_step_not_noted(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        wanted, phase = ctx.object.spec.replicas, ctx.object.status.phase
        pods = {number_of(each): each for each in await ctx.owned(Pod)}
        volumes = {number_of(each): each for each in await ctx.owned(ConfigMap)}
        surplus = [number for number in volumes if number >= wanted]
        if phase == "leaving":
            for number in surplus:
                if number in pods:
                    await remove(ctx, pods[number], ctx.client)
                elif not mended:
                    raise LookupError(f"there is no pod {number} to ask whether it has left")
            ctx.status(phase="left")
        elif phase == "left":
            for number in surplus:
                await remove(ctx, volumes[number], ctx.client)
            ctx.status(phase="")
        elif surplus:
            ctx.status(phase="leaving")
        else:
            for number in range(wanted):
                await ctx.apply(pod(ctx, number))
                await ctx.apply(volume(ctx, number))

    return scenario(
        keep,
        Apply(cluster(replicas=2)),
        becomes(replicas=1),
        owns=[Pod, ConfigMap],
        controller={"wakes": lambda old, new: True},
    )


def label_never_set(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        found = await ctx.owned(Pod)
        made = found[0] if found else await ctx.client.create(pod(ctx, 0))
        if "start" not in made.metadata.labels and (mended or not found):
            await ctx.client.raw.merge(made, {"metadata": {"labels": {"start": "now"}}})

    return scenario(keep, owns=[Pod])


def child_not_noted(mended: bool) -> Scenario:
    async def keep(ctx: Context[Cluster]) -> None:
        if ctx.object.status.phase == "made" or (mended and await ctx.owned(ConfigMap)):
            return
        meta = ObjectMeta("", ctx.object.namespace, generate_name="journal-")
        await ctx.create(ConfigMap(metadata=meta))
        ctx.status(phase="made")

    return scenario(keep, owns=[ConfigMap], without=["end-state"])


BUGS = (
    BugPattern(
        name="second-secret-skipped",
        bug="two Secrets are made if the first is missing: after a crash in between the second never is",
        family="intermediate state",
        sources=(
            "https://jira.percona.com/browse/K8SPXC-896",
            "https://jira.percona.com/browse/K8SPXC-897",
            "https://jira.percona.com/browse/K8SPSMDB-578",
            "https://jira.percona.com/browse/K8SPSMDB-579",
        ),
        scenario=second_secret_skipped,
        found_by="sweep",
    ),
    BugPattern(
        name="restart-forgotten",
        bug="pods restart in the run that changes their configuration: after a crash they never do",
        family="intermediate state",
        sources=("https://github.com/konpyutaika/nifikop/issues/49",),
        scenario=restart_forgotten,
        found_by="sweep",
    ),
    BugPattern(
        name="resize-not-resumed",
        bug="volumes grow if the StatefulSet is of the old size, which a crash has already replaced",
        family="intermediate state",
        sources=("https://github.com/rabbitmq/cluster-operator/issues/782",),
        scenario=resize_not_resumed,
        found_by="sweep",
    ),
    BugPattern(
        name="finished-step-not-noted",
        bug="a pod is removed before the status says so: after a crash the step fails for ever",
        family="intermediate state",
        sources=("https://github.com/Orange-OpenSource/casskop/issues/370",),
        scenario=finished_step_not_noted,
        found_by="sweep",
    ),
    BugPattern(
        name="label-never-set",
        bug="a pod is created, and labelled in the same run alone: after a crash it is never started",
        family="intermediate state",
        sources=(
            "https://k8ssandra.atlassian.net/browse/K8SSAND-1023",
            "https://k8ssandra.atlassian.net/browse/K8SSAND-1362",
        ),
        scenario=label_never_set,
        found_by="sweep",
    ),
    BugPattern(
        name="child-not-noted",
        bug="a child with a generated name is noted in the status later: after a crash there are two",
        family="intermediate state",
        sources=(),
        scenario=child_not_noted,
        found_by="sweep",
    ),
)
