"""Whom a change of another object wakes: owners by uid, users through an index, whoever a function names."""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import anyio
import pytest

from informers import Delta, Snapshot, get_logger
from reconcile import (
    Context,
    Controller,
    Key,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Request,
    Watch,
    predicates,
)
from reconcile.controller.function_failures import FunctionFailures
from reconcile.controller.waking import wakes
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.models import kind_of
from tests.helpers.managers import Toy, ToySpec, World, played
from tests.helpers.scenarios import in_world


class Runs:
    """Who ran, and why."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.causes: list[str] = []

    async def note(self, ctx: Context[Toy]) -> None:
        self.names.append(ctx.object.name)
        self.causes.extend(f"{cause.verb} {cause.key}" for cause in ctx.causes)

    async def during(self, seconds: float = 3) -> list[str]:
        """Who runs from now on, in the order of their names."""
        self.names.clear()
        await anyio.sleep(seconds)
        return sorted(self.names)


def child_of(owner: Toy, name: str = "child", **reference: Any) -> ConfigMap:
    said = {"api_version": "toys.example.com/v1", "kind": "Toy", "name": owner.name, "uid": owner.uid}
    owners = (OwnerReference(**{**said, "controller": True, **reference}),)
    return ConfigMap(metadata=ObjectMeta(name, owner.namespace, owner_references=owners))


def touched(config: ConfigMap) -> ConfigMap:
    return config.replace(data={"n": str(int(config.data.get("n", "0")) + 1)})


async def touch(world: World, name: str = "child") -> None:
    await world.client.modify(ConfigMap, name, "default", touched)


def resized(size: int) -> Any:
    return partial(Toy.replace, spec=ToySpec(size=size))


@pytest.mark.rule("watch-owner")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_child_wakes_its_controlling_owner_when_created_changed_and_deleted(
    world: World, seed: int
) -> None:
    runs = Runs()
    async with world.running(Controller(Toy, runs.note, owns=[ConfigMap])):
        owner = await world.make("a")
        await world.make("b")
        await anyio.sleep(3)
        made = await world.client.create(child_of(owner))
        assert await runs.during() == ["a"]
        await touch(world)
        assert await runs.during() == ["a"]
        await world.client.delete(made)
        assert await runs.during() == ["a"]
        assert runs.causes[-3:] == [f"{verb} default/child" for verb in ("added", "updated", "deleted")]


@pytest.mark.rule("watch-owner")
@pytest.mark.parametrize(
    ("reference", "woken"),
    [
        ({"controller": False}, []),
        ({"kind": "Other"}, []),
        ({"api_version": "others.example.com/v1"}, []),
        ({"uid": "of-one-that-is-no-more"}, ["a"]),  # by its end: "a" may have waited for its name
        ({"api_version": "toys.example.com/v1beta1"}, ["a"]),
    ],
)
@in_world(played)
async def test_only_the_owner_is_woken_whichever_version_of_its_kind_the_reference_names(
    world: World, reference: dict[str, Any], woken: list[str]
) -> None:
    runs = Runs()
    async with world.running(Controller(Toy, runs.note, owns=[ConfigMap])):
        owner = await world.make("a")
        await anyio.sleep(3)
        await world.client.create(child_of(owner, **reference))
        assert await runs.during() == woken


@pytest.mark.rule("watch-owner")
@in_world(played)
async def test_a_child_that_changes_owners_wakes_both(world: World) -> None:
    runs = Runs()
    async with world.running(Controller(Toy, runs.note, owns=[ConfigMap])):
        first, second = await world.make("a"), await world.make("b")
        await world.client.create(child_of(first))
        await anyio.sleep(3)
        handed = child_of(second).metadata.owner_references
        await world.client.modify(
            ConfigMap, "child", "default", lambda child: child.with_metadata(owner_references=handed)
        )
        assert await runs.during() == ["a", "b"]


@pytest.mark.rule("watch-owner")
@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_a_recreated_owner_is_neither_woken_by_nor_credited_with_its_predecessors_children(
    world: World, seed: int
) -> None:
    runs, counts = Runs(), []

    async def count(ctx: Context[Toy]) -> None:
        await runs.note(ctx)
        counts.append(len(await ctx.owned(ConfigMap)))

    async with world.running(Controller(Toy, count, owns=[ConfigMap])):
        former = await world.make("a")
        await world.client.create(child_of(former))
        await anyio.sleep(3)
        assert counts[-1] == 1
        # A finalizer holds it, so that garbage collection does not remove it.
        await world.client.modify(
            ConfigMap, "child", "default", lambda child: child.with_metadata(finalizers=("x.io/held",))
        )
        await world.client.delete(former)
        await world.make("a")
        await anyio.sleep(3)
        assert counts[-1] == 0
        await touch(world)
        assert await runs.during() == []


@pytest.mark.rule("watch-by")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_an_object_wakes_exactly_the_objects_that_name_it_now(world: World, seed: int) -> None:
    runs = Runs()
    watch: Watch[Toy, Secret] = Watch(Secret, by=lambda toy: toy.spec.secret)
    async with world.running(Controller(Toy, runs.note, watches=[watch])):
        for name, named in (("a", "s"), ("b", "s"), ("c", "t"), ("d", None)):
            await world.make(name, secret=named)
        await anyio.sleep(3)
        secret = await world.client.create(Secret(metadata=ObjectMeta("s", "default")))
        assert await runs.during() == ["a", "b"]
        await world.client.modify(
            Toy, "a", "default", lambda toy: toy.replace(spec=ToySpec(secret="t", size=2))
        )
        await anyio.sleep(3)
        await world.client.delete(secret)
        assert await runs.during() == ["b"]
        await world.client.create(Secret(metadata=ObjectMeta("t", "default")))
        assert await runs.during() == ["a", "c"]
        await world.client.create(Secret(metadata=ObjectMeta("s", "kube-system")))
        assert await runs.during() == []


@pytest.mark.rule("watch-by")
@pytest.mark.parametrize(
    ("named", "woken"),
    [
        (Key("kube-system", "s"), True),
        (["t", "s"], False),
        ([Key("kube-system", "s"), "t"], True),
        ((), False),
    ],
)
@in_world(played)
async def test_by_can_name_several_objects_and_other_namespaces(
    world: World, named: Any, woken: bool
) -> None:
    runs = Runs()
    watch: Watch[Toy, Secret] = Watch(Secret, by=lambda toy: named)
    async with world.running(Controller(Toy, runs.note, watches=[watch])):
        await world.make("a")
        await anyio.sleep(3)
        await world.client.create(Secret(metadata=ObjectMeta("s", "kube-system")))
        assert await runs.during() == (["a"] if woken else [])


@pytest.mark.rule("watch-by")
@in_world(played)
async def test_if_by_fails_every_change_wakes_that_object_alone_and_it_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs()

    def fragile(toy: Toy) -> str | None:
        assert toy.name != "bad"
        return toy.spec.secret

    watch: Watch[Toy, Secret] = Watch(Secret, by=fragile)
    async with world.running(Controller(Toy, runs.note, watches=[watch])):
        await world.make("bad", secret="s")
        await world.make("good", secret="s")
        await anyio.sleep(3)
        await world.client.create(Secret(metadata=ObjectMeta("s", "default")))
        assert await runs.during() == ["bad", "good"]
        await world.client.delete(await world.client.get(Toy, "bad", "default"))
        await world.client.create(Secret(metadata=ObjectMeta("other", "default")))
        assert await runs.during() == []  # nothing is left of it
    (line,) = [record for record in caplog.records if "a function of the operator failed" in record.message]
    said = vars(line)
    assert (said["place"], said["key"]) == ("Watch(Secret): by=", "default/bad")
    assert said["function"].endswith("fragile")
    assert said["instead"] == "every change of Secret wakes the object"


@pytest.mark.rule("watch-labels")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_an_object_wakes_exactly_those_whose_selector_matches_it_or_did_before(
    world: World, seed: int
) -> None:
    runs = Runs()

    def labelled(**labels: str) -> Any:
        return lambda config: config.with_metadata(labels=labels)

    watch: Watch[Toy, ConfigMap] = Watch(
        ConfigMap, by_labels=lambda toy: LabelSelector({"tier": toy.spec.secret}) if toy.spec.secret else None
    )
    async with world.running(Controller(Toy, runs.note, watches=[watch])):
        for name, tier in (("a", "web"), ("b", "web"), ("c", "data"), ("d", None)):
            await world.make(name, secret=tier)
        await anyio.sleep(3)
        config = ConfigMap(metadata=ObjectMeta("f", "default", labels={"tier": "web"}))
        made = await world.client.create(config)
        assert await runs.during() == ["a", "b"]
        await world.client.modify(ConfigMap, "f", "default", labelled(tier="data"))
        assert await runs.during() == ["a", "b", "c"]
        await world.client.modify(Toy, "a", "default", resized(2))
        await anyio.sleep(3)
        await world.client.modify(Toy, "a", "default", lambda toy: toy.replace(spec=ToySpec(secret="data")))
        await anyio.sleep(3)
        await world.client.delete(made)
        assert await runs.during() == ["a", "c"]
        elsewhere = ObjectMeta("f", "kube-system", labels={"tier": "data"})
        await world.client.create(ConfigMap(metadata=elsewhere))
        assert await runs.during() == []


@pytest.mark.rule("watch-labels")
@in_world(played)
async def test_an_empty_selector_matches_cluster_scoped_objects_too(world: World) -> None:
    runs = Runs()
    watch: Watch[Toy, Namespace] = Watch(Namespace, by_labels=lambda toy: LabelSelector())
    async with world.running(Controller(Toy, runs.note, watches=[watch])):
        await world.make("a")
        await anyio.sleep(3)
        await world.client.create(Namespace(metadata=ObjectMeta("new")))
        assert set(await runs.during()) == {"a"}


@pytest.mark.rule("watch-to")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_map_function_is_called_with_the_old_and_the_new_state(world: World, seed: int) -> None:
    runs = Runs()

    def concerned(config: ConfigMap) -> Iterable[Request]:
        return [Request("default", name) for name in config.data.values()]

    async with world.running(Controller(Toy, runs.note, watches=[Watch(ConfigMap, to=concerned)])):
        for name in "abc":
            await world.make(name)
        await anyio.sleep(3)
        config = ConfigMap(metadata=ObjectMeta("c", "default"), data={"1": "a", "2": "b"})
        await world.client.create(config)
        assert await runs.during() == ["a", "b"]
        await world.client.modify(
            ConfigMap, "c", "default", lambda found: found.replace(data={"1": "b", "2": "c"})
        )
        assert await runs.during() == ["a", "b", "c"]
        await world.client.delete(await world.client.get(ConfigMap, "c", "default"))
        assert await runs.during() == ["b", "c"]


@pytest.mark.rule("watch-wakes")
@pytest.mark.parametrize("how", [{"by": lambda toy: "c"}, {"to": lambda config: [Request("default", "a")]}])
@in_world(played)
async def test_wakes_filters_the_changes_of_a_watched_object(world: World, how: dict[str, Any]) -> None:
    runs = Runs()
    watch: Watch[Toy, ConfigMap] = Watch(ConfigMap, wakes=predicates.labels, **how)
    async with world.running(Controller(Toy, runs.note, watches=[watch])):
        await world.make("a")
        await anyio.sleep(3)
        config = await world.client.create(ConfigMap(metadata=ObjectMeta("c", "default")))
        assert await runs.during() == ["a"]
        await touch(world, "c")
        assert await runs.during() == []
        await world.client.modify(
            ConfigMap, "c", "default", lambda found: found.with_metadata(labels={"a": "b"})
        )
        assert await runs.during() == ["a"]
        await world.client.delete(config)
        assert await runs.during() == ["a"]


@pytest.mark.rule("watch-wakes")
@pytest.mark.parametrize(
    ("predicate", "kept", "replaced"),
    [
        (predicates.generation, False, True),
        (predicates.updates(lambda old, new: False), False, True),
        (~predicates.updates(lambda old, new: True), False, True),
        (predicates.selector("a=b"), False, False),
        (predicates.default, False, True),
    ],
)
def test_a_replacement_that_a_list_shows_as_one_change_is_a_deletion_and_a_creation(
    predicate: predicates.Predicate, kept: bool, replaced: bool
) -> None:
    def state(uid: str, version: int) -> Snapshot:
        metadata = {
            "name": "a",
            "namespace": "n",
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
        }
        return Snapshot.from_json(json.dumps({"kind": "Toy", "metadata": metadata}).encode())

    failures, toys = FunctionFailures(get_logger("test"), list, lambda *_: None), kind_of(Toy).resource
    assert wakes(predicate, Delta(state("u", 1), state("u", 2)), failures, toys) is kept
    assert wakes(predicate, Delta(state("u", 1), state("v", 2)), failures, toys) is replaced


@pytest.mark.rule("watch-wakes")
@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_a_recreated_object_wakes_whatever_the_predicate_says_of_changes(
    world: World, seed: int
) -> None:
    uids: list[str] = []

    async def note(ctx: Context[Toy]) -> None:
        uids.append(ctx.object.uid)

    async with world.running(Controller(Toy, note, wakes=lambda old, new: False)):
        former = await world.make("a")
        await anyio.sleep(3)
        await world.client.delete(former)
        latter = await world.make("a")
        await world.client.modify(Toy, "a", "default", resized(5))
        await anyio.sleep(3)
        assert uids[-1] == latter.uid


def test_a_watch_takes_exactly_one_way_to_map_objects() -> None:
    neither_or_both: list[Any] = [{}, {"by": lambda toy: None, "to": lambda secret: []}]
    for wrong in neither_or_both:
        with pytest.raises(TypeError, match="give by=, by_labels= or to=, one of the three"):
            Watch(Secret, **wrong)


@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_kind_that_is_looked_up_is_cached_and_wakes_nothing(world: World, seed: int) -> None:
    runs, seen = Runs(), list[str]()

    async def look(ctx: Context[Toy]) -> None:
        await runs.note(ctx)
        seen[:] = [config.name for config in await ctx.client.list(ConfigMap, "default")]
        if not seen:
            await ctx.client.create(ConfigMap(metadata=ObjectMeta("made", "default"), data={}))

    controller = Controller(Toy, look, reads=[ConfigMap], writes=[ConfigMap])
    async with world.running(controller) as manager:
        await world.make("a")
        assert await runs.during() == ["a"]  # and not once more, for what it made
        await touch(world, "made")
        await world.client.create(ConfigMap(metadata=ObjectMeta("more", "default"), data={}))
        assert await runs.during() == []
        manager.trigger(controller, "default/a")
        assert await runs.during() == ["a"]
        assert seen == ["made", "more"]
        asked = [one for one in world.transport.requests if one.path.endswith("/configmaps")]
        assert {one.verb for one in asked} == {"watch", "create"}
