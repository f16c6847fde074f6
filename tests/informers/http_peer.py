"""An HTTP server made of bare sockets, so that a test decides each byte and when the connection dies."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
from attrs import define, field, frozen

from informers import HttpRequest, Response, Transport


@frozen
class Seen:
    """A request as it came over the wire. Header names are lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@define
class Peer:
    """What the server has seen so far."""

    port: int = 0
    seen: list[Seen] = field(factory=list)
    connections: int = 0
    open: set[asyncio.StreamWriter] = field(factory=set)


Answer = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def reply(status: int = 200, body: bytes = b"{}", *headers: str) -> bytes:
    """A whole answer with its length."""
    lines = [f"HTTP/1.1 {status} Some Reason", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END_OF_CHUNKS = b"0\r\n\r\n"


def always(data: bytes) -> Answer:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """Serve on a free port of 127.0.0.1; every connection is cut at the end."""
    peer = Peer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.open.add(writer)
        try:
            if tls is not None and not reads_at_once:
                await writer.start_tls(tls)
            peer.connections += 1
            while not writer.is_closing():
                seen = await _read(reader)
                peer.seen.append(seen)
                await answer(seen, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            peer.open.discard(writer)
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if tls is not None and not reads_at_once:
            # What a client says before `start_tls` would be read as plain text, and lost.
            writer.transport.pause_reading()  # type: ignore[attr-defined]
        tasks.append(asyncio.create_task(serve(reader, writer)))

    # TLS is begun by `serve`: a handshake within the server could not be cut at the end, and whichever
    # test comes when its connection is collected would fail. uvloop cannot be kept from reading first.
    reads_at_once = type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    tasks: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(
        accept, "127.0.0.1", 0, limit=1 << 22, ssl=tls if reads_at_once else None
    )
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for writer in tuple(peer.open):
            writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def get(transport: Transport, path: str = "/x") -> Response:
    return await transport.request(HttpRequest("GET", path))


async def get_as_stream(transport: Transport, path: str = "/x") -> Response:
    async with transport.stream(HttpRequest("GET", path)) as answer:
        return Response(answer.status, answer.headers, b"".join([part async for part in answer.chunks]))


Get = Callable[..., Awaitable[Response]]
both_ways = pytest.mark.parametrize("read", [get, get_as_stream])


async def _read(reader: asyncio.StreamReader) -> Seen:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body)
