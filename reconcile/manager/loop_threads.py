"""An event loop in a thread, with a manager of its own, and the options of each of several loops."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import PurePath
from typing import Final, Generic, TypeVar

import anyio
from anyio.abc import TaskStatus
from attrs import define, evolve, field

from reconcile.manager.assembly import sharding_of
from reconcile.manager.lifecycle import Lifecycle
from reconcile.manager.option_list import ManagerOptions
from reconcile.manager.signals import in_loop
from reconcile.ops.serving_addresses import Address, parse_address

M = TypeVar("M", bound=Lifecycle)

_MARKS: Final = 1.0
"""Seconds between two signs of life of a loop."""


@define(eq=False)
class LoopThread(Generic[M]):
    """An event loop in a thread, which runs the manager that `make` returns there."""

    number: int
    make: Callable[[], M]
    loop_factory: Callable[[], asyncio.AbstractEventLoop]
    started: Future[None] = field(factory=Future, init=False)
    _ended: Future[None] = field(factory=Future, init=False)
    _manager: M | None = field(default=None, init=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False)
    _soon: Callable[[Callable[[], object]], None] | None = field(default=None, init=False)
    _mark: float = field(default=0.0, init=False)
    _stopping: bool = field(default=False, init=False)

    @property
    def manager(self) -> M:
        """Raises RuntimeError before the start."""
        if self._manager is None:
            raise RuntimeError(f"event loop {self.number} has not started")
        return self._manager

    @property
    def held(self) -> float:
        """For how many seconds the loop has been held, give or take one; from any thread."""
        loop = self._loop
        return 0.0 if loop is None or self._ended.done() else max(0.0, loop.time() - self._mark - _MARKS)

    async def run(self) -> None:
        """Run until the manager ends, and raise its error; a cancellation cancels it there."""
        thread = threading.Thread(target=self._main, name=f"event loop {self.number}")
        thread.start()
        ended = asyncio.wrap_future(self._ended)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.stop()
            self.call_soon(self._cancel)
            with anyio.CancelScope(shield=True):
                await asyncio.wait((ended,))
            if not ended.cancelled():
                ended.exception()  # asyncio logs an error that nothing has read
            raise
        finally:
            thread.join()  # its last instructions: `ended` says that its loop is closed

    def stop(self) -> None:
        """Request a clean stop, also before the start."""
        # Set before the loop is looked for; the thread looks at it after the loop is there.
        self._stopping = True
        self.call_soon(self._stop)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call that in a task of the loop, if it runs."""
        if self._soon is not None:
            with suppress(RuntimeError):  # the loop has been closed since
                self._soon(function)

    async def call(self, call: Callable[[M], Awaitable[None]]) -> None:
        manager, loop = self.manager, self._loop
        assert loop is not None

        async def called() -> None:
            await call(manager)

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called(), loop))

    # --- in the thread ------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self.loop_factory) as runner:
                runner.run(self._run())
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._task, self._manager = asyncio.current_task(), self.make()
        self._beat(loop)
        self._loop, self._soon = loop, in_loop()
        if self._stopping:
            self._manager.stop()
        await self._manager.run(task_status=_Started(self.started))

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._mark = loop.time()
        loop.call_later(_MARKS, self._beat, loop)

    def _stop(self) -> None:
        self.manager.stop()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class _Started(TaskStatus[None]):
    def __init__(self, future: Future[None]) -> None:
        self._future = future

    def started(self, value: None = None) -> None:
        self._future.set_result(None)


# --- options ----------------------------------------------------------------------------------------


def divided(options: ManagerOptions) -> ManagerOptions:
    """The options of each loop, which has its part of what the process may do."""
    ring, loops = sharding_of(options), options["loops"]
    assert ring is not None
    return {
        **options,
        "sharding": ring,  # its canaries share one part of the objects, however many they are
        "canary": 0.0,
        "client_qps": options["client_qps"] / loops,
        "client_burst": max(1, options["client_burst"] // loops),
        "record_mb": max(1.0, options["record_mb"] / loops),
    }


def options_of(options: ManagerOptions, number: int) -> ManagerOptions:
    """The options of a loop beside the first: an identity, pages and a recording of its own, no webhooks."""
    ring = options["sharding"]
    assert ring is not None
    return {
        **options,
        "loops": 1,
        "sharding": evolve(ring, identity=f"{ring.identity}-{number}"),
        "serve": _served(options["serve"], number),
        "record": _recorded(options["record"], number),
        "webhooks": "",
        "liveness": {},
        "readiness": {},
    }


def _recorded(path: str, number: int) -> str:
    """A file beside that of the first loop: `sites-2.rec` beside `sites.rec`."""
    whole = PurePath(path)
    return path and str(whole.with_name(f"{whole.stem}-{number}{whole.suffix}"))


def _served(text: str, number: int) -> str:
    """The port after that of the loop before, or any as well."""
    if not text:
        return ""
    first = parse_address(text)
    return str(Address(first.host, first.port and first.port + number - 1))
