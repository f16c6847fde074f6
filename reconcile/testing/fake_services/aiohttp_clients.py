"""Reaches a service from aiohttp, without a socket: a connection in memory that speaks HTTP/1.1.

Only the bytes of aiohttp's own client are parsed, which are well formed.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from attrs import frozen

from informers.transport import Response
from reconcile.testing.fake_services.service_laws import AnswerLost, Exchange, ServiceUnreachable

_END_OF_HEAD = b"\r\n\r\n"
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
_NO_BODY = frozenset({204, 304})


class ServiceConnector(aiohttp.BaseConnector):
    """Connects each request of an aiohttp session to a service, under any host name, with or without TLS.

    A request that is dropped and an answer that is lost look alike to aiohttp: the connection is reset.
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(force_close=True)
        self._exchange = exchange

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> ResponseHandler:
        handler = ResponseHandler(loop=self._loop)
        handler.connection_made(_ServiceConnection(self._exchange, handler, self._loop))
        return handler


@frozen
class _Head:
    method: str
    target: str
    headers: Mapping[str, str]


class _ServiceConnection(asyncio.Transport):
    """The client's side of a connection that carries one request."""

    def __init__(self, exchange: Exchange, handler: ResponseHandler, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._exchange = exchange
        self._handler: ResponseHandler | None = handler
        self._loop = loop
        self._received = bytearray()
        self._answering: asyncio.Task[None] | None = None
        self._continued = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the client sends; a whole request is answered."""
        if self._answering is not None or self._handler is None:
            return
        self._received += data
        request = _whole(bytes(self._received))
        if request is None and not self._continued and _expects_continue(bytes(self._received)):
            self._continued = True
            self._handler.data_received(_GO_ON)
        if request is not None:
            # In the context of the writer, so that the request belongs to its process and its run. The client
            # may give up before the answer; a service that has a request carries it out all the same.
            self._answering = self._loop.create_task(self._answer(*request))

    def pause_reading(self) -> None:
        """Nothing: the client's buffer holds all of an answer."""

    def resume_reading(self) -> None:
        """Nothing was held back."""

    def is_closing(self) -> bool:
        return self._handler is None

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    async def _answer(self, head: _Head, body: bytes) -> None:
        try:
            answer = await self._exchange(head.method, head.target, head.headers, body)
        except (ServiceUnreachable, AnswerLost) as error:
            self._end(ConnectionResetError(str(error)))
        except asyncio.CancelledError:
            self._end(None)
            raise
        except BaseException as error:  # a planned crash, and an error of a route: the client raises it
            if self._handler is not None:
                self._handler.set_exception(error)
        else:
            if self._handler is not None:
                self._handler.data_received(_encoded(answer, head.method))

    def _end(self, error: Exception | None) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.connection_lost(error)


def _expects_continue(received: bytes) -> bool:
    """Whether the client waits for `100 Continue` before it sends the body."""
    head, separator, _ = received.partition(_END_OF_HEAD)
    return bool(separator) and b"\r\nexpect: 100-continue" in head.lower()


def _whole(received: bytes) -> tuple[_Head, bytes] | None:
    """A request and its body, once all of it has been received."""
    head, separator, rest = received.partition(_END_OF_HEAD)
    if not separator:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _dechunked(rest)
        return None if body is None else (_Head(method, target, headers), body)
    length = int(headers.get("content-length", "0"))
    return (_Head(method, target, headers), rest[:length]) if len(rest) >= length else None


def _dechunked(rest: bytes) -> bytes | None:
    """The content of all chunks; None before the last one has come."""
    body = b""
    while True:
        size, separator, rest = rest.partition(b"\r\n")
        if not separator:
            return None
        length = int(size.split(b";")[0], 16)
        if len(rest) < length + 2:
            return None
        if length == 0:
            return body
        body, rest = body + rest[:length], rest[length + 2 :]


def _encoded(answer: Response, method: str) -> bytes:
    phrase = HTTPStatus(answer.status).phrase if answer.status in set(HTTPStatus) else "Unknown"
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    body = b"" if method == "HEAD" or answer.status in _NO_BODY else answer.body
    if answer.status not in _NO_BODY:
        headers["content-length"] = str(len(answer.body))
    lines = [f"HTTP/1.1 {answer.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body
