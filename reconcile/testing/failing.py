"""From how a test names a failure to the fault that makes it happen."""

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
from reconcile.testing.requests import group_of, target_of

Failure: TypeAlias = "int | type[ApiError] | StatusError | What"
"""An HTTP code, a class of error, an error with its own words, or anything that a plan can do."""

_STALE = Refuse(
    409, "Conflict", "the object has been modified; please apply your changes to the latest version"
)
_KNOWN: dict[type[ApiError], What] = {
    Unreachable: Drop(),
    OutcomeUnknown: LoseReply(),
    Conflict: _STALE,
    StaleVersion: _STALE,
    AlreadyExists: Refuse(409, "AlreadyExists", "the name is taken"),
    PreconditionFailed: Refuse(409, "Conflict", "Precondition failed: the uid is another one"),
    ServerError: Refuse(500),
}


def failing(verb: Verb, kind: type[Object] | str, failure: Failure, times: int | None = 1) -> Fault:
    """The fault by which the next `times` requests (None: all) of `verb` for objects of `kind` fail.

    `kind` is a model, or a pattern of paths as `When` has. Raises TypeError for a class of error that
    says too little to make an answer of it.
    """
    if isinstance(kind, str):
        return Fault(When(verb, kind, times=times), what_makes(failure))
    resource = kind_of(kind).resource
    when = _OfKind(verb, times=times, group=resource.group, plural=resource.plural)
    return Fault(when, what_makes(failure))


def what_makes(failure: Failure) -> What:
    """What has to go wrong for a client to raise such an error."""
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
    raise TypeError(f"{failure.__name__} says too little to be an answer: give an error, a code or a Refuse")


@frozen
class _OfKind(When):
    """Requests for objects of one kind, parts of them (`status`) included, by what a path means."""

    group: str = ""
    plural: str = ""

    def matches(self, verb: Verb, path: str) -> bool:
        named = target_of(path)[0] == self.plural and group_of(path) == self.group
        return named and super().matches(verb, path)
