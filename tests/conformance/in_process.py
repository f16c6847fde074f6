"""What run.py speaks through where there is no socket: the in-process transport, in another thread."""

import queue
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import define, field

from informers import HttpRequest
from reconcile.embedded import InProcessTransport
from tests.conformance.served import running

_WARNING = re.compile(r'299 - "(?:[^"\\]|\\.)*"')
PATIENCE = 60.0
"""Seconds until an answer must have begun."""


class Headers(dict[str, str]):
    """Headers as the scripts read those of http.client."""

    def get_all(self, name: str) -> list[str]:
        """One item for each warning, as in the header lines over HTTP."""
        text = self.get(name.lower(), "")
        return _WARNING.findall(text) if name == "Warning" else [text] if text else []


@define(eq=False)
class Answer:
    """An answer as the scripts read one of http.client: status, headers, the body line by line."""

    status: int = 0
    headers: Headers = field(factory=Headers)
    begun: "Future[None]" = field(factory=Future)
    _chunks: "queue.SimpleQueue[bytes | None]" = field(factory=queue.SimpleQueue)

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, Headers(headers)
        self.begun.set_result(None)

    def add(self, chunk: bytes | None) -> None:
        """More of the body; None is its end."""
        self._chunks.put(chunk)

    def getheader(self, name: str) -> str | None:
        return self.headers.get(name.lower())

    def getheaders(self) -> list[tuple[str, str]]:
        return list(self.headers.items())

    def read(self) -> bytes:
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        """The lines of the body; the transport never breaks one in two."""
        while (chunk := self._chunks.get()) is not None:
            yield from chunk.splitlines(keepends=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        pass


@define
class Line:
    """The end of a stream that a reader holds: to shut it down is to stop reading."""

    reading: "Future[None] | None" = None

    def shutdown(self, how: int) -> None:
        if self.reading is not None:
            self.reading.cancel()


@define
class InProcessClient:
    """run.py's client, with a transport in place of a connection."""

    portal: BlockingPortal
    transport: InProcessTransport
    read: Any
    """How run.py reads an answer whole."""

    def send(self, request: dict[str, Any], timeout: float = PATIENCE) -> tuple[Answer, Line]:
        text = request.get("raw") or (msgspec.json.encode(request["body"]) if "body" in request else None)
        body = text.encode() if isinstance(text, str) else text
        headers = {"accept": "application/json", "user-agent": "conformance/1"}
        if body is not None:
            headers["content-type"] = "application/json"
        headers |= {name.lower(): value for name, value in request.get("headers", {}).items()}
        asked = HttpRequest(
            request["method"],
            request["path"],
            {name: str(value) for name, value in request.get("query", {}).items()},
            {name: value for name, value in headers.items() if value},
            body,
        )
        answer = Answer()
        if body is not None or request["method"] != "GET":
            self.portal.call(self._ask, answer, asked)
            return answer, Line()
        reading = self.portal.start_task_soon(self._read, answer, asked)
        answer.begun.result(timeout)
        return answer, Line(reading)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        asked = {"method": method, "path": path} | ({"body": body} if body else {})
        return self.read(self.send(asked)[0])

    async def _ask(self, answer: Answer, request: HttpRequest) -> None:
        response = await self.transport.request(request)
        answer.begin(response.status, dict(response.headers))
        answer.add(response.body)
        answer.add(None)

    async def _read(self, answer: Answer, request: HttpRequest) -> None:
        try:
            async with self.transport.stream(request) as response:
                answer.begin(response.status, dict(response.headers))
                async for chunk in response.chunks:
                    answer.add(chunk)
        finally:
            answer.add(None)


@define
class InProcessConnection:
    """A connection as the replaying scripts hold one of http.client."""

    client: InProcessClient
    _answer: Answer | None = field(default=None, init=False)

    def request(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> None:
        url = urlsplit(target)
        asked = {
            "method": method,
            "path": unquote(url.path),
            "query": dict(parse_qsl(url.query, keep_blank_values=True)),
            "headers": headers,
        }
        self._answer = self.client.send(asked | ({} if body is None else {"raw": body}))[0]

    def getresponse(self) -> Answer:
        assert self._answer is not None
        return self._answer

    def close(self) -> None:
        pass


@contextmanager
def in_process_client(script: Any) -> Iterator[Callable[[], Any]]:
    """Makes clients of a replaying script, whose connections lead to one server in this process."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(running()) as server:

        class Client(script.Client):  # type: ignore[misc,name-defined]
            def connect(self) -> InProcessConnection:
                return InProcessConnection(InProcessClient(portal, InProcessTransport(server), None))

        yield lambda: Client("http://in-process", None, insecure=False)
