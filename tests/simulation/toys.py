"""A kind for the tests of the kit, a controller that is right, and some that are each wrong in one way."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

import anyio
from attrs import frozen

from reconcile import Condition, Context, Controller, Object, ObjectMeta, Request, Result, field, resource
from reconcile.controller.sources import SourceContext
from reconcile.kinds import ConfigMap
from reconcile.models import Schema
from reconcile.testing import Apply, Delete, Edit, Scenario, ScenarioAct


@frozen
class PlotSpec:
    size: Annotated[int, Schema(minimum=0, maximum=3)] = 1
    crop: str = "barley"
    password: str = field(default="", secret=True)


@frozen
class PlotStatus:
    size: int = 0
    seen: str = ""
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()


@resource("toys.example.com/v1")
class Plot(Object):
    spec: PlotSpec = PlotSpec()
    status: PlotStatus = PlotStatus()


Keep = Callable[[Context[Plot]], Awaitable[Any]]

PLOT = Plot(metadata=ObjectMeta("east"), spec=PlotSpec(2))
STORY: tuple[ScenarioAct, ...] = (
    Apply(PLOT),
    Edit(PLOT, {"spec": {"crop": "rye"}}),
    Edit(PLOT, {"spec": {"size": 1}}),
    Delete(PLOT),
)


def bed(plot: Plot, number: int) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(f"{plot.name}-{number}", plot.namespace), data={"crop": plot.spec.crop}
    )


async def keep(ctx: Context[Plot]) -> None:
    """As it should be: beds by number, those beyond the size deleted."""
    plot = ctx.object
    for number in range(plot.spec.size):
        await ctx.apply(bed(plot, number))
    for child in await ctx.owned(ConfigMap):
        if int(child.name.rpartition("-")[2]) >= plot.spec.size:
            await ctx.delete(child)
    ctx.status(size=plot.spec.size, observed_generation=plot.metadata.generation)


def scenario(reconcile: Keep = keep, *steps: ScenarioAct, **options: Any) -> Scenario:
    """A scenario of one controller of plots; options of a controller come as `controller=`."""
    more = options.pop("controller", {})

    def make() -> Controller[Plot]:
        return Controller(Plot, reconcile, owns=[ConfigMap], name="plots", **more)

    return Scenario(controllers=make, steps=steps or STORY, **options)


# --- each wrong in one way ------------------------------------------------------------------------


async def restless(ctx: Context[Plot]) -> Result:
    """Tells in its status what time it is, every second."""
    ctx.status(seen=ctx.clock.now().isoformat())
    return Result(requeue_after=1)


async def polling(ctx: Context[Plot]) -> Result:
    """Writes its status anew every twenty seconds for no reason."""
    ctx.status(seen=ctx.clock.now().isoformat())
    return Result(requeue_after=20)


async def asking(ctx: Context[Plot]) -> None:
    """Reads from the server at every run."""
    await ctx.client.get(Plot, ctx.object.name, ctx.object.namespace, live=True)


async def once_too_often(ctx: Context[Plot]) -> None:
    """Makes a child of a generated name, and notes it only afterwards."""
    if ctx.object.status.size == 0:
        await ctx.create(ConfigMap(metadata=ObjectMeta("", ctx.object.namespace, generate_name="bed-")))
        ctx.status(size=1)


async def forgets_the_first_state(ctx: Context[Plot]) -> None:
    """Tells in the status which crop it saw first: after a crash another one."""
    if not ctx.object.status.seen:
        await ctx.apply(bed(ctx.object, 0))
        ctx.status(seen=ctx.clock.uuid().hex[:4])


async def orphaning(ctx: Context[Plot]) -> None:
    """Makes a child that it does not own."""
    await ctx.client.apply(bed(ctx.object, 0))


async def never_done(ctx: Context[Plot]) -> None:
    """A cleanup that does not end."""
    raise RuntimeError("not yet")


async def ahead(ctx: Context[Plot]) -> None:
    """Observes a generation that is still to come."""
    ctx.status(observed_generation=(ctx.object.metadata.generation or 0) + 1)


def storms() -> Scenario:
    """A controller that fails, and asks for a run at once, past every back-off."""

    def make() -> Controller[Plot]:
        async def keep(ctx: Context[Plot]) -> None:
            await anyio.sleep(0.1)
            asked.put_nowait(ctx.request)
            raise RuntimeError("cannot")

        async def requests(_: SourceContext) -> AsyncIterator[Request]:
            while True:
                yield await asked.get()

        asked: asyncio.Queue[Request] = asyncio.Queue()
        return Controller(Plot, keep, name="plots", sources=[requests])

    return Scenario(controllers=make, steps=[Apply(PLOT)])


async def insatiable(ctx: Context[Plot]) -> None:
    """Looks two hundred times."""
    for _ in range(200):
        await ctx.client.get(Plot, ctx.object.name, ctx.object.namespace, live=True)
