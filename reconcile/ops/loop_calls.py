"""Calls from the pages' thread into the manager's event loop, which may be held."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from attrs import define, field

MAX_CALLS: Final = 64
"""How many calls may wait to begin, or be in progress, at once; further ones are refused."""

T = TypeVar("T")


class LoopHeld(Exception):
    """The event loop did not answer in time, or has too many calls already."""


@define(eq=False)
class LoopCalls:
    """Runs coroutines in `loop` for another thread. A call not begun in time never begins: a 503 is final."""

    loop: asyncio.AbstractEventLoop
    _waiting: deque[float] = field(factory=deque, init=False)
    """When the calls that wait to begin were made: the thread appends, the loop takes from the left."""
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)

    def held(self) -> float:
        """For how long (s) the oldest call has waited for the loop; called from the thread."""
        try:
            return asyncio.get_running_loop().time() - self._waiting[0]
        except IndexError:
            return 0.0

    async def ask(self, work: Callable[[], Awaitable[T]], begin_seconds: float, seconds: float) -> T:
        """The result of `work` in the loop; called from the thread. Raises what it raises, and LoopHeld."""
        if self.held() > begin_seconds or max(len(self._waiting), len(self._tasks)) >= MAX_CALLS:
            raise LoopHeld
        future: Future[T] = Future()
        started: list[asyncio.Task[None]] = []
        self._waiting.append(asyncio.get_running_loop().time())
        try:
            self.loop.call_soon_threadsafe(self._begin, work, future, started)
        except RuntimeError:  # the loop is closed
            raise LoopHeld from None
        answer = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait((answer,), timeout=begin_seconds)
            if not done and not future.cancel():
                done, _ = await asyncio.wait((answer,), timeout=seconds)
            if done:
                return answer.result()
            raise LoopHeld
        finally:
            if not future.cancel() and not future.done():
                self.loop.call_soon_threadsafe(self._cancel, started)
            answer.cancel()

    def _begin(
        self, work: Callable[[], Awaitable[Any]], future: Future[Any], started: list[asyncio.Task[None]]
    ) -> None:
        self._waiting.popleft()
        if not future.set_running_or_notify_cancel():
            return
        task = self.loop.create_task(_carry_out(work, future), name="page")
        started.append(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _cancel(self, started: list[asyncio.Task[None]]) -> None:
        for task in started:
            task.cancel()

    async def end(self) -> None:
        """Cancel calls in progress; called in the loop, when the thread has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _carry_out(work: Callable[[], Awaitable[Any]], future: Future[Any]) -> None:
    try:
        future.set_result(await work())
    except asyncio.CancelledError:
        future.set_exception(LoopHeld())
        raise
    except Exception as error:
        future.set_exception(error)
