"""Distinguishes a requested cancellation from a CancelledError that a call merely raised.

`await task` raises CancelledError if other code cancelled that task, and so do `gather`, futures and
libraries such as grpc. In a task group such an error silently ends every other task, so each task that calls
foreign code has to find out which of the two it got.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio

FAILURES = (Exception, asyncio.CancelledError, SystemExit)
"""What foreign code may raise as its own failure: not a user's KeyboardInterrupt, nor GeneratorExit."""


GRACE_SECONDS = 1.0
"""If all tasks of an event loop are cancelled, a task group ends only after the groups within it have."""


class Interrupted(Exception):
    """Foreign code raised CancelledError or SystemExit, and nothing had asked it to end."""


def asked_to_end() -> bool:
    """Whether a cancel scope around the current position was cancelled."""
    return anyio.current_effective_deadline() == -math.inf


def cancel_requests() -> int:
    """How often `cancel` was called on the current task; 0 outside of tasks."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def as_failure(error: BaseException, what: str, requests: int | None = None) -> Exception | None:
    """The error of `what` as a failure; None if it must be re-raised as it is.

    `requests` are the `cancel_requests` from before the call, in a caller's task: if there are more now, the
    caller cancelled it. Without them the task is the runtime's own, and only scopes end it.
    """
    if isinstance(error, Exception):
        return error
    leaves = list(leaf_errors(error))
    if not all(isinstance(leaf, FAILURES) for leaf in leaves):
        return None
    cancelled = any(isinstance(leaf, asyncio.CancelledError) for leaf in leaves)
    if cancelled and (asked_to_end() or (requests is not None and cancel_requests() > requests)):
        return None
    failure = Interrupted(f"{what} raised {_described(leaves)}").with_traceback(error.__traceback__)
    failure.__cause__ = error
    return failure


async def live_on() -> None:
    """Undo a cancellation of the current task that none of its scopes asked for; raise it again if one did.

    For the runtime's own tasks, after a CancelledError. A cancellation of all tasks of an event loop, as at
    the end of `asyncio.run`, also reaches the host of the scope, so this gives it two turns for that.
    """
    task = asyncio.current_task()
    for _ in range(2):
        while task is not None and task.cancelling():
            task.uncancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if asked_to_end():
                raise


def interrupted(what: str, error: BaseException) -> Interrupted:
    """The failure for a CancelledError that other code threw into a task."""
    failure = Interrupted(f"{what} was cancelled, and nothing had asked it to end")
    failure.__cause__ = error
    return failure


@asynccontextmanager
async def no_silent_end(what: str) -> AsyncIterator[None]:
    """Raise Interrupted if other code cancels this task, whose group would end as if it had been asked to."""
    try:
        yield
    except asyncio.CancelledError as error:
        if asked_to_end():
            raise
        await live_on()
        await asyncio.sleep(GRACE_SECONDS)
        raise interrupted(what, error) from error


def leaf_errors(error: BaseException) -> Iterator[BaseException]:
    """The single errors within nested exception groups."""
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from leaf_errors(inner)


def _described(leaves: list[BaseException]) -> str:
    odd = next(leaf for leaf in leaves if not isinstance(leaf, Exception))
    if isinstance(odd, SystemExit):
        return f"SystemExit({odd.code!r}): code of an operator cannot end the process, so raise another error"
    return "CancelledError, and nothing had asked it to end: what it awaited was cancelled elsewhere"
