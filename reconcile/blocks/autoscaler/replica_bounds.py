"""What becomes of a desired number of replicas: bounds, schedules, and the last steps to zero. Pure."""

import datetime
from collections.abc import Iterable
from typing import Literal

from attrs import evolve, field, frozen, validators

UNKNOWN = -1
"""A desired number that is not known: nothing is written for it."""

GRACE = 30_000
ACTIVATION_TIMEOUT = 630_000
"""In ms: a revision's progress deadline of 10 minutes, and 30 s more, as in Knative."""


@frozen(kw_only=True)
class ReplicaBounds:
    """At least `initial` until `initialized`; no limit for `maximum` 0, no minimum unless `reachable`."""

    minimum: int = field(default=1, validator=validators.ge(0))
    maximum: int = field(default=0, validator=validators.ge(0))
    initial: int = field(default=0, validator=validators.ge(0))
    initialized: bool = True
    reachable: bool = True

    def within(self, replicas: int) -> int:
        """The nearest number within the bounds."""
        lowest = self.minimum if self.reachable else 0
        if not self.initialized:
            lowest = max(lowest, self.initial)
        replicas = max(lowest, replicas)
        return min(self.maximum, replicas) if self.maximum else replicas


@frozen(kw_only=True)
class Schedule:
    """Bounds for a part of some days, from `start` (included) to `end` in a time zone.

    An `end` not after `start` is on the next day. `days` are 0 (Monday) to 6, of the start. A bound of None
    is the usual one.
    """

    name: str
    start: datetime.time
    end: datetime.time
    zone: datetime.tzinfo = datetime.UTC
    days: frozenset[int] = frozenset(range(7))
    minimum: int | None = None
    maximum: int | None = None

    def covers(self, now: datetime.datetime) -> bool:
        """Whether it applies at that time."""
        local = now.astimezone(self.zone)
        time, today = local.time(), local.weekday()
        if self.start < self.end:
            return today in self.days and self.start <= time < self.end
        yesterday = (today - 1) % 7
        return (today in self.days and time >= self.start) or (yesterday in self.days and time < self.end)

    def bounds(self, otherwise: ReplicaBounds) -> ReplicaBounds:
        """The bounds while it applies."""
        return evolve(
            otherwise,
            minimum=otherwise.minimum if self.minimum is None else self.minimum,
            maximum=otherwise.maximum if self.maximum is None else self.maximum,
        )


def active_schedule(schedules: Iterable[Schedule], now: datetime.datetime) -> Schedule | None:
    """The first schedule that applies at that time."""
    return next((schedule for schedule in schedules if schedule.covers(now)), None)


# --- to zero --------------------------------------------------------------------------------------------


@frozen
class Activity:
    """Whether a target serves, and since when (ms): `activating` until its first replica is Ready."""

    phase: Literal["active", "inactive", "activating"]
    since: int


@frozen(kw_only=True)
class ZeroRules:
    """When a target may have no replicas; times in ms.

    After `idle` a stand-in is probed; the last replica goes once it has answered, and `grace` and `retention`
    have passed.
    """

    allowed: bool = False
    idle: int = 60_000
    grace: int = GRACE
    retention: int = 0
    activation_timeout: int = ACTIVATION_TIMEOUT


@frozen
class ScaleStep:
    desired: int
    write: bool


def step_to(
    wanted: int,
    current: int,
    bounds: ReplicaBounds,
    zero: ZeroRules,
    activity: Activity,
    now: int,
    *,
    answered: bool = True,
) -> ScaleStep:
    """The step to `wanted` replicas (`UNKNOWN`: none). `answered`: the probe succeeded."""
    if wanted < 0 and bounds.initialized:
        return ScaleStep(wanted, False)
    step = _towards_zero(bounds.within(max(0, wanted)), zero, activity, now, answered, bounds)
    return evolve(step, write=step.write and step.desired != current)


def asks_probe(wanted: int, bounds: ReplicaBounds, zero: ZeroRules, activity: Activity) -> bool:
    return zero.allowed and wanted >= 0 and bounds.within(wanted) == 0 and activity.phase == "inactive"


def activity_after(
    wanted: int, current: int, ready: int, zero: ZeroRules, activity: Activity | None, now: int
) -> Activity:
    if activity is None:
        return Activity("active" if ready else "inactive" if current == 0 else "activating", now)
    if activity.phase == "activating":
        return Activity("active", now) if ready else activity
    if wanted > 0:
        return activity if activity.phase == "active" else Activity("active" if ready else "activating", now)
    if activity.phase == "active" and wanted == 0 and now - activity.since >= zero.idle:
        return Activity("inactive", now)
    return activity


def _towards_zero(
    desired: int, zero: ZeroRules, activity: Activity, now: int, answered: bool, bounds: ReplicaBounds
) -> ScaleStep:
    passed = now - activity.since
    if desired > 0 or (not bounds.initialized and bounds.initial == 0):
        return ScaleStep(desired, True)
    if not zero.allowed:
        return ScaleStep(1, True)
    if activity.phase == "activating":
        over = passed >= zero.activation_timeout
        return ScaleStep(0 if over else UNKNOWN, over)
    if activity.phase == "active":
        idle = passed >= zero.idle
        return ScaleStep(0 if idle else 1, not idle)
    return ScaleStep(0, answered and passed >= max(zero.grace, zero.retention))
