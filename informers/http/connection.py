"""One connection, which carries one exchange after another."""

import asyncio
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from informers.http.failures import CutOff, HttpFailure, NotHttp, TooLate
from informers.http.reply import Reply


class Connection(asyncio.Protocol):
    """Sends a request and feeds what comes back to its `Reply`. `returned` is called by `release`."""

    def __init__(self) -> None:
        self.returned: Callable[[Connection], None] = Connection.close
        self.answers = 0
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._reply: Reply | None = None
        self._parser: HttpResponseParser | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._open = True
        self._keeps = True

    @property
    def transport(self) -> asyncio.Transport:
        """The asyncio transport beneath it, once it is connected."""
        assert self._transport is not None
        return self._transport

    @property
    def reusable(self) -> bool:
        """Whether it can carry another request: the last exchange is whole, and the server keeps it open."""
        if not (self._open and self._keeps and self._reply is None) or self.transport.is_closing():
            return False
        # After an early answer the next request would wait behind the rest of this, its check long past.
        return not self.transport.get_write_buffer_size()

    def send(
        self, data: bytes, check: Callable[[], None] | None = None, *, without_body: bool = False
    ) -> Reply:
        """Send a request; the reply to it is what arrives from now on, `without_body` to a HEAD.

        `check` is called last: if it raises, nothing is sent, and the connection is as it was.
        """
        assert self._reply is None
        reply = Reply(self, without_body=without_body)
        parser = HttpResponseParser(reply)
        # A process may stand still anywhere, so as little as possible lies between the check and the bytes.
        if check is not None:
            check()
        self.transport.write(data)
        self._reply, self._parser = reply, parser
        return reply

    def limit(self, deadline: float) -> None:
        """Fail the present exchange with TooLate if it is not over at a time of the event loop."""
        self._timer = asyncio.get_running_loop().call_at(deadline, self._fail, TooLate())

    def unlimit(self) -> None:
        """Let the present exchange take as long as it likes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self) -> None:
        """Give it back to where it was taken from, once; it is kept there if it is reusable."""
        self.returned(self)

    def close(self) -> None:
        """Close it at once. An exchange in progress fails, even if its body has no other end than this."""
        self._fail(CutOff("we closed it"))

    # --- what its reply asks ----------------------------------------------------------------------

    def carries(self, reply: Reply) -> bool:
        """Whether that is the present exchange."""
        return self._reply is reply

    def parsed_status(self) -> int:
        """The status in the line that was parsed last."""
        assert self._parser is not None
        return self._parser.get_status_code()

    def completed(self, reply: Reply) -> None:
        """The parser has seen the end of the reply."""
        assert self._parser is not None
        self._keeps = self._parser.should_keep_alive() and not reply.without_body
        self._leave(reply)

    def read_on(self) -> None:
        """What had arrived was taken."""
        if self._paused and self._open:
            self._paused = False
            self.transport.resume_reading()

    # --- what asyncio calls -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it

    def data_received(self, data: bytes) -> None:
        reply, parser = self._reply, self._parser
        if reply is None or parser is None:
            # Nothing was asked: after request smuggling this would be the answer to another client's request.
            self.close()
            return
        try:
            parser.feed_data(data)
            if self._reply is reply:
                self._account(reply, len(data))
        except HttpFailure as failure:
            self._fail(failure)
        except HttpParserUpgrade:
            self._fail(NotHttp("the server switches to another protocol"))
        except HttpParserError as error:
            cause = error.__context__
            self._fail(cause if isinstance(cause, HttpFailure) else NotHttp(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._open = False
        if (reply := self._reply) is not None:
            if exc is None and reply.ends_with_connection:
                self._leave(reply)
            else:
                self._fail(CutOff(_described(exc), silent=reply.silent))

    # --- inside -----------------------------------------------------------------------------------

    def _account(self, reply: Reply, count: int) -> None:
        if reply.begun and reply.without_body:
            self._keeps = False
            self._leave(reply)
            return
        if reply.arrived(count) and not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def _leave(self, reply: Reply) -> None:
        self.unlimit()
        self._reply = self._parser = None
        self.answers += 1
        reply.finish()

    def _fail(self, failure: HttpFailure) -> None:
        reply, self._reply = self._reply, None
        self._keeps = False
        self.unlimit()
        if self._transport is not None:
            self._transport.abort()
        if reply is not None:
            reply.fail(failure)


def _described(error: Exception | None) -> str:
    if error is None:
        return "the server closed it"
    return str(error) or type(error).__name__
