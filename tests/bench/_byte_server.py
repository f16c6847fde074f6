"""A stand-in for an API server: another process that sends bytes which it has ready."""

import asyncio
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import field, frozen

from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.embedded.listener.certificates import make_certificate

PIECE = 1 << 16
SENT_AT = b"SENT-AT"
"""Stands in a change for the time (ns) at which it is sent."""


@frozen
class Content:
    """What a server sends: `first` to each streaming list, `listed` to any other request without a document.

    A GET of /changes sends all `changes` to each watch: `per_second` of them, or at once. Each byte that
    comes in through `Steps` sends one of them.
    """

    first: bytes
    changes: list[bytes]
    listed: bytes = b"{}"
    documents: Mapping[str, bytes] = field(factory=dict)
    per_second: float = float("inf")


class Steps:
    """Asks a server for the next change, from a process that has its kubeconfig, by one send on a socket."""

    def __init__(self, kubeconfig: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.connect(str(_steps_in(Path(kubeconfig).parent)))

    def next(self) -> None:
        self._socket.send(b".")


def _steps_in(directory: Path) -> Path:
    return directory / "steps"


@contextmanager
def serving(make: Callable[..., Content], *arguments: Any, tls: bool = False) -> Iterator[tuple[str, str]]:
    """Serve what `make(*arguments)` returns, which is called in the new process; URL and kubeconfig.

    Over TLS, the kubeconfig's folder is also that of a pod's account.
    """
    context = multiprocessing.get_context("spawn")
    ready: Any = context.Queue()
    with tempfile.TemporaryDirectory() as directory:
        given = make, arguments, tls, ready, _steps_in(Path(directory))
        process = context.Process(target=_serve, args=given, daemon=True)
        process.start()
        try:
            port, ca_pem = ready.get(timeout=600)
            url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
            kubeconfig = Path(directory, "kubeconfig")
            write_kubeconfig(kubeconfig, url, ca_pem, None)
            for name, text in {"ca.crt": ca_pem or b"", "token": b"token", "namespace": b"default"}.items():
                kubeconfig.with_name(name).write_bytes(text)
            yield url, str(kubeconfig)
        finally:
            process.terminate()
            process.join()


def _serve(
    make: Callable[..., Content], arguments: tuple[Any, ...], tls: bool, ready: Any, steps: Path
) -> None:
    content = make(*arguments)
    unsent = iter(content.changes)
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    streams: dict[asyncio.StreamWriter, None] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await answer_one(await reader.readuntil(b"\r\n\r\n"), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            streams.pop(writer, None)
            writer.close()

    async def answer_one(request: bytes, writer: asyncio.StreamWriter) -> None:
        path, _, query = request.split(b" ", 2)[1].decode().partition("?")
        if "watch=true" in query:
            await open_stream(writer, content.first if "sendInitialEvents" in query else b"")
        elif path == "/changes":
            send_whole(writer, b"{}")
            await send_changes()
        else:
            send_whole(writer, content.documents.get(path, content.listed))

    def send_whole(writer: asyncio.StreamWriter, body: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    async def open_stream(writer: asyncio.StreamWriter, body: bytes) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for start in range(0, len(body), PIECE):
            await send(writer, body[start : start + PIECE])
        streams[writer] = None

    async def send(writer: asyncio.StreamWriter, part: bytes) -> None:
        writer.write(b"%x\r\n%s\r\n" % (len(part), part))
        await writer.drain()

    async def send_changes() -> None:
        began = time.monotonic()
        for number, line in enumerate(content.changes):
            early = began + number / content.per_second - time.monotonic()
            if early > 0:
                # The rate is kept against the start, so that a late change is not added to all that follow.
                await asyncio.sleep(early)
            sent = line.replace(SENT_AT, b"%d" % time.monotonic_ns())
            for stream in list(streams):
                await send(stream, sent)

    def send_next() -> None:
        asked.recv(1)
        line = next(unsent)
        for stream in streams:
            stream.write(b"%x\r\n%s\r\n" % (len(line), line))

    async def run() -> None:
        asked.bind(str(steps))
        asyncio.get_running_loop().add_reader(asked, send_next)
        certificate = make_certificate() if tls else None
        context = None if certificate is None else certificate.context
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        ready.put((port, None if certificate is None else certificate.ca_pem))
        await server.serve_forever()

    asyncio.run(run())
