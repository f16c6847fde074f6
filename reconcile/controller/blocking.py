"""Runs blocking code beside the event loop, and connects it to the loop.

A thread cannot be ended from outside. So a run whose blocking code takes too long, or is to be stopped, goes
on until that code returns: its key stays in work, the log says so at once, and the code's next call of its
client ends it with `RunEnded`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import structlog
from attrs import define, field

R = TypeVar("R")

THREADS = 40


class RunEnded(BaseException):
    """Raised in blocking code whose run has ended; let it through. `except Exception` does not catch it."""


class Ask(Protocol):
    """Has the event loop do something, from blocking code, and waits for the answer."""

    def __call__(self, call: Callable[[], Awaitable[R]], /) -> R:
        """Returns or raises the outcome of the call. Raises RunEnded once the run has ended."""
        ...


asking_here: ContextVar[Ask | None] = ContextVar("asking_here", default=None)
"""How the blocking code of this run uses the event loop; None where it cannot, as in `run_sync`."""


class Blocking(Protocol):
    async def call(self, function: Callable[[], R], log: structlog.stdlib.BoundLogger) -> R:
        """Run blocking code that does not need the event loop; returns or raises its outcome."""
        ...

    async def call_with_loop(self, function: Callable[[Ask], R], log: structlog.stdlib.BoundLogger) -> R:
        """Run blocking code that gets a function with which it uses the event loop."""
        ...


@define(eq=False)
class Threads:
    """At most `limit` threads at a time; further calls wait for a free one, as long as their run may."""

    limit: int = THREADS
    _limiter: anyio.CapacityLimiter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(self.limit)

    async def call(self, function: Callable[[], R], log: structlog.stdlib.BoundLogger) -> R:
        """Run it in a thread. A cancellation is logged at once, and carried out when the code returns."""
        work = _BlockingCall(function)
        async with anyio.create_task_group() as beside:
            beside.start_soon(_log_cancellation, work, log)
            await anyio.to_thread.run_sync(work.do, limiter=self._limiter)
            beside.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint_if_cancelled()
        return work.end.result()

    async def call_with_loop(self, function: Callable[[Ask], R], log: structlog.stdlib.BoundLogger) -> R:
        return await self.call(partial(_asking, function), log)


@define(eq=False)
class InStep:
    """For tests in virtual time: blocking code takes turns with the event loop, so that order is certain."""

    async def call(self, function: Callable[[], R], log: structlog.stdlib.BoundLogger) -> R:
        return function()

    async def call_with_loop(self, function: Callable[[Ask], R], log: structlog.stdlib.BoundLogger) -> R:
        asked: SimpleQueue[Callable[[], Awaitable[Any]] | None] = SimpleQueue()
        answered: SimpleQueue[Future[Any]] = SimpleQueue()

        def ask(call: Callable[[], Awaitable[Any]]) -> Any:
            asked.put(call)
            return answered.get().result()

        work = _BlockingCall(partial(function, ask))

        def visit() -> None:
            asking_here.set(ask)
            work.do()
            asked.put(None)

        # Code that uses the loop needs a thread, to wait in; the loop waits for that thread.
        thread = Thread(target=copy_context().run, args=(visit,), name="in step", daemon=True)
        with _thread_allowed():
            thread.start()
        cancelled: BaseException | None = None
        while (call := asked.get()) is not None:
            answer: Future[Any] = Future()
            try:
                if cancelled is not None:
                    raise cancelled
                answer.set_result(await call())
            except Exception as error:
                answer.set_exception(error)
            except BaseException as error:
                cancelled = error
                answer.set_exception(RunEnded())
            answered.put(answer)
        thread.join()
        if cancelled is not None:
            raise cancelled
        return work.end.result()


@define(eq=False)
class _BlockingCall(Generic[R]):
    function: Callable[[], R]
    running: bool = False
    end: "Future[R]" = field(factory=Future)

    def do(self) -> None:
        self.running = True
        try:
            self.end.set_result(self.function())
        except BaseException as error:
            self.end.set_exception(error)
        finally:
            self.running = False


def _asking(function: Callable[[Ask], R]) -> R:
    asking_here.set(_ask_loop)
    return function(_ask_loop)


def _ask_loop(call: Callable[[], Awaitable[Any]]) -> Any:
    async def answer() -> Any:
        # The scope of the run is cancelled already: a request that began now would be cut off half-way.
        if anyio.current_effective_deadline() == -math.inf:
            raise RunEnded
        return await call()

    try:
        return anyio.from_thread.run(answer)
    except CancelledError:
        raise RunEnded from None


async def _log_cancellation(work: _BlockingCall[Any], log: structlog.stdlib.BoundLogger) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        if work.running:
            log.warning(
                "blocking code is still running after its run ended; its key stays in work until it returns"
            )


def _thread_allowed() -> AbstractContextManager[None]:
    """Allows a thread in the loop of the test kit, which refuses those that do not take turns with it."""
    allowed: Callable[[], AbstractContextManager[None]]
    allowed = getattr(asyncio.get_running_loop(), "standing_still", nullcontext)
    return allowed()
