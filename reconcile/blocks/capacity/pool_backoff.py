"""What kind of failure it was, and for how long a pool that has no capacity is left alone.

Only a lack of capacity says anything about a pool. To take a conflict, a busy server or a forbidden request
for one would send pods to the second best pool (kubernetes/autoscaler#7872).
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
"""What sort of failure a request for machines met (see `class_of`)."""
RETRIED: frozenset[ErrorClass] = frozenset({"conflict", "throttled", "transient"})
"""Failures that are transient."""
LACKING: frozenset[ErrorClass] = frozenset({"quota", "capacity"})
"""What a pool may be left alone for; `capacity`: machines failed, or did not come in time."""


def class_of(error: ApiError) -> ErrorClass:
    """What sort of failure a request met."""
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
    """How long a back-off is, in seconds: at first, at most, and after what time all is forgotten.

    Those of cluster-autoscaler: 5 min, doubled up to 30 min, forgotten after 3 h.
    """

    first: float = 300.0
    longest: float = 1800.0
    forgotten: float = 10_800.0


@frozen
class PoolBackoff:
    """A pool is left alone `until` then; `seconds` is how long, counted from the `failed` before."""

    until: datetime.datetime
    seconds: float
    failed: datetime.datetime
    reason: str = ""

    def holds(self, now: datetime.datetime) -> bool:
        """Whether it has not ended."""
        return now < self.until

    def is_stale(self, now: datetime.datetime, terms: BackoffTerms = BackoffTerms()) -> bool:
        """Whether so much time has passed without a failure that the next one is a first one."""
        return (now - self.failed).total_seconds() > terms.forgotten


def after_failure(
    before: PoolBackoff | None, now: datetime.datetime, reason: str = "", terms: BackoffTerms = BackoffTerms()
) -> PoolBackoff:
    """The back-off after one more failure: twice as long as the last, and no longer within one."""
    if before is None or before.is_stale(now, terms):
        seconds = terms.first
    elif before.holds(now):
        seconds = before.seconds
    else:
        seconds = min(terms.longest, before.seconds * 2)
    return PoolBackoff(now + datetime.timedelta(seconds=seconds), seconds, now, reason)
