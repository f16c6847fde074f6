"""Connections of the embedded server, and limits on unfinished requests.

A client that sends half of a request holds a descriptor and memory, so time, bytes and connections are
limited. The oldest unfinished request is dropped first, so that new requests always get through.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import anyio
from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.web_protocol import RequestHandler
from attrs import define, field

from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.verbs.bodies import MAX_BODY_BYTES, too_large

T = TypeVar("T")

BODY_TIME: Final = 30.0  # seconds in which a body has to arrive
# Seconds in which the request line and headers have to arrive: ReadHeaderTimeout in secure_serving.go.
HEAD_TIME: Final = 32.0
# Bytes of the request line and headers together: Go's http.DefaultMaxHeaderBytes, as in kube-apiserver.
MAX_HEAD: Final = 1024 * 1024
MAX_UNFINISHED: Final = 64 * 1024 * 1024  # bytes of all incomplete heads, and as many again of bodies
MAX_CONNECTIONS: Final = 4000
SPARE_DESCRIPTORS: Final = 128  # descriptors that are left to the rest of the process
# IdleTimeout in kube-apiserver's secure_serving.go, which matches Go's client transport.
_IDLE: Final = 90.0


@define
class _Unfinished(Generic[T]):
    """Counts the bytes of what has arrived in part, and drops the oldest when there are too many."""

    drop: Callable[[T], None]
    sizes: dict[T, int] = field(factory=dict)
    total: int = 0

    def grow(self, one: T, size: int) -> int:
        """Count further bytes of `one`, and return its total."""
        grown = self.sizes[one] = self.sizes.get(one, 0) + size
        self.total += size
        while self.total > MAX_UNFINISHED:
            oldest = next(iter(self.sizes))
            self.forget(oldest)
            self.drop(oldest)
        return grown

    def forget(self, one: T) -> None:
        self.total -= self.sizes.pop(one, 0)


class HttpConnection(RequestHandler):
    def __init__(self, owner: "HttpConnections", **options: Any) -> None:
        super().__init__(owner, **options)
        self.owner = owner
        self.busy = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.owner.made(self)
        self._limit_time()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.begin()
        self.owner.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self.busy:
            self._limit_time()
            if self.owner.unfinished.grow(self, len(data)) > 2 * MAX_HEAD:
                self.cut()
        super().data_received(data)

    def begin(self) -> None:
        """The head of a request is complete, or the connection has ended."""
        self.busy = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.owner.unfinished.forget(self)

    def end(self) -> None:
        self.busy = False

    def cut(self) -> None:
        """Close the connection without an answer."""
        if self.transport is not None:
            self.transport.abort()

    def _limit_time(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEAD_TIME, self.cut)


class HttpConnections(web.Server):
    def __init__(self, handler: Any, **options: Any) -> None:
        super().__init__(handler, keepalive_timeout=_IDLE, **options)
        self._options = options | {"keepalive_timeout": _IDLE}
        self._known: dict[HttpConnection, None] = {}
        self.unfinished = _Unfinished(HttpConnection.cut)
        self._most = min(MAX_CONNECTIONS, _descriptors() - SPARE_DESCRIPTORS)

    def __call__(self) -> HttpConnection:
        options = {name: value for name, value in self._options.items() if name != "handler_cancellation"}
        return HttpConnection(self, loop=asyncio.get_running_loop(), **options)

    def made(self, connection: HttpConnection) -> None:
        """Count a new connection. If there are too many, close the one that has been idle longest."""
        self._known[connection] = None
        if len(self._known) > self._most:
            (next((one for one in self._known if not one.busy), connection)).cut()

    def lost(self, connection: HttpConnection) -> None:
        self._known.pop(connection, None)

    @contextmanager
    def serving(self, request: web.BaseRequest) -> Iterator[None]:
        """While the rest of a request is read, carried out and answered."""
        connection = request.protocol
        assert isinstance(connection, HttpConnection)
        connection.begin()
        # A connection that was just used is the last to go.
        self._known.pop(connection, None)
        self._known[connection] = None
        try:
            yield
        finally:
            if request.content.is_eof():  # else what is left of it is read for a while, and then it is closed
                connection.end()


def _descriptors() -> int:
    enough = MAX_CONNECTIONS + SPARE_DESCRIPTORS
    try:
        import resource
    except ImportError:  # not on this platform
        return enough
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return enough if soft == resource.RLIM_INFINITY else max(soft, 2 * SPARE_DESCRIPTORS)


# --- heads and bodies -------------------------------------------------------------------------


def check_head(request: web.BaseRequest) -> None:
    """Raises ApiFailure (431) if the request line and headers are too long together."""
    size = len(request.raw_path) + sum(len(name) + len(value) for name, value in request.raw_headers)
    if size > MAX_HEAD:
        raise ApiFailure(431, "", "Request Header Fields Too Large")


@define
class BodyReads:
    _unfinished: _Unfinished[anyio.CancelScope] = field(
        factory=lambda: _Unfinished(lambda scope: scope.cancel())
    )

    async def read(self, request: web.BaseRequest) -> bytes:
        """The whole body.

        Raises ApiFailure: 413 if it is too large, 408 if it is late or newer ones need its memory.
        """
        if (request.content_length or 0) > MAX_BODY_BYTES:
            raise too_large()
        if not request.body_exists:
            return b""
        if request.version == HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        with anyio.move_on_after(BODY_TIME) as scope:
            return await self._pieces(request, scope)
        raise ApiFailure(408, "Timeout", f"the body of the request did not arrive within {BODY_TIME:g} s")

    async def _pieces(self, request: web.BaseRequest, scope: anyio.CancelScope) -> bytes:
        pieces: list[bytes] = []
        try:
            async for piece in request.content.iter_any():
                if self._unfinished.grow(scope, len(piece)) > MAX_BODY_BYTES:
                    raise too_large()
                pieces.append(piece)
        finally:
            self._unfinished.forget(scope)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
