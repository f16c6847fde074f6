"""The decisions of a rotation: no order of reads, writes, deaths and starts leads to a refused call."""

import datetime
import os
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.webhooks import rotation
from reconcile.webhooks.rotation import (
    MOST_MEMBERS,
    SETTLE_SECONDS,
    SILENT_SECONDS,
    Authority,
    Leaf,
    Member,
    Move,
    Replica,
    Rotation,
    Validity,
    held_since,
    may_be_left_behind,
    names_of_next_leaf,
    settled,
    sighted,
    silent_members,
    step,
)
from tests.webhooks import rotation_model
from tests.webhooks.rotation_model import AUTHORITIES, NAMES, NOW, World, after, first

DAY = datetime.timedelta(days=1)
OLD, NEW = AUTHORITIES["old"], AUTHORITIES["new"]
FRESH = Validity(NOW, NOW + 90 * DAY)


def explored(start: World, most: int, deaths: int) -> dict[World, list[World]]:
    """All worlds that can follow, with those before each. Fails at the first refused call."""
    before: dict[World, list[World]] = defaultdict(list)
    ways: dict[World, tuple[str, World | None]] = {start: ("start", None)}
    waiting = [start]
    for world in waiting:
        assert not (why := world.refused()), f"{why} after {way_to(world, ways)}"
        for label, next_world in after(world, deaths=deaths):
            if next_world == world:
                continue
            before[next_world].append(world)
            if next_world not in ways:
                ways[next_world] = (label, world)
                waiting.append(next_world)
        assert len(waiting) < most, "the model has grown: it is no longer explored whole"
    before.setdefault(start, [])
    return before


def way_to(world: World, ways: dict[World, tuple[str, World | None]]) -> list[str]:
    labels = []
    at: World | None = world
    while at is not None:
        label, at = ways[at]
        labels.append(label)
    return labels[::-1]


def able_to_finish(before: dict[World, list[World]]) -> set[World]:
    waiting = [world for world in before if world.done]
    found = set(waiting)
    for world in waiting:
        for earlier in before[world]:
            if earlier not in found:
                found.add(earlier)
                waiting.append(earlier)
    return found


EXPLORED = [(2, 1, 1, 0, 0), (2, 1, 0, 0, 1), (2, 2, 0, 1, 0), (2, 2, 1, 1, 0)]
EXPLORED_IN_SWEEPS = [(2, 1, 1, 0, 1), (2, 2, 1, 0, 1), (2, 2, 1, 1, 1), (3, 1, 0, 0, 0)]
"""The last one has 350,000 worlds: two minutes."""


@pytest.mark.timeout(1800 if "SWEEP_RUNS" in os.environ else 60)
@pytest.mark.parametrize(
    ("replicas", "objects", "late", "more_objects", "deaths"),
    [*EXPLORED, *(EXPLORED_IN_SWEEPS if "SWEEP_RUNS" in os.environ else ())],
)
def test_in_every_order_of_requests_no_call_is_refused_and_the_rotation_can_end(
    replicas: int, objects: int, late: int, more_objects: int, deaths: int
) -> None:
    before = explored(first(replicas, objects, late, more_objects), 400_000, deaths)
    able = able_to_finish(before)
    stuck = [world for world in before if world not in able]
    assert [world for world in stuck if any(process.life == "alive" for process in world.processes)] == []


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("all(upcoming.id in member.settled for", "any(True for"),
        ("all(upcoming.id in member.settled for", "any(upcoming.id in member.settled for"),
        ("all(member.serves == upcoming.id and", "any(member.serves == upcoming.id and"),
        ("(self.current.id,) if self.upcoming is None else", "(self.current.id,) if True else"),
    ],
)
def test_a_decision_that_waits_for_less_is_found_out(
    was: str, becomes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(rotation.__file__).read_text()
    assert was in source
    changed = ModuleType("changed_rotation")
    monkeypatch.setitem(sys.modules, changed.__name__, changed)
    exec(source.replace(was, becomes), changed.__dict__)
    for name in ("Leaf", "Member", "Move", "Replica", "Rotation", "Validity", "step"):
        monkeypatch.setattr(rotation_model, name, getattr(changed, name))
    before: dict[World, list[World]] = {}
    with pytest.raises(AssertionError):
        for shape in EXPLORED:
            before = explored(first(*shape[:4]), 400_000, shape[4])
            assert first(*shape[:4]) in able_to_finish(before)


def replica(*, serves: str = "old", settled: tuple[str, ...] = (), names: tuple[str, ...] = NAMES) -> Replica:
    return Replica("one", Member(serves, settled), names)


def state(validity: Validity = FRESH, **members: Member) -> Rotation:
    return Rotation(NEW, Leaf("new", NAMES, validity), members=members)


def test_a_leaf_is_renewed_after_two_thirds_of_its_life_and_not_before() -> None:
    me = replica(serves="new")
    assert step(state(), me, (), NOW + 59 * DAY).move is Move.KEEP
    assert step(state(), me, (), NOW + 60 * DAY).move is Move.RENEW


def test_a_leaf_without_the_name_of_the_service_is_renewed_with_the_names_of_both_versions() -> None:
    renamed = ("store.shop.svc",)
    assert step(state(), replica(names=renamed), (), NOW).move is Move.RENEW
    assert names_of_next_leaf(state(), renamed, NOW) == (*renamed, *NAMES)
    assert names_of_next_leaf(state(), renamed, NOW + 61 * DAY) == renamed


def test_an_announced_ca_that_waited_until_it_is_due_itself_is_replaced() -> None:
    waiting = Rotation(NEW, Leaf("new", NAMES, FRESH), OLD, {})
    assert step(waiting, replica(serves="new", settled=("old", "new")), (), NOW).move is Move.ANNOUNCE


def test_a_ca_that_has_ended_signs_no_leaf_and_the_rotation_goes_on() -> None:
    later, ended = NOW + 400 * DAY, Leaf("new", NAMES, FRESH)
    upcoming = Authority("next", Validity(later, later + 365 * DAY))
    announced, switched = Rotation(NEW, ended, upcoming), Rotation(OLD, ended, NEW)
    assert step(announced, replica(serves="new"), (), later).move is Move.KEEP
    assert step(announced, replica(serves="new", settled=("new", "next")), (), later).move is Move.SWITCH
    assert step(switched, replica(serves="new"), (), later).move is Move.KEEP
    assert step(switched, replica(serves="new", settled=("old", "new")), (), later).move is Move.DROP


def test_entries_of_many_dead_processes_go_at_once_and_nothing_else_happens() -> None:
    crowd = {str(number): Member("new") for number in range(MOST_MEMBERS)}
    taken = step(state(Validity(NOW - 89 * DAY, NOW + DAY), **crowd), replica(serves="new"), (), NOW)
    assert (taken.move, set(taken.members)) == (Move.KEEP, {"one"})


@given(st.lists(st.tuples(st.floats(0, 300), st.booleans()), min_size=1, max_size=20))
def test_only_a_member_whose_entry_stood_still_for_long_enough_is_silent(
    looks: list[tuple[float, bool]],
) -> None:
    now, beat, unchanged_since, seen = 0.0, 0, None, {}
    for pause, beats in looks:
        now, beat = now + pause, beat + beats
        if beats or unchanged_since is None:
            unchanged_since = now
        seen = dict(sighted(seen, {"other": Member("new", beat=beat)}, now))
        assert ("other" in silent_members(seen, now)) == (now - unchanged_since >= SILENT_SECONDS)


def test_a_ca_settles_only_while_every_bundle_holds_it() -> None:
    held = held_since({}, ("old", "new"), [{"old", "new"}, {"old"}], 10.0)
    assert held == {"old": 10.0}
    held = held_since(held, ("old", "new"), [{"old", "new"}, {"old", "new"}], 20.0)
    assert settled(held, 10.0 + SETTLE_SECONDS) == ("old",)
    assert settled(held, 20.0 + SETTLE_SECONDS) == ("old", "new")
    assert held_since(held, ("old", "new"), [{"old"}, {"old", "new"}], 30.0) == {"old": 10.0}


def test_only_a_rotation_that_is_under_way_or_due_can_leave_a_replica_behind() -> None:
    assert not may_be_left_behind(state(), NOW, DAY)
    assert may_be_left_behind(state(), NOW + 243 * DAY, DAY)
    assert may_be_left_behind(Rotation(NEW, Leaf("new", NAMES, FRESH), OLD), NOW - 300 * DAY, DAY)
