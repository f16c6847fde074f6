"""Says who holds the event loop: file, line and key, while it happens.

A thread looks at a mark that the loop sets again and again. When the mark grows old, the loop is held,
and the frame that the loop's thread is in says where. Nothing is traced or patched while all is well.
"""

import asyncio
import functools
import linecache
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import structlog
from attrs import define, field, frozen

LIMIT_SECONDS = 0.2
DEAD_SECONDS = 30.0
"""A loop that is held for longer will hardly come back: liveness fails, so that the process is restarted."""
_LOOKS_PER_LIMIT = 4


@frozen
class Stall:
    """The event loop is held for `seconds` so far, at `place` (`file:line in function: source`).

    `key` is what the task that holds it works for; empty if that is no run of a controller.
    """

    seconds: float
    place: str
    key: str


@define(eq=False)
class Watchdog:
    """Reports whatever holds the running event loop for longer than `limit` seconds, once each time."""

    report: Callable[[Stall], None]
    key_of: Callable[[asyncio.Task[Any]], str] = field(default=lambda task: "")
    limit: float = LIMIT_SECONDS
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _mark: float = field(default=0.0, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _over: threading.Event = field(factory=threading.Event, init=False)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the loop of the caller."""
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
        """For how many seconds the loop has been held now, to a quarter of `limit`; from any thread."""
        return 0.0 if self._loop is None else max(0.0, self._loop.time() - self._mark - self._pace)

    def check(self, seconds: float = DEAD_SECONDS) -> None:
        """The liveness check: raises RuntimeError if the loop has been held for that long."""
        if self.held > seconds:
            raise RuntimeError(f"the event loop has been held for {self.held:.1f} s")

    @property
    def _pace(self) -> float:
        return self.limit / _LOOKS_PER_LIMIT

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._mark = loop.time()
        self._timer = loop.call_later(self._pace, self._tick, loop)

    def _watch(self, loop: asyncio.AbstractEventLoop, owner: int) -> None:
        told = -1.0
        while not self._over.wait(self._pace):
            mark, held = self._mark, self.held
            if held > self.limit and mark != told:
                told = mark
                self._tell(held, loop, owner)

    def _tell(self, held: float, loop: asyncio.AbstractEventLoop, owner: int) -> None:
        task = asyncio.current_task(loop)
        frame = sys._current_frames().get(owner)
        self.report(
            Stall(held, "" if frame is None else place_of(frame), "" if task is None else self.key_of(task))
        )


def log_stall(log: structlog.stdlib.BoundLogger) -> Callable[[Stall], None]:
    """A report that is a warning in a log."""

    def report(stall: Stall) -> None:
        log.warning(
            "the event loop is held: blocking code belongs into ctx.run_sync",
            seconds=round(stall.seconds, 3),
            place=stall.place,
            key=stall.key,
        )

    return report


def place_of(frame: FrameType) -> str:
    """Where a stack stands: its innermost frame that is no library's, else the innermost."""
    inner: FrameType | None = frame
    while inner is not None and _is_library(inner.f_code.co_filename):
        inner = inner.f_back
    chosen = inner or frame
    file, line = chosen.f_code.co_filename, chosen.f_lineno
    return f"{file}:{line} in {chosen.f_code.co_name}: {linecache.getline(file, line).strip()}"


def _is_library(file: str) -> bool:
    return file.startswith(_library_paths())


@functools.cache
def _library_paths() -> tuple[str, ...]:
    return ("<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))
