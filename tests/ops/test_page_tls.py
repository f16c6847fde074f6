"""The pages over TLS, with certificates that rotate, for those whom the API server lets in."""

import logging
import ssl
from pathlib import Path

import aiohttp
import anyio
import msgspec
import pytest
import trustme
from anyio.streams.tls import TLSAttribute

from informers import HttpRequest, Response
from reconcile import Manager
from reconcile.embedded import ApiServer, InProcessTransport, User
from reconcile.errors import ConfigurationError
from reconcile.ops.certificate_rotation import NoCertificate, RotatingCertificate
from reconcile.ops.page_authorization import ALLOWED_SECONDS, REFUSED_SECONDS, TOKEN_SECONDS, PageAuthorizer
from reconcile.ops.serving_addresses import ServeError
from tests.helpers.scenarios import simulated

JSON = {"content-type": "application/json"}
TOKEN = "token-of-the-scraper"
LISTENER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "scraping"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "scraping"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "scraper"}],
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraping"},
}


def issue(authority: trustme.CA, folder: Path) -> None:
    made = authority.issue_cert("127.0.0.1")
    made.private_key_pem.write_to_path(folder / "tls.key")
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))


def trusting(*authorities: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for authority in authorities:
        authority.configure_trust(context)
    return context


async def serial_of(address: str, context: ssl.SSLContext) -> str:
    host, port = address.rsplit(":", 1)
    connecting = anyio.connect_tcp(host, int(port), ssl_context=context, tls_standard_compatible=False)
    async with await connecting as stream:
        return str(stream.extra(TLSAttribute.peer_certificate)["serialNumber"])


async def cluster() -> ApiServer:
    server = ApiServer()
    transport = InProcessTransport(server)
    for body, plural in ((LISTENER, "clusterroles"), (BINDING, "clusterrolebindings")):
        answer = await transport.request(
            HttpRequest(
                "POST",
                f"/apis/rbac.authorization.k8s.io/v1/{plural}",
                {},
                {"content-type": "application/json"},
                msgspec.json.encode(body),
            )
        )
        assert answer.status == 201
    return server


async def test_a_replaced_certificate_serves_new_connections_and_a_broken_one_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconcile.ops.certificate_rotation.LOOK_SECONDS", 0.02)
    authority = trustme.CA()
    issue(authority, tmp_path)
    trust = trusting(authority)
    manager = Manager(
        transport=InProcessTransport(ApiServer()),
        serve="127.0.0.1:0",
        serve_certificates=str(tmp_path),
        environ={},
    )
    async with manager, aiohttp.ClientSession() as session:
        first = await serial_of(manager.address, trust)
        (tmp_path / "tls.key").write_text("no key at all")
        with caplog.at_level(logging.WARNING), anyio.fail_after(5):
            while "the certificate was not replaced" not in caplog.text:
                await anyio.sleep(0.01)
        assert await serial_of(manager.address, trust) == first
        issue(authority, tmp_path)
        with anyio.fail_after(5):
            while await serial_of(manager.address, trust) == first:
                await anyio.sleep(0.01)
        async with session.get(f"https://{manager.address}/metrics", ssl=trust) as answer:
            page = await answer.text()
        assert "certwatcher_read_certificate_errors_total 0.0" not in page
        assert "certwatcher_read_certificate_errors_total" in page
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://{manager.address}/metrics")


def test_a_key_of_another_certificate_is_refused_and_the_previous_pair_kept(tmp_path: Path) -> None:
    authority = trustme.CA()
    issue(authority, tmp_path)
    heard: list[bool] = []
    certificate = RotatingCertificate(tmp_path, heard.append)
    authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(tmp_path / "tls.key")
    certificate.look()
    issue(authority, tmp_path)
    certificate.look()
    certificate.look()
    assert heard == [True, False, True]
    (tmp_path / "tls.crt").unlink()
    with pytest.raises(NoCertificate, match=r"cannot read .*tls.crt: No such file"):
        RotatingCertificate(tmp_path)


async def test_a_start_without_a_certificate_names_the_missing_file(tmp_path: Path) -> None:
    manager = Manager(
        transport=InProcessTransport(ApiServer()),
        serve="127.0.0.1:0",
        serve_certificates=str(tmp_path),
        environ={},
    )
    with pytest.raises(ServeError, match=r"cannot read .*tls.crt"):
        await manager.run()


async def test_the_api_server_authorises_access_to_pages_by_token() -> None:
    server = await cluster()
    manager = Manager(
        transport=InProcessTransport(server), serve="127.0.0.1:0", serve_review=True, environ={}
    )
    users = {TOKEN: User("scraper"), "token-of-root": User("root", ("system:masters",))}
    with server.tokens.knowing(users):
        async with manager, aiohttp.ClientSession() as session:

            async def status(page: str, token: str = "") -> int:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                async with session.get(f"http://{manager.address}{page}", headers=headers) as answer:
                    return answer.status

            assert await status("/healthz") == 200
            assert await status("/metrics") == 401
            assert await status("/metrics", "made-up") == 401
            assert await status("/metrics", TOKEN) == 200
            assert await status("/debug/state", TOKEN) == 403
            assert await status("/debug/state", "token-of-root") == 200
            assert await status("/debug/state") == 401


class Answering(InProcessTransport):
    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.asked: list[str] = []
        self.broken = False

    async def request(self, request: HttpRequest) -> Response:
        self.asked.append(request.path.rsplit("/", 1)[1])
        return Response(500) if self.broken else await super().request(request)


@simulated
async def test_answers_are_cached_and_no_access_is_granted_while_the_server_is_unreachable() -> None:
    server = await cluster()
    transport = Answering(server)
    reviewer = PageAuthorizer(lambda: transport)
    token, access = "tokenreviews", "subjectaccessreviews"
    with server.tokens.knowing({TOKEN: User("scraper")}):

        async def ask(path: str = "/metrics") -> tuple[int, list[str]]:
            transport.asked.clear()
            return await reviewer.status_for(f"Bearer {TOKEN}", "get", path), list(transport.asked)

        assert await ask() == (200, [token, access])
        assert await ask() == (200, [])
        assert await ask("/debug/state") == (403, [access])
        await anyio.sleep(REFUSED_SECONDS)
        assert await ask("/debug/state") == (403, [access])
        await anyio.sleep(TOKEN_SECONDS - REFUSED_SECONDS)
        assert await ask() == (200, [token])
        await anyio.sleep(ALLOWED_SECONDS)
        assert await ask() == (200, [token, access])
        await anyio.sleep(ALLOWED_SECONDS)
        transport.broken = True
        assert await ask() == (503, [token])
        assert TOKEN not in repr(reviewer)
    assert await PageAuthorizer(lambda: None).status_for(f"Bearer {TOKEN}", "get", "/metrics") == 503
    for bad in ("Basic abc", "Bearer ", "Bearer \udcff", "Bearer gr\u00fcn"):
        assert await PageAuthorizer(lambda: None).status_for(bad, "get", "/metrics") == 401


def test_serve_review_needs_tls_or_loopback() -> None:
    manager = Manager(serve=":8080", serve_review=True, environ={})
    with pytest.raises(ConfigurationError, match="serve_certificates too, or loopback"):
        manager.configure()
