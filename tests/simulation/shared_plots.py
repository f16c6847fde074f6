"""Plots shared among replicas, in stories that are cheap to play: few objects, few buckets, short Leases."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from reconcile import Context, Controller, Intent, ObjectMeta
from reconcile.client.certainty import LeaseTerms
from reconcile.kinds import ConfigMap, ServiceAccount
from reconcile.sharding import Sharding
from reconcile.testing import Apply, Delete, Edit, Scenario, ScenarioAct
from tests.simulation import toys
from tests.simulation.toys import Plot, PlotSpec

RING = Sharding("plots", buckets=8)
TERMS = LeaseTerms(5, 3, 1)
PLOTS = [Plot(metadata=ObjectMeta(f"p{number}"), spec=PlotSpec(1)) for number in range(4)]
STORY: tuple[ScenarioAct, ...] = (
    Apply(PLOTS[0]),
    Edit(PLOTS[1], {"spec": {"crop": "rye"}}),
    Edit(PLOTS[0], {"spec": {"size": 2}}),
    Delete(PLOTS[2]),
)


def sown(number: int) -> ScenarioAct:
    """Another crop on a plot, so that its bed has to change."""
    return Edit(PLOTS[number], {"spec": {"crop": f"crop-{number}"}})


async def keep_slowly(ctx: Context[Plot]) -> None:
    """As `toys.keep`, in runs that take half a second."""
    await anyio.sleep(0.5)
    await toys.keep(ctx)


async def count(ctx: Context[Plot]) -> None:
    """Notes each plot in a ServiceAccount, in the replica that leads."""
    note = {"crop": ctx.object.spec.crop}
    await ctx.apply(Intent(ServiceAccount, metadata=ObjectMeta(f"of-{ctx.object.name}", annotations=note)))


def shared(
    *steps: ScenarioAct,
    reconcile: Callable[[Context[Plot]], Awaitable[Any]] = toys.keep,
    beside: bool = False,
    **options: Any,
) -> Scenario:
    """Three replicas share four plots; with `beside` one of them also runs a controller that needs all."""

    def make() -> list[Controller[Any]]:
        made: list[Controller[Any]] = [Controller(Plot, reconcile, owns=[ConfigMap], name="plots")]
        if beside:
            made.append(Controller(Plot, count, owns=[ServiceAccount], name="counts", sharded=False))
        return made

    given: dict[str, Any] = {
        "replicas": 3,
        "sharding": RING,
        "lease_terms": TERMS,
        "quiet_seconds": 12,
        "objects": PLOTS[1:],
    }
    return Scenario(controllers=make, steps=steps or STORY, **(given | options))
