"""The protocol of a ring: no order of reads, writes, deaths and departures lets two members write a bucket.

The suite explores the shapes of EXPLORED. SWEEP_RUNS=0 adds those that take longer; another value plays
some of these, and says so.
"""

import os
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from reconcile.sharding import member_steps, planning
from tests.sharding.protocol_model import AT_ONCE, LATER, NOTHING, Model, Shape, Violation, World

SWEEP_RUNS = os.environ.get("SWEEP_RUNS")

ENDLESS = Shape(2, 1)
EXPLORED = {
    "two members that come and go without end": ENDLESS,
    "slow informers": Shape(2, 1, says=LATER, slow_informers=True, joins=4, deaths=1, departures=1),
    "a deleted assignment": Shape(2, 1, joins=3, deaths=1, departures=1, deletions=1, says=LATER),
    "three members, two buckets, a death": Shape(3, 2, joins=3, deaths=1, departures=0),
    "three members, two buckets, a departure": Shape(3, 2, joins=3, deaths=0, departures=1, says=AT_ONCE),
}
EXPLORED_IN_SWEEPS = {
    "three members, two buckets, both": Shape(3, 2, joins=3, deaths=1, departures=1, says=AT_ONCE),
    "three members, four buckets": Shape(3, 4, joins=3, deaths=0, departures=0, says=LATER),
    "three members, four buckets, a death": Shape(
        3, 4, joins=3, deaths=1, departures=0, says=AT_ONCE, stale_plans=False
    ),
    "three members, two buckets, a death and a departure": Shape(
        3, 2, joins=3, deaths=1, departures=1, says=LATER
    ),
    "three members, two buckets, two deaths": Shape(3, 2, joins=4, deaths=2, departures=0),
    "one move at a time": Shape(3, 2, moves_at_once=1, joins=4, deaths=1, departures=1, says=AT_ONCE),
    "two deletions": Shape(2, 2, joins=3, deaths=1, departures=0, deletions=2, says=LATER),
    "two members and two buckets without end": Shape(2, 2, says=AT_ONCE),
    "three members without end": Shape(3, 1, says=AT_ONCE),
    "three members, four buckets, a death and late plans": Shape(
        3, 4, joins=3, deaths=1, departures=0, says=AT_ONCE
    ),
}
OF_SWEEPS = (
    "three members, two buckets, both",
    "three members, four buckets, a death",
    "one move at a time",
    "two deletions",
)
"""Those of EXPLORED_IN_SWEEPS that a sweep of a part plays."""


def shapes_played() -> Sequence[str]:
    if SWEEP_RUNS is None:
        return [*EXPLORED]
    return [*EXPLORED, *EXPLORED_IN_SWEEPS] if SWEEP_RUNS == "0" else OF_SWEEPS


MOST = 4_000_000
"""Worlds: some gigabytes."""


class Exploration:
    """All worlds of a model, and which follow which without a fault. Fails at the first that must not be."""

    def __init__(self, model: Model, most: int = MOST) -> None:
        self.model = model
        first = model.first()
        self.numbers: dict[World, int] = {first: 0}
        self.worlds: list[World] = [first]
        self.following: list[array[int]] = []
        self.came_from = array("q", [NOTHING])
        self.steps = 0
        for number, world in enumerate(self.worlds):
            try:
                model.check(world)
                following = {self._number(after, number) for _, after in model.after(world) if after != world}
                faults = {self._number(after, number) for _, after in model.faults(world)}
            except Violation as violation:
                pytest.fail(f"{violation}, after {self.way_to(number)}")
            self.following.append(array("q", following))
            self.steps += len(following) + len(faults)
            assert len(self.worlds) < most, "the model has grown: it is no longer explored whole"

    def _number(self, world: World, before: int) -> int:
        known = self.numbers.setdefault(world, len(self.worlds))
        if known == len(self.worlds):
            self.worlds.append(world)
            self.came_from.append(before)
        return known

    def way_to(self, number: int) -> str:
        labels: list[str] = []
        while (before := self.came_from[number]) != NOTHING:
            world, after = self.worlds[before], self.worlds[number]
            steps = (*self.model.after(world), *self.model.faults(world))
            labels.append(next(label for label, one in steps if one == after))
            number = before
        return ", ".join(reversed(labels))

    def unsettled_ends(self) -> list[int]:
        """Worlds in which nothing more happens without a fault, though not all is as it should be."""
        ends = [number for number, following in enumerate(self.following) if not following]
        return [number for number in ends if not self.model.settled(self.worlds[number])]

    def endless(self) -> bool:
        """Whether things may happen forever without a fault."""
        into = array("q", bytes(8 * len(self.worlds)))
        for following in self.following:
            for number in following:
                into[number] += 1
        free = [number for number, count in enumerate(into) if not count]
        for number in free:
            for after in self.following[number]:
                into[after] -= 1
                if not into[after]:
                    free.append(after)
        return len(free) < len(self.worlds)


@pytest.mark.timeout(60 if SWEEP_RUNS is None else 7200)
@pytest.mark.rule(
    "shard-one-owner", "shard-epochs", "shard-clean", "shard-caught-up", "shard-settles", "shard-deleted"
)
@pytest.mark.parametrize("name", shapes_played())
def test_in_every_order_of_reads_writes_and_faults_a_bucket_has_one_writer_and_gets_one(name: str) -> None:
    found = Exploration(Model((EXPLORED | EXPLORED_IN_SWEEPS)[name]))
    assert [found.way_to(number) for number in found.unsettled_ends()[:1]] == []
    assert not found.endless()
    shapes = f"{len(shapes_played())} of {len(EXPLORED) + len(EXPLORED_IN_SWEEPS)} shapes"
    print(f"{name}: {len(found.worlds):,} worlds, {found.steps:,} steps; {shapes}")


def changed(module: ModuleType, was: str, becomes: str) -> ModuleType:
    """A module with a seeded fault."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    assert source.count(was) == 1
    other = ModuleType(f"changed_{module.__name__}")
    sys.modules[other.__name__] = other
    try:
        exec(source.replace(was, becomes), other.__dict__)
    finally:
        del sys.modules[other.__name__]
    return other


def problem(model: Model) -> str:
    """What an exploration finds."""
    try:
        found = Exploration(model, 200_000)
    except pytest.fail.Exception as failure:
        return str(failure)
    if stuck := found.unsettled_ends():
        return f"not settled after {found.way_to(stuck[0])}"
    return "endless" if found.endless() else ""


DELETED = EXPLORED["a deleted assignment"]
REDIRECTED = Shape(3, 2, joins=3, deaths=1, departures=0, says=AT_ONCE)
UNSEEN, TWO_WRITERS, UNSETTLED = "is clean, though", "a and b may write in 0", "not settled"


@pytest.mark.parametrize(
    ("module", "was", "becomes", "shape", "found"),
    [
        (planning, "elif owner.released.get(bucket) == holding.epoch:", "elif True:", DELETED, UNSEEN),
        (planning, "holding.epoch + 1", "holding.epoch", REDIRECTED, "under epoch"),
        (planning, "clean = holding.clean and not holding.owner", "clean = True", REDIRECTED, UNSEEN),
        (planning, " and not holding.owner", "", REDIRECTED, UNSEEN),
        (planning, "not known_to_all", "False", DELETED, TWO_WRITERS),
        (planning, "if room > 0 and", "if False and", REDIRECTED, UNSETTLED),
        (planning, 'if holding.next_owner in ("", next_owner) else', "if True else", REDIRECTED, UNSETTLED),
        (member_steps, "Released(epoch) if holding.clean else None", "Released(epoch)", DELETED, UNSEEN),
        (member_steps, "    if phase == Released(epoch):\n        return phase\n", "", REDIRECTED, "endless"),
        (member_steps, "if warm or state.leaving else", "if state.leaving else", REDIRECTED, UNSETTLED),
        (member_steps, "=state.view.assignment.beginning", "=1", DELETED, TWO_WRITERS),
    ],
)
def test_a_decision_that_asks_for_less_is_found_out(
    module: ModuleType, was: str, becomes: str, shape: Shape, found: str
) -> None:
    other = changed(module, was, becomes)
    model = Model(shape, planner=other) if module is planning else Model(shape, steps=other)
    assert found in problem(model)


def test_a_lease_deleted_at_whatever_version_it_has_is_found_out() -> None:
    assert "writes in 0 under epoch" in problem(Model(ENDLESS, buries_the_living=True))


def test_a_bucket_held_before_the_caches_have_all_is_found_out() -> None:
    assert "without what was written there before" in problem(Model(ENDLESS, catches_up=False))
