"""Connections to one server that wait for their next request."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from informers.http.connection import Connection
from informers.http.failures import NotConnected, Stage

IDLE_SECONDS = 15.0
"""How long an unused connection is kept. Servers and load balancers keep theirs for a minute."""
_CLOSED = "it was closed"


class Pool:
    """Up to `limit` connections in use at once, or any number; what is given back waits for its next use."""

    def __init__(self, dial: Callable[[], Awaitable[Connection]], limit: int | None = None) -> None:
        self._dial = dial
        self._places = None if limit is None else anyio.Semaphore(limit, fast_acquire=True)
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._dials: set[anyio.CancelScope] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    def take_idle(self) -> Connection | None:
        """A connection that waits, the last that was used; None if there is none, or all places are taken."""
        if not self._idle:
            return None
        if self._places is not None:
            try:
                self._places.acquire_nowait()
            except anyio.WouldBlock:
                return None
        if (connection := self._last_idle()) is None:
            self._leave_place()
        return connection

    async def take(self, *, fresh: bool = False) -> Connection:
        """A connection, as soon as there is a place for it; a new one if it has to be `fresh`.

        Raises NotConnected.
        """
        if self._places is not None:
            await self._places.acquire()
        if not fresh and (connection := self._last_idle()) is not None:
            return connection
        try:
            # Both waits, for the place and for the connection, may outlast the pool.
            self._check_open()
            dialled = await self._dialled()
        except BaseException:
            self._leave_place()
            raise
        return self._use(dialled)

    async def _dialled(self) -> Connection:
        with anyio.CancelScope() as scope:
            self._dials.add(scope)
            try:
                connection = await self._dial()
            finally:
                self._dials.remove(scope)
            if not self._closed:
                return connection
            connection.close()  # it was open before the cancellation came
        raise NotConnected(Stage.CLOSED, _CLOSED)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request if it can carry one, and close it otherwise."""
        self._used.discard(connection)
        self._leave_place()
        if self._closed or not connection.reusable:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_SECONDS, self._close_idle)

    def close(self) -> None:
        """Close all connections, also those being opened.

        Exchanges in progress fail, and no connection is given out any more.
        """
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in (*self._idle, *self._used):
            connection.close()
        for dial in self._dials:
            dial.cancel()

    def _last_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return self._use(connection)
        return None

    def _use(self, connection: Connection) -> Connection:
        self._used.add(connection)
        connection.returned = self.give_back
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise NotConnected(Stage.CLOSED, _CLOSED)

    def _leave_place(self) -> None:
        if self._places is not None:
            self._places.release()

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = None
        # Those that were given back first stand first.
        while self._idle and self._idle[0].idle_since <= loop.time() - IDLE_SECONDS:
            self._idle.pop(0).close()
        if self._idle:
            self._sweep = loop.call_at(self._idle[0].idle_since + IDLE_SECONDS, self._close_idle)
