"""Sub-handlers of kopf become steps: at each moment of a recorded life no act outside is done twice.

The port is as `reconcile adopt kopf draft` writes it for `stepped_kopf`: an act is found by nothing but the
records of its step.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from attrs import define, field, frozen

from reconcile import Context, Controller, Object, Predecessor, Result, resource
from reconcile.blocks import Step, StepRun, Steps, StepStatus
from reconcile.errors import HalfCreated
from reconcile.models import definition_of, encode
from reconcile.testing import FakeClient, Fault, FaultPlan, LoseReply, Refuse, When, run_once
from tests.adoption.kopf_life import NAME, PLACE, STEPPED, title

pytestmark = pytest.mark.rule("takeover-kopf")

LIFE = STEPPED.recorded()
REPLACED = {
    "open": "order/order.<locals>.opening",
    "fill": "order/order.<locals>.filling",
    "resize": "resize/spec.size/larger",
    "tell": "resize/spec.size/told",
}
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
    unfinished: Literal["hold", "run"] = "hold"

    @property
    def kopf(self) -> Predecessor:
        return Predecessor.kopf("tenants on kopf", unfinished=self.unfinished)

    def controller(self) -> Controller[Tenant]:
        order = Steps(Tenant, [self._step("open"), self._step("fill")], predecessor=self.kopf)
        resize = Steps(
            Tenant, [self._step("resize", sized=True), self._step("tell", sized=True)], predecessor=self.kopf
        )

        async def keep(ctx: Context[Tenant]) -> Result | None:
            return await order.carry_out(ctx) or await resize.carry_out(ctx)

        async def close(ctx: Context[Tenant]) -> None:
            self.acts.append(("close", ctx.object.name))

        return Controller(Tenant, keep, cleanup=close, predecessor=self.kopf)

    def _step(self, act: str, *, sized: bool = False) -> Step[Tenant]:
        async def carry_out(ctx: Context[Tenant], step: StepRun) -> Result | None:
            self.acts.append((act, ctx.object.name, *([step.value] if sized else ())))
            return None

        return Step(act, carry_out, once_for=_size if sized else None, replaces=REPLACED[act])


def _size(tenant: Tenant) -> object:
    return encode(tenant)["spec"]["size"]


def has_succeeded(act: str, annotations: Mapping[str, str]) -> bool:
    """Whether kopf noted on the object that it has done an act."""
    name = REPLACED[act].replace("/", ".").replace("<", "_").replace(">", "_")
    return bool(json.loads(annotations.get(f"kopf.zalando.org/{name}", "{}")).get("success"))


@pytest.mark.parametrize("number", LIVING, ids=lambda number: f"{number} {title(LIFE[number])}")
@pytest.mark.parametrize("acted", [False, True])
@pytest.mark.parametrize("unfinished", ["hold", "run"])
async def test_an_act_that_kopf_has_noted_is_not_done_again(
    number: int, acted: bool, unfinished: Literal["hold", "run"]
) -> None:
    obj = LIFE[number]["object"]
    end = next((one for one in LIVING if one > number), len(LIFE)) if acted else number
    port = Port([tuple(moment["effect"]) for moment in LIFE[:end] if "effect" in moment], unfinished)
    if ("close", NAME) in port.acts:
        return  # the object was being deleted by then
    before, annotations = list(port.acts), obj["metadata"].get("annotations", {})
    kept = {name: part for name, part in obj["metadata"].items() if name in CREATED}
    client = FakeClient(definition_of(Tenant), {**obj, "metadata": kept})
    created = COPY in annotations
    if obj["metadata"].get("finalizers") and not created and unfinished == "hold":
        done = await run_once(port.controller(), f"{PLACE}/{NAME}", client)
        assert isinstance(done.error, HalfCreated)
        assert port.acts == before
        return
    assert await errors_until_quiet(port, client) == 0
    size, under_way = obj["spec"]["size"], len(annotations) > 1 or not created
    acts = [("open", NAME), ("fill", NAME)]
    acts += [(act, NAME, one) for act in ("resize", "tell") for one in range(1, size + 1)]
    for act in acts:
        changing = under_way and (act[2:] == (size,) or not created)
        lost = act in before and changing and not has_succeeded(act[0], annotations)
        assert port.acts.count(act) == (2 if lost else 1), act
    stored = await client.get(Tenant, NAME, PLACE)
    assert "kopf" not in str((stored.metadata.annotations, stored.metadata.finalizers))
    await client.delete(stored)
    await run_once(port.controller(), f"{PLACE}/{NAME}", client)
    assert await client.find(Tenant, NAME, PLACE) is None
    assert port.acts.count(("close", NAME)) == 1


@pytest.mark.parametrize(
    "fault", [LoseReply(), Refuse(500, "InternalError", "down")], ids=["lost", "refused"]
)
async def test_no_act_of_kopf_is_done_again_whichever_write_of_the_port_fails(
    fault: LoseReply | Refuse,
) -> None:
    failed = 0
    number = LIVING[-2]  # kopf was in the middle of a change
    obj, acts = LIFE[number]["object"], [tuple(one["effect"]) for one in LIFE[:number] if "effect" in one]
    kept = {name: part for name, part in obj["metadata"].items() if name in CREATED}
    assert has_succeeded("tell", kept["annotations"])
    for nth in range(1, 9):
        port = Port(list(acts))
        plan = FaultPlan((Fault(When("patch", "*", nth=nth), fault),))
        client = FakeClient(definition_of(Tenant), {**obj, "metadata": kept}, plan=plan)
        failed += await errors_until_quiet(port, client)
        assert {act: port.acts.count(act) for act in acts} == dict.fromkeys(acts, 1)
        assert ("resize", NAME, 2) in port.acts
    assert failed >= 5  # the finalizer, two takeovers, a beginning, an end, kopf's annotations


async def errors_until_quiet(port: Port, client: FakeClient) -> int:
    errors = 0
    for _ in range(20):
        done = await run_once(port.controller(), f"{PLACE}/{NAME}", client)
        errors += done.error is not None
        if done.error is None and not done.writes:
            return errors
    raise AssertionError("no end")
