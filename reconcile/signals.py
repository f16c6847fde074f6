"""How a process that stays up is told to end."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130
"""The exit status of what Ctrl-C has ended before it was done."""


@define
class Stop:
    """What the first SIGINT or SIGTERM does; whoever has started more to stop says so by `act`."""

    act: Callable[[], None]
    _told: bool = False

    def receive(self) -> None:
        """Called at each signal."""
        if self._told:
            os._exit(INTERRUPTED)
        self._told = True
        self.act()


@contextmanager
def on_signal(act: Callable[[], None]) -> Iterator[Stop]:
    """While inside, the first SIGINT or SIGTERM calls `act`; a second one ends the process at once.

    A second one is for work that does not end: nothing is cleaned up then, and the status is 130.
    """
    loop = asyncio.get_running_loop()
    stop = Stop(act)
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.receive)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
