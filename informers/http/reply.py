"""One answer, from its first line to the end of its body, in the order in which the bytes arrive."""

import asyncio
import zlib
from collections.abc import Callable
from typing import Protocol

from informers.http.failures import CutOff, HttpFailure, NotHttp

MOST_HEADER_BYTES = 1 << 16
"""Of an answer's first line and headers together."""

MOST_UNREAD_BYTES = 1 << 19
"""So much of a body may wait for its reader before the connection stops reading.

As much may arrive beside it without any of it: extensions of chunks, and trailers.
"""

_INFLATED_AT_ONCE = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
_INFORMATION = range(100, 200)
_SWITCHING = 101
_WITHOUT_BODY = (204, 304)


class Carrier(Protocol):
    """What a reply asks of the connection that carries it."""

    def carries(self, reply: "Reply") -> bool:
        """Whether that is its present exchange."""

    def parsed_status(self) -> int:
        """The status in the line that was parsed last."""

    def completed(self, reply: "Reply") -> None:
        """The parser has seen the end of the reply."""

    def read_on(self) -> None:
        """What had arrived was taken."""

    def unlimit(self) -> None:
        """Let the present exchange take as long as it likes."""

    def release(self) -> None:
        """The exchange is over, whole or not."""


class Reply:
    """An answer as it arrives. The parser of its connection calls the methods that begin with `on_`."""

    __slots__ = (
        "_carrier",
        "_ends_with_connection",
        "_failure",
        "_header_bytes",
        "_inflater",
        "_parts",
        "_tail",
        "_unread",
        "_waiter",
        "begun",
        "headers",
        "on_body",
        "reason",
        "status",
        "without_body",
    )

    def __init__(self, carrier: Carrier, *, without_body: bool) -> None:
        self._carrier = carrier
        self.without_body = without_body
        self.headers: dict[str, str] = {}
        self.status = 0
        self.reason = ""
        self.begun = False
        self._parts: list[bytes] = []
        self.on_body: Callable[[bytes], None] = self._parts.append
        self._failure: HttpFailure | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._header_bytes = 0
        self._unread = 0
        self._ends_with_connection = False
        self._inflater: zlib._Decompress | None = None
        self._tail = b""

    async def until_begun(self) -> None:
        """Wait for status and headers. Raises HttpFailure."""
        while not self.begun:
            if self._failure is not None:
                raise self._failure
            await self._wait()

    async def read(self) -> bytes:
        """The part of the body that has arrived since the last call; empty at its end. Raises HttpFailure."""
        while True:
            if self._tail:
                return self._inflated(self._tail)
            if self._parts:
                part = self._taken()
                if self._inflater is None:
                    return part
                if inflated := self._inflated(part):
                    return inflated
            elif self._failure is not None:
                raise self._failure
            elif self.complete:
                if self._inflater is not None and not self._inflater.eof:
                    raise CutOff("its compressed body ends early")
                return b""
            else:
                await self._wait()

    async def read_whole(self) -> bytes:
        """All that is left of the body. Raises HttpFailure."""
        parts = []
        while part := await self.read():
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def unlimit(self) -> None:
        """Let the rest of it take as long as it likes."""
        self._carrier.unlimit()

    def release(self) -> None:
        """Let go of its connection, which is closed if this is not whole; once."""
        self._carrier.release()

    @property
    def complete(self) -> bool:
        """Whether all of it has arrived."""
        return self.begun and self._failure is None and not self._carrier.carries(self)

    @property
    def silent(self) -> bool:
        """Whether not a byte of it has arrived."""
        return not (self.begun or self._header_bytes)

    # --- what the connection tells ----------------------------------------------------------------

    def arrived(self, count: int) -> bool:
        """Note bytes that were parsed; returns whether so many wait that no more should be read."""
        if not self.begun:
            self._header_bytes += count
            if self._header_bytes > MOST_HEADER_BYTES:
                raise NotHttp(f"headers of more than {MOST_HEADER_BYTES} bytes")
            return False
        self._unread += count
        too_many = self._unread > MOST_UNREAD_BYTES
        if too_many and not self._parts:
            # There is nothing for the reader to take, so reading would never go on.
            raise NotHttp(f"more than {MOST_UNREAD_BYTES} bytes beside its body")
        self._wake()
        return too_many

    def finish(self) -> None:
        """It is whole."""
        self._wake()

    def fail(self, failure: HttpFailure) -> None:
        """It will not become whole. What has arrived can still be read."""
        self._failure = failure
        self._wake()

    @property
    def ends_with_connection(self) -> bool:
        """Whether its body has neither a length nor chunks, and is whole when the server closes."""
        return self.begun and self._ends_with_connection

    # --- what the parser calls --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.begun:
            raise NotHttp("another answer follows it, to which there was no request")

    def on_status(self, reason: bytes) -> None:
        self.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.begun:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        before = self.headers.get(key)
        # Several Warning headers are one list, as HTTP has it.
        self.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        status = self._carrier.parsed_status()
        if status == _SWITCHING:
            raise NotHttp("the server switches to another protocol")
        if status in _INFORMATION:
            self.headers.clear()
            self.reason = ""
            return
        headers = self.headers
        self._ends_with_connection = not ("content-length" in headers or "transfer-encoding" in headers)
        # With an answer to HEAD, CONNECT or a condition these are the headers of a body that does not come.
        comes = not self.without_body and status not in _WITHOUT_BODY
        encoding = headers.get("content-encoding", "").strip().lower() if comes else ""
        if encoding in ("gzip", "x-gzip"):
            self._inflater = zlib.decompressobj(_GZIP)
        elif encoding not in ("", "identity"):
            raise NotHttp(f"its body is encoded as {encoding[:40]!r}, which was not asked for")
        self.status, self.begun = status, True

    def on_message_complete(self) -> None:
        if self.begun:
            self._carrier.completed(self)

    # --- inside -----------------------------------------------------------------------------------

    def _taken(self) -> bytes:
        parts = self._parts
        part = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._unread = 0
        self._carrier.read_on()
        return part

    def _inflated(self, data: bytes) -> bytes:
        """A bounded part of it: a small body may inflate to any size."""
        assert self._inflater is not None
        try:
            inflated = self._inflater.decompress(data, _INFLATED_AT_ONCE)
        except zlib.error as error:
            raise NotHttp(f"its compressed body cannot be read: {error}") from error
        self._tail = self._inflater.unconsumed_tail
        if self._inflater.unused_data:
            raise NotHttp("its compressed body is followed by other bytes")
        return inflated

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
