"""Retries while an API server is not ready yet, as at the start of a cluster or after its own restart."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from informers import OutcomeUnknown, ServerError, TooManyRequests, Unreachable, get_logger

R = TypeVar("R")

NOT_READY: tuple[type[Exception], ...] = (Unreachable, OutcomeUnknown, TooManyRequests, ServerError)
"""Failures that may pass in a moment. 401, 403 and 404 are not among them: they are final."""
FIRST_WAIT = 0.25
LONGEST_WAIT = 5.0

_log = get_logger("reconcile")


async def until_ready(
    ask: Callable[[], Awaitable[R]], seconds: float, retried: tuple[type[Exception], ...] = NOT_READY
) -> R:
    """The result of `ask`, retried for `seconds` on `retried` errors, logged once. Raises the last one."""
    end, wait, waiting = anyio.current_time() + seconds, FIRST_WAIT, False
    while True:
        try:
            return await ask()
        except retried as error:
            left = end - anyio.current_time()
            if left <= 0:
                raise
            if not waiting:
                _log.warning("waiting for the API server", error=str(error), at_most=seconds)
                waiting = True
            await anyio.sleep(min(wait, left))
            wait = min(2 * wait, LONGEST_WAIT)
