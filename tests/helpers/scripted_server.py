"""A transport to a server that answers as a test says."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, TypeAlias

import anyio
import anyio.lowlevel
from attrs import field, frozen

from informers import Response, StreamingResponse

NOTHING: Mapping[str, str] = {}
PIECE = 1 << 16


@frozen
class SeenRequest:
    """A request, and the time of the loop at which it was made."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None
    at: float
    streaming: bool


@frozen
class Chunks:
    """An answer in chunks, each after so many seconds; then its end, an error, or nothing for ever."""

    chunks: Sequence[tuple[float, bytes]] = ()
    status: int = 200
    then: Exception | Literal["end", "silence"] = field(default="end", kw_only=True)


Answer: TypeAlias = Response | Chunks | Exception


class ScriptedServer:
    """Answers each request by `answer(request)`, and records it in `seen`.

    An exception is raised in the place of an answer. A whole answer comes as a stream in pieces of 64 KB.
    """

    server = "scripted"

    def __init__(self, answer: Callable[[SeenRequest], Answer]) -> None:
        self.seen: list[SeenRequest] = []
        self.open_streams = 0
        self.closed = False
        self._answer = answer

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = NOTHING,
        headers: Mapping[str, str] = NOTHING,
        body: bytes | None = None,
    ) -> Response:
        await anyio.lowlevel.checkpoint()
        answer = self._answered(method, path, query, headers, body, streaming=False)
        if isinstance(answer, Response):
            return answer
        return Response(answer.status, {}, b"".join(chunk for _, chunk in answer.chunks))

    def stream(
        self, method: str, path: str, query: Mapping[str, str] = NOTHING, headers: Mapping[str, str] = NOTHING
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        return self._stream(method, path, query, headers)

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[StreamingResponse]:
        answer = self._answered(method, path, query, headers, None, streaming=True)
        self.open_streams += 1
        try:
            if isinstance(answer, Response):
                pieces = [(0.0, answer.body[at : at + PIECE]) for at in range(0, len(answer.body), PIECE)]
                yield StreamingResponse(answer.status, answer.headers, _play(Chunks(pieces)))
            else:
                yield StreamingResponse(answer.status, {}, _play(answer))
        finally:
            self.open_streams -= 1

    def _answered(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        streaming: bool,
    ) -> Response | Chunks:
        now = anyio.current_time()
        request = SeenRequest(method, path, dict(query), dict(headers), body, now, streaming)
        self.seen.append(request)
        answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        self.closed = True


def streaming(
    chunks: Sequence[tuple[float, bytes]] = (),
    *,
    status: int = 200,
    then: Exception | Literal["end", "silence"] = "end",
) -> ScriptedServer:
    """Answers every stream with these chunks, and every other request with its own body."""

    def answer(request: SeenRequest) -> Answer:
        if request.streaming:
            return Chunks(chunks, status, then=then)
        return Response(status, {}, request.body or b"{}")

    return ScriptedServer(answer)


def in_turn(*answers: Answer) -> Callable[[SeenRequest], Answer]:
    """Each of these answers once, and the last one again and again."""
    rest = deque(answers)
    return lambda _: rest.popleft() if len(rest) > 1 else rest[0]


async def _play(answer: Chunks) -> AsyncIterator[bytes]:
    for seconds, chunk in answer.chunks:
        if seconds:
            await anyio.sleep(seconds)
        yield chunk
    if isinstance(answer.then, Exception):
        raise answer.then
    if answer.then == "silence":
        await anyio.sleep_forever()
