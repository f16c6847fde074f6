"""Logs the runs of a controller: each that failed, and each in which something happened.

The words are those of `reconcile explain` and of the status page. A run at rest is a line at level DEBUG
alone, so that thousands of objects at rest leave the log silent.
"""

from collections.abc import Mapping, Sequence
from logging import DEBUG, INFO
from typing import Any, Literal, TypeAlias

import anyio
from attrs import define

from reconcile.controller.run_history import PastRun, RunHistory
from reconcile.controller.run_result import RunResult
from reconcile.runs.run_failures import Failures
from reconcile.runs.run_record import changed_something
from reconcile.runs.run_request import BY_HAND, Request

Reason: TypeAlias = Literal["wrote", "result changed", "long", "by hand"]

NextTry: TypeAlias = float | Literal["as soon as the server answers"] | None
"""Seconds until the next run of a key, unless a change comes first; None if only a change brings one."""

LONG_SECONDS = 10.0
"""A run is long beyond this, or beyond half of its time limit if that is less."""
WRITES_SHOWN = 10
"""Writes named in a line: a longer line is cut in two by container runtimes."""


def reasons_of(run: PastRun, before: PastRun | None, *, wrote: bool, long: float) -> Sequence[Reason]:
    """Why a run that did not fail has a line at level INFO; empty for a run at rest.

    `before` is the last run of the key before it. Where that is not remembered, a run after failed attempts
    has a new result. `long` is the number of seconds beyond which a run is long.
    """
    reasons: list[Reason] = []
    if wrote:
        reasons.append("wrote")
    if _has_new_result(run, before):
        reasons.append("result changed")
    if run.seconds > long:
        reasons.append("long")
    if BY_HAND in run.causes:
        reasons.append("by hand")
    return reasons


def _has_new_result(run: PastRun, before: PastRun | None) -> bool:
    if before is None or before.result == "cancelled":
        return bool(run.attempt) and run.result in ("success", "requeue_after")
    return before.result != run.result


def values_of(run: PastRun, next_try: NextTry) -> Mapping[str, Any]:
    """The values of the line of a run, without those that say nothing."""
    values: dict[str, Any] = {"woken_by": [str(cause) for cause in run.causes]}
    if run.writes:
        more = len(run.writes) - WRITES_SHOWN
        values["wrote"] = [*run.writes[:WRITES_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    values |= {"result": run.result, "seconds": round(run.seconds, 3)}
    if run.attempt:
        values["attempt"] = run.attempt
    if next_try is not None:
        values["next_try"] = next_try if isinstance(next_try, str) else f"in {round(next_try, 3):g} s"
    return values


@define(eq=False)
class RunLog:
    """The log lines of ended runs. `long`: the seconds beyond which a run is long."""

    failures: Failures
    history: RunHistory
    long: float = LONG_SECONDS

    def ended(self, request: Request, outcome: RunResult, next_try: NextTry) -> None:
        """Log a run, which is the last one of its key in the history."""
        past = self.history.past(request)
        if outcome.terminal:
            self._log_failure(request, outcome, "failed for good", run=past[-1], next_try=next_try)
        elif outcome.error is not None:
            self._log_failure(request, outcome, "failed", run=past[-1], next_try=next_try)
        elif self.failures.log.isEnabledFor(INFO):
            self._log_success(request, outcome, past, next_try)

    def _log_success(
        self, request: Request, outcome: RunResult, past: Sequence[PastRun], next_try: NextTry
    ) -> None:
        log, run, before = self.failures.log, past[-1], past[-2] if len(past) > 1 else None
        wrote = changed_something(outcome.record)
        if outcome.stale and not wrote:
            return  # that it ran on an old state is a line already
        reasons = reasons_of(run, before, wrote=wrote, long=self.long)
        level = INFO if reasons else DEBUG
        if not log.isEnabledFor(level):
            return
        values = values_of(run, next_try)
        because = {"because": ", ".join(reasons)} if reasons else {}
        log.log(level, "reconciled", key=str(request), **values, **because, reconcile_id=outcome.reconcile_id)

    def _log_failure(
        self, request: Request, outcome: RunResult, event: str, *, run: PastRun, next_try: NextTry
    ) -> None:
        values = {**values_of(run, next_try), "reconcile_id": outcome.reconcile_id}
        now = anyio.current_time()
        self.failures.tell(outcome.failed, event, now, terminal=outcome.terminal, key=str(request), **values)
