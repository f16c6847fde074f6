"""Conditions move their time only with their status, and others' conditions stay as they are."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Condition, Context, Controller, Object, ObjectMeta, Write, resource
from reconcile.conditions import find_condition, is_true, merge_conditions
from reconcile.kinds import Deployment, PodCondition
from reconcile.testing import FakeClient, run_once
from tests.helpers.deployments import deployment
from tests.helpers.managers import Toy, ToyStatus

TYPES = st.sampled_from("ABCD")
STATUSES = st.sampled_from(["True", "False", "Unknown"])
WANTED = st.dictionaries(TYPES, STATUSES, max_size=4).map(
    lambda found: [{"type": t, "status": s, "reason": "R", "message": "m"} for t, s in found.items()]
)
BEFORE = st.dictionaries(TYPES, STATUSES, max_size=4).map(
    lambda found: [
        {"type": t, "status": s, "reason": "O", "lastTransitionTime": "t0", "foreign": [t]}
        for t, s in found.items()
    ]
)


def by_type(conditions: Any) -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in conditions}


@pytest.mark.rule("condition-1")
@given(BEFORE, WANTED)
def test_a_transition_time_changes_exactly_when_the_status_does(before: Any, wanted: Any) -> None:
    old, new = by_type(before), by_type(merge_conditions(before, wanted, "t1", 3))
    for name, condition in by_type(wanted).items():
        moved = name not in old or old[name]["status"] != condition["status"]
        assert new[name]["lastTransitionTime"] == ("t1" if moved else "t0")
        assert (new[name]["status"], new[name]["reason"]) == (condition["status"], "R")


@pytest.mark.rule("condition-2")
@given(BEFORE, WANTED, st.integers(1, 9))
def test_a_condition_has_the_generation_that_it_describes(before: Any, wanted: Any, generation: int) -> None:
    new = by_type(merge_conditions(before, wanted, "t1", generation))
    for name in by_type(wanted):
        assert new[name]["observedGeneration"] == generation
    for name in by_type(before).keys() - by_type(wanted).keys():
        assert "observedGeneration" not in new[name]


@pytest.mark.rule("condition-3")
@given(BEFORE, WANTED, st.sets(TYPES, max_size=2))
def test_setting_the_same_condition_again_changes_nothing(
    before: Any, wanted: Any, removed: set[str]
) -> None:
    once = merge_conditions(before, wanted, "t1", 3, removed)
    assert merge_conditions(once, wanted, "t2", 3, removed) == once


@pytest.mark.rule("condition-4")
@given(BEFORE, WANTED, st.sets(TYPES, max_size=2))
def test_conditions_keep_their_places_and_those_of_others_their_contents(
    before: Any, wanted: Any, removed: set[str]
) -> None:
    merged = merge_conditions(before, wanted, "t1", 3, removed)
    mine = by_type(wanted).keys() | removed
    assert [one for one in merged if one["type"] not in mine] == [
        one for one in before if one["type"] not in mine
    ]
    for name, condition in by_type(merged).items():
        if name in by_type(before) and name not in removed:
            assert condition["foreign"] == [name]
    gone = removed - by_type(wanted).keys()
    stay = [name for name in by_type(before) if name not in gone]
    assert list(by_type(merged)) == list(dict.fromkeys([*stay, *by_type(wanted)]))


def test_a_condition_without_a_time_gets_one() -> None:
    (condition,) = merge_conditions(
        [{"type": "A", "status": "True"}], [{"type": "A", "status": "True"}], "t1", None
    )
    assert condition == {"type": "A", "status": "True", "lastTransitionTime": "t1"}


def test_a_condition_without_a_type_is_left_in_place() -> None:
    before = [{"type": "A", "status": "True"}, {"status": "?"}, {"type": "B", "status": "True"}]
    merged = merge_conditions(before, [{"type": "C", "status": "True"}], "t1", None, removed=["A"])
    assert merged == [*before[1:], {"type": "C", "status": "True", "lastTransitionTime": "t1"}]


@pytest.mark.rule("condition-2")
def test_a_condition_of_an_older_generation_does_not_hold_for_the_current_one() -> None:
    conditions = (
        Condition("Ready", "True", observed_generation=2),
        Condition("Odd", "Unknown"),
        Condition("Of no generation", "True"),
    )
    assert is_true(conditions, "Of no generation")
    assert not is_true(conditions, "Of no generation", generation=1)
    assert is_true(conditions, "Ready")
    assert is_true(conditions, "Ready", generation=2)
    assert not is_true(conditions, "Ready", generation=3)
    assert not is_true(conditions, "Odd")
    assert not is_true(conditions, "Absent")
    assert find_condition(conditions, "Odd") == conditions[1]


@pytest.mark.rule("condition-3")
async def test_conditions_are_written_once_and_only_if_they_change() -> None:
    said: dict[str, Any] = {"status": True, "message": "m"}

    async def say(ctx: Context[Toy]) -> None:
        ctx.condition("Ready", False, reason="Early")
        ctx.condition("Ready", said["status"], reason="R", message=said["message"])

    toy = Toy(metadata=ObjectMeta("toy", "default"))
    client = FakeClient(toy)
    controller = Controller(Toy, say)
    assert (await run_once(controller, toy, client)).writes == ["patch toys/status default/toy"]
    assert (await run_once(controller, toy, client)).writes == []
    first = (await run_once(controller, toy, client)).conditions["Ready"]
    said["message"] = "other"
    second = (await run_once(controller, toy, client)).conditions["Ready"]
    assert (second["message"], second["lastTransitionTime"]) == ("other", first["lastTransitionTime"])


@pytest.mark.rule("condition-4")
async def test_a_removed_condition_is_deleted_and_no_other() -> None:
    async def remove(ctx: Context[Toy]) -> None:
        ctx.remove_condition("Mine")
        ctx.remove_condition("Never")
        ctx.condition("Back", True, reason="R")
        ctx.remove_condition("Back")

    since = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    theirs, mine = (Condition(name, "True", "R", last_transition_time=since) for name in ("Theirs", "Mine"))
    conditions = (theirs, mine)
    toy = Toy(metadata=ObjectMeta("toy", "default"), status=ToyStatus(conditions=conditions))
    client = FakeClient(toy)
    done = await run_once(Controller(Toy, remove), toy, client)
    assert (done.error, list(done.conditions)) == (None, ["Theirs"])
    assert "resourceVersion" in client.transport.writes[-1].body["metadata"]
    assert (await run_once(Controller(Toy, remove), toy, client)).writes == []


async def test_a_condition_of_a_built_in_kind_has_no_generation_and_is_written_once() -> None:
    async def keep(ctx: Context[Deployment]) -> None:
        ctx.condition("Available", True, reason="Up")

    client = FakeClient(deployment())
    controller = Controller(
        Deployment, keep, writes=[Write(Deployment, "patch", subresource="status")], operator="example.com"
    )
    first = await run_once(controller, "default/d", client)
    assert first.writes == ["patch deployments/status default/d"]
    assert (await run_once(controller, "default/d", client)).writes == []


@resource("example.com/v1", has_status=False)
class Old(Object):
    """A kind of an older definition, whose status is a field like others."""

    status: ToyStatus = ToyStatus()


@pytest.mark.rule("condition-6")
async def test_a_status_that_is_no_subresource_is_written_with_its_object_once() -> None:
    async def keep(ctx: Context[Old]) -> None:
        ctx.condition("Ready", True, reason="Up")

    old = Old(metadata=ObjectMeta("old", "default"))
    client, controller = FakeClient(old), Controller(Old, keep)
    done = await run_once(controller, old, client)
    assert (done.writes, done.undeclared) == (["patch olds default/old"], [])
    written = await client.get(Old, "old", "default")
    # Each write of such a status makes another generation, so a condition with one would never be up to date.
    assert written.metadata.generation == 2
    assert [one.observed_generation for one in written.status.conditions] == [None]
    assert (await run_once(controller, old, client)).writes == []


def test_the_conditions_of_a_job_are_found_like_those_of_a_model() -> None:
    conditions = (PodCondition("Complete", "True"), PodCondition("Failed", "False"))
    assert find_condition(conditions, "Failed") == conditions[1]
    assert is_true(conditions, "Complete")
    assert not is_true(conditions, "Failed")
    assert not is_true(conditions, "Complete", generation=1)  # it does not say of which generation it is
