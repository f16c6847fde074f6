"""Follows up a run: another one now, later or with back-off, and a line of the log."""

from collections.abc import Callable
from typing import Any

from attrs import define

from reconcile.controller.declaration import Controller
from reconcile.controller.outage_recovery import OutageRecovery
from reconcile.controller.run_log import NextTry, RunLog
from reconcile.controller.run_result import RunResult
from reconcile.runs.run_request import EVERY, Cause, Request, Result
from workqueue import Item, WorkQueue

EVERY_JITTER = 0.1
"""The share of `every=` over which objects are spread that were read at one time, to avoid a burst."""


@define(eq=False)
class FollowUp:
    """Decides when a key runs again. `exists`: whether the controller keeps an object of that key."""

    controller: Controller[Any]
    queue: WorkQueue[Request]
    recovery: OutageRecovery
    run_log: RunLog
    random: Callable[[], float]
    exists: Callable[[Request], bool]

    def after(self, item: Item[Request], outcome: RunResult) -> None:
        """Queue the key again as the result of its run demands, and log what happened."""
        self.run_log.ended(item.key, outcome, self._queue_next(item, outcome))

    def _queue_next(self, item: Item[Request], outcome: RunResult) -> NextTry:
        if outcome.stale:
            # No back-off: the next run first waits until the cache is past the version that was refused.
            self.queue.add(item.key, priority=item.priority, cause=Cause("retried"))
            return 0.0
        if outcome.error is None:
            asked = self._as_asked(item, outcome.result)
            timer = self._set_timer(item)
            self.recovery.note_success(item.key, outcome)
            return timer if asked is None else asked if timer is None else min(asked, timer)
        if outcome.terminal:
            return self._set_timer(item)
        if self.recovery.takes(item.key, outcome):
            # At once, into a gate that is closed: the key waits there until the server answers.
            self.queue.add(item.key, priority=item.priority, cause=Cause("retried"))
            return "as soon as the server answers"
        asked = outcome.asked_delay
        if asked is not None:
            asked = asked or self._first_backoff()
        return self.queue.add_rate_limited(
            item.key, priority=item.priority, cause=Cause("retried"), delay=asked
        )

    def _as_asked(self, item: Item[Request], result: Result) -> float | None:
        """Requeue as the result asks; as in controller-runtime, `requeue` keeps the count of its back-off."""
        priority = item.priority if result.priority is None else result.priority
        if result.requeue:
            return self.queue.add_rate_limited(item.key, priority=priority, cause=Cause("scheduled"))
        self.queue.forget(item.key)
        if result.requeue_after is None:
            return None
        # A key that asks for 0 s each time would never let its worker go: the first back-off paces it.
        delay = result.requeue_after or self._first_backoff()
        self.queue.add_after(item.key, delay, priority=priority, cause=Cause("scheduled"))
        return delay

    def _first_backoff(self) -> float:
        return self.controller.backoff.delay(0, self.random())

    def _set_timer(self, item: Item[Request]) -> float | None:
        """Set the timer of an existing object; an earlier run resets it."""
        seconds = self.controller.every
        if seconds is None or not self.exists(item.key):
            return None
        delay = seconds * (1 + EVERY_JITTER * self.random())
        self.queue.add_after(item.key, delay, priority=item.priority, cause=Cause("scheduled", note=EVERY))
        return delay
