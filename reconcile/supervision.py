"""Keeping a task alive that may fail, and what to say where tasks have failed."""

from collections.abc import Awaitable, Callable

import anyio
import structlog

from informers import Clock
from workqueue import Backoff

RESTARTS = Backoff(base=1.0, limit=60.0)
HEALTHY_SECONDS = 60.0
"""Who has run this long before failing starts its back-off anew."""


async def supervise(
    run: Callable[[], Awaitable[None]], what: str, clock: Clock, log: structlog.stdlib.BoundLogger
) -> None:
    """Run until it ends by itself; each failure is logged and followed by another start, after a while."""
    failures = 0
    while True:
        started = anyio.current_time()
        try:
            await run()
        except Exception:
            if anyio.current_time() - started >= HEALTHY_SECONDS:
                failures = 0
            delay = RESTARTS.delay(failures, clock.random())
            failures += 1
            log.exception("failed; it is started anew", part=what, restart_in=round(delay, 3))
            await anyio.sleep(delay)
        else:
            return


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a caller wants to see, out of the groups that task groups wrap it in."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
