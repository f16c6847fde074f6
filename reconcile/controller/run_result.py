"""The outcome of a run: its result, or its error."""

from collections.abc import Callable, Sequence
from traceback import format_exception
from typing import Any, Literal

from attrs import field, frozen

from informers.cancellation import leaf_errors
from informers.functions import name_of
from reconcile.client import redaction
from reconcile.models import DecodeError
from reconcile.runs.run_failures import LoggedFailure, Member, described, identity_of, members_of, place_text
from reconcile.runs.run_record import RunRecord
from reconcile.runs.run_request import Result, TemporaryError, TerminalError, seconds_of

ResultName = Literal["success", "error", "requeue", "requeue_after"]


class ReconcileTimeout(Exception):
    """A run took longer than the controller allows."""


@frozen
class RunResult:
    """The outcome of a run: `result`, or the `error` that it failed with.

    `stale`: the run stopped because it had worked on an old state; it is repeated at once, and has not
    failed. `reconcile_id` is the one in its log lines. `redact` removes the values of Secrets from texts, and
    `secretive`: the run has seen some. `record` has its reads and writes, `secrets` the values.
    """

    result: Result = field(factory=Result)
    error: Exception | None = None
    stale: bool = False
    reconcile_id: str = ""
    redact: Callable[[str], str] = field(default=str, repr=False, eq=False)
    secretive: bool = field(default=False, repr=False, eq=False)
    record: RunRecord | None = field(default=None, repr=False, eq=False)
    secrets: redaction.SecretValues = field(default=redaction.NO_SECRETS, repr=False, eq=False)

    @property
    def terminal(self) -> bool:
        return self.error is not None and all_are(self.error, TerminalError, DecodeError)

    @property
    def asked_delay(self) -> float | None:
        """The seconds after which the errors ask to be tried again; None where one of them does not say."""
        if self.error is None or not all_are(self.error, TemporaryError, TerminalError):
            return None
        try:
            delays = [
                seconds_of(leaf.delay, "delay")
                for leaf in leaf_errors(self.error)
                if isinstance(leaf, TemporaryError)
            ]
        except (TypeError, ValueError):  # of a subclass that sets another one
            return None
        return min(delays, default=None)

    @property
    def repeated(self) -> bool:
        """Whether the runtime repeats the run: it failed, or had worked on an old state."""
        return self.stale or self.error is not None

    @property
    def name(self) -> ResultName:
        """The result in controller-runtime's words; a run on an old state is requeued."""
        if self.error is not None:
            return "error"
        if self.stale or self.result.requeue:
            return "requeue"
        return "success" if self.result.requeue_after is None else "requeue_after"

    @property
    def message(self) -> str:
        """The error in one line, with those of a group; empty without one."""
        return "" if self.error is None else self.redact(described(self.error))

    @property
    def at(self) -> str:
        """The file and line of the author's innermost frame in the error's traceback; empty without one."""
        return place_text(self.error)

    @property
    def members(self) -> Sequence[Member]:
        return [member._replace(error=self.redact(member.error)) for member in members_of(self.error)]

    @property
    def traceback(self) -> str:
        return "" if self.error is None else self.redact("".join(format_exception(self.error)))

    @property
    def failed(self) -> LoggedFailure:
        """The error as it is logged. Raises ValueError if there is none."""
        error = self.error
        if error is None:
            raise ValueError("the run has not failed")
        shown = redaction.redacted_error(error, self.redact) if self.secretive else error
        return LoggedFailure(identity_of(error), self.message, self.at, self.traceback, shown)


def all_are(error: BaseException, *kinds: type[Exception]) -> bool:
    """Whether an error is of these kinds; of a group, each member."""
    return all(isinstance(leaf, kinds) for leaf in leaf_errors(error))


def checked_result(result: Any, function: Any) -> Result | None:
    """The author's result. Raises TerminalError for another value: a retry would return the same."""
    if result is None or isinstance(result, Result):
        return result
    raise TerminalError(f"{name_of(function)} returned {type(result).__name__}: expected a Result or None")
