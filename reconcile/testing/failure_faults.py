"""The fault behind each way in which a test can name a failure."""

from typing import TypeAlias

from attrs import frozen

from informers import (
    AlreadyExists,
    ApiError,
    Conflict,
    OutcomeUnknown,
    PreconditionFailed,
    ServerError,
    StaleVersion,
    StatusError,
    Unreachable,
)
from reconcile.models import Object, kind_of
from reconcile.testing.faults import Drop, Fault, LoseReply, Refuse, Verb, What, When
from reconcile.testing.recorded_requests import target_of

RequestFailure: TypeAlias = "int | type[ApiError] | StatusError | What"
"""An HTTP code, a class of error, an error with its own message, or any fault of a plan."""

_STALE_VERSION = Refuse(
    409, "Conflict", "the object has been modified; please apply your changes to the latest version"
)
_KNOWN: dict[type[ApiError], What] = {
    Unreachable: Drop(),
    OutcomeUnknown: LoseReply(),
    Conflict: _STALE_VERSION,
    StaleVersion: _STALE_VERSION,
    AlreadyExists: Refuse(409, "AlreadyExists", "the name is taken"),
    PreconditionFailed: Refuse(409, "Conflict", "Precondition failed: the uid is another one"),
    ServerError: Refuse(500),
}


def failure_fault(
    verb: Verb, kind: type[Object] | str, failure: RequestFailure, times: int | None = 1
) -> Fault:
    """The fault behind `FakeClient.fail`. Raises TypeError for a class of error without an HTTP code."""
    if isinstance(kind, str):
        return Fault(When(verb, kind, times=times), cause_of(failure))
    resource = kind_of(kind).resource
    when = _OfKind(verb, times=times, group=resource.group, plural=resource.plural)
    return Fault(when, cause_of(failure))


def cause_of(failure: RequestFailure) -> What:
    if isinstance(failure, int):
        return Refuse(failure)
    if isinstance(failure, StatusError):
        after = None if failure.retry_after is None else round(failure.retry_after)
        return Refuse(failure.code, failure.reason, failure.message, retry_after=after)
    if not isinstance(failure, type):
        return failure
    if failure in _KNOWN:
        return _KNOWN[failure]
    if issubclass(failure, StatusError) and failure.codes:
        return Refuse(failure.codes[-1])
    raise TypeError(f"{failure.__name__} has no HTTP code of its own: pass an error, a code or a Refuse")


@frozen
class _OfKind(When):
    group: str = ""
    plural: str = ""

    def matches(self, verb: Verb, path: str) -> bool:
        target = target_of(path)
        return (target.group, target.resource) == (self.group, self.plural) and super().matches(verb, path)
