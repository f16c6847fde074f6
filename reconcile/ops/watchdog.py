"""Reports what holds the event loop, with file, line and key, while it happens.

The loop keeps setting a mark; when it grows old, a thread looks at the current frame of the loop's thread.
"""

import asyncio
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import structlog
from attrs import define, field, frozen

from reconcile.runs.frames import Frame, authors, is_command, is_library

LIMIT_SECONDS = 0.2
"""A loop held for longer delays every other run noticeably; shorter stalls are normal under load."""
DEAD_SECONDS = 30.0
"""A loop held for longer will hardly recover: liveness fails, so that the process is restarted."""
_LOOKS_PER_LIMIT = 4
_ASYNCIO = os.path.dirname(asyncio.__file__)
_LOOP_CALLS = frozenset({"_run", "_run_once", "run_forever", "run_until_complete", "run"})


@frozen
class LoopStall:
    """The event loop has been held for `seconds` so far, at `place` (`file:line in function: source`).

    `key` is that of the run, or empty; `by_library`: the place is not code of the author.
    """

    seconds: float
    place: str
    key: str
    by_library: bool = False


@define(eq=False)
class Watchdog:
    """Reports everything that holds the running event loop for longer than `limit` seconds, once each."""

    report: Callable[[LoopStall], None]
    key_of: Callable[[asyncio.Task[Any]], str] = field(default=lambda task: "")
    limit: float = LIMIT_SECONDS
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _mark: float = field(default=0.0, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _over: threading.Event = field(factory=threading.Event, init=False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        loop = self._loop = asyncio.get_running_loop()
        self._tick(loop)
        owner = threading.get_ident()
        thread = threading.Thread(target=self._watch, args=(loop, owner), name="watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            if self._timer is not None:
                self._timer.cancel()
            thread.join()
            self._loop = None

    @property
    def held(self) -> float:
        """For how many seconds the loop has been held, give or take a quarter of `limit`; from any thread."""
        return 0.0 if self._loop is None else max(0.0, self._loop.time() - self._mark - self._pace)

    @property
    def _pace(self) -> float:
        return self.limit / _LOOKS_PER_LIMIT

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._mark = loop.time()
        self._timer = loop.call_later(self._pace, self._tick, loop)

    def _watch(self, loop: asyncio.AbstractEventLoop, owner: int) -> None:
        reported_mark = -1.0
        while not self._over.wait(self._pace):
            mark, held = self._mark, self.held
            if held > self.limit and mark != reported_mark:
                reported_mark = mark
                self._report(held, loop, owner)

    def _report(self, held: float, loop: asyncio.AbstractEventLoop, owner: int) -> None:
        task = asyncio.current_task(loop)
        frame = sys._current_frames().get(owner)
        place, by_library = ("", False) if frame is None else place_of(frame)
        self.report(LoopStall(held, place, "" if task is None else self.key_of(task), by_library))


def log_stall(log: structlog.stdlib.BoundLogger) -> Callable[[LoopStall], None]:
    """Logs stalls: a warning for the author's code, which can move to a thread; else below WARNING."""

    def report(stall: LoopStall) -> None:
        more = {"seconds": round(stall.seconds, 3), "place": stall.place, "key": stall.key}
        if not stall.by_library:
            log.warning("the event loop is blocked: blocking code belongs in ctx.run_sync", **more)
        elif stall.key:
            log.info("the event loop is blocked by the library, working for a run", **more)
        else:
            log.debug("the event loop is blocked by the library", **more)

    return report


def place_of(frame: FrameType) -> tuple[str, bool]:
    """The innermost line of the author, else the innermost line; and whether the library works there.

    It does if its code is innermost, called by the author or not, or if a command loads the author's modules.
    Frames outside the event loop's own call, such as `manager.main()`, do not count.
    """
    stack = _in_loop(frame)
    frames = [Frame.of(one, one.f_lineno) for one in reversed(stack)]
    number = authors(frames)
    chosen = frames[-1 if number is None else number]
    inner = frames if number is None else frames[number + 1 :]
    by_library = (
        number is None
        or any(is_library(one.file) for one in inner)
        or any(is_command(one.file) for one in frames)
    )
    source = linecache.getline(chosen.file, chosen.line).strip()
    return f"{chosen} in {chosen.function}: {source}", by_library


def _in_loop(frame: FrameType) -> list[FrameType]:
    stack = [frame]
    while (outer := stack[-1].f_back) is not None and not _is_loop(outer):
        stack.append(outer)
    return stack


def _is_loop(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name in _LOOP_CALLS and os.path.dirname(code.co_filename) == _ASYNCIO
