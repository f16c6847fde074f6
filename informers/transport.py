"""The one way in and the one way out: everything that talks to an API server goes through here.

Two implementations are real, one over HTTPS and one straight into the embedded server; a fake client
is the real client on the second, and a fault is a wrapper around either.
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
    """Have `check` called when a request made inside is about to leave; if it raises, nothing is sent.

    It travels beside the request, so that wrappers need not know of it.
    """
    token = _last_check.set(check)
    try:
        yield
    finally:
        _last_check.reset(token)


def about_to_send() -> None:
    """Ask the check of `last_check`, if there is one, whether a request may leave; raises what it raises.

    For transports: right before a request is handed over, after every wait for a connection, TLS or
    credentials.
    """
    check = _last_check.get()
    if check is not None:
        check()


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
    """An answer whose body is still coming, in chunks that end anywhere, also in mid-line."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


async def raise_refusal(stream: StreamingResponse, request: str) -> None:
    """Raise the typed error of a stream whose status is 400 or more; of its body at most 1 MiB is read."""
    if stream.status < 400:
        return
    body = bytearray()
    async for chunk in stream.chunks:
        body += chunk
        if len(body) > _MOST_OF_A_REFUSAL:
            break
    raise error_from_response(stream.status, stream.headers, bytes(body), request)


class Transport(Protocol):
    """Carries requests to one API server and knows nothing of what they mean.

    A status of 400 or more is an answer like any other: turning it into an exception is the caller's
    work. What prevents an answer is raised as an `informers.api_errors.TransportError`: `Unreachable`
    where the server cannot have seen the request, `OutcomeUnknown` where it may have acted on it. A
    transport calls `about_to_send` each time a request is about to leave.
    """

    @property
    def server(self) -> str:
        """Which server this is, for people and for keeping clusters apart: a URL, or `embedded`."""
        ...

    async def request(self, request: HttpRequest) -> Response:
        """Send one request and read the whole answer."""
        ...

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it comes; leaving the context ends the stream."""
        ...

    async def aclose(self) -> None:
        """Give back connections. Requests under way fail."""
        ...


class PassingTransport:
    """Passes everything on to the transport within: the base of those that change one thing on the way."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    @property
    def server(self) -> str:
        """That of the transport within."""
        return self._inner.server

    async def request(self, request: HttpRequest) -> Response:
        """Send one request and read the whole answer."""
        return await self._inner.request(request)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it comes."""
        return self._inner.stream(request)

    async def aclose(self) -> None:
        """Close the transport within."""
        await self._inner.aclose()
