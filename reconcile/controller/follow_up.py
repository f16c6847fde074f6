"""Follows up a run: another one now, later or with back-off, and a line of the log for a failure."""

from collections.abc import Callable
from typing import Any

import anyio
from attrs import define

from reconcile.controller.declaration import Controller
from reconcile.controller.outage_recovery import OutageRecovery
from reconcile.controller.run_result import RunResult
from reconcile.runs.run_failures import Failures
from reconcile.runs.run_request import Cause, Request, Result
from workqueue import Item, WorkQueue

EVERY_JITTER = 0.1
"""The share of `every=` over which objects are spread that were read at one time, to avoid a burst."""


@define(eq=False)
class FollowUp:
    """Decides when a key runs again. `exists`: whether the controller keeps an object of that key."""

    controller: Controller[Any]
    queue: WorkQueue[Request]
    recovery: OutageRecovery
    failures: Failures
    random: Callable[[], float]
    exists: Callable[[Request], bool]

    def after(self, item: Item[Request], outcome: RunResult) -> None:
        """Queue the key again as the result of its run demands, and log an error."""
        if outcome.stale:
            # No back-off: the next run first waits until the cache is past the version that was refused.
            self.queue.add(item.key, priority=item.priority, cause=Cause("retried"))
        elif outcome.error is None:
            self._as_asked(item, outcome.result)
            self._set_timer(item)
            self.recovery.note_success(item.key, outcome)
        elif outcome.terminal:
            self._log_failure(outcome, item, "failed for good")
            self._set_timer(item)
        elif self.recovery.takes(item.key, outcome):
            # At once, into a gate that is closed: the key waits there until the server answers.
            self.queue.add(item.key, priority=item.priority, cause=Cause("retried"))
            self._log_failure(outcome, item, "failed", retry_in="as soon as the server answers")
        else:
            delay = self.queue.add_rate_limited(item.key, priority=item.priority, cause=Cause("retried"))
            self._log_failure(outcome, item, "failed", retry_in=round(delay, 3))

    def _as_asked(self, item: Item[Request], result: Result) -> None:
        """Requeue as the result asks; as in controller-runtime, `requeue` keeps the count of its back-off."""
        priority = item.priority if result.priority is None else result.priority
        if result.requeue:
            self.queue.add_rate_limited(item.key, priority=priority, cause=Cause("scheduled"))
            return
        self.queue.forget(item.key)
        if result.requeue_after is not None:
            # A key that asks for 0 s each time would never let its worker go: the first back-off paces it.
            delay = result.requeue_after or self.controller.backoff.delay(0, self.random())
            self.queue.add_after(item.key, delay, priority=priority, cause=Cause("scheduled"))

    def _set_timer(self, item: Item[Request]) -> None:
        """Set the timer of an existing object; an earlier run resets it."""
        seconds = self.controller.every
        if seconds is None or not self.exists(item.key):
            return
        delay = seconds * (1 + EVERY_JITTER * self.random())
        self.queue.add_after(item.key, delay, priority=item.priority, cause=Cause("scheduled", note="every"))

    def _log_failure(self, outcome: RunResult, item: Item[Request], event: str, **more: Any) -> None:
        causes = item.causes if outcome.record is None else outcome.record.causes
        more |= {"woken_by": [str(cause) for cause in causes], "reconcile_id": outcome.reconcile_id}
        now = anyio.current_time()
        self.failures.tell(outcome.failed, event, now, terminal=outcome.terminal, key=str(item.key), **more)
