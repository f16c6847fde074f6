"""Handlers of changes: each gets them in order, and none holds up another."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVarTuple

import anyio
import structlog
from anyio import TaskHandle
from anyio.abc import TaskGroup

from informers.broadcast import Broadcast
from informers.cancellation import FAILURES, as_failure, live_on
from informers.functions import check_function, name_of
from informers.loop_slices import LoopSlice
from informers.store import Delta

Handler = Callable[[Delta], None]
"""Called for each change, in order, once the store has it. Must not block and must not raise."""
AsyncHandler = Callable[[Delta], Awaitable[None]]
"""Awaited for each change, in order, in its own task: it may be slow, and reads a newer store."""


Arguments = TypeVarTuple("Arguments")


class Tasks:
    """The tasks of one member of a shared task group, which can be ended without the others."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._started: list[TaskHandle[None]] = []

    def start_soon(self, call: Callable[[*Arguments], Coroutine[Any, Any, None]], *args: *Arguments) -> None:
        pending = TaskHandle.Status.PENDING
        self._started = [task for task in self._started if task.status is pending]
        self._started.append(self._group.create_task(call(*args)))

    def cancel(self) -> None:
        for task in self._started:
            task.cancel()


class Registration:
    """A handler of an informer. Created by `Informer.add_handler` and `Informer.add_async_handler`."""

    def __init__(self, handler: Handler | AsyncHandler, log: structlog.stdlib.BoundLogger) -> None:
        self.backlog: deque[Delta] = deque()
        self.removed = False
        self.resync: float | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._handler = handler
        self._log = log
        self._idle: anyio.Event | None = None
        self._task: int | None = None

    @property
    def synced(self) -> bool:
        """Whether it has handled all objects that existed when it was added."""
        return not any(delta.initial for delta in self.backlog)

    def remove(self) -> None:
        """Call the handler no more. A call in progress goes on; `wait_removed` waits for its end."""
        self.removed = True
        self.backlog.clear()
        self.stop_resync()

    def stop_resync(self) -> None:
        """Cancel the next replay of the store."""
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()

    async def wait_removed(self) -> None:
        """Remove the handler, and wait until its last call has ended.

        Raises RuntimeError if called by the handler itself, which would wait for ever.
        """
        if self._task == anyio.get_current_task().id:
            raise RuntimeError("a handler cannot wait for its own end: call remove() instead")
        self.remove()
        if self._idle is not None:
            await self._idle.wait()

    def tell(self, delta: Delta) -> None:
        """Call a synchronous handler. An error is logged, and the handler misses this one change."""
        try:
            self._handler(delta)
        except FAILURES as error:
            self._failed(delta, error)

    async def work(self, changes: Broadcast) -> None:
        """Call an asynchronous handler for each change until it is removed."""
        self._task = anyio.get_current_task().id
        while not self.removed:
            if not self.backlog:
                await changes.wait()
                continue
            delta = self.backlog[0]
            self._idle = idle = anyio.Event()
            try:
                await self._handler(delta)  # type: ignore[misc]
            except BaseException as raised:
                error = as_failure(raised, name_of(self._handler))
                if error is None:
                    raise
                if error is not raised:
                    await live_on()
                self._failed(delta, error)
            finally:
                idle.set()
            # Only now: a change whose handling was cancelled together with the informer must come again.
            if self.backlog and self.backlog[0] is delta:
                self.backlog.popleft()

    def _failed(self, delta: Delta, error: BaseException) -> None:
        key, name = str(delta.last.key), name_of(self._handler)
        self._log.error("a handler failed and misses this change", key=key, handler=name, exc_info=error)


class Handlers:
    """The handlers of one informer.

    A synchronous handler is called where the change happens. If changes already wait for it, as after a list,
    `settle` passes them on in slices. An asynchronous one has an unbounded queue and, while the informer
    runs, a task.
    """

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        self._inline: list[Registration] = []
        self._tasked: list[Registration] = []
        self._pace = LoopSlice()
        self._tasks: Tasks | None = None
        self._changes = Broadcast()

    def add(self, handler: Handler, present: Iterable[Delta]) -> Registration:
        """Add a synchronous handler; it gets `present` before this returns."""
        check_function(handler, "add_handler:", "delta", "plain")
        registration = Registration(handler, self._log)
        for delta in present:
            registration.tell(delta)
        self._inline.append(registration)
        return registration

    def add_async(self, handler: AsyncHandler, present: Iterable[Delta]) -> Registration:
        """Add an asynchronous handler, which gets `present` and every later change in its own time."""
        check_function(handler, "add_async_handler:", "delta", "either")
        registration = Registration(handler, self._log)
        registration.backlog.extend(present)
        self._tasked.append(registration)
        if self._tasks is not None:
            self._tasks.start_soon(registration.work, self._changes)
        return registration

    def start(self, tasks: Tasks) -> None:
        """Run the asynchronous handlers as some of these tasks."""
        self._tasks = tasks
        for registration in self._tasked:
            tasks.start_soon(registration.work, self._changes)

    def stop(self) -> None:
        """The tasks have ended; changes not yet handled wait for the next start."""
        self._tasks = None

    @property
    def registrations(self) -> Sequence[Registration]:
        """The handlers that were not removed."""
        for kind in (self._inline, self._tasked):
            kind[:] = [registration for registration in kind if not registration.removed]
        return (*self._inline, *self._tasked)

    @property
    def backlog(self) -> int:
        """How many changes the slowest handler has yet to handle."""
        return max((len(registration.backlog) for registration in self.registrations), default=0)

    @property
    def unsettled(self) -> bool:
        return any(registration.backlog for registration in self._inline)

    def publish(self, delta: Delta) -> None:
        for registration in tuple(self._inline):
            if registration.removed:
                with suppress(ValueError):  # a handler before it may have looked at `registrations`
                    self._inline.remove(registration)
            elif registration.backlog:  # behind what waits already, or it would arrive out of order
                registration.backlog.append(delta)
            else:
                registration.tell(delta)
        if self._tasked:
            self._enqueue(self._tasked, (delta,))

    def publish_all(self, deltas: Sequence[Delta]) -> None:
        """Queue changes for every handler; `settle` passes them to the synchronous ones."""
        self._enqueue(self._inline, deltas)
        self._enqueue(self._tasked, deltas)

    async def settle(self) -> None:
        """Pass queued changes to the synchronous handlers, in slices."""
        self._pace.start()
        for registration in tuple(self._inline):
            while registration.backlog:
                registration.tell(registration.backlog.popleft())
                if self._pace.due():
                    await self._pace.pause()

    def wake(self) -> None:
        """Wake the asynchronous handlers after something was put into a queue from outside."""
        self._changes.notify()

    def _enqueue(self, registrations: Iterable[Registration], deltas: Sequence[Delta]) -> None:
        for registration in registrations:
            if not registration.removed:
                registration.backlog.extend(deltas)
        self.wake()
