"""How failed runs are logged: each error with its place, each distinct traceback once."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from logging import DEBUG, ERROR, WARNING
from typing import Any, NamedTuple

import structlog
from attrs import define, field

from informers.cancellation import leaf_errors
from reconcile.runs.frames import place_of_error

MEMBERS_SHOWN = 5
"""Errors of an ExceptionGroup that are listed one by one."""
ERRORS_REMEMBERED = 100
"""Distinct errors of a controller that are remembered. The traceback of a forgotten one is logged again."""
TRACEBACK_CHARACTERS = 16_000
"""Characters kept of a traceback, from its end, which shows the error and its place."""


class Member(NamedTuple):
    """One error of a group, and where it was raised (`file:line`)."""

    error: str
    at: str

    def __str__(self) -> str:
        return f"{self.error} at {self.at}" if self.at else self.error


def place_text(error: BaseException | None) -> str:
    """Where an error was raised, as `file:line`; of a group its first error. Empty if it never was."""
    if error is None:
        return ""
    place = place_of_error(next(leaf_errors(error), error)) or place_of_error(error)
    return "" if place is None else str(place)


def members_of(error: BaseException | None) -> Sequence[Member]:
    """The first errors of a group, each with its place; empty for any other error."""
    if not isinstance(error, BaseExceptionGroup):
        return ()
    shown = zip(range(MEMBERS_SHOWN), leaf_errors(error), strict=False)
    return [Member(_named(one), place_text(one)) for _, one in shown]


def error_text(error: BaseException) -> str:
    """The text of an error. Its `__str__` may be the author's, and fail in its turn."""
    try:
        return str(error)
    except Exception as broken:
        return f"(its text raised {type(broken).__name__})"


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error_text(error)}"


def described(error: BaseException) -> str:
    """An error in one line; of a group its errors too."""
    text = _named(error)
    members = members_of(error)
    if not members:
        return text
    more = sum(1 for _ in leaf_errors(error)) - len(members)
    return f"{text}: {'; '.join(map(str, members))}{f'; and {more} more' if more else ''}"


def identity_of(error: BaseException) -> str:
    """The class of an error and where it was raised; for a group, those of its errors, sorted."""
    return ", ".join(sorted({f"{type(one).__qualname__} {place_text(one)}" for one in leaf_errors(error)}))


class LoggedFailure(NamedTuple):
    """A failed run as logged, without Secrets; `identity` is equal for one class from one place."""

    identity: str
    message: str
    at: str
    traceback: str
    exc_info: BaseException


@define
class DistinctError:
    """Errors of one class from one place: last `message`, first `traceback`, `last` end (loop's seconds)."""

    message: str
    at: str
    traceback: str
    count: int = 0
    last: float = 0.0


@define(eq=False)
class Failures:
    """The failures of one controller: their count, and the distinct errors, the latest last."""

    log: structlog.stdlib.BoundLogger
    count: int = field(default=0, init=False)
    _known: OrderedDict[str, DistinctError] = field(factory=OrderedDict, init=False)

    def distinct(self) -> Iterator[DistinctError]:
        """The remembered errors; the one seen last comes last."""
        return iter([*self._known.values()])

    def note(self, failed: LoggedFailure, now: float) -> bool:
        """Count a failure; returns whether an error of that class at that place is new."""
        self.count += 1
        known = self._known.pop(failed.identity, None)
        new = known is None
        if known is None:
            if len(self._known) >= ERRORS_REMEMBERED:
                self._known.popitem(last=False)
            known = DistinctError(failed.message, failed.at, failed.traceback[-TRACEBACK_CHARACTERS:])
        known.message, known.count, known.last = failed.message, known.count + 1, now
        self._known[failed.identity] = known
        return new

    def tell(
        self, failed: LoggedFailure, event: str, now: float, *, terminal: bool, key: str, **values: Any
    ) -> None:
        """Note it, and log it: with its traceback if it is new or the logger is at DEBUG."""
        if self.note(failed, now) or self.log.isEnabledFor(DEBUG):
            values["exc_info"] = failed.exc_info
        level = ERROR if terminal else WARNING
        self.log.log(level, event, key=key, error=failed.message, at=failed.at, **values)
