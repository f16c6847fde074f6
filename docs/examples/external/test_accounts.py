"""The operator's tests: single runs, an hour without the billing system, and every single fault."""

import anyio
import pytest
from accounts import POLL, Account, AccountSpec, accounts
from attrs import frozen
from billing import Billing

from reconcile import Controller, ObjectMeta
from reconcile.testing import (
    Apply,
    Delete,
    Edit,
    FakeClient,
    FakeService,
    FaultControl,
    LoseReply,
    ManagerRunner,
    Refuse,
    Scenario,
    ServiceCollection,
    VirtualCluster,
    run_once,
    sweep,
)

HOUR = 3600.0
ACME = Account(metadata=ObjectMeta("acme", "default"), spec=AccountSpec("pro"))


@frozen
class StoredBill:
    """An account as the billing system has it."""

    reference: str
    plan: str
    number: str = ""


BILLS = ServiceCollection(
    name="accounts",
    kind=StoredBill,
    id="number",
    id_prefix="no",
    owner=lambda bill: (Account, bill.reference),
    identity=lambda bill: bill.reference,
)


def fake_billing() -> FakeService:
    """A billing system that opens an account for each request, even twice for one reference."""
    return FakeService("billing", [BILLS], keys_for=0)


def controller(service: FakeService) -> Controller[Account]:
    return accounts(Billing("https://billing.example.com", service.aiohttp_connector))


def bills(service: FakeService) -> list[StoredBill]:
    return service.resources(BILLS).all()


async def test_an_account_is_opened_once_and_then_left_alone() -> None:
    service, client = fake_billing(), FakeClient(ACME)
    done = await run_once(controller(service), ACME, client)
    assert bills(service) == [StoredBill("default/acme", "pro", "no-1")]
    assert done.undeclared == []
    assert done.conditions["Synced"]["status"] == "True"
    assert (await run_once(controller(service), ACME, client)).writes == []
    assert [request.verb for request in service.line.requests] == ["get", "create", "get"]


async def test_a_change_in_the_billing_system_is_corrected() -> None:
    service, client = fake_billing(), FakeClient(ACME)
    await run_once(controller(service), ACME, client)
    service.resources(BILLS).update("no-1", {"plan": "free"})
    done = await run_once(controller(service), ACME, client)
    assert bills(service) == [StoredBill("default/acme", "pro", "no-1")]
    assert done.events == ["Normal PlanChanged: from free to pro"]


async def test_an_account_is_closed_before_its_object_is_removed() -> None:
    service, client = fake_billing(), FakeClient(ACME)
    await run_once(controller(service), ACME, client)
    await client.delete(await client.get(Account, "acme", "default"))
    service.fail("*", "*", Refuse(503))
    assert (await run_once(controller(service), ACME, client)).retry
    assert (await client.get(Account, "acme", "default")).terminating
    await run_once(controller(service), ACME, client)
    assert bills(service) == []
    assert await client.find(Account, "acme", "default") is None


async def test_a_lost_answer_does_not_open_a_second_account() -> None:
    service, client = fake_billing(), FakeClient(ACME)
    service.fail("create", "/accounts", LoseReply())
    assert (await run_once(controller(service), ACME, client)).retry
    assert (await run_once(controller(service), ACME, client)).error is None
    assert bills(service) == [StoredBill("default/acme", "pro", "no-1")]


@pytest.mark.simulated(limit_seconds=2 * HOUR)
async def test_an_hour_without_billing_is_reported_and_causes_few_requests(
    cluster: VirtualCluster, manager: ManagerRunner, faults: FaultControl
) -> None:
    service = fake_billing()
    many = [Account(metadata=ObjectMeta(f"customer-{number}", "default")) for number in range(20)]
    for one in many:
        cluster.client.add(one)
    async with manager(controller(service)):
        await anyio.sleep(60)
        service.fail("*", "*", Refuse(503), times=None)
        service.line.requests.clear()
        faults.requests.clear()
        await anyio.sleep(HOUR)
        for one in await cluster.client.list(Account, "default"):
            (told,) = one.status.conditions
            assert (told.status, told.message) == ("False", "503 from billing.example.com")
        assert len(faults.writes) == len(many)  # one condition each, and then nothing new to say
        polls = len(many) * HOUR / POLL
        assert polls <= len(service.line.requests) <= 2 * polls
        service.mend()
        await anyio.sleep(1.1 * POLL)
        assert {one.status.conditions[0].status for one in await cluster.client.list(Account)} == {"True"}


def test_an_account_survives_every_fault_of_the_cluster_and_of_the_billing_system() -> None:
    scenario = Scenario(
        controllers=controller,
        outside=fake_billing,
        steps=[Apply(ACME), Edit(ACME, {"spec": {"plan": "team"}}), Delete(ACME)],
        quiet_seconds=90,  # its failures wait for longer than those of others
    )
    print(sweep(scenario))
