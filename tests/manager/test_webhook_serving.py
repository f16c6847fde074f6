"""A manager that serves webhooks: options, readiness, metrics, and standbys."""

import base64
import math
import re
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from reconcile import Client, Controller, Manager
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import ConfigurationError, ServeError
from reconcile.kinds import Secret
from reconcile.manager import webhook_server
from reconcile.manager.certificate_keeper import NotReady
from reconcile.models import ObjectMeta, definition_of
from reconcile.testing import eventually
from reconcile.webhooks import Admission
from reconcile.webhooks.calling_objects import MutatingConfiguration
from reconcile.webhooks.configurations import Installed, WebhookService, configurations_of
from reconcile.webhooks.routes import routes_of
from tests.webhooks.boxes import BOXES, Box, box, review
from tests.webhooks.test_server import JSON, issue

PATH = "/defaults/boxes.shop.example.com"


async def keep(one: Box) -> None: ...


@pytest.fixture(autouse=True)
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_server, "QUIET_SECONDS", 0.05)


def manager_of(folder: Path, *admissions: Admission[Any], **options: Any) -> Manager:
    return Manager(
        Controller(Box, keep, admission=admissions),
        **{
            "transport": InProcessTransport(ApiServer()),
            "webhooks": "127.0.0.1:0",
            "webhook_certificates": str(folder),
            "environ": {},
            **options,
        },
    )


async def cluster() -> ApiServer:
    server = ApiServer()
    await Client(InProcessTransport(server)).create(definition_of(Box))
    return server


async def test_webhooks_are_served_by_a_standby_and_counted(tmp_path: Path) -> None:
    trust = issue(tmp_path)
    shared = await cluster()
    leader, standby = (
        manager_of(
            tmp_path,
            BOXES,
            transport=InProcessTransport(shared),
            serve="127.0.0.1:0",
            leader_election="boxes",
        )
        for _ in range(2)
    )
    async with leader, standby, aiohttp.ClientSession() as session:
        assert (leader.status().leading, standby.status().leading) == (True, False)
        url = f"https://{standby.webhook_address}{PATH}"
        async with session.post(url, data=review("CREATE", box()), headers=JSON, ssl=trust) as answer:
            assert answer.status == 200
        async with session.get(f"http://{standby.address}/metrics") as answer:
            page = await answer.text()
        assert certificate_days(page) > 1
        webhook = "defaults.boxes.shop.example.com"
        assert f'controller_runtime_webhook_requests_total{{code="200",webhook="{webhook}"}} 1.0' in page
        assert f'reconcile_webhook_calls_total{{result="allowed",webhook="{webhook}"}} 1.0' in page
        async with session.get(f"http://{standby.address}/readyz?verbose") as answer:
            assert "webhooks ok" in await answer.text()
    assert standby.webhook_address == ""


def certificate_days(page: str) -> float:
    (days,) = re.findall(r"^reconcile_webhook_certificate_days (\S+)$", page, re.MULTILINE)
    return float(days)


async def test_without_webhooks_no_certificate_is_reported_as_expired(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, transport=InProcessTransport(await cluster()), serve="127.0.0.1:0")
    async with (
        manager,
        aiohttp.ClientSession() as session,
        session.get(f"http://{manager.address}/metrics") as answer,
    ):
        assert math.isnan(certificate_days(await answer.text()))


async def test_a_manager_that_stops_is_not_ready_for_webhooks(tmp_path: Path) -> None:
    issue(tmp_path)
    manager = manager_of(tmp_path, BOXES, transport=InProcessTransport(await cluster()))
    async with manager:
        manager._check_webhooks()
        manager.stop()
        with pytest.raises(RuntimeError, match="not served"):
            manager._check_webhooks()


async def test_declared_webhooks_that_are_not_served_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        async with manager_of(tmp_path, BOXES, webhooks="", transport=InProcessTransport(await cluster())):
            assert "webhooks= is not set" in caplog.text


async def test_webhooks_of_a_controller_that_is_added_later_are_not_served_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    issue(tmp_path)
    async with manager_of(tmp_path, BOXES, transport=InProcessTransport(await cluster())) as manager:
        await manager.add(Controller(Box, keep, name="same", admission=[BOXES]))
        assert "are not served" not in caplog.text
        more = Admission(Box, refuses=BOXES.refuses, operator="more.example.com")
        await manager.add(Controller(Box, keep, name="more", admission=[more]))
        assert "are not served" in caplog.text


async def test_a_folder_without_a_certificate_is_an_error_of_the_start(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match=r"webhooks on 127\.0\.0\.1:0: cannot read .*tls\.crt"):
        await manager_of(tmp_path, BOXES).run()


async def test_a_manager_without_admission_serves_no_webhooks_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with manager_of(tmp_path, transport=InProcessTransport(await cluster())) as manager:
        assert manager.webhook_address == ""
        assert "no controller has admission=" in caplog.text


def is_ready(manager: Manager) -> bool:
    try:
        manager._check_webhooks()
    except NotReady:
        return False
    return True


async def cluster_with_namespace() -> ApiServer:
    shared = await cluster()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "boxes"}}
    await Client(InProcessTransport(shared)).create(namespace)
    return shared


async def test_a_manager_makes_certificates_that_a_server_trusts_and_is_ready_then(
    tmp_path: Path,
) -> None:
    shared = await cluster_with_namespace()
    client = Client(InProcessTransport(shared))
    at = WebhookService("boxes", "boxes-webhooks")
    for document in configurations_of(routes_of([Controller(Box, keep, admission=[BOXES])]), Installed(at)):
        await client.create(document)
    own: dict[str, Any] = {"webhook_certificates": "", "webhook_service": "boxes/boxes-webhooks"}
    manager = manager_of(tmp_path, BOXES, transport=InProcessTransport(shared), **own)
    async with manager:
        await eventually(lambda: is_ready(manager))
        secret = await client.get(Secret, "boxes-webhooks-certificates", "boxes")
        configuration = await client.get(MutatingConfiguration, "shop.example.com")
        bundle = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]).decode()
        assert bundle == base64.b64decode(secret.data["ca.crt"]).decode()
        trust = ssl.create_default_context(cadata=bundle)
        async with aiohttp.ClientSession() as session:
            url = f"https://{manager.webhook_address}{PATH}"
            arguments: dict[str, Any] = {"ssl": trust, "server_hostname": "boxes-webhooks.boxes.svc"}
            async with session.post(url, data=review("CREATE", box()), headers=JSON, **arguments) as answer:
                assert answer.status == 200
    secret = await client.get(Secret, "boxes-webhooks-certificates", "boxes")
    assert base64.b64decode(secret.data["members.json"]) == b"{}"


async def test_a_secret_of_another_type_ends_the_start_with_the_way_out(tmp_path: Path) -> None:
    shared = await cluster_with_namespace()
    metadata = ObjectMeta("boxes-webhooks-certificates", "boxes")
    await Client(InProcessTransport(shared)).create(Secret(metadata=metadata, type="Opaque"))
    own: dict[str, Any] = {"webhook_certificates": "", "webhook_service": "boxes/boxes-webhooks"}
    with pytest.raises(ServeError, match=r"its type is 'Opaque'.*give the Service another name"):
        await manager_of(tmp_path, BOXES, transport=InProcessTransport(shared), **own).run()


async def test_a_manager_that_waits_for_its_certificate_can_be_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    without_namespace: Any = {"transport": InProcessTransport(await cluster()), "webhook_certificates": ""}
    manager = manager_of(tmp_path, BOXES, webhook_service="boxes/boxes-webhooks", **without_namespace)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await eventually(lambda: "cannot look after the certificates" in caplog.text)
        with anyio.fail_after(5):
            manager.stop()
            await manager.wait()


def test_certificates_come_from_one_place_and_not_in_shadow_mode(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give one"):
        manager_of(tmp_path, BOXES, webhook_service="a/b").configure()
    with pytest.raises(ConfigurationError, match="dry_run writes nothing"):
        manager_of(tmp_path, BOXES, webhook_certificates="", webhook_service="a/b", dry_run=True).configure()
    with pytest.raises(ConfigurationError, match="NAMESPACE/NAME of a Service"):
        manager_of(tmp_path, BOXES, webhook_service="b")


def test_webhooks_without_a_certificate_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give webhook_certificates"):
        manager_of(tmp_path, BOXES, webhook_certificates="").configure()
