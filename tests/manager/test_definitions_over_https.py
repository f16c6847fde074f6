"""A manager brings a new version into production through its own webhook, certificates and all."""

import socket
from typing import Any

import pytest

from reconcile import Client, Context, Controller, Manager, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.manager import webhook_server
from reconcile.models import definition_of
from reconcile.testing import eventually
from reconcile.webhooks import definition_rollout
from reconcile.webhooks.calling_objects import Definition
from tests.webhooks.migrating_shops import NAME
from tests.webhooks.shops import Shop, ShopBeta, ShopSpecBeta


async def idle(ctx: Context[Any]) -> None: ...


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(definition_rollout, "FIRST_WAIT", 0.05)
    monkeypatch.setattr(definition_rollout, "SETTLE", 0.0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_objects_are_migrated_through_the_managers_own_webhook() -> None:
    port = free_port()
    api = ApiServer(webhooks={"shop-webhooks.shop-system.svc": ("127.0.0.1", port)})
    transport = InProcessTransport(api, settle=True)
    client = Client(transport)
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop-system"}})
    await client.create(definition_of(ShopBeta))
    for number in range(3):
        metadata = ObjectMeta(name=f"shop-{number}", namespace="default")
        await client.create(ShopBeta(metadata=metadata, spec=ShopSpecBeta(size=number + 1, motto="open")))
    manager = Manager(
        Controller(Shop, idle, operator="shop.example.com"),
        environ={},
        transport=transport,
        definitions="apply",
        webhooks=f"127.0.0.1:{port}",
        webhook_service="shop-system/shop-webhooks",
    )

    async def is_migrated() -> bool:
        definition = await client.get(Definition, NAME)
        return bool(definition["status"]["storedVersions"] == ["v1"])

    async with manager:
        await eventually(is_migrated, within=40)
        shops = await client.list(ShopBeta)
        assert {(shop.spec.size, shop.spec.motto) for shop in shops} == {(n, "open") for n in (1, 2, 3)}
        assert {shop.spec.replicas for shop in await client.list(Shop)} == {1, 2, 3}
