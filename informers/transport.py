"""The only connection to API servers: all requests go through a transport.

Two implementations are real, one over HTTPS and one into the embedded server; a fake client is the real
client on the second, and a fault is a wrapper around either.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

import msgspec
from attrs import frozen

from informers.api_errors import error_from_response

_NOTHING: Mapping[str, str] = {}
_MOST_OF_A_REFUSAL = 1 << 20


_last_check: ContextVar[Callable[[], None] | None] = ContextVar("last_check", default=None)


@contextmanager
def last_check(check: Callable[[], None]) -> Iterator[None]:
    """Have `check` called when a request made inside is about to be sent; if it raises, nothing is sent.

    The check is passed beside the request, so wrappers need not know it. Checks of several wrappers are
    called from the outermost on.
    """
    outer = _last_check.get()

    def both() -> None:
        if outer is not None:
            outer()
        check()

    token = _last_check.set(both)
    try:
        yield
    finally:
        _last_check.reset(token)


def about_to_send() -> None:
    """Call the check of `last_check`, if any; raises what it raises.

    For transports: right before a request is handed over, after every wait for a connection, TLS or
    credentials.
    """
    check = _last_check.get()
    if check is not None:
        check()


# A Struct: one is made for each request, and a frozen attrs class takes five times as long to make.
class HttpRequest(msgspec.Struct, frozen=True):
    """One request. `path` begins with `/`, is not percent-encoded, and has no query."""

    method: str
    path: str
    query: Mapping[str, str] = _NOTHING
    headers: Mapping[str, str] = _NOTHING
    body: bytes | None = None

    @property
    def reads(self) -> bool:
        """Whether its method changes nothing."""
        return self.method in ("GET", "HEAD")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Response(msgspec.Struct, frozen=True):
    """One whole answer. Header names are lower case."""

    status: int
    headers: Mapping[str, str] = _NOTHING
    body: bytes = b""


@frozen
class StreamingResponse:
    """An answer whose body is still arriving, in chunks that may end in mid-line."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


async def raise_refusal(stream: StreamingResponse, request: str) -> None:
    """Raise the typed error of a stream whose status is 400 or more; reads at most 1 MiB of its body."""
    if stream.status < 400:
        return
    body = bytearray()
    async for chunk in stream.chunks:
        body += chunk
        if len(body) > _MOST_OF_A_REFUSAL:
            break
    raise error_from_response(stream.status, stream.headers, bytes(body), request)


class Transport(Protocol):
    """Carries requests to one API server; a status of 400 or more is an answer like any other.

    Raises `informers.api_errors.Unreachable` if the server cannot have seen the request, `OutcomeUnknown` if
    it may have acted on it. Calls `about_to_send` each time a request is about to be sent.
    """

    @property
    def server(self) -> str:
        """The server, for people and for telling clusters apart: a URL, or `embedded`."""
        ...

    async def request(self, request: HttpRequest) -> Response:
        """Send one request and read the whole answer."""
        ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it comes; leaving the context ends the stream."""
        ...

    async def aclose(self) -> None:
        """Close connections. Requests in progress fail."""
        ...


class PassingTransport:
    """Passes everything on to an inner transport: the base of transports that change one thing."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    @property
    def server(self) -> str:
        """The inner transport's server."""
        return self._inner.server

    async def request(self, request: HttpRequest) -> Response:
        """Send one request and read the whole answer."""
        return await self._inner.request(request)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it comes."""
        return self._inner.stream(request)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()
