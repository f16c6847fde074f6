"""A manager that stops because its namespace is deleted leaves nothing behind that waits for it."""

from typing import Any

import anyio
import pytest

from reconcile import Client, Context, Controller, Manager, Object, ObjectMeta, resource
from reconcile.embedded import ADMIN, InProcessTransport
from reconcile.errors import LeadershipLost
from reconcile.kinds import Namespace
from reconcile.manager.leadership import LeaderElection
from reconcile.sharding import Sharding
from reconcile.testing import FakeClient, eventually
from tests.helpers.scenarios import simulated

HOME = "yard-system"


@resource("yard.example.com/v1")
class Yard(Object):
    pass


async def keep(ctx: Context[Yard]) -> None: ...


async def never(ctx: Context[Yard]) -> None:
    raise RuntimeError("the yard cannot be cleared")


def manager(client: FakeClient, **options: Any) -> Manager:
    options = options or {"leader_election": LeaderElection("yard", HOME)}
    made = Manager(Controller(Yard, keep, cleanup=never), environ={}, clock=client.clock, **options)
    return made.on(client.transport)


async def held(admin: Client, namespace: str) -> bool:
    return bool((await admin.get(Yard, "yard", namespace)).metadata.finalizers)


async def set_up() -> tuple[FakeClient, Client]:
    client = FakeClient()
    client.serve(Yard)
    admin = Client(InProcessTransport(client.server, settle=True, user=ADMIN), clock=client.clock)
    for namespace in (HOME, "other"):
        await admin.create(Namespace(metadata=ObjectMeta(namespace)))
        await admin.create(Yard(metadata=ObjectMeta("yard", namespace)))
    return client, admin


async def end_with_namespace(client: FakeClient, admin: Client, **options: Any) -> None:
    async with manager(client, **options):
        await eventually(lambda: held(admin, HOME))
        await eventually(lambda: held(admin, "other"))
        await admin.delete(await admin.get(Yard, "yard", "other"))
        await admin.delete(await admin.get(Namespace, HOME))
        await anyio.sleep(1)


async def assert_let_go(client: FakeClient, admin: Client) -> None:
    await anyio.sleep(30)
    assert await admin.find(Namespace, HOME) is None
    assert await held(admin, "other")
    events = client.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    (event,) = [one for one in events if one["reason"] == "LetGo"]
    assert event["regarding"]["name"] == HOME
    assert "yards.yard.example.com yard-system/yard" in event["note"]


@simulated
async def test_objects_in_a_namespace_that_ends_with_the_manager_are_let_go_with_an_event() -> None:
    client, admin = await set_up()
    await end_with_namespace(client, admin)
    await assert_let_go(client, admin)


@simulated
async def test_a_replica_whose_lease_went_with_the_namespace_lets_objects_go_too() -> None:
    client, admin = await set_up()
    with pytest.raises(LeadershipLost):
        await end_with_namespace(client, admin, sharding=Sharding("yard", HOME))
    await assert_let_go(client, admin)


@simulated
async def test_a_manager_that_stops_otherwise_lets_nothing_go() -> None:
    client, admin = await set_up()
    async with manager(client):
        await eventually(lambda: held(admin, HOME))
        await admin.delete(await admin.get(Yard, "yard", HOME))
        await anyio.sleep(3)
    await anyio.sleep(30)
    assert await held(admin, HOME)
    events = client.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    assert [one for one in events if one["reason"] in ("LetGo", "Ending")] == []


@simulated
async def test_without_a_lease_the_namespace_of_a_manager_is_not_known() -> None:
    client, admin = await set_up()
    async with manager(client, name="yard"):
        await eventually(lambda: held(admin, HOME))
        await admin.delete(await admin.get(Namespace, HOME))
        await anyio.sleep(3)
    assert await held(admin, HOME)
