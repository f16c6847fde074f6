"""The second release: shelves have a wood, and say in the status which one the page shows."""

from attrs import frozen

from reconcile import Condition, Context, Controller, Intent, Object, ObjectMeta, resource
from reconcile.kinds import ConfigMap


@frozen
class ShelfSpec:
    books: int = 1
    wood: str | None = None


@frozen
class ShelfStatus:
    books: int = 0
    wood: str | None = None
    conditions: tuple[Condition, ...] = ()


@resource("library.example.com/v1")
class Shelf(Object):
    spec: ShelfSpec = ShelfSpec()
    status: ShelfStatus = ShelfStatus()


async def keep_shelf(ctx: Context[Shelf]) -> None:
    shelf = ctx.object
    wood = shelf.spec.wood or "oak"
    data = {"books": str(shelf.spec.books), "wood": wood}
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(shelf.name), data=data))
    ctx.status(books=shelf.spec.books, wood=wood)
    ctx.condition("Ready", True, reason="Kept")


def shelves() -> Controller[Shelf]:
    return Controller(Shelf, keep_shelf, owns=[ConfigMap], name="shelves")
