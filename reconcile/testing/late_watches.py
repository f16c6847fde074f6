"""Transports whose watch events arrive late, as they always do from a real server."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from contextvars import Context, copy_context
from functools import partial

import anyio

from informers.broadcast import Broadcast
from informers.transport import HttpRequest, PassingTransport, StreamingResponse, Transport
from reconcile.embedded import ApiServer, InProcessTransport, WatchStream
from reconcile.testing.faults import Crash
from reconcile.testing.seeded_random import SeededRandom
from reconcile.testing.stream_faults import alongside, whole_lines
from reconcile.testing.virtual_time import loop_time

LAG = (0.005, 0.25)
"""How late an event arrives, in seconds, at least and at most: from a quiet server to a busy one."""


class LateTransport(PassingTransport):
    """Holds back each event of each watch for a random time; everything else passes unchanged.

    The lag is drawn from `lag` (seconds at least and at most). An event also waits for those before it in its
    watch; watches lag independently of one another. Lags depend only on the seed, the path, and the number of
    earlier watches of that path.
    """

    def __init__(self, inner: Transport, seed: int = 0, *, lag: tuple[float, float] = LAG) -> None:
        _check(lag)
        super().__init__(inner)
        self._seed = seed
        self._lag = lag
        self._opened: Counter[str] = Counter()

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it arrives; that of a watch arrives late."""
        if request.query.get("watch") not in ("1", "true"):
            return self._inner.stream(request)
        return self._watch(request)

    @asynccontextmanager
    async def _watch(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        self._opened[request.path] += 1
        chance = SeededRandom(f"{self._seed}/lag/{request.path}/{self._opened[request.path]}")
        async with self._inner.stream(request) as answer:
            if answer.status >= 400:
                yield answer
                return
            lines = _DelayedLines(chance, self._lag)
            async with alongside(partial(lines.collect, answer.chunks)), aclosing(lines.deliver()) as chunks:
                yield StreamingResponse(answer.status, answer.headers, chunks)


class LateWatches(InProcessTransport):
    """As a `LateTransport` into an embedded server; without a task per watch, it is faster for short runs."""

    def __init__(self, server: ApiServer, seed: int = 0, *, lag: tuple[float, float] = LAG) -> None:
        _check(lag)
        super().__init__(server)
        self._seed = seed
        self._lag = lag
        self._opened: Counter[str] = Counter()

    def watched(self, watch: WatchStream, path: str) -> AsyncIterator[bytes]:
        self._opened[path] += 1
        chance = SeededRandom(f"{self._seed}/lag/{path}/{self._opened[path]}")
        return _LateLines(watch, chance, self._lag)


class _LateLines(AsyncIterator[bytes]):
    """The lines of a watch: each gets its lag when it is sent, and is delivered after that."""

    def __init__(self, watch: WatchStream, chance: SeededRandom, lag: tuple[float, float]) -> None:
        self._watch = watch
        self._chance = chance
        self._lag = lag
        self._sent: deque[tuple[float, bytes]] = deque()
        self._last_due = 0.0
        self._reader: asyncio.Future[None] | None = None
        self._listens = False
        self._context: Context | None = None

    def _collect(self) -> None:
        is_awaited = self._reader is not None and not self._sent
        now = loop_time()
        for line in self._watch.take():
            self._last_due = max(self._last_due, now + self._chance.uniform(*self._lag))
            self._sent.append((self._last_due, line))
        if is_awaited:
            self._wake_in_time()

    async def __anext__(self) -> bytes:
        if not self._listens:
            self._listens = True
            self._watch.listen(self._collect)
            self._collect()
        while not self._sent or self._sent[0][0] > loop_time():
            if not self._sent and self._watch.closed:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            self._context = self._context or copy_context()  # the reader's: a writer's process may be frozen
            self._wake_in_time()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._sent.popleft()[1]

    def _wake_in_time(self) -> None:
        """Wake the reader when the first line arrives, or at the end if no line is on its way."""
        assert self._reader is not None
        if self._sent:
            asyncio.get_running_loop().call_at(self._sent[0][0], _wake, self._reader, context=self._context)
        elif self._watch.closed:
            _wake(self._reader)


def _wake(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_result(None)


def _check(lag: tuple[float, float]) -> None:
    least, most = lag
    if not 0 < least <= most < math.inf:
        raise ValueError(f"expected lag=(least, most) in seconds with 0 < least <= most, got {lag}")


class _DelayedLines:
    """The lines of a watch that have not arrived yet, then its end or its error."""

    def __init__(self, chance: SeededRandom, lag: tuple[float, float]) -> None:
        self._chance = chance
        self._lag = lag
        self._sent: deque[tuple[float, bytes | BaseException | None]] = deque()
        self._last_due = 0.0
        self._arrived = Broadcast()

    async def collect(self, chunks: AsyncIterator[bytes]) -> None:
        """Take each line when it is sent, and decide when it arrives."""
        try:
            async with aclosing(whole_lines(chunks)) as lines:
                async for line in lines:
                    self._send(line)
        except (Exception, Crash) as error:
            self._send(error)
        else:
            self._send(None)

    def _send(self, item: bytes | BaseException | None) -> None:
        arrival = anyio.current_time() + self._chance.uniform(*self._lag)
        self._last_due = max(self._last_due, arrival)
        self._sent.append((self._last_due, item))
        self._arrived.notify()

    async def deliver(self) -> AsyncGenerator[bytes, None]:
        while True:
            await self._arrived.wait_until(lambda: bool(self._sent))
            due, item = self._sent.popleft()
            await anyio.sleep_until(due)
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
