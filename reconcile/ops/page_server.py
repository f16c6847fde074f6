"""The pages of a manager: health, metrics and what it is doing, on one port.

They are served by a thread with an event loop of its own, so that health is answered while the manager's
is held. What a page says comes from the manager's loop all the same: the thread reads nothing of it.
aiohttp's server is imported when a manager serves, never before.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from attrs import define, field, frozen

from informers import get_logger
from reconcile.ops import watchdog
from reconcile.ops.access_reviews import AccessReviewer
from reconcile.ops.certificate_rotation import NoCertificate, RotatingCertificate
from reconcile.ops.debug_actions import DebugActions
from reconcile.ops.debug_pages import Answer, add_action_pages, json_text
from reconcile.ops.descriptor_limit import raise_descriptor_limit
from reconcile.ops.health_checks import Check, Health, ping, report, run_checks
from reconcile.ops.local_requests import refusal_of
from reconcile.ops.loop_calls import LoopCalls, LoopHeld
from reconcile.ops.page_connections import IDLE_SECONDS, MAX_CONNECTIONS, PageConnections, Rarely, listen

if TYPE_CHECKING:
    from aiohttp import web

LOOPBACK = "127.0.0.1"
HEALTH_SECONDS: Final = 0.5
"""Health waits so long for the manager's loop, and is then judged from outside: a probe waits a second."""
BEGIN_SECONDS: Final = 5.0
"""Other pages wait so long for the loop to begin with them, and are then 503."""
PAGE_SECONDS: Final = 30.0
"""In which a page is made once it was begun with."""

_STOP_SECONDS = 1.0
_DESCRIPTORS_A_CONNECTION = 4
_EVENT_LOOP = "event-loop"
_log = get_logger("reconcile.serving")
_health_log = get_logger("reconcile.health")
T = TypeVar("T")


class ServeError(Exception):
    """The port cannot be had, or the certificate."""


@frozen
class Address:
    """Where to listen. An empty host is every interface, of IPv4 and of IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """`8080` and `127.0.0.1:8080` on loopback, `:8080` everywhere (IPv4 and IPv6), `[::1]:0` on a free port.

    Raises ValueError.
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"expected HOST:PORT, or :PORT for all interfaces, got {text!r}")
    host = host.removeprefix("[").removesuffix("]")
    return Address(host if host or colon else LOOPBACK, int(port))


@frozen
class PageSources:
    """What is behind the pages. `metrics` gets the Accept header, and answers body and content type.

    With a `reviewer`, /metrics and /debug are for whom the API server allows to get that URL, wherever
    they are; without one /debug is for this machine, and /metrics for all, or with `metrics_local` for
    this machine too. `held` says for how long (s) the event loop has been held, and is asked in another
    thread; all else is asked in the loop.
    """

    healthz: Mapping[str, Check]
    readyz: Mapping[str, Check]
    metrics: Callable[[str], tuple[bytes, str]]
    state: Callable[[], Mapping[str, Any]]
    actions: DebugActions | None = None
    reviewer: AccessReviewer | None = None
    metrics_local: bool = False
    held: Callable[[], float] = lambda: 0.0


@asynccontextmanager
async def serving(
    address: Address,
    pages: PageSources,
    certificates: Path | None = None,
    certificate_read: Callable[[bool], None] = lambda read: None,
) -> AsyncIterator[Address]:
    """Serve while inside; yields where, with the port that was found for 0. Raises ServeError.

    With `certificates`, a folder with tls.crt and tls.key, over TLS; they are taken anew when they
    change, and `certificate_read` hears of each time whether that went well. The soft limit of open files
    is raised to the hard one.
    """
    if certificates is None:
        async with _serving(address, pages, None) as bound:
            yield bound
        return
    try:
        certificate = RotatingCertificate(certificates, certificate_read)
    except NoCertificate as error:
        raise ServeError(f"cannot serve on {address}: {error}") from None
    watching = asyncio.create_task(certificate.watch(), name="certificates")
    try:
        async with _serving(address, pages, certificate.context) as bound:
            yield bound
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@asynccontextmanager
async def _serving(
    address: Address, pages: PageSources, tls: ssl.SSLContext | None
) -> AsyncIterator[Address]:
    most = max(8, min(MAX_CONNECTIONS, raise_descriptor_limit() // _DESCRIPTORS_A_CONNECTION))
    calls = LoopCalls(asyncio.get_running_loop())
    thread = _PageThread(address, _PageRoutes(pages, calls), tls, most)
    try:
        bound = await thread.start()
        _log.info("serving", address=str(bound), tls=tls is not None)
        yield bound
    finally:
        with anyio.CancelScope(shield=True):
            await thread.stop()
            await calls.end()


# --- the thread -----------------------------------------------------------------------------------------


@define(eq=False)
class _PageThread:
    """Serves a site in a thread of its own, from `start` to `stop`."""

    address: Address
    site: "_PageRoutes"
    tls: ssl.SSLContext | None
    most: int
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    _bound: "asyncio.Future[Address]" = field(init=False)
    _ended: asyncio.Event = field(factory=asyncio.Event, init=False)
    _own: asyncio.AbstractEventLoop = field(factory=asyncio.new_event_loop, init=False)
    _stopping: asyncio.Event = field(factory=asyncio.Event, init=False)

    async def start(self) -> Address:
        """Where it listens. Raises ServeError."""
        self._bound = self._loop.create_future()
        try:
            threading.Thread(target=self._run, name="pages", daemon=True).start()
        except RuntimeError as error:
            self._own.close()
            self._ended.set()
            raise ServeError(f"cannot serve on {self.address}: {error}") from None
        return await self._bound

    async def stop(self) -> None:
        """End it, and wait for that: answers under way get a second."""
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            self._own.call_soon_threadsafe(self._stopping.set)
        await self._ended.wait()

    def _run(self) -> None:
        failure: Exception | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: self._own) as runner:
                runner.run(self._serve())
        except Exception as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the manager's loop is closed: nothing waits for us
            self._loop.call_soon_threadsafe(self._end, failure)

    def _end(self, failure: Exception | None) -> None:
        if not self._bound.done():
            self._bound.set_exception(failure or ServeError(f"cannot serve on {self.address}: stopped"))
        elif failure is not None:
            _log.error("the pages have ended", error=f"{type(failure).__name__}: {failure}", exc_info=failure)
        self._ended.set()

    def _tell(self, bound: Address) -> None:
        if not self._bound.done():
            self._bound.set_result(bound)

    async def _serve(self) -> None:
        from aiohttp import web

        rarely = Rarely()
        asyncio.get_running_loop().set_exception_handler(partial(_connection_failed, rarely))
        runner = web.AppRunner(
            self.site.application(),
            access_log=None,
            logger=_protocol_log(rarely),
            handle_signals=False,
            shutdown_timeout=_STOP_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
        )
        await runner.setup()
        try:
            assert runner.server is not None
            connections = self.site.connections = PageConnections(runner.server, self.tls, self.most)
            listeners = await self._listen()
            accepting = [asyncio.create_task(connections.accept(listener)) for listener in listeners]
            try:
                bound = Address(*listeners[0].getsockname()[:2])
                self._loop.call_soon_threadsafe(self._tell, bound)
                await self._stopping.wait()
            finally:
                for task in accepting:
                    task.cancel()
                await asyncio.wait(accepting)
                for listener in listeners:
                    listener.close()
        finally:
            await runner.cleanup()
            if self.site.connections is not None:
                await self.site.connections.end()

    async def _listen(self) -> Sequence[socket.socket]:
        try:
            return await listen(self.address.host, self.address.port)
        except OSError as error:
            raise ServeError(f"cannot serve on {self.address}: {error.strerror or error}") from None


def _connection_failed(rarely: Rarely, _: object, context: Mapping[str, Any]) -> None:
    if times := rarely.times("connection"):
        error = str(context.get("exception") or context.get("message", ""))
        _log.warning("a connection failed", times=times, error=error)


def _page_failed(rarely: Rarely, error: BaseException | None) -> None:
    if times := rarely.times("page"):
        _log.error("a page failed", times=times, error=f"{type(error).__name__}: {error}", exc_info=error)


def _protocol_log(rarely: Rarely) -> logging.Logger:
    """For aiohttp: what is no HTTP is answered with 400, and no news; it may hold secrets of its sender."""
    from aiohttp.http import HttpProcessingError

    def is_news(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            _page_failed(rarely, error)
        return False

    log = logging.Logger("reconcile.serving.protocol")
    log.addFilter(is_news)
    return log


# --- the pages ------------------------------------------------------------------------------------------


@define(eq=False)
class _PageRoutes:
    """The pages; in the thread, but for what is given to `calls`."""

    pages: PageSources
    calls: LoopCalls
    connections: PageConnections | None = field(default=None, init=False)
    _said: dict[tuple[str, str], bool] = field(factory=dict, init=False)
    """By page and check, what it said last."""

    def application(self) -> "web.Application":
        from aiohttp import web

        application = web.Application(middlewares=[self._limits()])
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/debug/state", self._state)
        if self.pages.actions is not None:
            add_action_pages(application, self.pages.actions, self._debug)
        for page in ("healthz", "readyz"):
            for path in (f"/{page}", f"/{page}/", f"/{page}/{{name}}"):
                application.router.add_get(path, self._health_page(page))
        return application

    def _limits(self) -> Any:
        from aiohttp import web

        @web.middleware
        async def limited(request: web.Request, handler: Callable[..., Awaitable[Any]]) -> Any:
            connection = None if self.connections is None else self.connections.of(request.protocol)
            if connection is not None:
                connection.begin()
            try:
                return await handler(request)
            except LoopHeld:
                raise web.HTTPServiceUnavailable(
                    text="the manager's event loop is held, or has too much to do\n"
                ) from None
            finally:
                if connection is not None:
                    connection.end()

        return limited

    async def _ask(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self.calls.ask(work, BEGIN_SECONDS, PAGE_SECONDS)

    async def _admit(self, request: "web.Request", *, local: bool) -> None:
        from aiohttp import web

        reviewer = self.pages.reviewer
        if reviewer is None:
            if local and (why := refusal_of(request.remote, request.host, request.headers)):
                raise web.HTTPForbidden(text=f"{why}\n")
            return
        authorization = request.headers.get("Authorization", "")
        verb, path = request.method.lower(), request.path
        status = await self._ask(lambda: reviewer.status_for(authorization, verb, path))
        if status == 401:
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
        if status != 200:
            raise web.HTTPForbidden() if status == 403 else web.HTTPServiceUnavailable()

    async def _metrics(self, request: "web.Request") -> "web.Response":
        from aiohttp import web

        await self._admit(request, local=self.pages.metrics_local)
        accept = request.headers.get("Accept", "")

        async def text() -> tuple[bytes, str]:
            return self.pages.metrics(accept)

        body, content_type = await self._ask(text)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _state(self, request: "web.Request") -> "web.Response":
        return await self._debug(request, self.pages.state)

    async def _debug(self, request: "web.Request", answer: Answer) -> "web.Response":
        from aiohttp import web

        await self._admit(request, local=True)

        async def text() -> bytes:
            return json_text(answer())

        return web.Response(body=await self._ask(text), content_type="application/json")

    # --- health ---------------------------------------------------------------------------------------

    def _health_page(self, page: str) -> "Callable[[web.Request], Awaitable[web.Response]]":
        from aiohttp import web

        checks = {**(self.pages.healthz if page == "healthz" else self.pages.readyz)} or {"ping": ping}

        async def answer(request: web.Request) -> web.Response:
            name = request.match_info.get("name", "")
            if name and name not in checks:
                raise web.HTTPNotFound(text=f"there is no check {page}/{name}\n")
            asked = {name: checks[name]} if name else checks
            exclude = request.query.getall("exclude", [])
            passed = await self._passed(page, asked, exclude)
            health: Health = report(page, passed, exclude=exclude, verbose="verbose" in request.query)
            return web.Response(
                status=health.status, text=health.text, headers={"X-Content-Type-Options": "nosniff"}
            )

        return answer

    async def _passed(
        self, page: str, checks: Mapping[str, Check], exclude: Sequence[str]
    ) -> dict[str, bool]:
        """Which checks pass, excluded ones too; where the loop does not answer, what each said last."""
        asked = {name: check for name, check in checks.items() if name not in exclude}

        async def run() -> Mapping[str, bool]:
            return run_checks(page, asked)

        try:
            said = await self.calls.ask(run, HEALTH_SECONDS, HEALTH_SECONDS)
        except LoopHeld:
            return self._judged(page, checks)
        for name, passes in said.items():
            self._said[page, name] = passes
        return {name: said.get(name, True) for name in checks}

    def _judged(self, page: str, checks: Mapping[str, Check]) -> dict[str, bool]:
        """Health while the loop is held: alive for as long as it may come back, and ready if it was."""
        held = max(self.pages.held(), self.calls.held())
        alive = held <= watchdog.DEAD_SECONDS
        if not alive:
            _health_log.info(
                "a health check failed", page=page, check=_EVENT_LOOP, error=f"held for {held:.1f} s"
            )
        passed = {name: self._said.get((page, name), page == "healthz") for name in checks}
        return passed if alive and _EVENT_LOOP not in checks else {**passed, _EVENT_LOOP: alive}
