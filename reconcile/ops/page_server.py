"""Serves the pages of a manager on one port, from a thread with an event loop of its own.

So health is answered while the manager's loop is blocked. aiohttp is imported when a manager serves.
"""

import asyncio
import contextlib
import logging
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
from attrs import define, field, frozen

from informers import get_logger
from reconcile.ops.certificate_rotation import NoCertificate, RotatingCertificate
from reconcile.ops.loop_calls import LoopCalls
from reconcile.ops.page_connections import (
    IDLE_SECONDS,
    MAX_CONNECTIONS,
    LogThrottle,
    PageConnectionPool,
    listen,
)
from reconcile.ops.page_routes import PageRoutes, PageSources

LOOPBACK = "127.0.0.1"

_STOP_SECONDS = 1.0
_DESCRIPTORS_A_CONNECTION = 4
_MOST_DESCRIPTORS = 65_536
"""More would only slow down child processes that close every descriptor they might have inherited."""
_log = get_logger("reconcile.serving")


class ServeError(Exception):
    """The port is not available, or the certificate is not usable."""


@frozen
class Address:
    """Where to listen. An empty host means every interface, of IPv4 and of IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """`8080` is on loopback, `:8080` everywhere (IPv4, IPv6), `[::1]:0` on a free port. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"expected HOST:PORT, or :PORT for all interfaces, got {text!r}")
    host = host.removeprefix("[").removesuffix("]")
    return Address(host if host or colon else LOOPBACK, int(port))


@asynccontextmanager
async def serving(
    address: Address,
    sources: PageSources,
    certificates: Path | None = None,
    certificate_read: Callable[[bool], None] = lambda succeeded: None,
) -> AsyncIterator[Address]:
    """Serve while inside; yields the address, with the port that was chosen for 0. Raises ServeError.

    With `certificates`, a folder with tls.crt and tls.key, over TLS; they are reloaded when they change, and
    `certificate_read` gets the success of each attempt. Raises the soft limit of open files to the hard one.
    """
    if certificates is None:
        async with _serving(address, sources, None) as bound:
            yield bound
        return
    try:
        certificate = RotatingCertificate(certificates, certificate_read)
    except NoCertificate as error:
        raise ServeError(f"cannot serve on {address}: {error}") from None
    watching = asyncio.create_task(certificate.watch(), name="certificates")
    try:
        async with _serving(address, sources, certificate.context) as bound:
            yield bound
    finally:
        watching.cancel()
        await asyncio.wait([watching])


@asynccontextmanager
async def _serving(
    address: Address, sources: PageSources, tls: ssl.SSLContext | None
) -> AsyncIterator[Address]:
    most = max(8, min(MAX_CONNECTIONS, _raise_descriptor_limit() // _DESCRIPTORS_A_CONNECTION))
    calls = LoopCalls(asyncio.get_running_loop())
    thread = _PageThread(address, PageRoutes(sources, calls), tls, most)
    try:
        bound = await thread.start()
        _log.info("serving", address=str(bound), tls=tls is not None)
        yield bound
    finally:
        with anyio.CancelScope(shield=True):
            # The thread first: it must not ask for calls that end already.
            await thread.stop()
            await calls.end()


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, as Go does at the start; returns the new limit."""
    try:
        import resource
    except ImportError:  # not on this platform
        return _MOST_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_DESCRIPTORS
    limit = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if limit <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (OSError, ValueError) as error:  # the kernel of macOS has a lower limit of its own
        _log.info("could not raise the limit of open files", soft=soft, hard=hard, error=str(error))
        return soft
    _log.info("raised the limit of open files", soft=limit, before=soft)
    return limit


@define(eq=False)
class _PageThread:
    """Serves pages in a thread with the loop `_own`; `_loop` is the manager's, which creates it."""

    address: Address
    routes: PageRoutes
    tls: ssl.SSLContext | None
    most: int
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    _bound: "asyncio.Future[Address]" = field(factory=asyncio.Future, init=False)
    _ended: asyncio.Event = field(factory=asyncio.Event, init=False)
    _own: asyncio.AbstractEventLoop = field(factory=asyncio.new_event_loop, init=False)
    _stopping: asyncio.Event = field(factory=asyncio.Event, init=False)

    async def start(self) -> Address:
        """Raises ServeError."""
        try:
            threading.Thread(target=self._run, name="pages", daemon=True).start()
        except RuntimeError as error:
            self._own.close()
            self._ended.set()
            raise ServeError(f"cannot serve on {self.address}: {error}") from None
        return await self._bound

    async def stop(self) -> None:
        """Answers in progress get a second."""
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

    def _note_bound(self, bound: Address) -> None:
        if not self._bound.done():
            self._bound.set_result(bound)

    async def _serve(self) -> None:
        from aiohttp import web

        throttle = LogThrottle()
        asyncio.get_running_loop().set_exception_handler(partial(_connection_failed, throttle))
        connections = PageConnectionPool(lambda: cast(web.Server, runner.server)(), self.tls, self.most)
        runner = web.AppRunner(
            self.routes.application(connections),
            access_log=None,
            logger=_protocol_log(throttle),
            handle_signals=False,
            shutdown_timeout=_STOP_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
        )
        await runner.setup()
        try:
            await self._accept(connections)
        finally:
            # Pages in progress end first, then their connections: aiohttp waits for the former.
            await runner.cleanup()
            await connections.end()

    async def _accept(self, connections: PageConnectionPool) -> None:
        """Raises ServeError."""
        try:
            listeners = await listen(self.address.host, self.address.port)
        except OSError as error:
            raise ServeError(f"cannot serve on {self.address}: {error.strerror or error}") from None
        accepting = [asyncio.create_task(connections.accept(listener)) for listener in listeners]
        try:
            bound = Address(*listeners[0].getsockname()[:2])
            self._loop.call_soon_threadsafe(self._note_bound, bound)
            await self._stopping.wait()
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)
            for listener in listeners:
                listener.close()


def _connection_failed(throttle: LogThrottle, _: object, context: Mapping[str, Any]) -> None:
    if times := throttle.times("connection"):
        error = str(context.get("exception") or context.get("message", ""))
        _log.warning("a connection failed", times=times, error=error)


def _protocol_log(throttle: LogThrottle) -> logging.Logger:
    """aiohttp's logger. Input that is not HTTP gets 400 and is not logged, as it may hold secrets."""
    from aiohttp.http import HttpProcessingError

    def log_failure(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError) and (times := throttle.times("page")):
            _log.error("a page failed", times=times, error=f"{type(error).__name__}: {error}", exc_info=error)
        return False

    log = logging.Logger("reconcile.serving.protocol")
    log.addFilter(log_failure)
    return log
