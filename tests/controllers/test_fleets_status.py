"""What a fleet says of its progress, and for how long it waits for more."""

import datetime

import pytest

from controllers.fleets.models import FleetCondition, FleetStatus
from controllers.fleets.status import COMPLETE, EXCEEDED, PAUSED, PROGRESSING, UPDATED, deadline_in
from tests.controllers.fleets import fleet

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def status(reason: str, word: str = "True", seconds: float = 0.0) -> FleetStatus:
    since = NOW - datetime.timedelta(seconds=seconds)
    return FleetStatus(conditions=(FleetCondition(PROGRESSING, word, reason=reason, last_update_time=since),))


@pytest.mark.parametrize(("waited", "left"), [(0, 601.0), (100, 501.0), (599, 2.0), (600, 1.0), (900, 1.0)])
def test_the_deadline_is_looked_at_just_after_it_has_passed(waited: float, left: float) -> None:
    assert deadline_in(fleet(progress_deadline_seconds=600), status(UPDATED, seconds=waited), NOW) == left


@pytest.mark.parametrize(
    "known", [FleetStatus(), status(EXCEEDED, "False"), status(COMPLETE), status(PAUSED, "Unknown")]
)
def test_a_fleet_from_which_nothing_is_awaited_has_no_deadline(known: FleetStatus) -> None:
    assert deadline_in(fleet(), known, NOW) is None
