"""Webhooks as an API server calls them: its configurations, a real port, and TLS."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from reconcile import Client, Controller, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import Invalid
from reconcile.manager import webhook_server
from reconcile.manager.webhook_server import serving_webhooks
from reconcile.models import definition_of
from reconcile.ops.certificate_rotation import rotating
from reconcile.ops.serving_addresses import Address
from reconcile.webhooks.configurations import Installed, WebhookService, configurations_of, conversion_of
from reconcile.webhooks.routes import CONVERT, routes_of
from tests.webhooks.boxes import BOXES, Box, BoxSpec
from tests.webhooks.shops import PortV1, Shop, ShopAlpha, ShopBeta, ShopSpecBeta

NAMESPACE, NAME = "shop-system", "shop-webhooks"


async def keep(obj: Box) -> None: ...


async def keep_shop(obj: Shop) -> None: ...


@pytest.fixture(autouse=True)
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "QUIET_SECONDS", 0.05)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Client]:
    """A client of a server that has the configurations and reaches the webhooks."""
    authority = trustme.CA()
    made = authority.issue_cert(f"{NAME}.{NAMESPACE}.svc")
    made.private_key_pem.write_to_path(folder / "tls.key")
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    at = WebhookService(NAMESPACE, NAME, ca_bundle=base64.b64encode(authority.cert_pem.bytes()).decode())
    controllers: list[Controller[Any]] = [
        Controller(Box, keep, admission=BOXES),
        Controller(Shop, keep_shop),
    ]
    routes = routes_of(controllers)
    async with (
        rotating(folder) as certificate,
        serving_webhooks(Address("127.0.0.1", 0), routes, certificate) as bound,
    ):
        api = ApiServer(webhooks={at.host_names[0]: (bound.host, bound.port)})
        client = Client(InProcessTransport(api))
        (stanza,) = (conversion_of(route, at) for route in routes if route.function == CONVERT)
        for document in (
            definition_of(Box),
            definition_of(Shop, ShopBeta, ShopAlpha, conversion=stanza),
            *configurations_of(routes, Installed(at, NAMESPACE, "shop")),
        ):
            await client.create(document)
        yield client


async def test_writes_are_completed_and_refused_with_the_fields_at_fault(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        stored = await client.create(
            Box(metadata=ObjectMeta(name="a", namespace="default"), spec=BoxSpec(size=1))
        )
        assert stored.spec == BoxSpec(size=1, color="red")
        with pytest.raises(Invalid, match=r"spec\.size: must be at most 9, got 10"):
            await client.create(
                Box(metadata=ObjectMeta(name="b", namespace="default"), spec=BoxSpec(size=10))
            )


async def test_objects_are_read_and_written_in_each_version_without_loss(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        spec = ShopSpecBeta(size=3, ports=(80,), motto="ever")
        await client.create(ShopBeta(metadata=ObjectMeta(name="a", namespace="default"), spec=spec))
        newest = await client.get(Shop, "a", "default")
        assert (newest.spec.replicas, newest.spec.ports) == (3, (PortV1(80),))
        assert (await client.get(ShopBeta, "a", "default")).spec.motto == "ever"
        assert (await client.get(ShopAlpha, "a", "default")).spec.count == 3
