"""How a key gets into a controller's queue from any thread."""

from functools import partial
from threading import get_ident

import anyio
import anyio.from_thread
import anyio.lowlevel

from reconcile.controller.declaration import Trigger
from reconcile.controller.run_history import ControllerTraces
from reconcile.runs.run_request import Cause, Request


def trigger_of(enqueue: Trigger, traces: ControllerTraces | None) -> Trigger:
    """Adds to a queue of this thread's event loop, also from other threads."""
    thread, token = get_ident(), anyio.lowlevel.current_token()

    def trigger(request: Request, cause: Cause, priority: int) -> None:
        if traces is not None:
            traces.triggered(request, cause)
        add = partial(enqueue, request, cause, priority)
        if get_ident() == thread:
            add()
        else:
            anyio.from_thread.run_sync(add, token=token)

    return trigger
