"""The transport straight into an embedded server: no socket, no second imitation of Kubernetes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager

import anyio.lowlevel

from informers.api_errors import Unreachable
from informers.transport import Response, StreamingResponse, about_to_send
from reconcile.embedded.api import ApiRequest
from reconcile.embedded.auth.users import ADMIN, User
from reconcile.embedded.server import ApiServer
from reconcile.embedded.verbs.watching import WatchStream

_NOTHING: Mapping[str, str] = {}
_READS = frozenset({"GET", "HEAD"})


class InProcessTransport:
    """An `informers.transport.Transport` into `server`.

    Every request passes one checkpoint before it is carried out, so that it can be cancelled, and
    none after, unless admission waits. With `settle` the server settles after each request that may
    change something, so that a test never waits for garbage collection. `user` sends the requests; anyone but
    the administrator is held to the roles bound to them.
    """

    def __init__(self, server: ApiServer, *, settle: bool = False, user: User = ADMIN) -> None:
        self._server = server
        self._user = user
        self._settle = settle
        self._closed = False

    @property
    def server(self) -> str:
        """A name for logs, and for telling clusters apart."""
        return "embedded"

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
        body: bytes | None = None,
    ) -> Response:
        """Carry out one request and return its whole answer."""
        await self._admit(method, path)
        answer = await self._server.respond(self._asked(method, path, query, headers, body))
        if self._settle and method not in _READS:
            self._server.settle()
        if isinstance(answer, WatchStream):
            return await _read_to_end(answer)
        return answer

    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open a watch, or give a whole answer as one chunk."""
        return _Stream(self, method, path, query, headers)

    async def open(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> Response | WatchStream:
        """What `stream` reads: a watch, which is then to be closed, or a whole answer."""
        await self._admit(method, path)
        return await self._server.respond(self._asked(method, path, query, headers, None))

    def watched(self, watch: WatchStream, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch, as soon as they are there; another transport may have them come later."""
        return _chunks(watch)

    async def aclose(self) -> None:
        """Refuse all further requests."""
        self._closed = True

    def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> ApiRequest:
        lowered = {name.lower(): value for name, value in headers.items()}
        return ApiRequest(method, path, query, lowered, body or b"", self._user)

    async def _admit(self, method: str, path: str) -> None:
        await anyio.lowlevel.checkpoint()
        if self._closed:
            raise Unreachable("the transport is closed", f"{method} {path}")
        about_to_send()


class _Stream(AbstractAsyncContextManager[StreamingResponse]):
    """An answer that is read as it comes; a class, since simulated runs open very many of them."""

    def __init__(
        self,
        transport: InProcessTransport,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> None:
        self._transport = transport
        self._asked = (method, path, query, headers)
        self._watch: WatchStream | None = None

    async def __aenter__(self) -> StreamingResponse:
        answer = await self._transport.open(*self._asked)
        if not isinstance(answer, WatchStream):
            return StreamingResponse(answer.status, answer.headers, _chunk(answer.body))
        self._watch = answer
        lines = self._transport.watched(answer, self._asked[1])
        return StreamingResponse(200, {"content-type": answer.content_type}, lines)

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.close()


async def _read_to_end(watch: WatchStream) -> Response:
    lines: list[bytes] = []
    try:
        while not watch.closed:
            await watch.wait()
            lines += watch.take()
    finally:
        watch.close()
    return Response(200, {"content-type": watch.content_type}, b"".join(lines))


async def _chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _chunks(watch: WatchStream) -> AsyncIterator[bytes]:
    while not watch.closed:
        await watch.wait()
        lines = watch.take()
        if lines:
            yield b"".join(lines)
