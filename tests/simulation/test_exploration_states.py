"""The states of `explore` have one future: whatever led to one, a transition leads from it to one other."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

import pytest
from attrs import define, field

from reconcile.testing import Apply, FaultPlan, Scenario, Wait, World
from reconcile.testing.exploration.authors_memory import remembers_times
from reconcile.testing.exploration.cache_reads import CacheReads, recorded_reads
from reconcile.testing.exploration.schedule_gates import ScheduleGates, Transition
from reconcile.testing.exploration.schedule_state import ScheduleState, Touched
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.seeded_random import SeededRandom
from tests.simulation.test_explored_controllers import WORLDS as BUNDLED
from tests.simulation.tiny_worlds import EAST, RYE, beds, beds_and_crops, crops, live_crops

IN_FULL = "LABORATORY" in os.environ

Place = tuple[bytes, str]


@define(eq=False)
class Walk(ABC):
    """Plays a scenario by chance; `finish` says what the last transition touched."""

    scenario: Scenario
    chance: SeededRandom = field(factory=lambda: SeededRandom("walk"))
    reads: CacheReads = field(factory=CacheReads)
    has_times: bool = False
    state: ScheduleState = field(init=False)
    _gates: ScheduleGates = field(init=False)
    _taken: Transition | None = None

    def gates(self) -> ScheduleGates:
        self._gates, self._taken = ScheduleGates(self, lost_answers=1), None
        return self._gates

    def watch(self, world: World) -> None:
        self.state = ScheduleState(world, self._gates, self.reads, self.has_times)

    @abstractmethod
    def choose(self, enabled: Sequence[Transition]) -> int: ...

    def time_passes(self) -> None:
        self.finish()
        self.state.time_passed()

    def any_of(self, choices: Sequence[object]) -> int:
        return int(self.chance.random() * len(choices))

    def take(self, enabled: Sequence[Transition], number: int) -> int:
        self._taken = enabled[number]
        self.state.began()
        return number

    def finish(self) -> Touched | None:
        taken, self._taken = self._taken, None
        return None if taken is None else self.state.ended(taken, self._gates.answer)


@define(eq=False)
class Walks(Walk):
    """Notes to which state each transition leads."""

    led_to: dict[Place, bytes] = field(factory=dict)
    differing: list[str] = field(factory=list)
    _came_by: Place | None = None

    def play(self, count: int) -> None:
        runner = ScenarioRunner(self.scenario, references=0)
        self.has_times = remembers_times(runner.run(FaultPlan(schedule=())).world)
        for number in range(count):
            self.chance, self._came_by = SeededRandom(f"walk {number}"), None
            with recorded_reads(self.reads):
                assert not runner.run(FaultPlan(), explorer=self).failed

    def choose(self, enabled: Sequence[Transition]) -> int:
        self.finish()
        digest = self.state.digest(enabled)
        if self._came_by is not None and self.led_to.setdefault(self._came_by, digest) != digest:
            self.differing.append(self._came_by[1])
        number = self.any_of(enabled)
        self._came_by = digest, enabled[number].label
        return self.take(enabled, number)


class Over(BaseException):
    """Ends a run of which nothing more matters."""


@define(eq=False)
class Pair(Walk):
    """Takes so many steps by chance, then two transitions that are possible, in one of the two orders."""

    steps: int = 0
    swapped: bool = False
    labels: list[str] = field(factory=list)
    """The two transitions; empty until the steps are taken, and where fewer than two are possible."""
    touched: Touched | None = None
    """What the first of them touched."""
    led_to: bytes | None = None
    """The state after both; None if the scenario was at its end before."""

    def play(self, runner: ScenarioRunner) -> None:
        try:
            with recorded_reads(self.reads):
                runner.run(FaultPlan(), explorer=self)
        except Over:
            pass

    def choose(self, enabled: Sequence[Transition]) -> int:
        touched, possible = self.finish(), [one.label for one in enabled]
        if self.steps:
            self.steps -= 1
            return self.take(enabled, self.any_of(enabled))
        first, second = (1, 0) if self.swapped else (0, 1)
        if not self.labels:
            if len(possible) < 2:
                raise Over
            left = [*possible]
            self.labels = [left.pop(self.any_of(left)) for _ in range(2)]
            return self.take(enabled, possible.index(self.labels[first]))
        if self.touched is not None:
            self.led_to = self.state.digest(enabled)
            raise Over
        self.touched = touched
        if self.labels[second] not in possible:
            self.led_to = b"prevented"
            raise Over
        return self.take(enabled, possible.index(self.labels[second]))


WORLDS = {
    # with so many walks in the suite; a refused write that a key had already seen was found in the 62nd
    "two managers that write against each other": (
        Scenario(controllers=crops, steps=[Apply(EAST), Wait(1), RYE], replicas=2),
        110,
    ),
    "two managers of one child": (Scenario(controllers=beds, steps=[Apply(EAST), RYE], replicas=2), 20),
    "two controllers": (Scenario(controllers=beds_and_crops, steps=[Apply(EAST), Wait(1), RYE]), 20),
    **({name: (world.make(), 12) for name, world in BUNDLED.items()} if IN_FULL else {}),
}


@pytest.mark.rule("sim-explore")
@pytest.mark.timeout(3_600 if IN_FULL else 60)
@pytest.mark.parametrize("name", WORLDS)
def test_a_transition_leads_from_a_state_to_one_state_however_it_was_reached(name: str) -> None:
    scenario, count = WORLDS[name]
    walks = Walks(scenario)
    walks.play(25 * count if IN_FULL else count)
    assert walks.differing == []
    assert len(walks.led_to) > 100


MOST_STEPS = 40
PAIRS = {
    **{name: scenario for name, (scenario, _) in WORLDS.items()},
    "live reads": Scenario(controllers=live_crops, steps=[Apply(EAST), Wait(1), RYE], replicas=2),
}


@pytest.mark.rule("sim-explore")
@pytest.mark.timeout(3_600 if IN_FULL else 60)
@pytest.mark.parametrize("name", PAIRS)
def test_two_transitions_that_commute_lead_to_one_state_wherever_they_are_possible(name: str) -> None:
    runner, commuting = ScenarioRunner(PAIRS[name], references=0), 0
    has_times = remembers_times(runner.run(FaultPlan(schedule=())).world)
    for number in range(1_000 if IN_FULL else 60):
        steps = int(SeededRandom(f"pair {number}").random() * MOST_STEPS)
        first, second = (
            Pair(
                PAIRS[name],
                SeededRandom(f"pair {number}/walk"),
                has_times=has_times,
                steps=steps,
                swapped=swapped,
            )
            for swapped in (False, True)
        )
        first.play(runner)
        if first.touched is None:
            continue
        second.play(runner)
        assert first.labels == second.labels
        assert second.touched is not None
        if first.touched.commutes_with(second.touched):
            assert first.led_to == second.led_to != b"prevented", first.labels
            commuting += 1
    assert commuting > 10 or name in BUNDLED  # with one key and one controller few commute
