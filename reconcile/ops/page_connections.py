"""Connections to the pages of a manager, with bounds on what each may cost before its request is complete.

In most clusters the port is open to the network. Time, bytes and the number of connections are bounded; at
the bound the connection without a request for longest is closed, so that a kubelet's next probe gets in.
Sockets are accepted here and not by asyncio, which logs a line for each failure and does not count TLS
handshakes.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final, cast

from attrs import define, field

from informers import get_logger

MAX_CONNECTIONS: Final = 200
MAX_HEAD: Final = 65_536
"""Bytes of a request before its page is called."""
HEAD_SECONDS: Final = 10.0
"""Time for a TLS handshake, and for line and headers of a request, to arrive."""
IDLE_SECONDS: Final = 60.0
"""Time for an answer to be read and the next request to begin."""
LOG_SECONDS: Final = 30.0
"""Between two log lines about the same trouble."""

_BACKLOG: Final = 128
_SAME_PORT_TRIES: Final = 8
_NO_SUCH_FAMILY: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
_log = get_logger("reconcile.serving")


# --- listening ------------------------------------------------------------------------------------------


async def listen(host: str, port: int) -> Sequence[socket.socket]:
    """Listening sockets, in all families for an empty `host`; port 0 is one free port. Raises OSError."""
    # The port that is free for the first family may be taken for the second: then try with another one.
    for _ in range(_SAME_PORT_TRIES - 1 if port == 0 else 0):
        with contextlib.suppress(OSError):
            return await _listen(host, port)
    return await _listen(host, port)


async def _listen(host: str, port: int) -> Sequence[socket.socket]:
    places = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    absent: OSError | None = None
    with contextlib.ExitStack() as opened:
        listeners: list[socket.socket] = []
        # IPv4 first: its address is the one that is shown.
        for family, *_, place in sorted(dict.fromkeys(places), key=lambda one: one[0] != socket.AF_INET):
            try:
                listener = _bound(family, (place[0], port, *place[2:]))
            except OSError as error:
                if error.errno not in _NO_SUCH_FAMILY:
                    raise
                absent = error
                continue
            listeners.append(opened.enter_context(listener))
            port = listener.getsockname()[1]
        if not listeners:
            raise absent or OSError(f"{host} is not an address of this machine")
        opened.pop_all()
        return listeners


def _bound(family: int, place: tuple[object, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setblocking(False)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


# --- connections ----------------------------------------------------------------------------------------


class PageConnection(asyncio.Protocol):
    """One connection, from when it is accepted; `handler` parses requests from what arrives."""

    def __init__(
        self, owner: "PageConnectionPool", handler: asyncio.Protocol, accepted: socket.socket
    ) -> None:
        self.owner = owner
        self.handler = handler
        self.accepted = accepted
        self.busy = False
        self.on_lost: Callable[[], object] | None = None
        """Called if the connection is lost while a request is answered."""
        self.opening: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._received = 0
        self._answered = False
        self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.cut)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of another class
        self.handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self.owner.forget(self)
        if self.on_lost is not None:
            self.on_lost()
        self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.busy:
            if self._answered:
                self._answered = False
                self._limit_time(HEAD_SECONDS)
            self._received += len(data)
            if self._received > self.owner.max_head:
                self.cut()
                return
        self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self.handler.eof_received()

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()

    def begin(self) -> None:
        """Called with the request: from here on its page bounds the time."""
        self.busy = True
        self._timer.cancel()

    def end(self) -> None:
        self.busy, self._answered, self._received, self.on_lost = False, True, 0, None
        self._limit_time(IDLE_SECONDS)

    def cut(self) -> None:
        self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        else:
            # Cancelling `opening` would not end a handshake that has not begun yet; the end of the stream
            # does. asyncio closes the socket.
            with contextlib.suppress(OSError):
                self.accepted.shutdown(socket.SHUT_RDWR)

    def not_opened(self) -> None:
        self._timer.cancel()

    def _limit_time(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.cut)


@define(eq=False)
class PageConnectionPool:
    """The connections of one server, `most` at once; `make_handler` makes the parser of each."""

    make_handler: Callable[[], asyncio.Protocol]
    tls: ssl.SSLContext | None = None
    most: int = MAX_CONNECTIONS
    max_head: int = MAX_HEAD
    _known: dict[asyncio.Protocol, PageConnection] = field(factory=dict, init=False)
    """By handler, the most recently used last."""
    _throttle: "LogThrottle" = field(factory=lambda: LogThrottle(), init=False)

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Most likely out of file descriptors: idle connections make room.
                if times := self._throttle.times("accept"):
                    _log.warning("cannot accept connections", times=times, error=error.strerror or str(error))
                self._make_room()
                await asyncio.sleep(0.1)
                continue
            if len(self._known) >= self.most and not self._make_room():
                accepted.close()
                if times := self._throttle.times("refused"):
                    _log.warning("refused a connection: all are in use", times=times, connections=self.most)
                continue
            connection = PageConnection(self, self.make_handler(), accepted)
            self._known[connection.handler] = connection
            connection.opening = loop.create_task(self._open(connection))

    async def _open(self, connection: PageConnection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                connection.accepted,
                ssl=self.tls,
                ssl_handshake_timeout=None if self.tls is None else HEAD_SECONDS,
            )
        except OSError:  # asyncio has closed it
            connection.not_opened()
            self.forget(connection)

    def _make_room(self) -> bool:
        """Close the connection that has had no request for longest, if any is idle."""
        idle = next((each for each in self._known.values() if not each.busy), None)
        if idle is None:
            return False
        if times := self._throttle.times("cut"):
            _log.warning("cut an idle connection to make room", times=times, connections=len(self._known))
        self.forget(idle)
        idle.cut()
        return True

    def of(self, handler: object) -> PageConnection | None:
        """The connection of that parser, which counts as used now."""
        assert isinstance(handler, asyncio.Protocol)
        connection = self._known.pop(handler, None)
        if connection is not None:
            self._known[handler] = connection
        return connection

    def forget(self, connection: PageConnection) -> None:
        self._known.pop(connection.handler, None)

    async def end(self) -> None:
        left = list(self._known.values())
        for connection in left:
            connection.cut()
        opening = [each.opening for each in left if each.opening is not None and not each.opening.done()]
        if opening:
            await asyncio.wait(opening, timeout=1)


@define(eq=False)
class LogThrottle:
    """Bounds log lines about what may happen a thousand times a second: one in LOG_SECONDS for each kind."""

    _last: dict[str, tuple[float, int]] = field(factory=dict, init=False)

    def times(self, kind: str) -> int:
        """Count one more; returns how many to log: all since the last line, or 0 if no line is due yet."""
        now = asyncio.get_running_loop().time()
        last, number = self._last.get(kind, (-LOG_SECONDS, 0))
        due = now - last >= LOG_SECONDS
        self._last[kind] = (now, 0) if due else (last, number + 1)
        return number + 1 if due else 0
