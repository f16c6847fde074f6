"""How large the life of an object can be, and how long it takes the manager's loop."""

import json

import anyio

from reconcile import (
    Context,
    Intent,
    ObjectMeta,
)
from reconcile.kinds import ConfigMap
from reconcile.status.life_runs import BYTES_OF_A_LIFE, FIELDS_OF_A_LIFE, PROSE_CHARACTERS
from reconcile.status.write_differences import FIELDS_SHOWN
from tests.helpers.lives import lived
from tests.helpers.managers import Toy, World, played
from tests.status.test_object_life import only, resize, toys


def test_of_many_changed_fields_those_of_the_newest_writes_are_shown() -> None:
    async def keep_many(ctx: Context[Toy]) -> None:
        data = {f"k{number}": str(ctx.object.spec.size) for number in range(30)}
        for number in range(10):
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(f"c{number}"), data=data))

    async def scenario(world: World) -> None:
        async with lived(world, toys(keep_many)) as (_, lives):
            await world.make()
            await anyio.sleep(5)
            await resize(world.client)
            await anyio.sleep(5)
            runs = lives.life_of("toy", "default/a")["runs"]
        newer, older = ([write["fields"] for write in run["writes"]] for run in runs if run["writes"])
        assert [len(fields) for fields in newer] == [30] * 10
        assert [fields is None for fields in older] == [False] * 4 + [True] * 6
        assert 0 <= sum(len(fields) for fields in newer + older if fields) - FIELDS_OF_A_LIFE <= FIELDS_SHOWN

    played(scenario)


def test_of_writes_of_large_objects_those_of_the_newest_runs_are_compared() -> None:
    padding = "x" * (BYTES_OF_A_LIFE // 2)

    async def keep_large(ctx: Context[Toy]) -> None:
        data = {"padding": padding, "size": str(ctx.object.spec.size)}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=data))

    async def scenario(world: World) -> None:
        async with lived(world, toys(keep_large)) as (_, lives):
            await world.make()
            for size in (2, 3):
                await anyio.sleep(5)
                await resize(world.client, size)
            await anyio.sleep(5)
            runs = lives.life_of("toy", "default/a")["runs"]
        writes = [write["fields"] for run in runs for write in run["writes"]]
        assert [None if fields is None else len(fields) for fields in writes] == [1, None]

    played(scenario)


def test_a_huge_error_is_cut() -> None:
    async def fail(ctx: Context[Toy]) -> None:
        raise ValueError("x" * 1_000_000)

    async def scenario(world: World) -> None:
        async with lived(world, toys(fail)) as (_, lives):
            await world.make()
            await anyio.sleep(5)
            life = lives.life_of("toy", "default/a")
        assert {len(run["error"]) for run in life["runs"]} == {PROSE_CHARACTERS}
        assert len(json.dumps(life)) < 30_000

    played(scenario)


def test_writes_whose_details_made_room_for_newer_ones_are_left_in_words() -> None:
    async def scenario(world: World) -> None:
        async with lived(world, toys()) as (manager, lives):
            only(manager._runners).history.details.limit = 0
            await world.make(size=3)
            await anyio.sleep(5)
            write = lives.life_of("toy", "default/a")["runs"][-1]["writes"][0]
        assert (write["verb"], write["kind"], write["key"]) == ("apply", "configmaps", "default/child")
        assert write["text"].startswith("apply configmaps default/child -> ")
        assert (write["fields"], write["at"], write["seconds"]) == (None, None, None)

    played(scenario)
