"""Threads for the functions of authors, so that one that takes too long holds up no other call.

The threads of `concurrent.futures` would keep the process from ending while a function does not return.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from attrs import define, field

T = TypeVar("T")


class Busy(Exception):
    """All threads are in use."""


@define(eq=False)
class CallThreads:
    """At most `limit` calls at once, each in a thread; used from one event loop."""

    limit: int
    _work: "SimpleQueue[Callable[[], None] | None]" = field(factory=SimpleQueue, init=False)
    _threads: int = field(default=0, init=False)
    _busy: int = field(default=0, init=False)

    async def call(self, function: Callable[[], T]) -> T:
        """The outcome of a function. Raises Busy at the limit.

        A thread cannot be ended: a call that is cancelled counts until its function returns.
        """
        if self._busy >= self.limit:
            raise Busy
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        if self._threads == self._busy:
            Thread(target=self._serve, name=f"webhook call {self._threads}", daemon=True).start()
            self._threads += 1

        def run() -> None:
            result: Any = None
            failure: Exception | None = None
            try:
                result = function()
            except Exception as error:
                failure = error
            except BaseException as error:  # SystemExit and the like would end the event loop
                failure = RuntimeError(f"the function raised {type(error).__name__}")
                failure.__cause__ = error
            with suppress(RuntimeError):  # the loop is closed: nothing waits for the outcome
                loop.call_soon_threadsafe(self._end, outcome, result, failure)

        self._busy += 1
        self._work.put(run)
        return await outcome

    def _end(self, outcome: "asyncio.Future[Any]", result: Any, failure: Exception | None) -> None:
        self._busy -= 1
        if outcome.done():
            return
        if failure is not None:
            outcome.set_exception(failure)
        else:
            outcome.set_result(result)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # an idle thread keeps nothing of its last call

    def end(self) -> None:
        """End the threads that are idle, and the others when their functions return."""
        for _ in range(self._threads):
            self._work.put(None)
