"""A manager with its own API server calls the webhooks of its controllers, without any option."""

import pytest

from reconcile import Controller, Manager, Object, ObjectMeta, resource
from reconcile.errors import Invalid
from reconcile.webhooks import Admission
from tests.webhooks.boxes import BOXES, Box, BoxSpec, bounds
from tests.webhooks.shops import Shop, ShopAlpha, ShopSpecAlpha


@resource("store.example.com/v1", kind="Box")
class StoreBox(Object):
    pass


async def keep(ctx: object) -> None: ...


shops = Controller(Shop, keep)
boxes = Controller(Box, keep, admission=BOXES)


def box(size: int) -> Box:
    return Box(metadata=ObjectMeta("a", "default"), spec=BoxSpec(size=size))


@pytest.mark.rule("kit-webhooks")
@pytest.mark.parametrize("added", [False, True], ids=["at the start", "later"])
async def test_an_embedded_manager_admits_and_converts(added: bool) -> None:
    async with Manager(*([] if added else [shops, boxes]), embedded=True, environ={}) as running:
        for controller in (shops, boxes) if added else ():
            await running.add(controller)
        alpha = ShopAlpha(metadata=ObjectMeta("a", "default"), spec=ShopSpecAlpha(count=4))
        await running.client.create(alpha)
        assert (await running.client.get(Shop, "a", "default", live=True)).spec.replicas == 4
        with pytest.raises(Invalid, match="must be at most 9, got 10"):
            await running.client.create(box(10))
        assert (await running.client.create(box(1))).spec.color == "red"


async def test_a_controller_that_takes_the_place_of_another_takes_its_webhooks_along() -> None:
    async with Manager(boxes, embedded=True, environ={}) as running:
        await running.remove(boxes.name)
        await running.add(Controller(Box, keep, name=boxes.name))
        assert (await running.client.create(box(10))).spec.color != "red"


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        (Controller(Box, keep, name=boxes.name), "two controllers are named"),
        (
            Controller(
                StoreBox,
                keep,
                name="b",
                admission=Admission(StoreBox, refuses=bounds, operator=BOXES.operator),
            ),
            "are both named",
        ),
    ],
)
async def test_a_controller_that_cannot_be_added_changes_no_webhooks(
    added: Controller[Box] | Controller[StoreBox], problem: str
) -> None:
    async with Manager(boxes, embedded=True, environ={}) as running:
        with pytest.raises(ValueError, match=problem):
            await running.add(added)
        await running.add(shops)
        with pytest.raises(Invalid, match="must be at most 9, got 10"):
            await running.client.create(box(10))
