"""The transport into an embedded server in the same process, without a socket."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import anyio.lowlevel
from attrs import define

from informers.api_errors import Unreachable
from informers.transport import HttpRequest, Response, StreamingResponse, about_to_send
from reconcile.embedded.api import ApiRequest
from reconcile.embedded.auth.users import ADMIN, User
from reconcile.embedded.server import ApiServer
from reconcile.embedded.verbs.watching import WatchStream


class InProcessTransport:
    """An `informers.transport.Transport` into `server` (`api`), as `user`.

    A request can be cancelled at one checkpoint before it is carried out, and while admission or conversion
    waits. With `settle` the server settles after each request that may change something, so that tests never
    wait for its controllers. A user other than the administrator has the rights of its roles.
    """

    def __init__(self, server: ApiServer, *, settle: bool = False, user: User = ADMIN) -> None:
        self.api = server
        self._user = user
        self._settle = settle
        self._closed = False

    @property
    def server(self) -> str:
        """A name that tells clusters apart in logs."""
        return "embedded"

    async def request(self, request: HttpRequest) -> Response:
        """Carry out one request and return its whole answer."""
        answer = await self.open(request)
        if self._settle and not request.reads:
            self.api.settle()
            await self.api.settle_waiting()
        if not isinstance(answer, WatchStream):
            return answer
        try:
            body = b"".join([lines async for lines in _chunks(answer)])
        finally:
            answer.close()
        return Response(200, {"content-type": answer.content_type}, body)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open a watch, or return a whole answer as one chunk."""
        return _Stream(self, request)

    async def open(self, request: HttpRequest) -> Response | WatchStream:
        """What `stream` reads: a whole answer, or a watch for the caller to close. Raises Unreachable."""
        await anyio.lowlevel.checkpoint()
        if self._closed:
            raise Unreachable("the transport is closed", str(request))
        about_to_send()
        lowered = {name.lower(): value for name, value in request.headers.items()}
        return await self.api.respond(
            ApiRequest(request.method, request.path, request.query, lowered, request.body or b"", self._user)
        )

    def watched(self, watch: WatchStream, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch without delay; a subclass may delay them."""
        return _chunks(watch)

    async def aclose(self) -> None:
        """Refuse all further requests."""
        self._closed = True


@define(eq=False)
class _Stream(AbstractAsyncContextManager[StreamingResponse]):
    """An answer read in pieces; a class, since simulated runs open very many of them."""

    _transport: InProcessTransport
    _request: HttpRequest
    _watch: WatchStream | None = None

    async def __aenter__(self) -> StreamingResponse:
        answer = await self._transport.open(self._request)
        if not isinstance(answer, WatchStream):
            return StreamingResponse(answer.status, answer.headers, _chunk(answer.body))
        self._watch = answer
        lines = self._transport.watched(answer, self._request.path)
        return StreamingResponse(200, {"content-type": answer.content_type}, lines)

    async def __aexit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.close()


async def _chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _chunks(watch: WatchStream) -> AsyncIterator[bytes]:
    while not watch.closed:
        await watch.wait()
        lines = watch.take()
        if lines:
            yield b"".join(lines)
