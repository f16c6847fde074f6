"""Big loads without standing still: the loop gets its turn, the garbage collector waits."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.lowlevel
from attrs import define

SLICE = 0.004
"""After so long (s) at work without a pause, others get their turn."""
LOOK_EVERY = 32
"""So many small things are done between two looks at the time."""


@define
class LoopSlice:
    """Counts small pieces of work and says when it is time to let others in."""

    _since: float = 0.0
    _left: int = LOOK_EVERY

    def due(self, pieces: int = 1) -> bool:
        """Whether to pause now; asked after each piece of work, or after several."""
        self._left -= pieces
        if self._left > 0:
            return False
        self._left = LOOK_EVERY
        return anyio.current_time() - self._since > SLICE

    async def pause(self) -> None:
        """Let others in."""
        await anyio.lowlevel.checkpoint()
        self.start()

    def start(self) -> None:
        """Work begins now."""
        self._since = anyio.current_time()
        self._left = LOOK_EVERY


class _Collector:
    """Python's collector belongs to the process, so the loads of all informers count together."""

    loads = 0
    was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Spare a load the cyclic garbage collector, which would look at every new object again and again.

    What is garbage before and after is collected as ever: a load makes none of the cyclic sort.
    """
    if _Collector.loads == 0:
        _Collector.was_enabled = gc.isenabled()
        gc.disable()
    _Collector.loads += 1
    try:
        yield
    finally:
        _Collector.loads -= 1
        if _Collector.loads == 0 and _Collector.was_enabled:
            gc.enable()
