"""The transport straight into an embedded server: no socket, no second imitation of Kubernetes."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio.lowlevel

from informers.errors import Unreachable
from informers.transport import Response, StreamingResponse
from reconcile.embedded.api import ApiRequest
from reconcile.embedded.auth.users import ADMIN, User
from reconcile.embedded.server import ApiServer
from reconcile.embedded.watching import Watch

_NOTHING: Mapping[str, str] = {}
_READS = frozenset({"GET", "HEAD"})


class InProcessTransport:
    """An `informers.transport.Transport` into `server`.

    Every request passes one checkpoint before it is carried out, so that it can be cancelled, and
    none after. With `settle` the server settles after each request that may change something, so
    that a test never waits for garbage collection. `user` is who asks: with another one than the
    administrator an operator is held to the roles that are bound to it.
    """

    def __init__(self, server: ApiServer, *, settle: bool = False, user: User = ADMIN) -> None:
        self._server = server
        self._user = user
        self._settle = settle
        self._closed = False

    @property
    def server(self) -> str:
        """For people, and for keeping clusters apart."""
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
        answer = self._server.handle(self._asked(method, path, query, headers, body))
        if self._settle and method not in _READS:
            self._server.settle()
        if isinstance(answer, Watch):
            return await _read_to_end(answer)
        return answer

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> AsyncGenerator[StreamingResponse, None]:
        """Open a watch, or give a whole answer as one chunk."""
        await self._admit(method, path)
        answer = self._server.handle(self._asked(method, path, query, headers, None))
        if not isinstance(answer, Watch):
            yield StreamingResponse(answer.status, answer.headers, _chunk(answer.body))
            return
        try:
            yield StreamingResponse(200, {"content-type": answer.content_type}, self.watched(answer, path))
        finally:
            answer.close()

    def watched(self, watch: Watch, path: str) -> AsyncIterator[bytes]:
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


async def _read_to_end(watch: Watch) -> Response:
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


async def _chunks(watch: Watch) -> AsyncIterator[bytes]:
    while not watch.closed:
        await watch.wait()
        lines = watch.take()
        if lines:
            yield b"".join(lines)
