"""Sub-handlers of kopf become steps: at each moment of a recorded life no act outside is done twice.

The port is as `reconcile adopt kopf draft` writes it for `stepped_kopf`: an act is found by nothing but the
records of its step.
"""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field, frozen

from reconcile import Context, Controller, Object, Predecessor, Result, resource
from reconcile.blocks import Step, StepRun, Steps, StepStatus
from reconcile.errors import HalfCreated
from reconcile.models import definition_of, encode
from reconcile.testing import FakeClient, run_once
from tests.adoption.kopf_life import NAME, PLACE, STEPPED, title

pytestmark = pytest.mark.rule("takeover-kopf")

LIFE = STEPPED.recorded()
COPY = "kopf.zalando.org/last-handled-configuration"
CREATED = ("name", "namespace", "annotations", "finalizers")
LIVING = [
    number
    for number, moment in enumerate(LIFE)
    if moment.get("object") and "deletionTimestamp" not in moment["object"]["metadata"]
]
"""The moments at which the object is written; what follows each before the next is an act outside."""


@frozen
class TenantSpec:
    size: int = 1
    color: str | None = None


@frozen
class TenantStatus:
    steps: tuple[StepStatus, ...] = ()


@resource("example.com/v1")
class Tenant(Object):
    spec: TenantSpec = TenantSpec()
    status: TenantStatus = TenantStatus()


@define
class Port:
    """`acts` are those of the operator on kopf first, and then its own."""

    acts: list[tuple[Any, ...]] = field(factory=list)

    def controller(self) -> Controller[Tenant]:
        kopf = Predecessor.kopf("tenants on kopf")
        opening, filling = self._step("open"), self._step("fill")
        larger, told = self._step("resize", sized=True), self._step("tell", sized=True)
        order = Steps(
            Tenant, [Step("order-opening", opening), Step("order-filling", filling)], predecessor=kopf
        )
        resize = Steps(
            Tenant,
            [Step("resize-larger", larger, once_for=_size), Step("resize-told", told, once_for=_size)],
            predecessor=kopf,
        )

        async def keep(ctx: Context[Tenant]) -> Result | None:
            return await order.carry_out(ctx) or await resize.carry_out(ctx)

        async def close(ctx: Context[Tenant]) -> None:
            self.acts.append(("close", ctx.object.name))

        return Controller(Tenant, keep, cleanup=close, predecessor=kopf)

    def _step(self, act: str, *, sized: bool = False) -> Callable[..., Any]:
        async def carry_out(ctx: Context[Tenant], step: StepRun) -> Result | None:
            self.acts.append((act, ctx.object.name, *([step.value] if sized else ())))
            return None

        return carry_out


def _size(tenant: Tenant) -> object:
    return encode(tenant)["spec"]["size"]


async def until_quiet(port: Port, client: FakeClient) -> None:
    for _ in range(12):
        done = await run_once(port.controller(), f"{PLACE}/{NAME}", client)
        assert done.error is None
        if not done.writes:
            return
    raise AssertionError("no end")


@pytest.mark.parametrize("number", LIVING, ids=lambda number: f"{number} {title(LIFE[number])}")
@pytest.mark.parametrize("acted", [False, True])
async def test_an_act_that_kopf_has_done_is_not_done_again(number: int, acted: bool) -> None:
    obj = LIFE[number]["object"]
    end = next((one for one in LIVING if one > number), len(LIFE)) if acted else number
    port = Port([tuple(moment["effect"]) for moment in LIFE[:end] if "effect" in moment])
    if ("close", NAME) in port.acts:
        return  # the object was being deleted by then
    before, annotations = list(port.acts), obj["metadata"].get("annotations", {})
    kept = {name: part for name, part in obj["metadata"].items() if name in CREATED}
    client = FakeClient(definition_of(Tenant), {**obj, "metadata": kept})
    if obj["metadata"].get("finalizers") and COPY not in annotations:
        done = await run_once(port.controller(), f"{PLACE}/{NAME}", client)
        assert isinstance(done.error, HalfCreated)
        assert port.acts == before
        return
    await until_quiet(port, client)
    under_way = any(name.startswith("kopf.zalando.org/resize") for name in annotations)
    size = obj["spec"]["size"]
    acts = [("open", NAME), ("fill", NAME), *(("resize", NAME, one) for one in range(1, size + 1))]
    assert {act: port.acts.count(act) for act in acts} == {
        act: 2 if under_way and act in before and act[2:] == (size,) else 1 for act in acts
    }
    stored = await client.get(Tenant, NAME, PLACE)
    assert "kopf" not in str((stored.metadata.annotations, stored.metadata.finalizers))
    await client.delete(stored)
    await run_once(port.controller(), f"{PLACE}/{NAME}", client)
    assert await client.find(Tenant, NAME, PLACE) is None
    assert port.acts.count(("close", NAME)) == 1
