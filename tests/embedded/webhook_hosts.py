"""Hosts of webhooks with certificates of the test's own, that answer as the test says."""

import base64
import inspect
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trustme
from aiohttp import web
from attrs import define, field

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def bundle(*authorities: trustme.CA) -> str:
    """A `caBundle`."""
    return base64.b64encode(b"".join(ca.cert_pem.bytes() for ca in authorities)).decode()


@define
class WebhookHost:
    """Remembers its calls; each answer is what `answer` makes of a call, which may be awaited."""

    answer: Callable[[dict[str, Any]], Any] = lambda review: review
    calls: list[tuple[str, dict[str, str], Any]] = field(factory=list)
    port: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json() if request.can_read_body else {}
        self.calls.append((request.path_qs, dict(request.headers), review))
        answer = self.answer(review)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.json_response(answer)


@asynccontextmanager
async def serving(host: WebhookHost, certificate: trustme.LeafCert) -> AsyncIterator[int]:
    """The port on 127.0.0.1 where `host` listens with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    server = web.Server(host.handle)
    runner = web.ServerRunner(server, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        host.port = runner.addresses[0][1]
        yield host.port
    finally:
        await runner.cleanup()
