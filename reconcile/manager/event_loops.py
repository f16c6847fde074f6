"""Event loops beside a manager's own, each in a thread, with a manager that is a member of the same ring.

They share nothing but code: each has a connection, caches and a Lease of its own, so what is proved of
replicas in processes holds of them too. A failure of one ends all.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
from attrs import frozen

from reconcile.manager.lifecycle import Lifecycle
from reconcile.ops.watchdog import DEAD_SECONDS
from reconcile.runs.supervision import noted, without_groups

if TYPE_CHECKING:
    from reconcile.manager.loop_threads import LoopThread

M = TypeVar("M", bound=Lifecycle)


@frozen
class OtherLoops(Generic[M]):
    """The loops of a manager beside its own."""

    threads: "Sequence[LoopThread[M]]" = ()

    @classmethod
    def of(cls, count: int, make: Callable[[int], M]) -> "OtherLoops[M]":
        """Of `count` loops in all, of the kind that runs now.

        `make` returns the manager of each by its number, from 2 on; it is called in its thread.
        """
        from reconcile.manager.loop_threads import LoopThread

        loop_factory = type(asyncio.get_running_loop())
        return cls([LoopThread(one, partial(make, one), loop_factory) for one in range(2, count + 1)])

    @asynccontextmanager
    async def running(self, stopping: anyio.Event) -> AsyncIterator[None]:
        """Run them while inside; they begin to stop when `stopping` is set. Raises the error of one."""
        if not self.threads:
            yield
            return

        async def stop_all() -> None:
            await stopping.wait()
            for thread in self.threads:
                thread.stop()

        with without_groups():
            async with anyio.create_task_group() as group:
                for thread in self.threads:
                    group.start_soon(noted, thread.run, f"event loop {thread.number}")
                group.start_soon(stop_all)
                yield

    async def wait_started(self) -> None:
        for thread in self.threads:
            # A cancellation of this wait must not reach the thread, which sets the result.
            await asyncio.shield(asyncio.wrap_future(thread.started))

    def send(self, call: Callable[[M], object]) -> None:
        """Have something done to each manager in its own loop. Raises RuntimeError before the start."""
        for thread in self.threads:
            thread.call_soon(partial(call, thread.manager))

    async def call(self, call: Callable[[M], Awaitable[None]]) -> None:
        """The same, one after another, and wait for the end. Raises its error."""
        for thread in self.threads:
            await thread.call(call)

    def check_started(self) -> None:
        """Raises RuntimeError."""
        for thread in self.threads:
            if not thread.started.done():
                raise RuntimeError(f"event loop {thread.number} has not started yet")

    def check_alive(self) -> None:
        """Raises RuntimeError for a loop that is blocked; by this process's clock, from any thread."""
        for thread in self.threads:
            if (held := thread.held) > DEAD_SECONDS:
                raise RuntimeError(f"event loop {thread.number} has been blocked for {held:.0f} s")
