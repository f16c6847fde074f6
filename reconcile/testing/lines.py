"""Streams taken apart into lines, so that an event can be counted, held back or cut in two."""

import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import anyio

from informers.errors import OutcomeUnknown
from reconcile.testing.answers import expired_event
from reconcile.testing.faults import Cut, EndEarly, Expire, Stall, StreamFault


async def whole_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The same bytes, one chunk a line with its end on it; an unfinished last line comes as it is."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


async def spoiled(
    lines: AsyncIterator[bytes],
    faults: Sequence[StreamFault],
    note: Callable[[StreamFault], None],
    request: str,
) -> AsyncGenerator[bytes, None]:
    """The lines as far as `faults` let them through; `note` hears of each fault that happens."""
    for passed in itertools.count():
        for fault in faults:
            if fault.after != passed:
                continue
            note(fault)
            match fault:
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
