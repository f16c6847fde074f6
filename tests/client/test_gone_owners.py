"""A child that went with its owner is not made again because the owner's end is known later."""

from typing import Any

import anyio
import pytest

from reconcile import Client, Context, Controller, Intent, ObjectMeta
from reconcile.kinds import ConfigMap
from tests.helpers.managers import Toy, ToySpec, World, played

NAMES = ("one", "two", "three")
SEEDS = range(8)

pytestmark = pytest.mark.rule("write-10")


async def create_missing(ctx: Context[Toy]) -> None:
    there = {child.name for child in await ctx.owned(ConfigMap)}
    for name in NAMES:
        if name not in there:
            await ctx.create(ConfigMap(metadata=ObjectMeta(name)))


async def apply_all(ctx: Context[Toy]) -> None:
    for name in NAMES:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(name)))


def played_with(reconcile: Any, step: Any, seed: int = 0) -> tuple[list[str], list[str]]:
    """What is made, and what its controller asks for, after `step(client, toy)` on an object at rest."""
    names: list[str] = []
    asked: list[str] = []

    def note(change: Any) -> None:
        if change.old is None:
            names.append(change.key.name)

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, reconcile, owns=[ConfigMap])):
            toy = await world.make()
            await anyio.sleep(30)
            world.server.log.on_change(note)
            before = len(world.transport.requests)
            await step(world.client, toy)
            await anyio.sleep(30)
            asked.extend(f"{one.verb} {one.target.resource}" for one in world.transport.requests[before:])

    played(scenario, seed)
    return names, asked


async def delete_owner(client: Client, toy: Toy) -> None:
    await client.delete(toy)


async def delete_owner_after_its_children(client: Client, toy: Toy) -> None:
    """As `kubectl delete --cascade=foreground` does."""
    await client.delete(toy, propagation="Foreground")


async def delete_children(client: Client, toy: Toy) -> None:
    for name in NAMES[:2]:
        await client.delete(await client.get(ConfigMap, name, "default"))


async def delete_and_make_owner(client: Client, toy: Toy) -> None:
    await client.delete(toy)
    await client.create(Toy(metadata=ObjectMeta(toy.name, toy.namespace)))


@pytest.mark.parametrize("step", [delete_owner, delete_owner_after_its_children])
@pytest.mark.parametrize("reconcile", [create_missing, apply_all])
def test_children_that_went_with_their_owner_are_not_made_again(reconcile: Any, step: Any) -> None:
    assert [played_with(reconcile, step, seed)[0] for seed in SEEDS] == [[] for _ in SEEDS]


@pytest.mark.parametrize("reconcile", [create_missing, apply_all])
def test_a_namesake_of_the_owner_gets_children_once(reconcile: Any) -> None:
    for seed in SEEDS:
        made, _ = played_with(reconcile, delete_and_make_owner, seed)
        assert sorted(made) == sorted(("a", *NAMES))


@pytest.mark.parametrize(("reconcile", "verb"), [(create_missing, "create"), (apply_all, "patch")])
def test_a_deleted_child_costs_one_read_of_its_owner_in_a_run(reconcile: Any, verb: str) -> None:
    made, asked = played_with(reconcile, delete_children)
    assert made == [*NAMES[:2]]
    writes = asked.count(f"{verb} configmaps")
    assert (writes, asked.count("get toys")) == (2, len(asked) - writes)
    assert 1 <= asked.count("get toys") <= 2  # one or two runs: the two ends may be known together


def test_without_a_deleted_child_the_owner_is_not_read() -> None:
    async def grow(client: Client, toy: Toy) -> None:
        await client.modify(Toy, toy.name, toy.namespace, lambda found: found.replace(spec=ToySpec(2)))

    async def keep_size_many(ctx: Context[Toy]) -> None:
        for number in range(ctx.object.spec.size):
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"c{number}")))

    made, asked = played_with(keep_size_many, grow)
    assert (made, asked) == (["c1"], ["patch configmaps"])
