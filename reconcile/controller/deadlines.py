"""One timer for all runs of a controller: all may take equally long, so the oldest is always due first."""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any

import anyio
from attrs import define, field


@define(eq=False)
class Deadlines:
    """Cancels each watched scope `seconds` after that began, unless it was forgotten before."""

    seconds: float
    _ends: dict[anyio.CancelScope, float] = field(factory=dict, init=False)
    _timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def watch(self, scope: anyio.CancelScope, loop: asyncio.AbstractEventLoop) -> float:
        """Watch a scope; returns when it will be cancelled, in the loop's seconds."""
        end = self._ends[scope] = loop.time() + self.seconds
        # A timer for each run would cost more than the rest of its deadline, and hardly any of them fires.
        if self._timer is None:
            self._timer = loop.call_at(end, self._strike, loop)
        return end

    def forget(self, scope: anyio.CancelScope) -> None:
        self._ends.pop(scope, None)

    def watches(self, scope: anyio.CancelScope) -> bool:
        return scope in self._ends

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _strike(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for scope, end in list(self._ends.items()):
            if end > now:
                self._timer = loop.call_at(end, self._strike, loop)
                return
            del self._ends[scope]
            scope.cancel()


@define(eq=False)
class RunLimit:
    """Ends blocks of the current task that take too long: `with limit: ...`. The task closes it.

    It knows task and loop, so that no run has to look them up.
    """

    deadlines: Deadlines
    task: asyncio.Task[Any] = field(init=False)
    deadline: float = field(default=math.inf, init=False)
    """When the last block is ended, or was, in the event loop's seconds."""
    now: Callable[[], float] = field(init=False)
    """The event loop's time in seconds, from any thread."""
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    _scope: anyio.CancelScope | None = field(default=None, init=False)
    _struck: TracebackType | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task, self.now = task, self._loop.time

    def struck(self) -> TracebackType | None:
        """The traceback of the last block that was ended; not kept, as it keeps its frames alive."""
        trace, self._struck = self._struck, None
        return trace

    def __enter__(self) -> None:
        # Entering and leaving a scope costs as much as a short run: one scope serves until it is cancelled.
        scope = self._scope
        if scope is None:
            scope = self._scope = anyio.CancelScope()
            scope.__enter__()
        self.deadline = self.deadlines.watch(scope, self._loop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        scope = self._scope
        assert scope is not None
        self.deadlines.forget(scope)
        if not scope.cancel_called:
            return False
        self._scope, self._struck = None, trace
        return bool(scope.__exit__(kind, error, trace))

    def cancel(self) -> None:
        """End the block under way, if any, as if it had taken too long."""
        if self._scope is not None and self.deadlines.watches(self._scope):
            self._scope.cancel()

    def close(self) -> None:
        """Leave the scope that is kept for further blocks."""
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.__exit__(None, None, None)
