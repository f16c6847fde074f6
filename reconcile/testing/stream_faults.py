"""Faults of a stream: its lines are counted, held back, repeated or cut in two."""

import itertools
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager

import anyio

from informers.api_errors import OutcomeUnknown
from informers.broadcast import Broadcast
from reconcile.testing.fault_answers import expired_event
from reconcile.testing.faults import (
    Coalesce,
    Crash,
    Cut,
    EndEarly,
    Expire,
    Hold,
    Repeat,
    Stall,
    StreamFault,
    TimeTravel,
)


async def whole_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The same bytes with one line in each chunk; an unfinished last line comes as it is."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


class Backlog:
    """The lines of a stream, read as they arrive and kept until they are needed."""

    def __init__(self, lines: AsyncGenerator[bytes, None]) -> None:
        self._lines = lines
        self._lines_read: deque[bytes] = deque()
        self._failure: BaseException | None = None
        self._ended = False
        self._news = Broadcast()

    def __aiter__(self) -> "Backlog":
        return self

    async def __anext__(self) -> bytes:
        await self.gather(1)
        if self._lines_read:
            return self._lines_read.popleft()
        if self._failure is not None:
            raise self._failure
        raise StopAsyncIteration

    async def gather(self, count: int) -> None:
        """Wait for that many lines, or the end of the stream."""
        await self._news.wait_until(lambda: self._ended or len(self._lines_read) >= count)

    async def collect(self) -> None:
        try:
            async with aclosing(self._lines) as lines:
                async for line in lines:
                    self._lines_read.append(line)
                    self._news.notify()
        except (Exception, Crash) as error:
            self._failure = error
        self._ended = True
        self._news.notify()


@asynccontextmanager
async def alongside(work: Callable[[], Coroutine[None, None, None]]) -> AsyncGenerator[None, None]:
    """Run `work` alongside the body, whose errors are not wrapped in an exception group."""
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        try:
            yield
        except (Exception, Crash) as error:
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def with_faults(
    lines: AsyncIterator[bytes],
    faults: Sequence[StreamFault],
    note: Callable[[StreamFault], None],
    request: str,
) -> AsyncGenerator[bytes, None]:
    """The lines as `faults` let them through, each told to `note`; Hold and Coalesce need a `Backlog`."""
    for count in itertools.count():
        repeated = False
        for fault in faults:
            if isinstance(fault, TimeTravel) or fault.after != count:
                continue
            note(fault)
            match fault:
                case Hold(events=events, seconds=seconds) if isinstance(lines, Backlog):
                    await lines.gather(1)
                    with anyio.move_on_after(seconds):
                        await lines.gather(events + 1)
                case Coalesce(events=events, seconds=seconds) if isinstance(lines, Backlog):
                    await lines.gather(1)
                    with anyio.move_on_after(seconds):
                        await lines.gather(events)
                    yield expired_event()
                    return
                case Repeat():
                    repeated = True
                case Stall(seconds=seconds):
                    await (anyio.sleep_forever() if seconds is None else anyio.sleep(seconds))
                case EndEarly():
                    return
                case Expire():
                    yield expired_event()
                    return
                case Cut(mid_line=mid_line):
                    if mid_line:
                        line = await anext(lines, b"")
                        yield line[: len(line) // 2]
                    raise OutcomeUnknown("the connection was reset (a planned fault)", request)
        line = await anext(lines, b"")
        if not line:
            return
        yield line
        if repeated:
            yield line
