"""Serves HTTP from a thread with an event loop of its own, whatever holds the manager's.

aiohttp is imported when a manager serves.
"""

import asyncio
import contextlib
import logging
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from attrs import define, field

from informers import get_logger
from reconcile.ops.page_connections import (
    IDLE_SECONDS,
    MAX_CONNECTIONS,
    MAX_HEAD,
    LogThrottle,
    PageConnectionPool,
    listen,
)
from reconcile.ops.serving_addresses import Address, ServeError

if TYPE_CHECKING:
    from aiohttp import web

_log = get_logger("reconcile.serving")


async def nothing_to_drain() -> None: ...


@define(eq=False)
class ServingThread:
    """Serves an application in a thread `name` with the loop `_own`; `_loop` is the manager's.

    `make` gets the connections, of which there are at most `most`, each with `max_head` bytes before its
    request is known. `drained` is awaited, in the thread, between `stop` and the end of the listening;
    calls in progress then get `stop_seconds`. It is created in the manager's loop.
    """

    name: str
    address: Address
    make: "Callable[[PageConnectionPool], web.Application]"
    tls: ssl.SSLContext | None
    most: int = MAX_CONNECTIONS
    max_head: int = MAX_HEAD
    stop_seconds: float = 1.0
    drained: Callable[[], Awaitable[None]] = nothing_to_drain
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    _bound: "asyncio.Future[Address]" = field(factory=asyncio.Future, init=False)
    _ended: asyncio.Event = field(factory=asyncio.Event, init=False)
    _own: asyncio.AbstractEventLoop = field(factory=asyncio.new_event_loop, init=False)
    _stopping: asyncio.Event = field(factory=asyncio.Event, init=False)

    async def start(self) -> Address:
        """Raises ServeError."""
        try:
            threading.Thread(target=self._run, name=self.name, daemon=True).start()
        except RuntimeError as error:
            self._own.close()
            self._ended.set()
            raise ServeError(f"cannot serve on {self.address}: {error}") from None
        return await self._bound

    async def stop(self) -> None:
        """Returns when calls in progress have ended, or had their time."""
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
        except BaseException as error:  # it ends the thread, and must not leave `stop` waiting
            failure = ServeError(f"{type(error).__name__} in the server on {self.address}")
        with contextlib.suppress(RuntimeError):  # the manager's loop is closed: nothing waits for us
            self._loop.call_soon_threadsafe(self._end, failure)

    def _end(self, failure: Exception | None) -> None:
        if not self._bound.done():
            self._bound.set_exception(failure or ServeError(f"cannot serve on {self.address}: stopped"))
        elif failure is not None:
            _log.error(
                "a server of the manager has ended",
                server=self.name,
                error=f"{type(failure).__name__}: {failure}",
                exc_info=failure,
            )
        self._ended.set()

    def _note_bound(self, bound: Address) -> None:
        if not self._bound.done():
            self._bound.set_result(bound)

    async def _serve(self) -> None:
        from aiohttp import web

        throttle = LogThrottle()
        asyncio.get_running_loop().set_exception_handler(partial(_connection_failed, throttle))
        connections = PageConnectionPool(
            lambda: cast(web.Server, runner.server)(), self.tls, self.most, self.max_head
        )
        runner = web.AppRunner(
            self.make(connections),
            access_log=None,
            logger=_protocol_log(throttle),
            handle_signals=False,
            shutdown_timeout=self.stop_seconds,
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
            await self.drained()
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
