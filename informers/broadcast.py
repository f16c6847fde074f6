"""Waiting for the next change, in any number of tasks."""

from collections.abc import Callable

import anyio


class Broadcast:
    """Wakes every task that waits. Costs next to nothing while none does.

    Only the next change is waited for: look at what changed first, and wait only if it is not enough. There
    is no await between the two, so no change is missed.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def notify(self) -> None:
        """Wake all that wait now; those that wait again afterwards wait for the next change."""
        event, self._event = self._event, None
        if event is not None:
            event.set()

    async def wait(self) -> None:
        """Wait for the next change."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()` holds, which is asked now and at each change."""
        while not condition():
            await self.wait()
