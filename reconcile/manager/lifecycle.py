"""The lifecycle of something that runs until it is stopped: a program, a task, or a context manager."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskStatus

from informers import get_logger
from informers.callbacks import callbacks_of_asyncio
from informers.cancellation import Interrupted, asked_to_end, cancel_requests
from reconcile.manager.interpreter import present_objects_spared
from reconcile.manager.signals import on_signal
from reconcile.runs.run_failures import described

_CANCELLED = "one of the manager's tasks was cancelled, and nothing had asked it to end"


class Lifecycle(ABC):
    """Has a `run` that nothing outlives, and a `stop` that ends it cleanly.

    As a context manager it runs in a task of its own, since different tasks may enter and leave the context
    (fixtures of pytest-asyncio). An error of `run` is raised there on leaving, and before that by `wait`.
    """

    def __init__(self) -> None:
        self._log = get_logger("reconcile")
        self._stopping = anyio.Event()
        self._on_stop: Callable[[], object] | None = None
        self._on_start: Callable[[], object] | None = None
        self._started = anyio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ended = anyio.Event()
        self._failure: Exception | None = None

    @abstractmethod
    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until `stop` or cancellation."""

    def stop(self) -> None:
        """Request a clean stop; `run` returns when it is complete."""
        if not self._stopping.is_set():
            self._stopping.set()
            if self._on_stop is not None:
                self._on_stop()

    async def wait(self) -> None:
        """Wait for the end of `run`, and raise its error; several tasks may, also before the start."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Around everything that `run` does: an end that nothing requested is an error, and logged."""
        cancels = cancel_requests()
        try:
            try:
                with callbacks_of_asyncio():
                    yield
                if not self._stopping.is_set():
                    raise Interrupted(_CANCELLED)
            except asyncio.CancelledError as error:
                # A CancelledError that neither a stop nor a caller's cancel explains comes from other code
                # that cancelled one of our tasks. To re-raise it would look like a clean end.
                if self._stopping.is_set() or asked_to_end() or cancel_requests() > cancels:
                    raise
                raise Interrupted(_CANCELLED) from error
        except Exception as error:
            self._failure = error
            self._log.error("the manager has ended", error=described(error), exc_info=error)
            raise
        finally:
            self._ended.set()

    def _set_stop_action(self, end: Callable[[], object] | None) -> None:
        """Let `stop` call `end`, at once if it was called already; with None it calls nothing."""
        self._on_stop = end
        if end is not None and self._stopping.is_set():
            end()

    def main(self, *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        """Run as a program until SIGINT or SIGTERM requests a clean stop; a second one ends it, status 130.

        `loop_factory`, such as `uvloop.new_event_loop`, makes the loop. What exists at the start is spared by
        the garbage collector until the end (`gc.freeze`), unless objects are frozen already. Raises what
        `run` raises.
        """

        async def until_signal() -> None:
            with on_signal(self.stop):
                await self.run()

        with in_own_process(self):
            anyio.run(until_signal, backend_options={"loop_factory": loop_factory})

    async def __aenter__(self) -> Self:
        """Start in a task of its own and wait until the workers run."""
        self._task = asyncio.create_task(self.run(), name=type(self).__name__.lower())
        started = asyncio.create_task(self._started.wait())
        try:
            await asyncio.wait((self._task, started), return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self._end(log_error=True)
            raise
        finally:
            started.cancel()
        if not self._started.is_set():
            await self._task
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(log_error=False)

    async def _end(self, *, log_error: bool) -> None:
        """Stop and wait for the end; a cancellation makes it a hard stop. An error is raised, or logged."""
        assert self._task is not None
        interrupted: asyncio.CancelledError | None = None
        self.stop()
        with anyio.CancelScope(shield=True):  # `stop_seconds` bounds the stop
            while not self._task.done():
                try:
                    await asyncio.wait((self._task,))
                except asyncio.CancelledError as error:
                    interrupted = error
                    self._task.cancel()
        failure = None if self._task.cancelled() else self._task.exception()
        if failure is not None and (log_error or interrupted is not None):
            self._log.error("failed while stopping", error=str(failure), exc_info=failure)
        if interrupted is not None:
            raise interrupted
        if not log_error:
            self._task.result()

    def _note_started(self, task_status: TaskStatus[None]) -> None:
        if not self._started.is_set():
            if self._on_start is not None:
                self._on_start()
            self._started.set()
            task_status.started()


@contextmanager
def in_own_process(lifecycle: Lifecycle) -> Iterator[None]:
    """While inside, the process does nothing but run it: see `Lifecycle.main` for the garbage collector."""
    with present_objects_spared() as lifecycle._on_start:
        yield
