"""What runs beside something that may end sooner than the task group it all runs in."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVarTuple

from anyio import TaskHandle
from anyio.abc import TaskGroup

Arguments = TypeVarTuple("Arguments")


class Tasks:
    """The share of one of those who use a task group together: it can be ended alone."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._started: list[TaskHandle[None]] = []

    def start_soon(self, call: Callable[[*Arguments], Coroutine[Any, Any, None]], *args: *Arguments) -> None:
        """Start one more."""
        pending = TaskHandle.Status.PENDING
        self._started = [task for task in self._started if task.status is pending]
        self._started.append(self._group.create_task(call(*args)))

    def cancel(self) -> None:
        """End them all; the group waits for it."""
        for task in self._started:
            task.cancel()
