"""The pages of a manager: health, metrics and what it is doing, on one port.

aiohttp's server is imported when a manager serves, never before.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from attrs import frozen

from informers import get_logger
from reconcile.debug_pages import Desk, add_desk, json_page
from reconcile.debug_pages import is_loopback as is_loopback
from reconcile.health import Check, Health, ask, ping
from reconcile.reviews import Reviewer
from reconcile.rotation import NoCertificate, RotatingCertificate

if TYPE_CHECKING:
    from aiohttp import web

LOOPBACK = "127.0.0.1"
_STOP_SECONDS = 1.0
_log = get_logger("reconcile.serving")


class CannotServe(Exception):
    """The port cannot be had, or the certificate."""


@frozen
class Address:
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """`8080` and `127.0.0.1:8080` on loopback, `:8080` everywhere, `[::1]:0` on a port that is free.

    Raises ValueError.
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is no address to serve on: write HOST:PORT, or :PORT for all interfaces")
    host = host.removeprefix("[").removesuffix("]")
    return Address(host if host else "0.0.0.0" if colon else LOOPBACK, int(port))


@frozen
class Pages:
    """What is behind the pages. `metrics` gets the Accept header, and answers body and content type.

    With a `reviewer`, /metrics and /debug are for whom the API server allows to get that URL, wherever
    they are; without one, /metrics is for all and /debug for this machine.
    """

    healthz: Mapping[str, Check]
    readyz: Mapping[str, Check]
    metrics: Callable[[str], tuple[bytes, str]]
    state: Callable[[], Mapping[str, Any]]
    desk: Desk | None = None
    reviewer: Reviewer | None = None


@asynccontextmanager
async def serving(
    address: Address,
    pages: Pages,
    certificates: Path | None = None,
    certificate_read: Callable[[bool], None] = lambda read: None,
) -> AsyncIterator[Address]:
    """Serve while inside; yields where, with the port that was found for 0. Raises CannotServe.

    With `certificates`, a folder with tls.crt and tls.key, over TLS; they are taken anew when they
    change, and `certificate_read` hears of each time whether that went well.
    """
    if certificates is None:
        async with _serving(address, pages, None) as bound:
            yield bound
        return
    try:
        certificate = RotatingCertificate(certificates, certificate_read)
    except NoCertificate as error:
        raise CannotServe(f"cannot serve on {address}: {error}") from None
    watching = asyncio.create_task(certificate.watch(), name="certificates")
    try:
        async with _serving(address, pages, certificate.context) as bound:
            yield bound
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@asynccontextmanager
async def _serving(address: Address, pages: Pages, tls: ssl.SSLContext | None) -> AsyncIterator[Address]:
    from aiohttp import web

    runner = web.AppRunner(
        _application(pages), access_log=None, handle_signals=False, shutdown_timeout=_STOP_SECONDS
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host, address.port, ssl_context=tls).start()
        except OSError as error:
            raise CannotServe(f"cannot serve on {address}: {error.strerror or error}") from None
        bound = Address(*runner.addresses[0][:2])
        _log.info("serving", address=str(bound), tls=tls is not None)
        yield bound
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _application(pages: Pages) -> "web.Application":
    from aiohttp import web

    async def review(request: web.Request) -> None:
        if pages.reviewer is None:
            return
        authorization = request.headers.get("Authorization", "")
        status = await pages.reviewer.status_for(authorization, request.method.lower(), request.path)
        if status == 401:
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
        if status != 200:
            raise web.HTTPForbidden() if status == 403 else web.HTTPServiceUnavailable()

    async def metrics(request: web.Request) -> web.Response:
        await review(request)
        body, content_type = pages.metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def admit(request: web.Request) -> None:
        await review(request)
        if pages.reviewer is None and not is_loopback(request.remote):
            raise web.HTTPForbidden(text="/debug is for this machine only: use kubectl port-forward\n")

    async def state(request: web.Request) -> web.Response:
        await admit(request)
        return json_page(pages.state())

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/debug/state", state)
    if pages.desk is not None:
        add_desk(application, pages.desk, admit, guarded=pages.reviewer is not None)
    for page, checks in (("healthz", pages.healthz), ("readyz", pages.readyz)):
        answer = _health_page(page, {**checks} or {"ping": ping})
        for path in (f"/{page}", f"/{page}/", f"/{page}/{{name}}"):
            application.router.add_get(path, answer)
    return application


def _health_page(page: str, checks: Mapping[str, Check]) -> "Callable[[web.Request], Any]":
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        name = request.match_info.get("name", "")
        if name and name not in checks:
            raise web.HTTPNotFound(text=f"there is no check {page}/{name}\n")
        asked = {name: checks[name]} if name else checks
        verbose = "verbose" in request.query
        health: Health = ask(page, asked, exclude=request.query.getall("exclude", []), verbose=verbose)
        return web.Response(
            status=health.status, text=health.text, headers={"X-Content-Type-Options": "nosniff"}
        )

    return answer
