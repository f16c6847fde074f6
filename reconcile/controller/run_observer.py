"""What looks on while runs are executed: for a recording that runs them again."""

from collections.abc import Sequence
from typing import Protocol

from reconcile.controller.run_result import RunResult
from reconcile.runs.run_request import Cause, Request


class ObservedRun(Protocol):
    def ended(self, outcome: RunResult | None) -> None:
        """The run ended so; None: it was cancelled. Called last, in the task of the run."""


class RunObserver(Protocol):
    """Called in the task of each run, before it takes time, chance or anything else from outside."""

    def began(
        self, request: Request, causes: Sequence[Cause], attempt: int, epoch: int
    ) -> ObservedRun | None:
        """A run begins; None: it is not observed."""
