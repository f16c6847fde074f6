"""Whether a world is at rest: when it last changed, and how often since a user acted."""

import asyncio

from reconcile.testing.virtual_time import loop_time

MOST_CHANGES = 1_000
"""Changes without an act between them after which a world counts as restless."""


class RestMonitor:
    """The last change of a world; `restless`, once set, stays: too much changed for a wait to make sense."""

    def __init__(self) -> None:
        self.last_change = 0.0
        self.changes = 0
        self.restless = False
        self._paused: asyncio.Future[None] | None = None

    def stir(self) -> None:
        """Start counting again, since a user acts."""
        self.last_change = loop_time()
        self.changes = 0

    def changed(self) -> None:
        """Count a change; one too many ends the pause under way."""
        self.last_change = loop_time()
        self.changes += 1
        if self.changes > MOST_CHANGES:
            self.give_up()

    def give_up(self) -> None:
        """Have the world count as restless from now on, and end the pause under way."""
        self.restless = True
        if self._paused is not None:
            _end(self._paused)

    async def pause(self, until: float) -> None:
        """Sleep until that time (of the loop), or until the world is restless."""
        # A future and a timer instead of a cancel scope: every run pauses often, and this is cheaper.
        loop = asyncio.get_running_loop()
        self._paused = paused = loop.create_future()
        timer = loop.call_at(until, _end, paused)
        try:
            await paused
        finally:
            timer.cancel()


def _end(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
