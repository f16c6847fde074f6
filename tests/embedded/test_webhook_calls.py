"""The HTTP call of a webhook: what is sent, which certificates are trusted, and how failures read."""

import datetime
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trustme
from aiohttp import web
from attrs import define, field

from reconcile.embedded.webhook_calls import CallFailed, ClientUnusable, WebhookCalls
from tests.embedded.webhook_hosts import WebhookHost, bundle, serving

CA = trustme.CA(key_type=trustme.KeyType.ECDSA)
STRANGER = trustme.CA(key_type=trustme.KeyType.ECDSA)


@define
class Calling:
    host: WebhookHost = field(factory=WebhookHost)
    calls: WebhookCalls = field(factory=WebhookCalls)
    ca: str = bundle(CA)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.host.port}/x"

    async def post(self, seconds: float = 5, **client: Any) -> bytes:
        client = {"url": self.url, "caBundle": self.ca} | client
        return await self.calls.post(client, b'{"a":1}', seconds)

    async def failure(self, seconds: float = 5, **client: Any) -> str:
        with pytest.raises(CallFailed) as failed:
            await self.post(seconds, **client)
        return str(failed.value)


@pytest.fixture
async def calling() -> AsyncIterator[Calling]:
    calling = Calling()
    async with serving(calling.host, CA.issue_cert("127.0.0.1")):
        yield calling


async def test_a_call_is_sent_as_a_real_server_sends_it(calling: Calling) -> None:
    assert await calling.post(seconds=30) == b'{"a": 1}'
    ((path, headers, body),) = calling.host.calls
    assert (path, body) == ("/x?timeout=30s", {"a": 1})
    shown = {name: headers.get(name) for name in ("User-Agent", "Accept", "Content-Type", "Authorization")}
    assert shown == {
        "User-Agent": "kube-apiserver-admission",
        "Accept": "application/json, */*",
        "Content-Type": "application/json",
        "Authorization": None,
    }


@pytest.mark.parametrize("trusted", [(CA, STRANGER), (STRANGER, CA)])
async def test_one_of_several_authorities_in_a_bundle_suffices(
    calling: Calling, trusted: tuple[trustme.CA, ...]
) -> None:
    assert await calling.post(caBundle=bundle(*trusted))


async def test_a_bundle_is_trusted_alone(calling: Calling) -> None:
    wrong = await calling.failure(caBundle=bundle(STRANGER))
    assert wrong == (
        f'Post "{calling.url}?timeout=5s": tls: failed to verify certificate: x509: '
        "certificate signed by unknown authority"
    )
    assert "x509: " in await calling.failure(caBundle="")


async def test_a_bundle_without_certificates_is_an_unusable_client(calling: Calling) -> None:
    for text in ("aGVsbG8=", "?", "w6Q="):
        with pytest.raises(ClientUnusable, match="unable to load root certificates"):
            await calling.post(caBundle=text)
    assert calling.host.calls == []


NOW = datetime.datetime.now(datetime.UTC)


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (lambda: CA.issue_cert("elsewhere.example.dev"), "x509: "),
        (lambda: CA.issue_cert(common_name="127.0.0.1"), "x509: "),
        (
            lambda: CA.issue_cert("127.0.0.1", not_after=NOW - datetime.timedelta(days=1)),
            "x509: certificate has expired or is not yet valid",
        ),
    ],
)
async def test_a_certificate_must_name_the_host_and_be_valid(
    certificate: Callable[[], trustme.LeafCert], why: str
) -> None:
    calling = Calling()
    async with serving(calling.host, certificate()):
        assert why in await calling.failure()


async def test_a_refused_connection_and_an_unknown_host_are_named(calling: Calling) -> None:
    refused = await calling.failure(url="https://127.0.0.1:1/x")
    assert refused == (
        'Post "https://127.0.0.1:1/x?timeout=5s": dial tcp 127.0.0.1:1: connect: connection refused'
    )
    assert "no such host" in await calling.failure(url="https://nowhere.invalid/x")


async def test_a_service_is_called_at_its_endpoint_under_its_own_name(calling: Calling) -> None:
    asked: list[tuple[str, str, int]] = []

    def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
        asked.append((namespace, name, port))
        return "127.0.0.1", calling.host.port

    async with serving(calling.host, CA.issue_cert("hooks.system.svc")):
        calling.calls.resolve = resolve
        service = {"namespace": "system", "name": "hooks", "port": 8443, "path": "/convert"}
        assert await calling.post(url=None, service=service)
        assert await calling.post(url=None, service={"namespace": "system", "name": "hooks"})
    assert asked == [("system", "hooks", 8443), ("system", "hooks", 443)]
    assert [path for path, _, _ in calling.host.calls] == ["/convert?timeout=5s", "/?timeout=5s"]


async def test_a_service_without_endpoints_is_named_in_the_failure(calling: Calling) -> None:
    service = {"namespace": "system", "name": "hooks"}
    failure = await calling.failure(url=None, service=service)
    assert failure == 'Post "https://hooks.system.svc:443/?timeout=5s": service "hooks" not found'


PREVENTED = 'an error on the server ("%s") has prevented the request from succeeding'
STATUS = '{"kind":"Status","apiVersion":"v1","status":"Failure","message":"because"}'
SILENT = "the server responded with the status code 418 but did not return more information"
EMPTY = "0-length response with status code: 200 and content type: application/json"
ANSWERS: list[tuple[int, str, str, str]] = [
    (500, "application/json", "boom", PREVENTED % "unknown"),
    (502, "text/plain", " bad ", PREVENTED % "bad"),
    (502, "text/plain", "x" * 3000, PREVENTED % ("x" * 2048)),
    (404, "application/json", "{}", "the server could not find the requested resource"),
    (403, "text/html", "go away", "go away"),
    (418, "text/plain", "tea", SILENT),
    (400, "text/plain", STATUS, "because"),
    (200, "application/json", "", EMPTY),
]


@pytest.mark.parametrize(("status", "kind", "text", "why"), ANSWERS)
async def test_an_answer_that_is_no_success_reads_as_from_client_go(
    calling: Calling, status: int, kind: str, text: str, why: str
) -> None:
    answer = web.Response(status=status, headers={"Content-Type": kind}, body=text.encode())
    calling.host.answer = lambda review: answer
    assert await calling.failure() == why


async def test_any_success_and_any_content_type_will_do(calling: Calling) -> None:
    calling.host.answer = lambda review: web.Response(status=201, content_type="text/plain", text="{}")
    assert await calling.post() == b"{}"


async def test_redirects_are_followed_without_the_body_and_not_for_ever(calling: Calling) -> None:
    found = web.Response(status=302, headers={"Location": "/there"})
    calling.host.answer = lambda review: found if review else {}
    assert await calling.post() == b"{}"
    calling.host.answer = lambda review: web.Response(status=302, headers={"Location": "/x"})
    assert (await calling.failure()).endswith("stopped after 10 redirects")


async def test_a_webhook_that_hangs_is_given_up_in_time(calling: Calling) -> None:
    calling.host.answer = lambda review: web.Response(text="x" * 10, headers={"Content-Length": "100"})
    failure = await calling.failure(seconds=0.05)
    assert failure.endswith(": context deadline exceeded")


async def test_an_answer_without_end_is_cut_off(calling: Calling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.embedded.webhook_calls.MAX_ANSWER_BYTES", 1000)
    calling.host.answer = lambda review: web.Response(text="x" * 2000)
    assert await calling.failure() == "the answer of the webhook has more than 1000 bytes"
