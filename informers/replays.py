"""Replays a store to handlers at intervals, by timers, which need no task until they are due."""

import asyncio
from functools import partial

from attrs import define, field

from informers.clock import Clock
from informers.handlers import Handlers, Registration, Tasks
from informers.store import Delta, Store

JITTER = 0.1
"""Share of its period by which a replay may be late at random, so that those of many kinds spread out."""


@define(eq=False)
class Replays:
    """Of one informer; they begin and end with it."""

    store: Store
    handlers: Handlers
    clock: Clock
    _tasks: Tasks | None = field(default=None, init=False)

    def to(self, registration: Registration, seconds: float | None) -> Registration:
        """Replay the store to a handler at that interval; None: never."""
        registration.resync = seconds
        self._schedule(registration)
        return registration

    def start(self, tasks: Tasks) -> None:
        """Begin all intervals; a replay is one of these tasks."""
        self._tasks = tasks
        for registration in self.handlers.registrations:
            self._schedule(registration)

    def stop(self) -> None:
        """End all intervals."""
        self._tasks = None
        for registration in self.handlers.registrations:
            registration.stop_resync()

    def _schedule(self, registration: Registration) -> None:
        if self._tasks is None or registration.resync is None or registration.removed:
            return
        seconds = registration.resync * (1 + JITTER * self.clock.random())
        due = partial(self._tasks.start_soon, self._replay, registration)
        registration.timer = asyncio.get_running_loop().call_later(seconds, due)

    async def _replay(self, registration: Registration) -> None:
        """Replay the store to one handler, except objects with a change that already waits for it."""
        waiting = {delta.last.key for delta in registration.backlog}
        registration.backlog.extend(
            Delta(snapshot, snapshot, resync=True)
            for snapshot in self.store
            if snapshot.key not in waiting and not registration.removed
        )
        self.handlers.wake()
        await self.handlers.settle()
        self._schedule(registration)
