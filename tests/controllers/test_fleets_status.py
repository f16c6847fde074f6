"""What a fleet says of its progress, since when, and for how long it waits for more."""

import datetime
from typing import Any

import pytest
from attrs import evolve

from controllers.fleets.models import FleetCondition, FleetStatus
from controllers.fleets.status import (
    COMPLETE,
    EXCEEDED,
    MADE,
    PAUSED,
    PROGRESSING,
    RESUMED,
    UPDATED,
    condition_of,
    deadline_in,
    status_of,
)
from reconcile.blocks import Revisions, RevisionSet, Rollout
from tests.controllers.fleets import fleet

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(seconds=60)
NEW, OLD = RevisionSet("fleet-new", NOW, 3, 1), RevisionSet("fleet-old", NOW, 2, 2)


def known(reason: str, word: str = "True", seconds: float = 0.0, **numbers: int) -> FleetStatus:
    since = NOW - datetime.timedelta(seconds=seconds)
    said = FleetCondition(PROGRESSING, word, reason, "so far", since, since)
    return FleetStatus(conditions=(said,), **numbers)


def told(before: FleetStatus, *, made: bool = False, **spec: Any) -> tuple[str, str, str]:
    """Of a fleet of three, one of which is of the new revision: status, reason and message."""
    given = evolve(fleet(progress_deadline_seconds=600, **spec), status=before)
    after = status_of(given, Revisions(NEW, (OLD,), 2, "new", "digest"), Rollout(3), NOW, made=made)
    found = condition_of(after, PROGRESSING)
    assert found is not None
    return found.status, found.reason, found.message


AS_IT_WAS = {"replicas": 3, "updated_replicas": 1}
ON_ITS_WAY = ("True", UPDATED, "RayClusterReplicaSet fleet-new is on its way")
STUCK = ("False", EXCEEDED, "RayClusterReplicaSet fleet-new came no further for 600 s")


@pytest.mark.parametrize(
    ("before", "want"),
    [
        (FleetStatus(), ON_ITS_WAY),
        (known(COMPLETE, **AS_IT_WAS), ON_ITS_WAY),
        (known("InvalidSpec", "False", **AS_IT_WAS), ON_ITS_WAY),
        (known(UPDATED, seconds=900), ON_ITS_WAY),  # one more of the new revision than was known
        (known(UPDATED, seconds=600, **AS_IT_WAS), ("True", UPDATED, "so far")),
        (known(UPDATED, seconds=601, **AS_IT_WAS), STUCK),
        (known(EXCEEDED, "False", **AS_IT_WAS), STUCK),
        (known("QuotaExceeded", "False", **AS_IT_WAS), ON_ITS_WAY),
        (known(PAUSED, "Unknown", **AS_IT_WAS), ("Unknown", RESUMED, "the fleet is no longer paused")),
        (known(RESUMED, "Unknown", **AS_IT_WAS), ("Unknown", RESUMED, "so far")),
    ],
)
def test_progress_is_told_as_deployments_tell_it(before: FleetStatus, want: tuple[str, str, str]) -> None:
    assert told(before) == want


def test_a_new_set_and_a_pause_are_told_of() -> None:
    before = known(UPDATED, **AS_IT_WAS)
    assert told(before, made=True) == ("True", MADE, "RayClusterReplicaSet fleet-new was made")
    assert told(before, paused=True) == ("Unknown", PAUSED, "the fleet is paused")
    assert told(known(EXCEEDED, "False"), paused=True) == ("False", EXCEEDED, "so far")


@pytest.mark.parametrize(
    ("before", "said", "turned"),
    [
        (known(UPDATED, **AS_IT_WAS), NOW, NOW),  # says the same, and nothing moved
        (known(UPDATED), LATER, NOW),  # something moved
        (known(COMPLETE, **AS_IT_WAS), LATER, NOW),  # another reason
        (known("QuotaExceeded", "False", **AS_IT_WAS), LATER, LATER),  # another status
    ],
)
def test_times_move_with_news_and_with_the_status(
    before: FleetStatus, said: datetime.datetime, turned: datetime.datetime
) -> None:
    given = evolve(fleet(), status=before)
    after = status_of(given, Revisions(NEW, (OLD,), 2, "new", "digest"), Rollout(3), LATER)
    found = condition_of(after, PROGRESSING)
    assert found is not None
    assert (found.last_update_time, found.last_transition_time) == (said, turned)


@pytest.mark.parametrize(("waited", "left"), [(0, 601.0), (100, 501.0), (599, 2.0), (600, 1.0), (900, 1.0)])
def test_the_deadline_is_looked_at_just_after_it_has_passed(waited: float, left: float) -> None:
    assert deadline_in(fleet(progress_deadline_seconds=600), known(UPDATED, seconds=waited), NOW) == left


@pytest.mark.parametrize(
    "before", [FleetStatus(), known(EXCEEDED, "False"), known(COMPLETE), known(PAUSED, "Unknown")]
)
def test_a_fleet_from_which_nothing_is_awaited_has_no_deadline(before: FleetStatus) -> None:
    assert deadline_in(fleet(), before, NOW) is None
