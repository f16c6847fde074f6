"""Workers that wait for a key."""

import math
from collections import OrderedDict

import anyio


class Waiters:
    """Those who wait, first come first woken; one of them also watches the clock for the next delay.

    One watcher, because a hundred idle workers that all woke for each delayed key would cost more
    than the work.
    """

    def __init__(self) -> None:
        self.waiting: OrderedDict[anyio.Event, None] = OrderedDict()
        self._watcher: anyio.Event | None = None

    def wake(self) -> None:
        """Wake the one who waits longest."""
        if self.waiting:
            event, _ = self.waiting.popitem(last=False)
            event.set()

    def wake_all(self) -> None:
        """Wake everyone."""
        while self.waiting:
            self.wake()

    def watch(self) -> None:
        """See to it that someone watches for the next delay."""
        if self._watcher is None:
            self.wake()

    def watch_anew(self) -> None:
        """The next delay ends sooner than it did: have the watcher, or someone, look."""
        if self._watcher is None:
            self.wake()
        else:
            self._watcher.set()

    async def wait(self, due: float) -> None:
        """Wait to be woken; until `due` (the event loop's clock) where nobody watches for that yet."""
        event = anyio.Event()
        self.waiting[event] = None
        try:
            if self._watcher is None and due < math.inf:
                await self._watch_until(due, event)
            else:
                await event.wait()
        finally:
            self.waiting.pop(event, None)

    async def _watch_until(self, due: float, event: anyio.Event) -> None:
        self._watcher = event
        try:
            with anyio.CancelScope(deadline=due):
                await event.wait()
        finally:
            self._watcher = None
