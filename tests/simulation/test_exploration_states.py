"""The states of `explore` have one future: whatever led to one, a transition leads from it to one other."""

import os
from typing import Any

import pytest
from attrs import define, field

from reconcile.testing import Apply, FaultPlan, Scenario, Wait, World
from reconcile.testing.exploration.authors_memory import remembers_times
from reconcile.testing.exploration.cache_reads import CacheReads, recorded_reads
from reconcile.testing.exploration.schedule_gates import ScheduleGates, Transition
from reconcile.testing.exploration.schedule_state import ScheduleState
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.seeded_random import SeededRandom
from tests.simulation.test_explored_controllers import WORLDS as BUNDLED
from tests.simulation.tiny_worlds import EAST, RYE, beds, beds_and_crops, crops

IN_FULL = "LABORATORY" in os.environ

Place = tuple[bytes, str]


@define(eq=False)
class Walks:
    """Plays schedules by chance, and notes to which state each transition leads."""

    scenario: Scenario
    led_to: dict[Place, bytes] = field(factory=dict)
    differing: list[str] = field(factory=list)
    _chance: SeededRandom = field(init=False)
    _reads: CacheReads = field(factory=CacheReads)
    _has_times: bool = False
    _state: ScheduleState | None = None
    _gates: ScheduleGates | None = None
    _taken: Transition | None = None
    _came_by: Place | None = None

    def play(self, count: int) -> None:
        runner = ScenarioRunner(self.scenario, references=0)
        self._has_times = remembers_times(runner.run(FaultPlan(schedule=())).world)
        for number in range(count):
            self._chance = SeededRandom(f"walk {number}")
            self._state = self._taken = self._came_by = None
            with recorded_reads(self._reads):
                assert not runner.run(FaultPlan(), explorer=self).failed

    def gates(self) -> ScheduleGates:
        self._gates = ScheduleGates(self, lost_answers=1)
        return self._gates

    def watch(self, world: World) -> None:
        assert self._gates is not None
        self._state = ScheduleState(world, self._gates, self._reads, self._has_times)

    def choose(self, enabled: Any) -> int:
        assert self._state is not None
        self._finish()
        digest = self._state.digest(enabled)
        if self._came_by is not None and self.led_to.setdefault(self._came_by, digest) != digest:
            self.differing.append(self._came_by[1])
        number = int(self._chance.random() * len(enabled))
        self._taken = enabled[number]
        self._came_by = digest, enabled[number].label
        self._state.began()
        return number

    def time_passes(self) -> None:
        assert self._state is not None
        self._finish()
        self._state.time_passed()

    def _finish(self) -> None:
        if self._taken is not None:
            assert self._state is not None
            assert self._gates is not None
            self._state.ended(self._taken, self._gates.answer)
            self._taken = None


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
