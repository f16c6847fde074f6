"""What a fleet says of its progress, since when, and for how long it waits for more."""

import datetime
from typing import Any

import pytest
from attrs import evolve

from controllers.fleets.fleet_status import (
    COMPLETE,
    EXCEEDED,
    MADE,
    PAUSED,
    PROGRESSING,
    RESUMED,
    UPDATED,
    deadline_in,
    failed_status,
    is_complete,
    refused_status,
    status_of,
)
from controllers.fleets.models import (
    FleetCondition,
    FleetStatus,
    RayClusterReplicaSet,
    RayClusterReplicaSetSpec,
    RayClusterReplicaSetStatus,
)
from reconcile import Condition, LabelSelector, ObjectMeta
from reconcile.blocks import Revisions, RevisionSet, Rollout
from reconcile.conditions import find_condition
from tests.controllers.fleets import LABELS, fleet, template

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
    after = status_of(given, Revisions(NEW, (OLD,), 2, "hash", "digest"), Rollout(3), NOW, made=made)
    found = find_condition(after.conditions, PROGRESSING)
    return found.status, found.reason, found.message


AS_IT_WAS = {"replicas": 3, "updated_replicas": 1}
ON_ITS_WAY = ("True", UPDATED, "RayClusterReplicaSet fleet-new is being rolled out")
STUCK = ("False", EXCEEDED, "RayClusterReplicaSet fleet-new made no progress for 600 s")


@pytest.mark.parametrize(
    ("before", "want"),
    [
        (FleetStatus(), ON_ITS_WAY),
        (known(COMPLETE, **AS_IT_WAS), ON_ITS_WAY),
        (known("InvalidSpec", "False", seconds=900, **AS_IT_WAS), ON_ITS_WAY),
        (known(UPDATED, seconds=900), ON_ITS_WAY),  # one more of the new revision than was known
        (known(UPDATED, seconds=600, **AS_IT_WAS), ("True", UPDATED, "so far")),
        (known(UPDATED, seconds=601, **AS_IT_WAS), STUCK),
        (known(EXCEEDED, "False", **AS_IT_WAS), STUCK),
        (known("QuotaExceeded", "False", **AS_IT_WAS), ON_ITS_WAY),
        (known(PAUSED, "Unknown", **AS_IT_WAS), ("Unknown", RESUMED, "the fleet is no longer paused")),
        (known(RESUMED, "Unknown", **AS_IT_WAS), ("Unknown", RESUMED, "so far")),
    ],
)
def test_progress_is_reported_as_for_deployments(before: FleetStatus, want: tuple[str, str, str]) -> None:
    assert told(before) == want


def test_a_new_set_and_a_pause_are_reported() -> None:
    before = known(UPDATED, **AS_IT_WAS)
    assert told(before, made=True) == ("True", MADE, "RayClusterReplicaSet fleet-new was created")
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
def test_the_update_time_moves_with_progress_and_the_transition_time_with_the_status(
    before: FleetStatus, said: datetime.datetime, turned: datetime.datetime
) -> None:
    given = evolve(fleet(), status=before)
    after = status_of(given, Revisions(NEW, (OLD,), 2, "new", "digest"), Rollout(3), LATER)
    found = find_condition(after.conditions, PROGRESSING)
    assert (found.last_update_time, found.last_transition_time) == (said, turned)


@pytest.mark.parametrize(("waited", "left"), [(0, 601.0), (100, 501.0), (599, 2.0), (600, 1.0), (900, 1.0)])
def test_the_deadline_is_checked_just_after_it_has_passed(waited: float, left: float) -> None:
    assert deadline_in(fleet(progress_deadline_seconds=600), known(UPDATED, seconds=waited), NOW) == left


@pytest.mark.parametrize(
    "before", [FleetStatus(), known(EXCEEDED, "False"), known(COMPLETE), known(PAUSED, "Unknown")]
)
def test_a_fleet_without_expected_progress_has_no_deadline(before: FleetStatus) -> None:
    assert deadline_in(fleet(), before, NOW) is None


# --- the whole of a status ----------------------------------------------------------------------------------

EARLIER = NOW - datetime.timedelta(seconds=30)
SERVES = ("Available", "True", "MinimumReplicasAvailable", "enough clusters are available")
SERVES_NOT = ("Available", "False", "MinimumReplicasUnavailable", "too few clusters are available")


def condition(name: str, word: str, reason: str, message: str, *times: datetime.datetime) -> FleetCondition:
    return FleetCondition(name, word, reason, message, *(times or (EARLIER, EARLIER)))


def a_set(name: str, *numbers: int, ready: int = 0, **failed: str) -> RevisionSet:
    """What it is to have, what it has, what serves; how many its object says are ready, and what failed."""
    conditions = (Condition("ReplicaFailure", "True", **failed),) if failed else ()
    other = Condition("Other", "True", "Other", "nothing")
    off = Condition("ReplicaFailure", "False", "Off", "nothing")
    obj = RayClusterReplicaSet(
        metadata=ObjectMeta(name, "default"),
        spec=RayClusterReplicaSetSpec(template(), LabelSelector(LABELS)),
        status=RayClusterReplicaSetStatus(ready_replicas=ready, conditions=(other, *(conditions or (off,)))),
    )
    return RevisionSet(name, NOW, *numbers, object=obj)


def whole(before: FleetStatus, *sets: RevisionSet, rollout: Rollout, **spec: Any) -> FleetStatus:
    """The status of a fleet in generation 4, the first of whose sets is the newest."""
    metadata = ObjectMeta("fleet", "default", generation=4)
    given = evolve(fleet(rollout.replicas, **spec), status=before, metadata=metadata)
    return status_of(given, Revisions(sets[0], sets[1:], 2, "hash", "digest"), rollout, NOW)


def test_a_status_sums_up_the_sets_and_keeps_the_conditions_of_others() -> None:
    other = condition("Other", "True", "Other", "somebody else's")
    before = FleetStatus(
        collision_count=1,
        conditions=(
            condition("ReplicaFailure", "True", "FailedCreate", "quota"),
            other,
            condition(PROGRESSING, "True", UPDATED, "before"),
        ),
    )
    new = a_set("fleet-new", 4, 2, 1, ready=2, reason="Quota", message="too many")
    old = a_set("fleet-old", 2, 3, 2, ready=3, reason="Older", message="not looked at")
    text = "RayClusterReplicaSet fleet-new is being rolled out"
    assert whole(before, new, RevisionSet("unread", NOW, 1, 1, 1), old, rollout=Rollout(7)) == FleetStatus(
        replicas=6,
        updated_replicas=2,
        ready_replicas=5,
        available_replicas=4,
        unavailable_replicas=3,
        collision_count=1,
        scaling_target_selector="orchestration.aibrix.ai/raycluster-fleet-name=fleet,ray.io/node-type=head",
        conditions=(
            condition("ReplicaFailure", "True", "Quota", "too many", NOW, EARLIER),
            other,
            condition(PROGRESSING, "True", UPDATED, text, NOW, EARLIER),
            condition(*SERVES_NOT, NOW, NOW),
        ),
        observed_generation=4,
    )


def test_the_failure_of_an_older_set_is_reported_if_the_newest_has_none() -> None:
    unread, older = RevisionSet("unread", NOW, 1), a_set("older", 1, reason="Quota", message="too many")
    after = whole(FleetStatus(), a_set("fleet-new", 1), unread, older, rollout=Rollout(1))
    said = condition("ReplicaFailure", "True", "Quota", "too many", NOW, NOW)
    assert find_condition(after.conditions, "ReplicaFailure") == said


def test_a_failure_is_removed_once_no_set_reports_it() -> None:
    failed = condition("ReplicaFailure", "True", "FailedCreate", "quota")
    before = FleetStatus(conditions=(failed, condition(*SERVES)))
    after = whole(before, a_set("fleet-new", 1, 1, 1, ready=1), rollout=Rollout(1))
    text = "RayClusterReplicaSet fleet-new is complete"
    assert after.conditions == (condition(*SERVES), condition(PROGRESSING, "True", COMPLETE, text, NOW, NOW))


@pytest.mark.parametrize(
    ("rollout", "available", "serves"),
    [
        (Rollout(3, 1, 1), 2, True),
        (Rollout(3, 1, 1), 1, False),
        (Rollout(3, 1, 0), 2, False),
        (Rollout(1, 0, 1), 0, True),
        (Rollout(1, 0, 3), 0, True),
        (Rollout(1, recreate=True), 1, True),
        (Rollout(1, recreate=True), 0, False),
    ],
)
def test_a_fleet_is_available_while_no_more_replicas_are_missing_than_allowed(
    rollout: Rollout, available: int, serves: bool
) -> None:
    after = whole(FleetStatus(), a_set("fleet-new", 3, 3, available), rollout=rollout)
    assert find_condition(after.conditions, "Available") == condition(
        *(SERVES if serves else SERVES_NOT), NOW, NOW
    )
    assert after.unavailable_replicas == 3 - available


def test_the_number_of_unavailable_replicas_is_never_negative() -> None:
    assert whole(FleetStatus(), a_set("fleet-new", 1, 3, 3), rollout=Rollout(1)).unavailable_replicas == 0


@pytest.mark.parametrize(
    ("new", "old", "through"),
    [
        ((3, 3, 3), (0, 0, 0), True),
        ((3, 3, 3), (0, 1, 0), False),
        ((3, 3, 3), (1, 0, 0), False),
        ((3, 3, 2), (0, 0, 0), False),
        ((3, 2, 3), (0, 0, 0), False),
        ((4, 3, 3), (0, 0, 0), False),
    ],
)
def test_a_rollout_is_complete_when_all_replicas_are_new_and_available_and_none_are_old(
    new: tuple[int, ...], old: tuple[int, ...], through: bool
) -> None:
    sets = a_set("fleet-new", *new), a_set("fleet-old", *old)
    assert is_complete(whole(FleetStatus(), *sets, rollout=Rollout(3))) is through
    unheard = evolve(sets[0], observed=False), sets[1]
    assert not is_complete(whole(FleetStatus(), *unheard, rollout=Rollout(3)))


def test_a_set_that_does_not_exist_yet_is_reported_by_its_future_name() -> None:
    revisions = Revisions(None, (OLD,), 2, "hash", "digest")
    after = status_of(fleet(3), revisions, Rollout(3), NOW)
    said = find_condition(after.conditions, PROGRESSING)
    assert said.message == "RayClusterReplicaSet fleet-hash is being rolled out"
    assert after.updated_replicas == 0
    assert not is_complete(status_of(fleet(2), revisions, Rollout(2), NOW))
    assert not is_complete(FleetStatus())


@pytest.mark.parametrize(
    ("numbers", "moved"),
    [
        ({"replicas": 4, "updated_replicas": 2, "ready_replicas": 3, "available_replicas": 3}, False),
        ({"replicas": 4, "updated_replicas": 1, "ready_replicas": 3, "available_replicas": 3}, True),
        ({"replicas": 5, "updated_replicas": 2, "ready_replicas": 3, "available_replicas": 3}, True),
        ({"replicas": 4, "updated_replicas": 2, "ready_replicas": 2, "available_replicas": 3}, True),
        ({"replicas": 4, "updated_replicas": 2, "ready_replicas": 3, "available_replicas": 2}, True),
        ({"replicas": 5, "updated_replicas": 3, "ready_replicas": 4, "available_replicas": 4}, False),
        ({"replicas": 3, "updated_replicas": 2, "ready_replicas": 4, "available_replicas": 4}, False),
    ],
)
def test_more_new_fewer_old_or_more_available_replicas_count_as_progress(
    numbers: dict[str, int], moved: bool
) -> None:
    """Of two that are new and two that are old, three of which serve."""
    text = "RayClusterReplicaSet fleet-new is being rolled out"
    before = FleetStatus(conditions=(condition(PROGRESSING, "True", UPDATED, text),), **numbers)
    sets = a_set("fleet-new", 2, 2, 1, ready=1), a_set("fleet-old", 2, 2, 2, ready=2)
    after = find_condition(whole(before, *sets, rollout=Rollout(4)).conditions, PROGRESSING)
    assert after == condition(PROGRESSING, "True", UPDATED, text, NOW if moved else EARLIER, EARLIER)


def test_a_refused_fleet_reports_all_faults_and_nothing_about_its_sets() -> None:
    failed, other = condition("ReplicaFailure", "True", "Quota", "x"), condition("Other", "Unknown", "R", "m")
    before = FleetStatus(replicas=2, conditions=(failed, condition(*SERVES), other), observed_generation=1)
    given = evolve(fleet(), status=before, metadata=ObjectMeta("fleet", "default", generation=4))
    refused = refused_status(given, ["spec.a: no", "spec.b: not 1"], NOW)
    assert refused == FleetStatus(
        replicas=2,
        conditions=(
            condition(*SERVES),
            other,
            condition(PROGRESSING, "False", "InvalidSpec", "spec.a: no; spec.b: not 1", NOW, NOW),
        ),
        observed_generation=4,
    )
    again = refused_status(evolve(given, status=refused), ["spec.c: no"], LATER)
    assert again.conditions[2] == condition(PROGRESSING, "False", "InvalidSpec", "spec.c: no", NOW, NOW)


def test_a_fleet_whose_sets_could_not_be_written_reports_why_and_changes_nothing_else() -> None:
    failed = condition("ReplicaFailure", "True", "Quota", "x")
    stands = condition(PROGRESSING, "True", UPDATED, "before")
    before = FleetStatus(replicas=2, conditions=(stands, failed), observed_generation=1)
    given = evolve(fleet(), status=before, metadata=ObjectMeta("fleet", "default", generation=4))
    after = failed_status(given, "ReplicaSetCreateError", "exceeded quota", NOW)
    said = condition(PROGRESSING, "False", "ReplicaSetCreateError", "exceeded quota", NOW, NOW)
    assert after == evolve(before, conditions=(said, failed))


@pytest.mark.parametrize(
    ("updated", "turned", "left"), [(None, 30, 571.0), (None, None, 601.0), (0, 30, 601.0), (30, 0, 571.0)]
)
def test_the_deadline_counts_from_the_last_progress_or_else_the_last_transition(
    updated: int | None, turned: int | None, left: float
) -> None:
    times = [None if s is None else NOW - datetime.timedelta(seconds=s) for s in (updated, turned)]
    status = FleetStatus(conditions=(FleetCondition(PROGRESSING, "True", UPDATED, "so far", *times),))
    assert deadline_in(fleet(progress_deadline_seconds=600), status, NOW) == left
