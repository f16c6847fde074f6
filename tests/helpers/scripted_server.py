"""A transport to a server that answers as a test says."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import anyio
import anyio.lowlevel
from attrs import field, frozen
from msgspec.structs import astuple

from informers import HttpRequest, Response, StreamingResponse

PIECE = 1 << 16


class SeenRequest(HttpRequest, frozen=True, kw_only=True):
    """A request, and the time of the loop at which it was made."""

    at: float
    streaming: bool


@frozen
class Chunks:
    """An answer in chunks, each after so many seconds; then its end, an error, or nothing for ever."""

    chunks: Iterable[tuple[float, bytes]] = ()
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

    async def request(self, request: HttpRequest) -> Response:
        await anyio.lowlevel.checkpoint()
        answer = self._answered(request, streaming=False)
        if isinstance(answer, Response):
            return answer
        return Response(answer.status, {}, b"".join(chunk for _, chunk in answer.chunks))

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        answer = self._answered(request, streaming=True)
        self.open_streams += 1
        try:
            if isinstance(answer, Response):
                pieces = [(0.0, answer.body[at : at + PIECE]) for at in range(0, len(answer.body), PIECE)]
                yield StreamingResponse(answer.status, answer.headers, _play(Chunks(pieces)))
            else:
                yield StreamingResponse(answer.status, {}, _play(answer))
        finally:
            self.open_streams -= 1

    def _answered(self, request: HttpRequest, *, streaming: bool) -> Response | Chunks:
        at = anyio.current_time()
        seen = SeenRequest(*astuple(request), at=at, streaming=streaming)
        self.seen.append(seen)
        answer = self._answer(seen)
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
