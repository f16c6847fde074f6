"""Waiting for the next change, in any number of tasks."""

from collections.abc import Callable

import anyio


class Broadcast:
    """Wakes every waiting task; costs next to nothing if none waits.

    Check the condition first, and wait only if it does not hold: without an await in between, no change is
    missed.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def notify(self) -> None:
        event, self._event = self._event, None
        if event is not None:
            event.set()

    async def wait(self) -> None:
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()` holds, which is checked now and at each change."""
        while not condition():
            await self.wait()
