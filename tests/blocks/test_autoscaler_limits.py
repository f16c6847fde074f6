"""Bounds, schedules and the last steps to zero: the table of Knative's scaler, and times of day."""

import datetime
from zoneinfo import ZoneInfo

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as some

from reconcile.blocks.autoscaler.replica_bounds import (
    UNKNOWN,
    Activity,
    ReplicaBounds,
    ScaleStep,
    Schedule,
    ZeroRules,
    active_schedule,
    activity_after,
    asks_probe,
    step_to,
)

IDLE, GRACE = 60_000, 30_000
TO_ZERO = ZeroRules(allowed=True, idle=IDLE, grace=GRACE)
NONE = ReplicaBounds(minimum=0)
NOW = 10_000_000


def being(phase: str, milliseconds: int) -> Activity:
    return Activity(phase, NOW - milliseconds)  # type: ignore[arg-type]


BUSY = being("active", IDLE - 1_000)
DONE = being("inactive", GRACE)


@pytest.mark.rule("kpa-4d-30")
@pytest.mark.parametrize(
    ("current", "wanted", "bounds", "activity", "want"),
    [
        (10, 0, NONE, BUSY, ScaleStep(1, True)),
        (10, 0, ReplicaBounds(minimum=2), BUSY, ScaleStep(2, True)),
        (10, 0, ReplicaBounds(minimum=2, reachable=False), DONE, ScaleStep(0, True)),
        (1, 10, NONE, BUSY, ScaleStep(10, True)),
        (1, 10, ReplicaBounds(minimum=0, maximum=8), BUSY, ScaleStep(8, True)),
        (12, UNKNOWN, NONE, BUSY, ScaleStep(UNKNOWN, False)),
        (0, UNKNOWN, NONE, BUSY, ScaleStep(UNKNOWN, False)),
        (0, 1, NONE, DONE, ScaleStep(1, True)),
        (0, 10, NONE, DONE, ScaleStep(10, True)),
    ],
)
def test_a_proposal_is_bounded_and_written_as_in_knative(
    current: int, wanted: int, bounds: ReplicaBounds, activity: Activity, want: ScaleStep
) -> None:
    assert step_to(wanted, current, bounds, TO_ZERO, activity, NOW) == want


@pytest.mark.rule("kpa-4d-31")
@pytest.mark.parametrize(
    ("current", "wanted", "initial", "initialized", "activity", "want"),
    [
        (0, 1, 2, False, DONE, ScaleStep(2, True)),
        (5, 1, 5, False, BUSY, ScaleStep(5, False)),
        (2, 0, 2, True, BUSY, ScaleStep(1, True)),
        (0, 0, 0, False, DONE, ScaleStep(0, False)),
        (3, 0, 0, False, BUSY, ScaleStep(0, True)),
    ],
)
def test_the_initial_scale_bounds_the_first_step(
    current: int, wanted: int, initial: int, initialized: bool, activity: Activity, want: ScaleStep
) -> None:
    bounds = ReplicaBounds(minimum=0, initial=initial, initialized=initialized)
    assert step_to(wanted, current, bounds, TO_ZERO, activity, NOW) == want


@pytest.mark.rule("kpa-4d-32")
@pytest.mark.parametrize(
    ("activity", "answered", "want"),
    [
        (being("active", IDLE - 1), True, ScaleStep(1, False)),
        (being("active", IDLE), True, ScaleStep(0, False)),
        (being("inactive", GRACE - 1), True, ScaleStep(0, False)),
        (being("inactive", GRACE), True, ScaleStep(0, True)),
        (being("inactive", GRACE), False, ScaleStep(0, False)),
        (being("activating", 629_999), True, ScaleStep(UNKNOWN, False)),
        (being("activating", 630_000), True, ScaleStep(0, True)),
    ],
)
def test_the_last_pod_is_deleted_after_the_idle_time_the_probe_and_the_grace_period(
    activity: Activity, answered: bool, want: ScaleStep
) -> None:
    assert step_to(0, 1, NONE, TO_ZERO, activity, NOW, answered=answered) == want


def test_a_target_that_may_not_be_scaled_to_zero_keeps_one_pod() -> None:
    assert step_to(0, 3, NONE, ZeroRules(), DONE, NOW) == ScaleStep(1, True)


def test_the_last_pod_is_retained_longer_if_configured() -> None:
    slow = ZeroRules(allowed=True, idle=IDLE, retention=2 * GRACE)
    assert step_to(0, 1, NONE, slow, DONE, NOW) == ScaleStep(0, False)
    assert step_to(0, 1, NONE, slow, being("inactive", 2 * GRACE), NOW) == ScaleStep(0, True)


def test_the_probe_is_sent_only_when_it_matters() -> None:
    assert asks_probe(0, NONE, TO_ZERO, DONE)
    assert not asks_probe(0, NONE, TO_ZERO, BUSY)
    assert not asks_probe(0, ReplicaBounds(minimum=1), TO_ZERO, DONE)
    assert not asks_probe(UNKNOWN, NONE, TO_ZERO, DONE)


@pytest.mark.parametrize(
    ("current", "ready", "want"),
    [(0, 0, "inactive"), (2, 0, "activating"), (2, 1, "active"), (0, 1, "active")],
)
def test_the_first_activity_is_derived_from_the_pods(current: int, ready: int, want: str) -> None:
    assert activity_after(1, current, ready, TO_ZERO, None, 7) == Activity(want, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "ready", "before", "want"),
    [
        (1, 0, being("activating", 5), being("activating", 5)),
        (0, 0, being("activating", 5), being("activating", 5)),
        (0, 2, being("activating", 5), being("active", 0)),
        (3, 2, being("active", IDLE), being("active", IDLE)),
        (UNKNOWN, 2, being("active", IDLE), being("active", IDLE)),
        (0, 2, being("inactive", 5), being("inactive", 5)),
        (UNKNOWN, 2, being("inactive", 5), being("inactive", 5)),
        (1, 2, being("inactive", 5), being("active", 0)),
        (1, 0, being("inactive", 5), being("activating", 0)),
    ],
)
def test_an_activity_lasts_until_the_pods_or_the_proposal_end_it(
    wanted: int, ready: int, before: Activity, want: Activity
) -> None:
    assert activity_after(wanted, 2, ready, TO_ZERO, before, NOW) == want


def test_a_target_goes_from_activating_through_active_to_inactive_and_back() -> None:
    seen = activity_after(1, 0, 0, TO_ZERO, None, 0)
    assert seen.phase == "inactive"
    seen = activity_after(1, 0, 0, TO_ZERO, seen, 1_000)
    assert seen == Activity("activating", 1_000)
    seen = activity_after(1, 1, 1, TO_ZERO, seen, 5_000)
    assert seen == Activity("active", 5_000)
    assert activity_after(0, 1, 1, TO_ZERO, seen, 5_000 + IDLE - 1) == seen
    seen = activity_after(0, 1, 1, TO_ZERO, seen, 5_000 + IDLE)
    assert seen == Activity("inactive", 5_000 + IDLE)
    assert activity_after(2, 1, 1, TO_ZERO, seen, 70_000) == Activity("active", 70_000)


# --- schedules ------------------------------------------------------------------------------------------


def schedule(start: str, end: str, **changed: object) -> Schedule:
    times = {"start": datetime.time.fromisoformat(start), "end": datetime.time.fromisoformat(end)}
    return Schedule(name=f"{start}-{end}", minimum=5, **times, **changed)  # type: ignore[arg-type]


def utc(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


@pytest.mark.rule("autoscale-schedule")
@pytest.mark.parametrize(
    ("one", "time", "want"),
    [
        (schedule("09:00", "17:00"), "2026-11-20T09:00", True),
        (schedule("09:00", "17:00"), "2026-11-20T16:59", True),
        (schedule("09:00", "17:00"), "2026-11-20T17:00", False),
        (schedule("22:00", "06:00", days=frozenset({4})), "2026-11-20T23:00", True),
        (schedule("22:00", "06:00", days=frozenset({4})), "2026-11-21T05:59", True),
        (schedule("22:00", "06:00", days=frozenset({4})), "2026-11-20T05:59", False),
        (schedule("22:00", "06:00", days=frozenset({4})), "2026-11-21T22:00", False),
        (schedule("22:00", "06:00", days=frozenset({4})), "2026-11-20T22:00", True),
        (schedule("22:00", "06:00", days=frozenset({4})), "2026-11-21T06:00", False),
        (schedule("22:00", "06:00", days=frozenset({6})), "2026-11-23T05:59", True),
        (schedule("08:00", "08:00", days=frozenset({4})), "2026-11-20T07:59", False),
        (schedule("08:00", "08:00", days=frozenset({4})), "2026-11-20T08:00", True),
        (schedule("08:00", "08:00", days=frozenset({4})), "2026-11-21T07:59", True),
        (schedule("08:00", "08:00", days=frozenset({4})), "2026-11-21T08:00", False),
        (schedule("09:00", "17:00", zone=ZoneInfo("Asia/Tokyo")), "2026-11-20T01:00", True),
        (schedule("09:00", "17:00", zone=ZoneInfo("Asia/Tokyo")), "2026-11-20T09:00", False),
        (schedule("09:00", "17:00", zone=ZoneInfo("Europe/Paris")), "2026-07-01T07:30", True),
        (schedule("09:00", "17:00", zone=ZoneInfo("Europe/Paris")), "2026-12-01T07:30", False),
    ],
)
def test_a_schedule_covers_its_hours_on_its_days_in_its_zone(one: Schedule, time: str, want: bool) -> None:
    assert one.covers(utc(time)) is want


def test_the_first_schedule_that_covers_the_time_wins_and_leaves_other_bounds_alone() -> None:
    found = active_schedule(
        [schedule("01:00", "02:00"), schedule("03:00", "05:00"), schedule("04:00", "06:00")],
        utc("2026-11-20T04:30"),
    )
    assert found.name == "03:00-05:00"
    otherwise = ReplicaBounds(minimum=1, maximum=9, initial=2, reachable=False)
    assert found.bounds(otherwise) == evolve(otherwise, minimum=5)
    assert evolve(found, minimum=None, maximum=7).bounds(otherwise) == evolve(otherwise, maximum=7)
    assert active_schedule([schedule("01:00", "02:00")], utc("2026-11-20T04:30")) is None


@given(some.times(), some.times(), some.datetimes(timezones=some.just(datetime.UTC)))
def test_a_schedule_and_its_complement_cover_every_time_exactly_once(
    start: datetime.time, end: datetime.time, now: datetime.datetime
) -> None:
    if start == end:
        return
    one, rest = Schedule(name="a", start=start, end=end), Schedule(name="b", start=end, end=start)
    assert one.covers(now) != rest.covers(now)


@given(some.integers(-1, 100), some.integers(0, 50), some.integers(0, 20), some.integers(1, 50))
def test_the_written_number_is_always_within_the_bounds(
    wanted: int, current: int, least: int, more: int
) -> None:
    bounds = ReplicaBounds(minimum=least, maximum=least + more)
    step = step_to(wanted, current, bounds, TO_ZERO, DONE, NOW)
    if step.write:
        assert step.desired == bounds.within(step.desired)
        assert step.desired != current
