"""The operator's tests: single runs, an hour without the billing system, and every single fault."""

from collections import Counter

import anyio
import pytest
from accounts import POLL, Account, AccountSpec, accounts
from attrs import define, field
from billing import Bill, BillingFailed

from reconcile import ObjectMeta
from reconcile.testing import (
    Apply,
    Delete,
    Edit,
    FakeClient,
    FaultControl,
    ManagerRunner,
    Scenario,
    VirtualCluster,
    World,
    run_once,
    sweep,
)

HOUR = 3600.0
ACME = Account(metadata=ObjectMeta("acme", "default"), spec=AccountSpec("pro"))


@define
class FakeBilling:
    """A billing system that opens an account for each call, even twice for one reference, as real ones do."""

    bills: dict[str, tuple[str, str]] = field(factory=dict)
    """Reference and plan, by number."""
    calls: Counter[str] = field(factory=Counter)
    down: bool = False

    async def find(self, reference: str) -> Bill | None:
        self._called("find")
        return next(
            (Bill(number, plan) for number, (of, plan) in self.bills.items() if of == reference), None
        )

    async def open(self, reference: str, plan: str) -> Bill:
        self._called("open")
        return self._keep(f"no-{self.calls['open']}", reference, plan)

    async def change(self, number: str, plan: str) -> Bill:
        self._called("change")
        return self._keep(number, self.bills[number][0], plan)

    async def close(self, number: str) -> None:
        self._called("close")
        del self.bills[number]

    def _called(self, what: str) -> None:
        self.calls[what] += 1
        if self.down:
            raise BillingFailed("503 from billing.example.com")

    def _keep(self, number: str, reference: str, plan: str) -> Bill:
        self.bills[number] = (reference, plan)
        return Bill(number, plan)


async def test_an_account_is_opened_once_and_then_left_alone() -> None:
    billing, client = FakeBilling(), FakeClient(ACME)
    done = await run_once(accounts(billing), ACME, client)
    assert billing.bills == {"no-1": ("default/acme", "pro")}
    assert done.undeclared == []
    assert done.conditions["Synced"]["status"] == "True"
    assert (await run_once(accounts(billing), ACME, client)).writes == []
    assert billing.calls == {"find": 2, "open": 1}


async def test_a_change_in_the_billing_system_is_corrected() -> None:
    billing, client = FakeBilling(), FakeClient(ACME)
    await run_once(accounts(billing), ACME, client)
    billing.bills["no-1"] = ("default/acme", "free")
    done = await run_once(accounts(billing), ACME, client)
    assert billing.bills["no-1"] == ("default/acme", "pro")
    assert done.events == ["Normal PlanChanged: from free to pro"]


async def test_an_account_is_closed_before_its_object_is_removed() -> None:
    billing, client = FakeBilling(), FakeClient(ACME)
    await run_once(accounts(billing), ACME, client)
    await client.delete(await client.get(Account, "acme", "default"))
    billing.down = True
    assert (await run_once(accounts(billing), ACME, client)).retry
    assert (await client.get(Account, "acme", "default")).terminating
    billing.down = False
    await run_once(accounts(billing), ACME, client)
    assert billing.bills == {}
    assert await client.find(Account, "acme", "default") is None


async def test_a_lost_answer_does_not_open_a_second_account() -> None:
    class Lossy(FakeBilling):
        async def open(self, reference: str, plan: str) -> Bill:
            await super().open(reference, plan)
            raise BillingFailed("no answer within 10 s")

    billing, client = Lossy(), FakeClient(ACME)
    assert (await run_once(accounts(billing), ACME, client)).retry
    assert (await run_once(accounts(billing), ACME, client)).error is None
    assert billing.bills == {"no-1": ("default/acme", "pro")}


@pytest.mark.simulated(limit_seconds=2 * HOUR)
async def test_an_hour_without_billing_is_reported_and_causes_few_requests(
    cluster: VirtualCluster, manager: ManagerRunner, faults: FaultControl
) -> None:
    billing = FakeBilling()
    many = [Account(metadata=ObjectMeta(f"customer-{number}", "default")) for number in range(20)]
    for one in many:
        cluster.client.add(one)
    async with manager(accounts(billing)):
        await anyio.sleep(60)
        billing.down = True
        billing.calls.clear()
        faults.requests.clear()
        await anyio.sleep(HOUR)
        for one in await cluster.client.list(Account, "default"):
            (told,) = one.status.conditions
            assert (told.status, told.message) == ("False", "503 from billing.example.com")
        assert len(faults.writes) == len(many)  # one condition each, and then nothing new to say
        polls = len(many) * HOUR / POLL
        assert polls <= billing.calls["find"] <= 2 * polls
        billing.down = False
        await anyio.sleep(1.1 * POLL)
        assert {one.status.conditions[0].status for one in await cluster.client.list(Account)} == {"True"}


def one_account_each(world: World) -> None:
    wanted = {(str(one.key), one.spec.plan) for one in world.objects(Account)}
    assert sorted(world.outside.bills.values()) == sorted(wanted)


def test_an_account_survives_every_fault() -> None:
    scenario = Scenario(
        controllers=accounts,
        outside=FakeBilling,
        steps=[Apply(ACME), Edit(ACME, {"spec": {"plan": "team"}}), Delete(ACME)],
        invariants=[one_account_each],
        quiet_seconds=90,  # its failures wait for longer than those of others
    )
    print(sweep(scenario))
