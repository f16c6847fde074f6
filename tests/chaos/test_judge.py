"""The judge finds what it is there for: each test plants one violation."""

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet_operator import let_go, take_hold, text_of
from tests.chaos.judge import PER_SECOND, Judge, Tail
from tests.chaos.lying_proxy import LATE
from tests.processes.recording_server import Asked

FLEET: dict[str, Any] = {
    "metadata": {"name": "web", "uid": "w"},
    "spec": {"slots": 1, "goal": 2, "revision": 4},
    "status": {"slots": 1, "revision": 4},
}


def child(name: str, **more: Any) -> dict[str, Any]:
    labels = {key: more.pop(key) for key in ("part", "slot") if key in more}
    owners = [{"uid": more.pop("owner", "w")}]
    return {"metadata": {"name": name, "uid": name, "labels": labels, "ownerReferences": owners}, **more}


CHILDREN = {
    "web-x7": ("configmaps", child("web-x7", part="generated", slot="0")),
    "web-0": ("configmaps", child("web-0", part="named", slot="0")),
    "web-text": ("configmaps", child("web-text", part="text", data={**text_of(4), "by-hand": "yes"})),
    "web-count": ("configmaps", child("web-count", part="counter", data={"count": "2"})),
    "web": ("deployments", child("web", spec={"replicas": 2})),
}


def in_order(tmp_path: Path) -> Judge:
    """A judge that has seen one Fleet with everything that it wants."""
    take_hold(tmp_path, "w")
    judge = Judge(["one", "two"])
    judge.changed(1.0, "fleets", False, FLEET)
    for plural, obj in CHILDREN.values():
        judge.changed(1.0, plural, False, obj)
    return judge


def wrote(user: str, leader: str, **more: Any) -> Asked:
    return Asked(at=1.0, user=user, method="PATCH", path="/api/v1/x", status=200, leader=leader, **more)


def test_correct_states_and_writes_are_not_violations(tmp_path: Path) -> None:
    judge = in_order(tmp_path)
    judge.asked(wrote("one", "one"))
    judge.asked(Asked(1.0, "two", "GET", "/api/v1/x", 200, leader="one"))
    judge.asked(Asked(1.0, "two", "PUT", "/apis/x/leases/lock", 200, leader="one"))
    judge.asked(wrote("two", "one", dry_run=True))
    judge.asked(wrote("admin", "one"))
    assert (judge.violations, judge.amiss(tmp_path)) == ([], [])


@pytest.mark.parametrize("leader", ["two", ""])
def test_a_write_by_a_replica_that_does_not_lead_is_a_violation(leader: str) -> None:
    judge = Judge(["one", "two"])
    judge.asked(wrote("one", leader))
    assert len(judge.violations) == 1


def test_a_write_that_the_proxy_delayed_is_counted_and_not_judged() -> None:
    judge = Judge(["one", "two"])
    judge.asked(wrote("one", "two", tag=LATE))
    assert (judge.violations, judge.late) == ([], 1)


def test_too_many_requests_in_a_second_are_one_violation() -> None:
    judge = Judge(["one", "two"])
    for _ in range(PER_SECOND * 2):
        judge.asked(wrote("one", "one"))
    assert len(judge.violations) == 1


def test_a_second_child_for_a_slot_is_a_violation_even_if_it_is_deleted_again(tmp_path: Path) -> None:
    judge = in_order(tmp_path)
    second = child("web-z9", part="generated", slot="0")
    judge.changed(2.0, "configmaps", False, second)
    judge.changed(2.1, "configmaps", True, second)
    assert len(judge.violations) == 1


def test_a_child_that_replaces_a_deleted_one_is_not_a_violation(tmp_path: Path) -> None:
    judge = in_order(tmp_path)
    judge.changed(2.0, "configmaps", True, CHILDREN["web-x7"][1])
    judge.changed(2.1, "configmaps", False, child("web-z9", part="generated", slot="0"))
    assert (judge.violations, judge.amiss(tmp_path)) == ([], [])


@pytest.mark.parametrize("numbers", [[3], [1]])
def test_a_number_that_exceeds_its_goal_or_goes_back_is_a_violation(
    tmp_path: Path, numbers: list[int]
) -> None:
    judge = in_order(tmp_path)
    for number in numbers:
        judge.changed(2.0, "deployments", False, child("web", spec={"replicas": number}))
    assert len(judge.violations) == 1


@pytest.mark.parametrize("name", CHILDREN)
def test_a_lost_child_is_reported(tmp_path: Path, name: str) -> None:
    judge = in_order(tmp_path)
    plural, obj = CHILDREN[name]
    judge.changed(2.0, plural, True, obj)
    assert len(judge.amiss(tmp_path)) == 1


def test_children_of_a_deleted_object_are_reported(tmp_path: Path) -> None:
    judge = in_order(tmp_path)
    judge.changed(2.0, "fleets", True, FLEET)
    assert len(judge.amiss(tmp_path)) == len(CHILDREN) + 1  # and what is held outside
    let_go(tmp_path, "w")
    assert len(judge.amiss(tmp_path)) == len(CHILDREN)


def test_an_object_that_stays_terminating_is_reported(tmp_path: Path) -> None:
    judge = in_order(tmp_path)
    going = {**FLEET, "metadata": {**FLEET["metadata"], "deletionTimestamp": "now"}}
    judge.changed(2.0, "fleets", False, going)
    assert judge.amiss(tmp_path) == ["Fleet web does not go"]


def test_a_missing_external_resource_and_a_stale_status_are_reported(tmp_path: Path) -> None:
    judge = in_order(tmp_path)
    let_go(tmp_path, "w")
    judge.changed(2.0, "fleets", False, {**FLEET, "status": {"slots": 1, "revision": 3}})
    assert len(judge.amiss(tmp_path)) == 2


def test_a_released_resource_is_not_acquired_again(tmp_path: Path) -> None:
    let_go(tmp_path, "w")
    take_hold(tmp_path, "w")
    assert (tmp_path / "w").read_text() == "gone"


def test_a_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"a": 1}\n{"a"')
    tail = Tail(path)
    assert list(tail.lines()) == [{"a": 1}]
    with path.open("a") as file:
        file.write(": 2}\n")
    assert list(tail.lines()) == [{"a": 2}]
