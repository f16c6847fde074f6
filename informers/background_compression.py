"""Compresses the bodies of a large store that is seldom read, while its informer runs."""

from collections.abc import Callable

import anyio
from attrs import define, evolve, field

from informers.compression_rule import PERIOD, CompressionState, StorePeriod, is_worth_counting, next_state
from informers.freed_memory import give_back
from informers.handlers import Tasks
from informers.store import Store

SLICE = 128 << 10
"""Bytes compressed without a pause: 0.3 ms with zstd, 0.8 ms with zlib. One body may be larger. Counted in
bytes and not in time, so that simulated runs do the same each time."""
EACH = 3 << 10
"""Bytes that take as long as what compressing a body takes whatever its size."""
LOOK = 128
"""Bytes that take as long as looking at a body that is compressed already."""
REST = 0.004
"""Seconds between two slices: other tasks come first, and the walk takes a tenth of a core or less."""
GIVE_BACK = 1 << 20
"""Bytes saved after which memory is given back. That takes 1 ms and more: it visits all that is free already,
so a larger store does it at larger intervals, `GIVE_BACKS` times at most."""
GIVE_BACKS = 256


@define(eq=False)
class BackgroundCompression:
    """Decides each minute whether a store compresses, and then compresses what it has, in small slices.

    A store that is not large has no task. Bodies that change arrive as they are, so that a
    change costs nothing more; the next walk compresses them, if the store still compresses then.
    """

    store: Store
    is_synced: Callable[[], bool]
    _state: CompressionState = field(factory=CompressionState, init=False)
    _tasks: Tasks | None = field(default=None, init=False)
    _watching: bool = field(default=False, init=False)

    @property
    def compressing(self) -> bool:
        """Whether bodies are compressed, as they arrive or in the background."""
        compression = self.store.shape.compression
        return self._state.compressing or (compression is not None and compression.on_arrival)

    def start(self, tasks: Tasks) -> None:
        """The informer runs. `tasks` end with it."""
        compression = self.store.shape.compression
        if compression is not None and not compression.on_arrival:
            self._tasks = tasks

    def stop(self) -> None:
        """The informer does not run any more. What is compressed stays so."""
        # A task that is cancelled before its first step cannot say itself that it has ended.
        self._tasks, self._watching = None, False

    def look(self) -> None:
        """Begin to count reads if the store is large now; to be called when it may have changed."""
        if self._tasks is not None and not self._watching and self._is_worth_counting():
            self._watching = True
            self._tasks.start_soon(self._watch)

    async def _watch(self) -> None:
        while self._is_worth_counting():
            before = self._reads()
            await anyio.sleep(PERIOD)
            self._state = self._decided(self._reads() - before)
            if self._state.compressing:
                await self._walk()
        self._watching = False

    def _is_worth_counting(self) -> bool:
        return is_worth_counting(self._state, self.store.size)

    def _reads(self) -> int:
        compression = self.store.shape.compression
        return 0 if compression is None else compression.reads

    def _decided(self, reads: int) -> CompressionState:
        if not self.is_synced():
            return evolve(self._state, agreeing=0)
        return next_state(self._state, StorePeriod(len(self.store), self.store.size, reads))

    async def _walk(self) -> None:
        """Compress what is not compressed yet."""
        left, saved, give_back_after = SLICE, 0, max(GIVE_BACK, self.store.size // GIVE_BACKS)
        for namespace in self.store.index_values("namespace"):
            for snapshot in self.store.by_index("namespace", namespace):
                if snapshot.compressed:
                    left -= LOOK
                else:
                    left -= snapshot.size + EACH
                    saved += self.store.compress(snapshot)
                if left <= 0:
                    if saved >= give_back_after:
                        give_back()
                        saved = 0
                    await anyio.sleep(REST)
                    left = SLICE
