"""The second release: depots have a keeper, whom the list and the status name."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from reconcile import Condition, Context, Controller, Intent, Object, ObjectMeta, resource
from reconcile.kinds import ConfigMap


@frozen
class DepotSpec:
    crates: int = 0
    keeper: str | None = None


@frozen
class DepotStatus:
    crates: int = 0
    keeper: str | None = None
    conditions: tuple[Condition, ...] = ()


@resource("depots.example.com/v1")
class Depot(Object):
    spec: DepotSpec = DepotSpec()
    status: DepotStatus = DepotStatus()


async def keep_depot(ctx: Context[Depot]) -> None:
    depot = ctx.object
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(depot.name), data=list_of(depot)))
    ctx.status(crates=depot.spec.crates, keeper=depot.spec.keeper or "none")
    ctx.condition("Ready", True, reason="Listed")


def list_of(depot: Depot) -> dict[str, str]:
    return {"crates": str(depot.spec.crates), "keeper": depot.spec.keeper or "none"}


def controllers(cleaned: set[str]) -> Sequence[Controller[Any]]:
    """`cleaned` gets the name of each depot whose cleanup has run."""

    async def clean(ctx: Context[Depot]) -> None:
        cleaned.add(ctx.object.name)

    return [Controller(Depot, keep_depot, owns=[ConfigMap], cleanup=clean, name="depots")]
