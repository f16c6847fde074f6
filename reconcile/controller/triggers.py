"""How a key gets into the queue of a controller, from any thread."""

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Protocol, TypeAlias

import anyio
import anyio.from_thread
import anyio.lowlevel

from reconcile.controller.run_history import ControllerTraces
from reconcile.runs.run_request import Cause, Request

INITIAL_PRIORITY = -100
"""Objects of the first list come after present changes (controller-runtime's handler priority)."""

EnqueueKey: TypeAlias = Callable[[Request, Cause, int], None]
"""Adds a key to a queue, with a cause and a priority."""


class TriggerKey(Protocol):
    """An `EnqueueKey`; `in_all_loops` says that the other event loops of the process are asked too."""

    def __call__(
        self, request: Request, cause: Cause, priority: int, *, in_all_loops: bool = False
    ) -> None: ...


def from_any_thread(enqueue: TriggerKey, traces: ControllerTraces | None) -> TriggerKey:
    """`enqueue` for callers in any thread; call this in the event loop that `enqueue` belongs to."""
    thread, token = get_ident(), anyio.lowlevel.current_token()

    def trigger(request: Request, cause: Cause, priority: int, *, in_all_loops: bool = False) -> None:
        if traces is not None:
            traces.triggered(request, cause)
        add = partial(enqueue, request, cause, priority, in_all_loops=in_all_loops)
        if get_ident() == thread:
            add()
        else:
            anyio.from_thread.run_sync(add, token=token)

    return trigger
