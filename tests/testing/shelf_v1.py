"""The first release of an operator, as its second keeps it to test the upgrade."""

from attrs import frozen

from reconcile import Condition, Context, Controller, Intent, Object, ObjectMeta, resource
from reconcile.kinds import ConfigMap


@frozen
class ShelfSpec:
    books: int = 1


@frozen
class ShelfStatus:
    books: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("library.example.com/v1")
class Shelf(Object):
    spec: ShelfSpec = ShelfSpec()
    status: ShelfStatus = ShelfStatus()


async def keep_shelf(ctx: Context[Shelf]) -> None:
    shelf = ctx.object
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(shelf.name), data={"books": str(shelf.spec.books)}))
    ctx.status(books=shelf.spec.books)
    ctx.condition("Ready", True, reason="Kept")


def shelves() -> Controller[Shelf]:
    return Controller(Shelf, keep_shelf, owns=[ConfigMap], name="shelves")
