"""How a command that stays up is told to end."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 130
"""The exit status of what Ctrl-C has ended before it was done."""


@contextmanager
def on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, the first SIGINT or SIGTERM calls `stop`; a second one ends the process at once.

    A second one is for work that does not end: nothing is cleaned up then, and the status is 130.
    """
    loop = asyncio.get_running_loop()
    told = False

    def receive() -> None:
        nonlocal told
        if told:
            os._exit(INTERRUPTED)
        told = True
        stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, receive)
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a person wants to see, out of the groups that task groups wrap it in."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@contextmanager
def alone() -> Iterator[None]:
    """Let an error leave without the groups that task groups inside wrap it in."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_error(group) from None
