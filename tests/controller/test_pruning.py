"""Children that a run no longer wants go at its end, and never after anything went wrong in it."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, Intent, ObjectMeta, OwnerReference
from reconcile.client.object_reads import ObjectReads
from reconcile.errors import ApiError
from reconcile.kinds import ConfigMap, Job, JobSpec, Pod, PodSpec, Secret
from reconcile.owners import with_owner
from reconcile.testing import FakeClient, Fault, FaultPlan, Refuse, RefuseAsStale, RunReport, When, run_once
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world

TOY = Toy(metadata=ObjectMeta("toy", "default"))
NO_FAULTS = FaultPlan()
A_POD = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}


def child(name: str, value: str = "") -> Intent[ConfigMap]:
    return Intent(ConfigMap, metadata=ObjectMeta(name), data={"v": value})


class Wanted:
    """Applies the children it is told of, and prunes the others."""

    def __init__(self, *names: str, then: Callable[[Context[Toy]], Any] | None = None) -> None:
        self.names = names
        self.then = then

    async def keep(self, ctx: Context[Toy]) -> None:
        ctx.prune()
        for name in self.names:
            await ctx.apply(child(name))
        if self.then is not None:
            await self.then(ctx)

    async def run(self, client: FakeClient, **options: Any) -> RunReport:
        owns = options.pop("owns", [ConfigMap])
        return await run_once(Controller(Toy, self.keep, owns=owns, name="toys"), TOY, client)


async def names(client: FakeClient, kind: Any = ConfigMap) -> list[str]:
    found = [one.name for one in await client.list(kind, "default") if not one.name.startswith("kube-root")]
    return sorted(found)


async def grown(plan: FaultPlan = NO_FAULTS) -> FakeClient:
    """A toy with the children a, b and c."""
    client = FakeClient(TOY, plan=plan)
    assert (await Wanted("a", "b", "c").run(client)).error is None
    return client


@pytest.mark.rule("prune-1")
async def test_a_child_that_is_no_longer_desired_is_deleted_by_its_uid() -> None:
    client = await grown()
    uid = (await client.get(ConfigMap, "b", "default")).uid
    done = await Wanted("a", "c").run(client)
    assert await names(client) == ["a", "c"]
    assert [write for write in done.writes if write.startswith("delete")] == ["delete configmaps default/b"]
    assert client.transport.writes[-1].body["preconditions"] == {"uid": uid}


@pytest.mark.rule("prune-1")
async def test_a_child_whose_apply_is_skipped_as_unchanged_still_counts_as_desired() -> None:
    client = await grown()
    assert (await Wanted("a", "b", "c").run(client)).writes == []
    assert await names(client) == ["a", "b", "c"]


@pytest.mark.rule("prune-1")
async def test_created_edited_or_explicitly_kept_children_stay() -> None:
    client = await grown()

    async def others(ctx: Context[Toy]) -> None:
        await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="made-")))
        async with ctx.client.editing(await ctx.client.get(ConfigMap, "b", "default")) as draft:
            draft.data["v"] = "2"
        ctx.prune(keep=[await ctx.client.get(ConfigMap, "c", "default")])

    assert (await Wanted(then=others).run(client)).error is None
    b, c, made = await names(client)
    assert (b, c, made[:5]) == ("b", "c", "made-")


@pytest.mark.rule("prune-1")
async def test_the_pods_of_a_pruned_job_are_deleted_with_it() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        ctx.prune(Job)

    client = FakeClient(TOY)
    controller = Controller(Toy, keep, owns=[Job])
    toy = await client.get(Toy, "toy", "default")
    job = Job(metadata=ObjectMeta("j", "default"), spec=JobSpec(template={"spec": A_POD}))
    made = await client.create(with_owner(job, toy, controller=True))
    pod = Pod(metadata=ObjectMeta("p", "default"), spec=PodSpec(containers=({"name": "c", "image": "i"},)))
    await client.create(with_owner(pod, made, controller=True))
    assert (await run_once(controller, TOY, client)).writes == ["delete jobs default/j"]
    assert await client.find(Pod, "p", "default") is None


@pytest.mark.rule("prune-2")
async def test_only_children_of_declared_kinds_that_the_object_controls_are_pruned() -> None:
    client = await grown()
    toy = await client.get(Toy, "toy", "default")
    mine = OwnerReference(api_version="toys.example.com/v1", kind="Toy", name="toy", uid=toy.uid)
    client.add(ConfigMap(metadata=ObjectMeta("shared", "default", owner_references=(mine,))))
    client.add(ConfigMap(metadata=ObjectMeta("foreign", "default")))
    controlled = OwnerReference(
        api_version="toys.example.com/v1", kind="Toy", name="toy", uid=toy.uid, controller=True
    )
    client.add(Secret(metadata=ObjectMeta("s", "default", owner_references=(controlled,))))
    await Wanted().run(client)
    assert (await names(client), await names(client, Secret)) == (["foreign", "shared"], ["s"])
    await Wanted().run(client, owns=[ConfigMap, Secret])
    assert await names(client, Secret) == []


@pytest.mark.rule("prune-2")
async def test_a_kind_that_is_not_owned_cannot_be_pruned() -> None:
    async def secrets(ctx: Context[Toy]) -> None:
        ctx.prune(Secret)

    done = await Wanted(then=secrets).run(FakeClient(TOY))
    assert str(done.error) == "prune: Secret is not among the kinds that the controller owns"
    done = await Wanted().run(FakeClient(TOY), owns=[])
    assert "owns no kinds" in str(done.error)


async def fail(ctx: Context[Toy]) -> None:
    raise RuntimeError("after all was applied")


async def swallowed_apply(ctx: Context[Toy]) -> None:
    with pytest.raises(ApiError):
        await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name"}})


async def swallowed_read(ctx: Context[Toy]) -> None:
    with pytest.raises(ApiError):
        await ctx.client.list(Secret, live=True)


async def swallowed_blocking_call(ctx: Context[Toy]) -> None:
    with pytest.raises(ValueError, match="x"):
        await ctx.run_sync(int, "x")


async def swallowed_create(ctx: Context[Toy]) -> None:
    with pytest.raises(ApiError):
        await ctx.create(ConfigMap(metadata=ObjectMeta("b")))


@pytest.mark.rule("prune-3")
@pytest.mark.parametrize(
    "trouble", [fail, swallowed_apply, swallowed_read, swallowed_blocking_call, swallowed_create]
)
async def test_nothing_is_pruned_after_an_error_even_one_that_was_swallowed(trouble: Any) -> None:
    client = await grown(FaultPlan((Fault(When("list", "*/secrets"), Refuse(500, "InternalError")),)))
    await Wanted("a", then=trouble).run(client)
    assert await names(client) == ["a", "b", "c"]
    assert not any(request.verb == "delete" for request in client.transport.writes)
    assert (await Wanted("a").run(client)).error is None
    assert await names(client) == ["a"]


@pytest.mark.rule("prune-3")
async def test_a_resolved_conflict_does_not_prevent_pruning() -> None:
    client = await grown(FaultPlan((Fault(When("patch", "*/configmaps/a", 2), RefuseAsStale()),)))

    async def count(ctx: Context[Toy]) -> None:
        await ctx.client.modify(ConfigMap, "a", "default", lambda a: a.replace(data={"v": a.data["v"] + "1"}))

    assert (await Wanted("a", then=count).run(client)).error is None
    assert any(request.status == 409 for request in client.transport.writes)
    assert await names(client) == ["a"]


@pytest.mark.rule("prune-1")
async def test_a_recreated_child_is_not_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    client = await grown()
    listed = ObjectReads.snapshots

    async def too_late(self: Any, resource: Any, *args: Any, **options: Any) -> Any:
        found = await listed(self, resource, *args, **options)
        if resource.kind == "ConfigMap":
            client.request("DELETE", resource.path("default", "b"), {})
            client.add(ConfigMap(metadata=ObjectMeta("b", "default"), data={"v": "theirs"}))
        return found

    monkeypatch.setattr(ObjectReads, "snapshots", too_late)
    assert (await Wanted("a", "c").run(client)).error is None
    monkeypatch.undo()
    assert (await client.get(ConfigMap, "b", "default")).data == {"v": "theirs"}


@pytest.mark.rule("prune-1")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_manager_prunes_each_child_once_even_with_a_stale_cache(world: World, seed: int) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        for number in range(ctx.object.spec.size):
            await ctx.apply(child(f"{ctx.object.name}-{number}"))
        ctx.prune()

    async with world.running(Controller(Toy, keep, owns=[ConfigMap])):
        await world.make(size=3)
        await anyio.sleep(5)
        for size in (1, 4, 2):
            await world.client.modify(
                Toy, "a", "default", lambda t, n=size: t.replace(spec=type(t.spec)(size=n))
            )
            await anyio.sleep(5)
            live = await world.client.list(ConfigMap, "default")
            assert sorted(one.name for one in live) == [f"a-{n}" for n in range(size)]
    deleted = [request for request in world.transport.writes if request.verb == "delete"]
    assert len(deleted) == 4
    assert all(request.status == 200 for request in deleted)
