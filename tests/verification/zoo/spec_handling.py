"""Operations that go wrong: a change of the spec is not carried out, or cannot be undone (Acto)."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, Literal

from attrs import evolve, frozen

from reconcile import Context, Controller, Object, ObjectMeta, resource
from reconcile.errors import Invalid
from reconcile.kinds import ConfigMap, Pod, PodSpec
from reconcile.models import Schema
from reconcile.owners import with_owner
from reconcile.testing import Apply, Scenario, World
from tests.verification.zoo.patterns import BugPattern

Name = Annotated[str, Schema(pattern="^[a-z]{1,8}$")]


@frozen
class Backup:
    schedule: Name = "daily"


@frozen
class StoreSpec:
    """A store of data; its name is short, so that the longest names of its parts are its own fault."""

    replicas: Annotated[int, Schema(minimum=0, maximum=12)] = 1
    image: Name | None = None
    users: Annotated[tuple[Name, ...], Schema(max_items=3)] = ()
    team: Name = "blue"
    mode: Literal["memory", "disk"] = "memory"
    backup: Backup | None = None
    zone: Annotated[str, Schema(max_length=80, pattern="^[a-z0-9-]*$")] = "a"


@frozen
class StoreStatus:
    phase: str = ""


@resource("zoo.example.com/v1")
class Store(Object):
    spec: StoreSpec = StoreSpec()
    status: StoreStatus = StoreStatus()


StoreRun = Callable[[Context[Store]], Awaitable[None]]


def scenario(reconcile: StoreRun, *owns: type[Object]) -> Scenario:
    """The least that an author tests: that a store comes up."""

    def make() -> Controller[Store]:
        return Controller(Store, reconcile, owns=owns or [ConfigMap], name="stores")

    return Scenario(controllers=make, steps=[Apply(Store(metadata=ObjectMeta("db")))])


def config(ctx: Context[Store], name: str = "config", **data: str) -> ConfigMap:
    made = ConfigMap(metadata=ObjectMeta(f"{ctx.object.name}-{name}", ctx.object.namespace), data=data)
    return with_owner(made, ctx.object, controller=True)


async def delete_all(ctx: Context[Store], parts: Iterable[Object]) -> None:
    for each in parts:
        await ctx.delete(each)


# --- each wrong in one way --------------------------------------------------------------------------


def written_once(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        if mended or not await ctx.owned(ConfigMap):
            await ctx.apply(config(ctx, team=ctx.object.spec.team))

    return scenario(keep)


def list_only_grows(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        users = set(ctx.object.spec.users)
        for user in sorted(users):
            await ctx.apply(config(ctx, f"user-{user}"))
        if mended:
            kept = {config(ctx, f"user-{user}").name for user in users}
            await delete_all(ctx, [each for each in await ctx.owned(ConfigMap) if each.name not in kept])

    return scenario(keep)


def old_value_stays(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        found = await ctx.owned(ConfigMap)
        image = ctx.object.spec.image
        if not found:
            await ctx.client.create(config(ctx, **({} if image is None else {"image": image})))
        elif (mended or image is not None) and found[0].data.get("image") != image:
            await ctx.client.raw.merge(found[0], {"data": {"image": image}})

    return scenario(keep)


def fails_on_null(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        backup: Any = ctx.object.spec.backup
        if mended and backup is None:
            await delete_all(ctx, await ctx.owned(ConfigMap))
        else:
            await ctx.apply(config(ctx, schedule=backup.schedule))

    return scenario(keep)


def fails_on_empty(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        users = ctx.object.spec.users
        owner = (users[0] if users else "nobody") if mended else sorted(users, key=len)[-1] if users else ""
        await ctx.apply(config(ctx, owner=owner, **({} if owner or mended else {"": "empty"})))

    return scenario(keep)


def never_recovers(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        spec = ctx.object.spec
        if ctx.object.status.phase == "failed" and not mended:
            return
        if len(spec.zone) > 63:
            await delete_all(ctx, await ctx.owned(ConfigMap))
            ctx.status(phase="failed")
            return
        await ctx.apply(config(ctx, zone=spec.zone))
        ctx.status(phase="ready")

    return scenario(keep)


def child_cannot_change(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        wanted = config(ctx, team=ctx.object.spec.team).replace(immutable=True)
        try:
            await ctx.apply(wanted)
        except Invalid:
            if not mended:
                raise
            await delete_all(ctx, await ctx.owned(ConfigMap))
            await ctx.apply(wanted)

    return scenario(keep)


def name_without_bound(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        zone = ctx.object.spec.zone
        if mended:
            await ctx.apply(config(ctx, zone=zone))
            return
        wanted = config(ctx, f"zone-{zone}")
        await delete_all(ctx, [each for each in await ctx.owned(ConfigMap) if each.name != wanted.name])
        await ctx.apply(wanted)

    return scenario(keep)


def label_not_passed_on(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        team = ctx.object.spec.team
        wanted = config(ctx).with_metadata(labels={"team": team})
        found = await ctx.owned(ConfigMap)
        if not found:
            await ctx.client.create(wanted)
        elif mended and found[0].metadata.labels.get("team") != team:
            await ctx.client.raw.merge(found[0], {"metadata": {"labels": {"team": team}}})

    return scenario(keep)


def other_branch_stays(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        mode = ctx.object.spec.mode
        wanted = config(ctx, mode)
        await ctx.apply(wanted)
        if mended:
            await delete_all(ctx, [each for each in await ctx.owned(ConfigMap) if each.name != wanted.name])

    return scenario(keep)


def sorted_as_text(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        wanted, there = ctx.object.spec.replicas, await ctx.owned(ConfigMap)
        numbers = sorted((each.name.rpartition("-")[2] for each in there), key=int if mended else str)
        for number in range(len(there), wanted):
            await ctx.client.create(config(ctx, f"member-{number}"))
        surplus = {f"{ctx.object.name}-member-{number}" for number in numbers[wanted:]}
        await delete_all(ctx, [each for each in there if each.name in surplus])

    def no_gap(world: World) -> None:
        numbers = sorted(int(each.name.rpartition("-")[2]) for each in world.objects(ConfigMap))
        assert numbers == list(range(len(numbers))), f"members {numbers} are left"

    return evolve(scenario(keep), invariants=[no_gap])


def restart_not_needed(mended: bool) -> Scenario:
    async def keep(ctx: Context[Store]) -> None:
        image = ctx.object.spec.image or "store"
        spec = PodSpec(containers=[{"name": "store", "image": "runner"}])
        meta = ObjectMeta(f"{ctx.object.name}-0", ctx.object.namespace, annotations={"image": image})
        for each in await ctx.owned(Pod):
            if not mended or each.metadata.annotations["image"] == image:
                return
            await ctx.delete(each)
        await ctx.client.create(with_owner(Pod(metadata=meta, spec=spec), ctx.object, controller=True))

    return scenario(keep, Pod)


def _bug(
    name: str, bug: str, make: Callable[[bool], Scenario], *sources: str, fields: str = "spec.team"
) -> BugPattern:
    return BugPattern(
        name=name,
        bug=bug,
        family="operation",
        sources=sources,
        scenario=make,
        found_by="transitions",
        fields=fields,
    )


BUGS = (
    _bug("written-once", "a field is read when the child is created, and never again", written_once),
    _bug(
        "list-only-grows",
        "what is taken out of a list stays in the cluster",
        list_only_grows,
        fields="spec.users*",
    ),
    _bug(
        "old-value-stays",
        "a field that is removed keeps the value that it had",
        old_value_stays,
        fields="spec.image",
    ),
    _bug(
        "fails-on-null",
        "a part that may be missing is read as if it were there",
        fails_on_null,
        "https://jira.percona.com/browse/K8SPSMDB-434",
        "https://github.com/OT-CONTAINER-KIT/redis-operator/pull/519",
        fields="spec.backup*",
    ),
    _bug(
        "never-recovers",
        "a spec that cannot work is noted, and a good one after it is not tried",
        never_recovers,
        "https://github.com/xlab-uiuc/acto/issues/209",
        fields="spec.zone",
    ),
    _bug(
        "child-cannot-change",
        "a field goes into a part of the child that the server does not let change",
        child_cannot_change,
        "https://github.com/xlab-uiuc/acto/issues/101",
    ),
    _bug(
        "name-without-bound",
        "a text of the spec is part of a name, which it makes too long",
        name_without_bound,
        fields="spec.zone",
    ),
    _bug(
        "label-not-passed-on",
        "labels reach the child when it is created, and not when they change",
        label_not_passed_on,
        "https://github.com/banzaicloud/koperator/issues/573",
    ),
    _bug(
        "other-branch-stays",
        "what the other choice of an enum has made is left behind",
        other_branch_stays,
        fields="spec.mode",
    ),
    _bug(
        "sorted-as-text",
        "with ten members or more, the wrong ones are removed",
        sorted_as_text,
        fields="spec.replicas",
    ),
    _bug(
        "restart-left-out",
        "a new configuration is stored, and the pod that has read the old one runs on",
        restart_not_needed,
        "https://github.com/OT-CONTAINER-KIT/redis-operator/issues/1853",
        fields="spec.image",
    ),
)
