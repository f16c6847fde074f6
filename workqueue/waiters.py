"""Workers that wait for a key."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio


class _WakeUp(Protocol):
    """What one worker waits for."""

    def set(self) -> None: ...

    def wait(self) -> Awaitable[None]: ...


class _FutureWakeUp:
    """A future of an asyncio loop: an event, which any number of tasks may await, costs four times that."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future

    def set(self) -> None:
        if not self._future.done():  # its worker may have been cancelled in this turn of the loop
            self._future.set_result(None)

    def wait(self) -> Awaitable[None]:
        return self._future


class Waiters:
    """Waiting workers, woken in order of arrival; one of them watches the clock for the next delay.

    There is one watcher because waking a hundred idle workers for each delayed key would cost more than the
    work.
    """

    def __init__(self) -> None:
        self.waiting: OrderedDict[_WakeUp, None] = OrderedDict()
        self._watcher: _WakeUp | None = None
        self._new_wake_up: Callable[[], _WakeUp] = anyio.Event

    def settle_in(self, loop: object) -> None:
        """Wait in that event loop from now on."""
        if isinstance(loop, asyncio.AbstractEventLoop):
            self._new_wake_up = lambda: _FutureWakeUp(loop.create_future())

    def wake(self) -> None:
        """Wake the worker that has waited longest."""
        if self.waiting:
            wake_up, _ = self.waiting.popitem(last=False)
            wake_up.set()

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
        wake_up = self._new_wake_up()
        self.waiting[wake_up] = None
        try:
            if self._watcher is None and due < math.inf:
                await self._watch_until(due, wake_up)
            else:
                await wake_up.wait()
        finally:
            self.waiting.pop(wake_up, None)

    async def _watch_until(self, due: float, wake_up: _WakeUp) -> None:
        self._watcher = wake_up
        try:
            with anyio.CancelScope(deadline=due):
                await wake_up.wait()
        finally:
            self._watcher = None
