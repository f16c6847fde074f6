"""The embedded server's face on a socket."""

import asyncio
import contextlib
import io
import json
import ssl
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
import yaml

from reconcile.embedded import AdmittedWrite, ApiRequest, ApiServer
from reconcile.embedded.http import NotLoopback, ServerHandle, serve
from reconcile.embedded.listener.admin_kubeconfig import KubeconfigRefused, write_kubeconfig
from reconcile.embedded.verbs.bodies import MAX_BODY_BYTES
from tests.embedded.api_client import CONFIG_MAPS, config_map
from tests.helpers.definitions import definition


@pytest.fixture
async def face() -> AsyncIterator[ServerHandle]:
    async with serve(ApiServer(), tls=False) as face:
        yield face


@pytest.fixture
async def client(face: ServerHandle) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(face.url) as session:
        yield session


# --- who may come in ---------------------------------------------------------------------------


async def test_https_is_trusted_only_through_the_servers_own_ca() -> None:
    async with serve(ApiServer()) as face, aiohttp.ClientSession(face.url) as session:
        assert face.url.startswith("https://127.0.0.1:")
        assert face.ca_pem is not None
        trusting = ssl.create_default_context(cadata=face.ca_pem.decode())
        async with session.get("/healthz", ssl=trusting) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get("/healthz")


@pytest.mark.rule("api-29")
@pytest.mark.parametrize(
    ("rbac", "anonymous"), [(True, (403, "Forbidden")), (False, (401, "Unauthorized"))], ids=["rbac", "none"]
)
async def test_a_wrong_token_is_a_401_and_no_token_is_an_anonymous_user(
    rbac: bool, anonymous: tuple[int, str]
) -> None:
    async with (
        serve(ApiServer(rbac=rbac), tls=False, token="s3cret") as face,
        aiohttp.ClientSession(face.url) as session,
    ):
        refused = {None: anonymous, "Basic s3cret": anonymous, "Bearer nonsense": (401, "Unauthorized")}
        for credentials, expected in refused.items():
            headers = {"Authorization": credentials} if credentials else {}
            async with session.get("/api/v1/namespaces", headers=headers) as answer:
                status = await answer.json()
                assert (answer.status, status["reason"]) == expected
        async with session.get("/api/v1/namespaces", headers={"Authorization": "Bearer s3cret"}) as answer:
            assert answer.status == 200


@pytest.mark.rule("api-2")
async def test_health_and_version_need_no_token() -> None:
    async with (
        serve(ApiServer(), tls=False, token="s3cret") as face,
        aiohttp.ClientSession(face.url) as session,
    ):
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            async with session.get(path) as answer:
                assert answer.status == 200


async def test_only_this_machine_is_served_by_default() -> None:
    with pytest.raises(NotLoopback, match=r"0\.0\.0\.0"):
        async with serve(ApiServer(), host="0.0.0.0", tls=False):
            pass


async def test_a_port_in_use_is_an_error_at_once(face: ServerHandle) -> None:
    with pytest.raises(OSError, match="in use"):
        async with serve(ApiServer(), port=face.port, tls=False):
            pass


# --- requests ----------------------------------------------------------------------------------


async def test_an_object_is_created_read_listed_and_deleted_over_one_connection(
    client: aiohttp.ClientSession,
) -> None:
    async with client.post(CONFIG_MAPS, json=config_map("a", {"k": "v"})) as answer:
        assert answer.status == 201
    async with client.get(f"{CONFIG_MAPS}/a") as answer:
        assert (await answer.json())["data"] == {"k": "v"}
    async with client.get(CONFIG_MAPS, params={"labelSelector": "!x"}) as answer:
        assert [item["metadata"]["name"] for item in (await answer.json())["items"]] == ["a"]
    async with client.delete(f"{CONFIG_MAPS}/a") as answer:
        assert answer.status == 200
    async with client.get(f"{CONFIG_MAPS}/a") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (404, "NotFound")
    assert len(client.connector._conns) == 1  # type: ignore[union-attr]


async def test_a_json_answer_ends_its_line(client: aiohttp.ClientSession) -> None:
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/missing"):
        async with client.get(path) as answer:
            text = await answer.read()
            assert text.endswith(b"}\n")
            assert answer.content_length == len(text)


async def test_each_warning_has_a_header_line_of_its_own(client: aiohttp.ClientSession) -> None:
    unknown = {"metadata": {"name": "a"}, "first": 1, 'second "quoted", ': 2}
    async with client.post(CONFIG_MAPS, json=unknown) as answer:
        assert len(answer.headers.getall("warning")) == 2


@pytest.mark.rule("api-23")
async def test_a_body_above_three_mebibytes_is_refused_with_and_without_a_declared_length(
    client: aiohttp.ClientSession,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x" * (MAX_BODY_BYTES // 3)

    for body in (io.BytesIO(b"x" * (MAX_BODY_BYTES + 1)), pieces()):
        async with client.post(CONFIG_MAPS, data=body) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_client_that_expects_100_continue_gets_it(client: aiohttp.ClientSession) -> None:
    async with client.post(CONFIG_MAPS, json=config_map("a"), expect100=True) as answer:
        assert answer.status == 201


@pytest.mark.rule("api-26")
async def test_an_internal_error_is_a_500_and_the_server_continues(caplog: pytest.LogCaptureFixture) -> None:
    server = ApiServer()

    def broken(request: AdmittedWrite) -> None:
        raise LookupError("lost my way")

    server.admission.append(broken)
    async with serve(server, tls=False) as face, aiohttp.ClientSession(face.url) as session:
        headers = {"Authorization": "Bearer s3cret"}
        async with session.post(CONFIG_MAPS, json=config_map("a"), headers=headers) as answer:
            status = await answer.json()
            assert (answer.status, status["reason"]) == (500, "InternalError")
            assert "lost my way" in status["message"]
        async with session.get("/healthz") as answer:
            assert answer.status == 200
    logged = caplog.text
    assert "LookupError: lost my way" in logged
    assert "s3cret" not in logged


# --- watches -----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def watching(session: aiohttp.ClientSession) -> AsyncIterator[aiohttp.StreamReader]:
    async with session.get(CONFIG_MAPS, params={"watch": "true"}) as answer:
        assert answer.status == 200
        assert answer.headers["Transfer-Encoding"] == "chunked"
        yield answer.content


async def next_event(lines: aiohttp.StreamReader) -> tuple[str, str]:
    with anyio.fail_after(5):
        event = json.loads(await lines.readline())
    return event["type"], event["object"]["metadata"]["name"]


@pytest.mark.rule("api-102", "api-90")
async def test_a_read_waits_for_an_imminent_version() -> None:
    server = ApiServer()
    async with serve(server, tls=False) as face, aiohttp.ClientSession(face.url) as session:
        wanted = {"resourceVersion": str(server.version + 1)}

        async def read() -> int:
            async with session.get(CONFIG_MAPS, params=wanted) as answer:
                return answer.status

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.2)
        assert not reading.done()
        async with session.post(CONFIG_MAPS, json=config_map("late")) as answer:
            assert answer.status == 201
        assert await reading == 200


@pytest.mark.rule("api-90", "api-26")
async def test_a_read_of_a_version_that_does_not_come_is_a_504(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconcile.embedded.http.CATCHING_UP", 0.2)
    async with client.get(CONFIG_MAPS, params={"resourceVersion": "9" * 18}) as answer:
        body = await answer.json()
    assert (answer.status, body["reason"]) == (504, "Timeout")
    assert [cause["reason"] for cause in body["details"]["causes"]] == ["ResourceVersionTooLarge"]


async def test_each_event_of_a_watch_arrives_as_it_happens(client: aiohttp.ClientSession) -> None:
    async with watching(client) as lines:
        for name in ("a", "b"):
            async with client.post(CONFIG_MAPS, json=config_map(name)):
                pass
            assert await next_event(lines) == ("ADDED", name)


async def test_a_watch_ends_in_the_engine_when_its_reader_disconnects() -> None:
    server = ApiServer()
    opened = []
    respond = server.respond

    async def spying(request: ApiRequest) -> Any:
        outcome = await respond(request)
        opened.append(outcome)
        return outcome

    server.respond = spying  # type: ignore[method-assign]
    async with serve(server, tls=False) as face:
        async with aiohttp.ClientSession(face.url) as session, watching(session):
            assert not opened[-1].closed
        with anyio.fail_after(5):
            while not opened[-1].closed:
                await anyio.sleep(0.01)


@pytest.mark.rule("api-113")
async def test_stopping_the_http_server_ends_its_watches_cleanly_and_soon() -> None:
    async with aiohttp.ClientSession() as session:
        async with serve(ApiServer(), tls=False) as face:
            answer = await session.get(f"{face.url}{CONFIG_MAPS}", params={"watch": "true"})
            started = anyio.current_time()
        assert await answer.content.read() == b""  # a cut stream would raise
        assert anyio.current_time() - started < 2


@pytest.mark.rule("api-112")
async def test_a_reader_that_is_too_slow_is_disconnected() -> None:
    server = ApiServer()
    async with serve(server, tls=False, patience=0.2) as face:
        reader, writer = await asyncio.open_connection("127.0.0.1", face.port, limit=1024)
        writer.write(f"GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await reader.readline()  # the watch is open; nothing is read from here on
        body = json.dumps(config_map("big", {"k": "x" * 900_000})).encode()
        for index in range(24):
            created = body.replace(b'"big"', b'"big-%d"' % index)
            assert server.handle(ApiRequest("POST", CONFIG_MAPS, {}, {}, created)).status == 201  # type: ignore[union-attr]
        await anyio.sleep(0.6)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(24 * 900_000)
        writer.close()
        async with aiohttp.ClientSession(face.url) as session, session.get("/healthz") as answer:
            assert answer.status == 200


# --- what is not a resource --------------------------------------------------------------------

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.rule("api-1")
async def test_the_version_is_the_one_that_the_server_emulates(client: aiohttp.ClientSession) -> None:
    async with client.get("/version") as answer:
        version = await answer.json()
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")


@pytest.mark.rule("api-3")
@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_discovery_is_served_in_the_first_requested_form(
    client: aiohttp.ClientSession, path: str
) -> None:
    kinds = []
    for accept in (f"{AGGREGATED},application/json", f"application/json,{AGGREGATED}", "*/*"):
        async with client.get(path, headers={"Accept": accept}) as answer:
            assert answer.headers["Vary"] == "Accept"
            kinds.append((await answer.json(content_type=None))["kind"])
    plain = "APIVersions" if path == "/api" else "APIGroupList"
    assert kinds == ["APIGroupDiscoveryList", plain, plain]


@pytest.mark.rule("api-3")
async def test_unchanged_discovery_is_not_sent_again(client: aiohttp.ClientSession) -> None:
    async with client.get("/apis", headers={"Accept": AGGREGATED}) as answer:
        tag = answer.headers["ETag"]
    async with client.get("/apis", headers={"Accept": AGGREGATED, "If-None-Match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")


@pytest.mark.rule("api-12")
@pytest.mark.parametrize("path", ["/openapi/v3/apis/nope/v1", "/nothing", "/apis/nope", "/apis/apps/v9"])
async def test_an_unknown_path_is_answered_with_plain_text(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as answer:
        assert (answer.status, await answer.text()) == (404, "404 page not found\n")


async def test_discovery_is_read_only(client: aiohttp.ClientSession) -> None:
    async with client.post("/apis") as answer:
        assert (answer.status, (await answer.json())["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.rule("api-6")
async def test_a_definition_appears_in_discovery_at_once_and_disappears_with_its_deletion(
    client: aiohttp.ClientSession,
) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    described = {"type": "object", "description": "A thing."}
    async with client.post(definitions, json=definition("Widget", described, subresources={})) as answer:
        assert answer.status == 201, await answer.text()
    async with client.get("/apis/example.com/v1") as answer:
        assert "widgets" in [entry["name"] for entry in (await answer.json())["resources"]]
    async with client.get("/openapi/v3/apis/example.com/v1") as answer:
        assert "com.example.v1.Widget" in (await answer.json())["components"]["schemas"]


# --- the kubeconfig ----------------------------------------------------------------------------


def test_the_kubeconfig_is_private_and_points_to_the_server(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:1234", b"the ca", "to: ken")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = yaml.safe_load(path.read_text())
    assert config["current-context"] == "embedded"
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1234"
    assert config["users"][0]["user"] == {"token": "to: ken"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_kubeconfig_needs_neither_tls_nor_a_token(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "http://127.0.0.1:1", None, None)
    config = yaml.safe_load(path.read_text())
    assert config["users"] == [{"name": "embedded", "user": {}}]
    assert config["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:1"}


def test_only_a_kubeconfig_of_an_embedded_server_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubeconfig"
    for url in ("http://127.0.0.1:1", "http://127.0.0.1:2"):
        write_kubeconfig(path, url, None, None)
    assert "127.0.0.1:2" in path.read_text()
    path.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(KubeconfigRefused, match="not written by an embedded server"):
        write_kubeconfig(path, "http://127.0.0.1:3", None, None)
    assert path.read_text() == "apiVersion: v1\nkind: Config\n"
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    with pytest.raises(KubeconfigRefused, match="your own kubeconfig"):
        write_kubeconfig(tmp_path / ".kube" / "config", "http://127.0.0.1:3", None, None)
    with pytest.raises(KubeconfigRefused, match="does not exist"):
        write_kubeconfig(tmp_path / "missing" / "kubeconfig", "http://127.0.0.1:3", None, None)
