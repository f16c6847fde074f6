"""The class of a failure, and for how long a pool without capacity is left alone.

Other failures must not send pods to the second best pool (kubernetes/autoscaler#7872).
"""

import datetime
from typing import Literal, TypeAlias

from attrs import frozen

from informers import (
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    ServerError,
    StatusError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)

ErrorClass: TypeAlias = Literal[
    "conflict", "throttled", "transient", "invalid", "forbidden", "quota", "gone", "capacity"
]
"""The class of a failed request for machines (see `class_of`)."""
RETRIED: frozenset[ErrorClass] = frozenset({"conflict", "throttled", "transient"})
"""Failures that are transient."""
LACKING: frozenset[ErrorClass] = frozenset({"quota", "capacity"})
"""Failures for which a pool is left alone; `capacity`: machines failed, or did not come in time."""


def class_of(error: ApiError) -> ErrorClass:
    """The class of a failed request."""
    match error:
        case Conflict() | Expired():
            return "conflict"
        case TooManyRequests():
            return "throttled"
        case TransportError() | ServerError():
            return "transient"
        case NotFound():
            return "gone"
        case Forbidden() if "exceeded quota" in str(error):
            return "quota"
        case Forbidden() | Unauthorized():
            return "forbidden"
    return "invalid" if isinstance(error, StatusError) else "transient"


@frozen
class BackoffTerms:
    """The back-off in seconds: at first, at most, and when it is forgotten; those of cluster-autoscaler."""

    first: float = 300.0
    longest: float = 1800.0
    forgotten: float = 10_800.0


@frozen
class PoolBackoff:
    """A pool is left alone `until` a time, `seconds` after it `failed`."""

    until: datetime.datetime
    seconds: float
    failed: datetime.datetime
    reason: str = ""

    def holds(self, now: datetime.datetime) -> bool:
        """Whether it has not ended."""
        return now < self.until

    def is_stale(self, now: datetime.datetime, terms: BackoffTerms = BackoffTerms()) -> bool:
        """Whether the last failure is so old that the next one counts as the first."""
        return (now - self.failed).total_seconds() > terms.forgotten


def after_failure(
    before: PoolBackoff | None, now: datetime.datetime, reason: str = "", terms: BackoffTerms = BackoffTerms()
) -> PoolBackoff:
    """The back-off after a failure: twice as long as the last, but unchanged within one."""
    if before is None or before.is_stale(now, terms):
        seconds = terms.first
    elif before.holds(now):
        seconds = before.seconds
    else:
        seconds = min(terms.longest, before.seconds * 2)
    return PoolBackoff(now + datetime.timedelta(seconds=seconds), seconds, now, reason)
