"""Restarts tasks that fail, and reports the errors of tasks."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import structlog

from informers import Clock
from informers.cancellation import Interrupted, as_failure, leaf_errors, live_on, no_silent_end
from reconcile.runs.run_failures import described, place_text
from workqueue import Backoff

RESTARTS = Backoff(base=1.0, limit=60.0)
HEALTHY_SECONDS = 60.0
"""A task that ran this long (seconds) before it failed restarts its back-off."""


async def supervise(
    run: Callable[[], Awaitable[None]], what: str, clock: Clock, log: structlog.stdlib.BoundLogger
) -> None:
    """Run until it ends by itself; each failure, also a foreign cancellation, is followed by a restart."""
    failures = 0
    while True:
        started = anyio.current_time()
        try:
            await run()
        except BaseException as error:
            failure = as_failure(error, what)
            if failure is None:
                raise
            if failure is not error:
                await live_on()
            if anyio.current_time() - started >= HEALTHY_SECONDS:
                failures = 0
            delay = RESTARTS.delay(failures, clock.random())
            failures += 1
            log.error(
                "failed; it will be restarted",
                part=what,
                error=described(failure),
                at=place_text(failure),
                restart_in=round(delay, 3),
                exc_info=failure,
            )
            await anyio.sleep(delay)
        else:
            return


async def noted(run: Callable[[], Awaitable[None]], what: str) -> None:
    """Run, and note on an error where it came from; a task that other code cancels ends with one too."""
    try:
        async with no_silent_end(what):
            await run()
    except Interrupted:
        raise
    except Exception as error:
        for one in leaf_errors(error):
            one.add_note(f"in {what}")
        raise


@contextmanager
def without_groups(log: structlog.stdlib.BoundLogger | None = None) -> Iterator[None]:
    """While inside, a group of errors is raised as its first error; the others go to `log`."""
    try:
        yield
    except BaseExceptionGroup as group:
        first, *others = leaf_errors(group)
        for error in others:
            if log is not None:
                log.error("one more error", error=described(error), exc_info=error)
        raise first from None
