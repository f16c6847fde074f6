"""Workers that wait for a key."""

import math
from collections import OrderedDict

import anyio


class Waiters:
    """Waiting workers, woken in order of arrival; one of them watches the clock for the next delay.

    There is one watcher because waking a hundred idle workers for each delayed key would cost more than the
    work.
    """

    def __init__(self) -> None:
        self.waiting: OrderedDict[anyio.Event, None] = OrderedDict()
        self._watcher: anyio.Event | None = None

    def wake(self) -> None:
        """Wake the worker that has waited longest."""
        if self.waiting:
            event, _ = self.waiting.popitem(last=False)
            event.set()

    def wake_all(self) -> None:
        while self.waiting:
            self.wake()

    def watch(self) -> None:
        """Have a worker watch for the next delay, unless one does already."""
        if self._watcher is None:
            self.wake()

    def watch_anew(self) -> None:
        """The next delay now ends sooner: have the watcher, or the next worker, look again."""
        if self._watcher is None:
            self.wake()
        else:
            self._watcher.set()

    async def wait(self, due: float) -> None:
        """Wait to be woken, or until `due` (loop clock) if no worker watches for that yet."""
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
