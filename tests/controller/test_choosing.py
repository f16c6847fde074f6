"""A controller with a selector keeps the objects that it chooses, and leaves the others alone."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from informers import Delta, Snapshot
from reconcile import (
    Background,
    Context,
    Controller,
    Deleted,
    Intent,
    ObjectMeta,
    Request,
    Result,
    Watch,
    predicates,
)
from reconcile.controller.cache_connection import is_left_alone, narrowed
from reconcile.kinds import ConfigMap, LabelRequirement, LabelSelector, Secret
from reconcile.testing import Apply, Delete, Edit, FakeClient, Scenario, run_once, sweep
from tests.helpers.managers import Toy, ToySpec, World, played
from tests.helpers.scenarios import in_world

BLUE, RED = {"team": "blue"}, {"team": "red"}


def toy(name: str = "a", labels: Mapping[str, str] = BLUE, **metadata: Any) -> Toy:
    return Toy(metadata=ObjectMeta(name, "default", labels=labels, **metadata))


class Seen:
    """What a controller's functions were called for."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.ends: list[str] = []
        self.listening: list[str] = []

    async def keep(self, ctx: Context[Toy]) -> Result | None:
        self.runs.append(ctx.object.name)
        return None

    async def clean(self, ctx: Context[Toy]) -> None:
        self.ends.append(ctx.object.name)

    async def gone(self, gone: Deleted[Toy]) -> None:
        self.ends.append(gone.object.name)

    async def listen(self, background: Background[Toy]) -> None:
        name = background.request.name
        self.listening.append(name)
        try:
            await anyio.sleep_forever()
        finally:
            self.listening.remove(name)

    def count(self, name: str = "a") -> int:
        return self.runs.count(name)


async def relabel(world: World, labels: Mapping[str, str], name: str = "a") -> None:
    def change(toy: Toy) -> Toy:
        return evolve(toy, metadata=evolve(toy.metadata, labels=labels))

    await world.client.modify(Toy, name, "default", change)
    await anyio.sleep(3)


@pytest.mark.rule("selector-objects")
@pytest.mark.parametrize(
    "selector",
    [
        "team=blue",
        "team in (blue, green),!old",
        {"team": "blue"},
        LabelSelector(BLUE),
        LabelSelector(match_expressions=(LabelRequirement("team", "NotIn", ("red",)),)),
    ],
)
async def test_objects_that_are_not_selected_are_left_alone(selector: Any) -> None:
    seen = Seen()
    blue, red = toy("blue"), toy("red", RED)
    client = FakeClient(blue, red)
    controller = Controller(Toy, seen.keep, cleanup=seen.clean, selector=selector)
    assert (await run_once(controller, blue, client)).writes == ["patch toys default/blue"]
    assert (await run_once(controller, red, client)).writes == []
    assert seen.runs == ["blue"]
    await client.delete(await client.get(Toy, "red", "default"))
    assert await client.find(Toy, "red", "default") is None  # no finalizer held it


@pytest.mark.parametrize("selector", ["team=(blue", "a b", LabelSelector(match_expressions=()), "", None, {}])
def test_a_selector_is_validated_on_construction(selector: Any) -> None:
    if selector in ("team=(blue", "a b"):
        with pytest.raises(ValueError, match="is not a label selector"):
            Controller(Toy, Seen().keep, selector=selector)
    else:
        assert Controller(Toy, Seen().keep, selector=selector).keeps(snapshot_of({}))


@pytest.mark.rule("selector-objects")
@pytest.mark.parametrize("wakes", [predicates.default, predicates.generation])
@in_world(played)
async def test_an_object_is_reconciled_only_while_its_labels_match_the_selector(
    world: World, wakes: Any
) -> None:
    seen = Seen()
    controller = Controller(
        Toy,
        seen.keep,
        selector="team=blue",
        wakes=wakes,
        background=seen.listen,
        on_deleted=seen.gone,
        every=5,
    )
    await world.client.create(toy(labels=RED))
    async with world.running(controller) as manager:
        await anyio.sleep(20)
        assert (seen.runs, seen.listening) == ([], [])
        await relabel(world, BLUE)
        assert seen.count() == 1
        assert seen.listening == ["a"]
        await anyio.sleep(20)
        assert seen.count() > 2
        await relabel(world, RED)
        before = seen.count()
        await anyio.sleep(30)
        assert (seen.count(), seen.listening) == (before, [])
        assert manager.status().controllers[0].queue.ready == 0
        await world.client.delete(await world.client.get(Toy, "a", "default"))
        await anyio.sleep(3)
        assert seen.ends == []


@pytest.mark.rule("selector-held")
@in_world(played)
async def test_an_object_with_a_finalizer_is_cleaned_up_even_if_no_longer_selected(world: World) -> None:
    seen = Seen()
    async with world.running(Controller(Toy, seen.keep, cleanup=seen.clean, selector="team=blue")):
        await world.client.create(toy())
        await anyio.sleep(3)
        await relabel(world, RED)
        stored = await world.client.get(Toy, "a", "default")
        assert stored.metadata.finalizers == ("toys.example.com/toy",)
        await world.client.delete(stored)
        await anyio.sleep(3)
        assert seen.ends == ["a"]
        assert await world.client.find(Toy, "a", "default") is None


@pytest.mark.rule("selector-objects")
@in_world(played)
async def test_controllers_with_different_selectors_share_an_informer(world: World) -> None:
    blue, red, all_of_them = Seen(), Seen(), Seen()
    controllers = [
        Controller(Toy, blue.keep, selector="team=blue", name="blue"),
        Controller(Toy, red.keep, selector="team=red", name="red"),
        Controller(Toy, all_of_them.keep, name="all"),
    ]
    async with world.running(*controllers) as manager:
        for name, labels in (("b", BLUE), ("r", RED), ("n", {})):
            await world.client.create(toy(name, labels))
        await anyio.sleep(3)
        assert len(manager.status().informers) == 1
    assert (set(blue.runs), set(red.runs), set(all_of_them.runs)) == ({"b"}, {"r"}, {"b", "r", "n"})


@pytest.mark.rule("selector-objects")
@in_world(played)
async def test_objects_that_are_not_selected_are_woken_neither_by_children_watches_triggers_nor_resyncs(
    world: World,
) -> None:
    seen = Seen()
    asked: list[str] = []

    def secret_of(toy: Toy) -> str | None:
        asked.append(toy.name)
        return toy.spec.secret

    controller = Controller(
        Toy,
        seen.keep,
        selector="team=blue",
        owns=[ConfigMap],
        watches=[Watch(Secret, by=secret_of), Watch(ConfigMap, to=lambda _: [Request("default", "a")])],
        resync=10,
    )
    made = await world.client.create(evolve(toy(labels=RED), spec=ToySpec(secret="s")))
    async with world.running(controller) as manager:
        owner = {
            "apiVersion": "toys.example.com/v1",
            "kind": "Toy",
            "name": "a",
            "uid": made.uid,
            "controller": True,
        }
        child = {"name": "c", "namespace": "default", "ownerReferences": [owner]}
        await world.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": child})
        await world.client.create(Secret(metadata=ObjectMeta("s", "default")))
        manager.trigger(controller, "default/a")
        await anyio.sleep(60)
        assert (seen.runs, asked) == ([], [])
        await relabel(world, BLUE)
        assert seen.count() >= 1
        before = seen.count()
        manager.trigger(controller, "default/a")
        await anyio.sleep(1)
        assert seen.count() > before


@pytest.mark.rule("selector-objects")
@in_world(played)
async def test_the_deletion_of_a_selected_object_is_reported_even_if_its_successor_is_not_selected(
    world: World,
) -> None:
    seen = Seen()
    async with world.running(Controller(Toy, seen.keep, selector="team=blue", on_deleted=seen.gone)):
        await world.client.create(toy())
        await anyio.sleep(3)
        await world.client.delete(await world.client.get(Toy, "a", "default"))
        await world.client.create(toy(labels=RED))
        await anyio.sleep(3)
        assert (seen.count(), seen.ends) == (1, ["a"])


@pytest.mark.rule("selector-objects")
@in_world(played)
async def test_the_selectors_of_manager_and_controller_must_both_match(world: World) -> None:
    seen = Seen()
    async with world.running(Controller(Toy, seen.keep, selector="team=blue"), selector="trial"):
        await world.client.create(toy("both", {**BLUE, "trial": "yes"}))
        await world.client.create(toy("blue"))
        await world.client.create(toy("trial", {"trial": "yes"}))
        await anyio.sleep(3)
    assert seen.runs == ["both"]


def test_a_controller_with_a_selector_survives_every_fault() -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"a": "1"}))

    def controllers() -> Controller[Toy]:
        return Controller(Toy, keep, cleanup=Seen().clean, owns=[ConfigMap], selector="team=blue")

    red = Edit(toy(), {"metadata": {"labels": RED}})
    sweep(Scenario(controllers=controllers, steps=[Apply(toy()), red, Delete(toy())]))


# --- laws -----------------------------------------------------------------------------------------


def snapshot_of(labels: Mapping[str, str], uid: str = "u", **metadata: Any) -> Snapshot:
    body = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": "1", "labels": labels}
    return Snapshot.from_json(json.dumps({"kind": "Toy", "metadata": body | metadata}).encode())


STATES = st.none() | st.builds(snapshot_of, st.sampled_from([BLUE, RED, {}]), st.sampled_from(["u", "v"]))


@given(STATES, STATES)
def test_a_change_is_narrowed_to_selected_objects(old: Snapshot | None, new: Snapshot | None) -> None:
    if old is None and new is None:
        return
    keeps = Controller(Toy, Seen().keep, selector="team=blue").keeps
    delta = Delta(old, new)
    seen = narrowed(delta, keeps)
    before, after = (state if state is not None and keeps(state) else None for state in (old, new))
    if seen is None:
        assert before is None
        assert after is None
        return
    assert (seen.old, seen.new) == (before, after)
    still_there = old is not None and new is not None and old.is_same_object(new)
    assert is_left_alone(seen, delta) is (still_there and after is None)


@in_world(played)
async def test_a_deletion_that_wakes_refuses_is_neither_told_nor_remembered(world: World) -> None:
    seen = Seen()
    controller = Controller(Toy, seen.keep, wakes=predicates.selector("team=blue"), on_deleted=seen.gone)
    async with world.running(controller) as manager:
        for one in (toy("a", RED), toy("b", BLUE)):
            await world.client.create(one)
            await anyio.sleep(1)
            await world.client.delete(await world.client.get(Toy, one.name, "default"))
            await anyio.sleep(1)
        assert seen.ends == ["b"]
        await world.client.create(toy("a", BLUE))
        await anyio.sleep(1)
        assert seen.ends == ["b"], "the former `a` was never chosen"
        assert not manager._runners[0]._executor.tombstones._deleted
