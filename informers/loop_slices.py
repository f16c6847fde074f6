"""Large loads that neither block the event loop nor trigger the garbage collector."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.lowlevel
from attrs import define

SLICE = 0.004
"""Seconds of work without a pause, after which other tasks run."""
LOOK_EVERY = 32
"""Pieces of work between two looks at the clock."""


@define
class LoopSlice:
    """Counts small pieces of work, and says when other tasks should run."""

    _since: float = 0.0
    _left: int = LOOK_EVERY

    def due(self, pieces: int = 1) -> bool:
        """Whether to pause now; call it after each piece of work, or after several."""
        self._left -= pieces
        if self._left > 0:
            return False
        self._left = LOOK_EVERY
        return anyio.current_time() - self._since > SLICE

    async def pause(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.start()

    def start(self) -> None:
        self._since = anyio.current_time()
        self._left = LOOK_EVERY


class _Collector:
    """Python's collector belongs to the process, so the loads of all informers count together."""

    loads = 0
    was_enabled = False
    lock = threading.Lock()
    """Event loops may run in several threads."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector during a load: it would scan every new object repeatedly.

    A load creates no cyclic garbage of its own.
    """
    with _Collector.lock:
        if _Collector.loads == 0:
            _Collector.was_enabled = gc.isenabled()
            gc.disable()
        _Collector.loads += 1
    try:
        yield
    finally:
        with _Collector.lock:
            _Collector.loads -= 1
            if _Collector.loads == 0 and _Collector.was_enabled:
                gc.enable()
