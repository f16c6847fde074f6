"""An uninstall that keeps data takes the conversion away, and every object stays readable."""

import anyio
import pytest

from reconcile.shipping.uninstall import Uninstall, UninstallStuck
from reconcile.shipping.uninstall_plan import Mode
from tests.helpers.scenarios import simulated
from tests.shipping.test_uninstall import Dying
from tests.webhooks.migrating_shops import DEFINITION, SECOND, Shops, first_release

COUNT = 30


async def mixed() -> Shops:
    """Half of the objects are stored in v1beta1, half in v1, which is stored from now on."""
    shops = await first_release(COUNT // 2)
    await shops.rollout(SECOND).serve()
    definition = await shops.definition()
    for version in definition["spec"]["versions"]:
        version["storage"] = version["name"] == "v1"
    labels = {"labels": {"app.kubernetes.io/name": "shop"}}
    await shops.ask(
        "PATCH", DEFINITION, {"spec": {"versions": definition["spec"]["versions"]}, "metadata": labels}
    )
    for number in range(COUNT // 2):
        await shops.make("v1", f"later-{number}", replicas=number)
    assert len(shops.stored_as()) == 2
    return shops


def uninstall(shops: Shops) -> Uninstall:
    return Uninstall("shop", "shop-system", Mode.KEEP, shops.transport, shops.clock)


@simulated
async def test_all_objects_are_stored_in_one_version_before_the_conversion_goes() -> None:
    shops = await mixed()
    before = await shops.specs("v1")
    deaths = 0
    while True:
        dying = Dying(shops.transport)
        with dying.scope:
            await Uninstall("shop", "shop-system", Mode.KEEP, dying, shops.clock).run(60)
        if not dying.scope.cancelled_caught:
            break
        deaths += 1
        if deaths > COUNT // 3:
            break  # to store objects anew begins at the first one each time
    await uninstall(shops).run(60)
    assert deaths > 3
    definition = await shops.definition()
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    assert definition["status"]["storedVersions"] == ["v1"]
    assert [one["name"] for one in definition["spec"]["versions"] if one["served"]] == ["v1"]
    shops.asked.clear()
    assert await shops.specs("v1") == before
    assert len(before) == COUNT
    assert shops.asked == []


@simulated
async def test_an_object_that_cannot_be_converted_keeps_the_conversion() -> None:
    shops = await mixed()
    shops.broken.add("shop-1")
    with pytest.raises(UninstallStuck, match="cannot be stored in v1") as stuck:
        await uninstall(shops).run(60)
    assert "unreadable" in str(stuck.value)
    assert (await shops.definition())["spec"]["conversion"]["strategy"] == "Webhook"
    shops.broken.clear()
    await uninstall(shops).run(60)
    assert len(await shops.specs("v1")) == COUNT


@simulated
async def test_a_conversion_that_another_namespace_serves_is_left_alone() -> None:
    shops = await mixed()
    with anyio.fail_after(60):
        await Uninstall("shop", "elsewhere", Mode.KEEP, shops.transport, shops.clock).run(50)
    assert (await shops.definition())["spec"]["conversion"]["strategy"] == "Webhook"
