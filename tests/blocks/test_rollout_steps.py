"""Single steps of a rollout, each the whole of its plan; what a set is read as; what is refused, in words."""

import datetime
import re

import pytest
from attrs import evolve

from reconcile.blocks import RevisionSet, Rollout, RolloutPlan, bounds_of
from reconcile.blocks.rollout.rollout import DESIRED, LIMIT, revision_set_of
from reconcile.kinds import Deployment
from reconcile.models import decode

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def a(name: str, replicas: int, available: int | None = None, present: int | None = None) -> RevisionSet:
    """A set that has what it is to have, all of which serves, where nothing else is said."""
    there = replicas if present is None else present
    return RevisionSet(name, START, replicas, there, there if available is None else available)


def sized(one: RevisionSet, desired: int, limit: int | None = None) -> RevisionSet:
    return evolve(one, desired=desired, limit=limit)


# --- rolling ------------------------------------------------------------------------------------------------


@pytest.mark.rule("aibrix-3d-rolling")
@pytest.mark.parametrize(
    ("rollout", "new", "old", "sizes"),
    [
        # nothing to do
        (Rollout(3, 1, 0), a("new", 3), [], {}),
        (Rollout(0), a("new", 0), [a("old", 0)], {}),
        # the new one is resized by itself, within the bounds
        (Rollout(3, 1, 0), a("new", 5), [], {"new": 3}),
        (Rollout(3, 1, 0), a("new", 1), [], {"new": 3}),
        (Rollout(3, 1, 0), a("new", 1, present=2), [a("old", 0, present=2)], {"new": 2}),
        (Rollout(3, 1, 0), a("new", 1, present=2), [a("old", 0, present=1)], {"new": 3}),
        (Rollout(3, 1, 0), a("new", 0), [a("old", 3)], {"new": 1}),
        (Rollout(3, 1, 0), a("new", 0), [a("old", 3, present=4)], {}),
        # what does not serve is kept where it may yet be needed
        (Rollout(3, 1, 0), a("new", 1, 0), [a("old", 3, 2)], {}),
        (Rollout(4, 1, 1), a("new", 0), [a("old", 4, 2)], {"new": 1, "old": 3}),
        (Rollout(4, 1, 1), a("new", 2, 1), [a("old", 3, 2)], {"old": 2}),
        (Rollout(3, 1, 0), a("new", 0), [a("old", 2, 1)], {"new": 2}),
        (Rollout(3, 1, 0), a("new", 2, 1), [a("old", 1, 0)], {"new": 3}),
        # what does not serve goes before what does, in each set, from the oldest on
        (Rollout(6, 2, 2), a("new", 2), [a("b", 4, 2), a("a", 2, 1)], {"a": 0, "b": 2}),
        (Rollout(6, 2, 1), a("new", 0), [a("b", 3, 1), a("a", 3, 2)], {"a": 2, "new": 2}),
        (Rollout(4, 0, 2), a("new", 1), [a("b", 2), a("a", 1)], {"a": 0, "b": 1}),
        (Rollout(4, 0, 2), a("new", 1), [a("a", 3)], {"a": 1}),
        (Rollout(2, 0, 2), a("new", 0), [a("a", 1), a("b", 1)], {"a": 0, "b": 0}),
        # never below the floor by what serves
        (Rollout(5, 1, 1), a("new", 2), [a("a", 3)], {"a": 2, "new": 3}),
        (Rollout(5, 1, 1), a("new", 1), [a("a", 2)], {"new": 4}),
    ],
)
def test_one_step_of_a_rollout(
    rollout: Rollout, new: RevisionSet, old: list[RevisionSet], sizes: dict[str, int]
) -> None:
    assert rollout.plan(new, old) == RolloutPlan(sizes)
    assert rollout.plan(new, old[::-1]) == RolloutPlan(sizes)


@pytest.mark.rule("aibrix-3d-rolling")
@pytest.mark.parametrize(
    ("rollout", "old", "plan"),
    [
        (Rollout(0), [], RolloutPlan(create=0)),
        (Rollout(2), [], RolloutPlan(create=2)),
        (Rollout(2, 1, 0), [a("a", 2)], RolloutPlan(create=1)),
        (Rollout(2, 0, 1), [a("a", 2)], RolloutPlan({"a": 1}, create=0)),
        (Rollout(2, 1, 0), [evolve(a("a", 2), observed=False)], RolloutPlan(create=0)),
        # an empty set keeps the number of long ago, and is no reason to follow it
        (Rollout(2, 1, 0), [a("a", 2), sized(a("b", 0), 7)], RolloutPlan(create=1)),
        (Rollout(2, recreate=True), [], RolloutPlan(create=2)),
        (Rollout(0, recreate=True), [], RolloutPlan(create=0)),
    ],
)
def test_the_new_set_is_created_at_the_size_that_fits(
    rollout: Rollout, old: list[RevisionSet], plan: RolloutPlan
) -> None:
    assert rollout.plan(None, old) == plan


def test_a_plan_is_idle_when_nothing_is_to_be_resized_or_created() -> None:
    assert RolloutPlan().is_idle
    assert RolloutPlan(waiting=True).is_idle
    assert not RolloutPlan({"a": 0}).is_idle
    assert not RolloutPlan(create=0).is_idle


@pytest.mark.rule("aibrix-3d-recreate")
@pytest.mark.parametrize(
    ("new", "old", "plan"),
    [
        (a("new", 0), [a("a", 1), a("b", 0)], RolloutPlan({"a": 0}, waiting=True)),
        (a("new", 0), [a("a", 0)], RolloutPlan({"new": 3})),
        (a("new", 5), [a("a", 0)], RolloutPlan({"new": 3})),
        (a("new", 3), [a("a", 0)], RolloutPlan()),
        (a("new", 3), [a("a", 0, present=1)], RolloutPlan(waiting=True)),
        (evolve(a("new", 1), observed=False), [], RolloutPlan()),
    ],
)
def test_recreate_continues_with_an_existing_set(
    new: RevisionSet, old: list[RevisionSet], plan: RolloutPlan
) -> None:
    assert Rollout(3, recreate=True).plan(new, old) == plan


# --- following a change of replicas -------------------------------------------------------------------------


@pytest.mark.rule("aibrix-3d-pause")
@pytest.mark.parametrize(
    ("new", "old", "sizes"),
    [
        (None, [], {}),
        (None, [a("a", 0)], {"a": 4}),
        (None, [a("a", 0), a("c", 0), a("b", 0)], {"c": 4}),
        (None, [evolve(a("a", 0), created=START.replace(hour=1)), a("b", 0)], {"a": 4}),
        (a("new", 0), [a("z", 0)], {"new": 4}),
        (a("new", 0), [a("z", 1)], {"z": 4}),
        (a("new", 1), [a("z", 0)], {"new": 4}),
        # the new one is whole by what was asked for, and by what serves
        (sized(a("new", 4), 4), [a("y", 1), a("z", 0)], {"y": 0}),
        (sized(a("new", 4, 3), 4), [sized(a("z", 1), 4, 5)], {}),
        (sized(a("new", 4), 3), [sized(a("z", 1), 4, 5)], {}),
    ],
)
def test_a_paused_rollout_scales_its_active_set_or_else_its_newest(
    new: RevisionSet | None, old: list[RevisionSet], sizes: dict[str, int]
) -> None:
    assert Rollout(4, 1, 1, paused=True).plan(new, old) == RolloutPlan(sizes)


@pytest.mark.rule("aibrix-3d-recreate")
def test_recreate_distributes_nothing_and_keeps_unavailable_replicas() -> None:
    new, old = sized(a("new", 3, 0), 6), sized(a("old", 3), 6)
    assert Rollout(8, recreate=True).plan(new, [old]) == RolloutPlan()
    assert Rollout(2, recreate=True).plan(new, [old]) == RolloutPlan()


@pytest.mark.rule("aibrix-3d-proportional")
def test_replicas_that_still_exist_take_up_room_before_any_set_grows() -> None:
    new, old, gone = sized(a("new", 2), 5, 5), sized(a("old", 3), 5, 5), a("gone", 0, present=3)
    rollout = Rollout(10, 0, 10)
    assert rollout.plan(new, [old]) == RolloutPlan({"new": 4, "old": 6})
    assert rollout.plan(new, [old, gone]) == RolloutPlan({"new": 4})
    assert rollout.plan(new, [old, evolve(gone, present=2)]) == RolloutPlan({"new": 4, "old": 4})
    assert rollout.plan(evolve(new, present=4), [old, gone]) == RolloutPlan({"new": 4})


@pytest.mark.rule("aibrix-3d-proportional")
def test_a_share_is_relative_to_the_limit_that_the_set_was_sized_with() -> None:
    new, old = sized(a("new", 3), 6, 4), sized(a("old", 3), 6, 4)
    assert Rollout(5, 0, 5).plan(new, [old]) == RolloutPlan({"new": 2})
    assert Rollout(5, 0, 5).plan(evolve(new, limit=9), [evolve(old, limit=9)]) == RolloutPlan({"new": 2})
    fewer, more = sized(a("new", 3), 5, 9), sized(a("old", 2), 5, 4)
    assert Rollout(6, 0, 6).plan(fewer, [more]) == RolloutPlan({"old": 3})
    assert Rollout(12, 0, 5).plan(evolve(new, limit=0), [evolve(old, limit=0)]) == RolloutPlan(
        {"new": 6, "old": 6}
    )


def test_no_more_unavailable_replicas_are_removed_than_necessary() -> None:
    sets = sized(a("new", 4, 0), 10, 12), sized(a("mid", 3, 0), 10, 12), sized(a("old", 5), 10, 12)
    assert Rollout(6, 1, 0).plan(sets[0], sets[1:]) == RolloutPlan({"new": 0, "mid": 2})


# --- what a set is read as ----------------------------------------------------------------------------------


def stored(spec: dict[str, object], status: dict[str, int] | None, **annotations: str) -> Deployment:
    metadata = {"name": "x", "namespace": "y", "generation": 2, "annotations": annotations}
    base = {"apiVersion": "apps/v1", "kind": "Deployment"}
    whole = {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}},
        **spec,
    }
    made = {"metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": whole}
    return decode(Deployment, {**base, **made, **({} if status is None else {"status": status})})


def test_a_set_is_read_from_its_spec_status_and_annotations() -> None:
    status = {"replicas": 3, "availableReplicas": 2, "observedGeneration": 2}
    obj = stored({"replicas": 4}, status, **{DESIRED: "5", LIMIT: "6"})
    assert revision_set_of(obj, 7) == RevisionSet("x", START, 4, 3, 2, True, 5, 6, 7)
    assert revision_set_of(obj, 7).object is obj
    bare = revision_set_of(stored({}, None, **{DESIRED: "many", LIMIT: "-1"}).with_metadata(generation=1))
    assert bare == RevisionSet("x", START, 1, 0, 0, False, None, None, 0)


def test_an_object_that_was_not_read_is_not_accepted_as_a_set() -> None:
    obj = stored({}, None).with_metadata(creation_timestamp=None)
    with pytest.raises(ValueError, match=r"^Deployment 'y/x' has no creationTimestamp: it was not read$"):
        revision_set_of(obj)


@pytest.mark.rule("aibrix-3d-bounds")
def test_the_refusal_of_an_invalid_amount_names_the_expected_form() -> None:
    share = "expected a number of replicas or a share (`25%`), got "
    for amount, text in (
        ("oops", share + "'oops'"),
        (True, share + "True"),
        (-1, "expected 0 or more replicas, got -1"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            bounds_of(1, amount, 3)
    with pytest.raises(ValueError, match=r"^expected 0 or more replicas, got -2$"):
        Rollout(-2)
