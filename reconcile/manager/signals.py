"""Signals that stop a long-running process, also while its event loop is blocked."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from types import FrameType

from attrs import define

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130
"""The exit status of a process that Ctrl-C ended early."""


@define
class Stop:
    """What signals do: the first calls `act` in the event loop, the second ends the process at once."""

    act: Callable[[], None]
    _stopping: bool = False

    def receive(self, soon: Callable[[Callable[[], object]], None]) -> None:
        """Handle a signal, which may come between any two instructions; `soon` schedules in the loop."""
        if self._stopping:
            os._exit(INTERRUPTED)
        self._stopping = True
        soon(lambda: self.act())


@contextmanager
def on_signal(act: Callable[[], None]) -> Iterator[Stop]:
    """While inside, the first SIGINT or SIGTERM calls `act`; a second one ends the process with status 130.

    That works while the event loop is blocked, too, and cleans nothing up.
    """
    stop, soon = Stop(act), in_loop()
    with handling(lambda: stop.receive(soon), *_SIGNALS):
        yield stop


def in_loop() -> Callable[[Callable[[], object]], None]:
    """A function that calls another one in a task of the running loop, from a signal handler or a thread.

    A handler may interrupt the loop between two tasks, where anyio finds no running loop: hence the task,
    with the context of this call.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    tasks: set[asyncio.Task[None]] = set()

    async def call(act: Callable[[], object]) -> None:
        act()

    def begin(act: Callable[[], object]) -> None:
        task = loop.create_task(call(act), context=context)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def soon(act: Callable[[], object]) -> None:
        loop.call_soon_threadsafe(begin, act)

    return soon


@contextmanager
def handling(receive: Callable[[], object], *numbers: signal.Signals) -> Iterator[None]:
    """While inside, these signals call `receive` in the main thread, whatever that is doing.

    Handlers of the event loop would run only when the loop gets its turn, and a forked child shares the
    socket that wakes it. In such a child the signals have their default effect.
    """
    owner = os.getpid()

    def handle(number: int, _: FrameType | None) -> None:
        if os.getpid() == owner:
            receive()
            return
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        signal.raise_signal(number)

    former = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler or signal.SIG_DFL)
