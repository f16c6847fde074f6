"""Operators that go round for ever, each in one way, and others that only look like it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio

from reconcile import Context, Controller, ObjectMeta, Request, Result, Storms, Watch, Write
from reconcile.kinds import ConfigMap
from reconcile.testing import Apply, Scenario
from tests.simulation.toys import PLOT, Plot

Keep = Callable[[Context[Plot]], Awaitable[Any]]

UNGUARDED = Storms(detect=False)


def writes_crop(crop: str) -> Keep:
    """Has its own opinion of what grows in the bed."""

    async def keep(ctx: Context[Plot]) -> None:
        page = await ctx.client.find(ConfigMap, "bed", "default")
        if page is None:
            await ctx.create(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"crop": crop}))
        elif page.data.get("crop") != crop:
            await ctx.client.raw.merge(page, {"data": {"crop": crop}})

    return keep


def alone(keep: Keep, *more: Any, storms: Storms = UNGUARDED, **options: Any) -> Scenario:
    """A scenario of one controller, without a storm guard unless `storms` says otherwise."""

    def make() -> Controller[Plot]:
        return Controller(Plot, keep, owns=[ConfigMap], name="plots", storms=storms)

    return Scenario(controllers=make, steps=[Apply(PLOT), *more], **options)


def fight() -> Scenario:
    """Two controllers, each of which sets a field back that the other has set."""

    def make() -> list[Controller[Any]]:
        return [
            Controller(Plot, writes_crop("rye"), owns=[ConfigMap], name="left"),
            Controller(
                Plot,
                writes_crop("oats"),
                watches=[watch_bed()],
                writes=[Write(ConfigMap, ("create", "patch"))],
                name="right",
            ),
        ]

    return Scenario(controllers=make, steps=[Apply(PLOT)])


def watch_bed() -> Watch[Any, Any]:
    return Watch(ConfigMap, to=lambda _: [Request("default", "east")])


async def stamp(ctx: Context[Plot]) -> None:
    """Writes what time it is."""
    now = ctx.clock.now().isoformat()
    await ctx.apply(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"now": now}))


async def draw_lots(ctx: Context[Plot]) -> None:
    """Writes another random value each time."""
    lot = ctx.clock.uuid().hex[:6]
    await ctx.apply(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"lot": lot}))


async def dig_over(ctx: Context[Plot]) -> None:
    """Deletes its bed and makes another one of a generated name."""
    for bed in await ctx.owned(ConfigMap):
        await ctx.delete(bed)
    await ctx.create(ConfigMap(metadata=ObjectMeta("", "default", generate_name="bed-")))


async def turn_round(ctx: Context[Plot]) -> None:
    """A field goes through three values."""
    page = await ctx.client.find(ConfigMap, "bed", "default")
    turn = 0 if page is None else (int(page.data["turn"]) + 1) % 3
    await ctx.apply(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"turn": str(turn)}))


# --- not loops ------------------------------------------------------------------------------------


def counts_to(most: int) -> Keep:
    """Goes on until it is done: a step a run, each of which wakes the next."""

    async def keep(ctx: Context[Plot]) -> None:
        page = await ctx.client.find(ConfigMap, "bed", "default")
        size = 0 if page is None else int(page.data["size"])
        if size < most:
            await ctx.apply(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"size": str(size + 1)}))

    return keep


def digs_beds(most: int) -> Keep:
    """A rollout: one more bed of a generated name each run."""

    async def keep(ctx: Context[Plot]) -> None:
        beds = await ctx.owned(ConfigMap)
        if len(beds) < most:
            await ctx.create(ConfigMap(metadata=ObjectMeta("", "default", generate_name="bed-")))
        ctx.status(size=len(beds))

    return keep


def beats(times: int) -> Keep:
    """Tells that it is alive, once a second, until a time."""

    async def keep(ctx: Context[Plot]) -> Result | None:
        made = ctx.object.metadata.creation_timestamp
        assert made is not None
        if ctx.clock.now() > made + timedelta(seconds=times):
            return None
        ctx.status(seen=ctx.clock.now().isoformat())
        return Result(requeue_after=1)

    return keep


def turns_until(end: Keep) -> Scenario:
    """A field has two values in turn, until another controller makes a ConfigMap `end`."""

    async def turn(ctx: Context[Plot]) -> None:
        if await ctx.client.find(ConfigMap, "end", "default") is None:
            page = await ctx.client.find(ConfigMap, "bed", "default")
            crop = "oats" if page is not None and page.data["crop"] == "rye" else "rye"
            await ctx.apply(ConfigMap(metadata=ObjectMeta("bed", "default"), data={"crop": crop}))

    def make() -> list[Controller[Any]]:
        return [
            Controller(Plot, turn, owns=[ConfigMap], name="turns", storms=UNGUARDED),
            Controller(Plot, end, writes=[Write(ConfigMap, ("create",))], name="ends", storms=UNGUARDED),
        ]

    return Scenario(controllers=make, steps=[Apply(PLOT)])


async def make_end(ctx: Context[Plot]) -> None:
    if await ctx.client.find(ConfigMap, "end", "default") is None:
        await ctx.client.create(ConfigMap(metadata=ObjectMeta("end", "default")))


def ends_later() -> Keep:
    """Asks to run again in some seconds, and then makes the end."""
    asked: list[Request] = []

    async def end(ctx: Context[Plot]) -> Result | None:
        if not asked:
            asked.append(ctx.request)
            return Result(requeue_after=5)
        return await make_end(ctx)

    return end


async def ends_slowly(ctx: Context[Plot]) -> None:
    """Thinks for some seconds, and then makes the end."""
    await anyio.sleep(5)
    await make_end(ctx)
