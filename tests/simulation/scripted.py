"""A transport that plays a script: what the wrappers of the test kit are held against."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from informers.transport import Response, StreamingResponse

NOTHING: Mapping[str, str] = {}


class Scripted:
    """Answers every request with `status`, and every stream with `chunks`: (seconds to wait, bytes)."""

    server = "scripted"

    def __init__(
        self,
        chunks: Sequence[tuple[float, bytes]] = (),
        *,
        status: int = 200,
        error: Exception | None = None,
        endless: bool = False,
    ) -> None:
        self.seen: list[tuple[str, str, float]] = []
        self.closed = False
        self.open_streams = 0
        self._chunks = chunks
        self._status = status
        self._error = error
        self._endless = endless

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = NOTHING,
        headers: Mapping[str, str] = NOTHING,
        body: bytes | None = None,
    ) -> Response:
        self.seen.append((method, path, anyio.current_time()))
        await anyio.lowlevel.checkpoint()
        return Response(self._status, {}, body or b"{}")

    def stream(
        self, method: str, path: str, query: Mapping[str, str] = NOTHING, headers: Mapping[str, str] = NOTHING
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        return self._stream(method, path)

    @asynccontextmanager
    async def _stream(self, method: str, path: str) -> AsyncIterator[StreamingResponse]:
        self.seen.append((method, path, anyio.current_time()))
        self.open_streams += 1
        try:
            yield StreamingResponse(self._status, {}, self._play())
        finally:
            self.open_streams -= 1

    async def _play(self) -> AsyncIterator[bytes]:
        for seconds, chunk in self._chunks:
            await anyio.sleep(seconds)
            yield chunk
        if self._error is not None:
            raise self._error
        if self._endless:
            await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.closed = True
