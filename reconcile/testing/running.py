"""One run: a scenario, told once under one plan. Everything else tells it many times."""

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from attrs import frozen

from reconcile.testing.acts import Touch, Wait
from reconcile.testing.ending import Ending, Expected, compare, ending_of, expected_of
from reconcile.testing.faults import FaultPlan, Meanwhile
from reconcile.testing.invariants import check_history
from reconcile.testing.loop import simulate
from reconcile.testing.scenario import Scenario, Step, Violation
from reconcile.testing.stage import set_up
from reconcile.testing.veil import Veil
from reconcile.testing.world import Restless, World

REFERENCES = 3
"""Fault-free runs, of different seeds, that say how a scenario ends and in what its endings differ."""
_LONGEST = 10_000_000.0
_OBJECTS_OF_A_RUN = 50_000
_SEEDS_APART = 7_919


@frozen
class Run:
    """A run that has ended: its plan, what was wrong, and the world as it was left."""

    plan: FaultPlan
    violations: Sequence[Violation]
    world: World

    @property
    def failed(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.violations)


class Theatre:
    """Where one scenario is told again and again; what all runs share is made once.

    Raises the error of the server where the scenario's definitions or objects are refused.
    """

    def __init__(self, scenario: Scenario, *, references: int = REFERENCES) -> None:
        self.scenario = scenario
        self.runs = 0
        self._references = references
        self._base = set_up(scenario)
        kinds = [kind for controller in scenario.make_controllers() for kind in controller.kinds]
        self._veil = Veil(dict.fromkeys((*scenario.kinds, *kinds)))
        self._expected: dict[str, Expected | None] = {}

    def run(self, plan: FaultPlan, *, listening: bool = False) -> Run:
        """Tell it under a plan; its end is laid beside that of fault-free runs, where that says anything.

        With `listening` the events that managers hear are kept. Raises SimulationError where the run
        cannot go on, RealWorldError among them.
        """
        expected = self._expected_of(plan) if self._references and self._is_comparable(plan) else None
        world = self._tell(plan, listening, expected)
        return Run(plan, tuple(world.violations), world)

    def _tell(self, plan: FaultPlan, listening: bool = False, expected: Expected | None = None) -> World:
        self.runs += 1
        steps: Sequence[Step] = self.scenario.steps if plan.acts is None else plan.acts

        async def tell() -> World:
            world = World(self.scenario, self._base, plan, self._veil, listening=listening)
            async with world.alive():
                try:
                    await world.play(steps)
                    await world.stay()
                    if expected is not None:
                        compare(world, expected)
                except Restless as restless:
                    world.violate("converges", str(restless))
                except AssertionError as error:
                    world.violate("step", str(error) or "an assertion of a step does not hold")
                check_history(world)
            return world

        with _unlogged(), _few_collections():
            return simulate(tell, seed=plan.seed, limit_seconds=_LONGEST)

    def _expected_of(self, plan: FaultPlan) -> Expected | None:
        known = repr(plan.acts)
        if known not in self._expected:
            self._expected[known] = self._expect(plan)
        return self._expected[known]

    def _expect(self, plan: FaultPlan) -> Expected | None:
        """What fault-free runs have in common; None where one of them does not come to its end."""
        endings: list[Ending] = []
        for number in range(self._references):
            world = self._tell(FaultPlan((), plan.acts, number * _SEEDS_APART))
            if any(found.rule in ("converges", "step") for found in world.violations):
                return None
            endings.append(ending_of(world))
        return expected_of(endings)

    def _is_comparable(self, plan: FaultPlan) -> bool:
        """Whether nothing but faults makes a difference: no act races, and no foreign hand leaves a trace."""
        acts = self.scenario.steps if plan.acts is None else plan.acts
        foreign = [fault.what.act for fault in plan.faults if isinstance(fault.what, Meanwhile)]
        return not any(isinstance(act, Wait) for act in acts) and all(isinstance(a, Touch) for a in foreign)


@contextmanager
def _few_collections() -> Iterator[None]:
    """A world is one big cycle that lives as long as its run: looking at it while it lives finds nothing."""
    least, *others = gc.get_threshold()
    if least:
        gc.set_threshold(max(least, _OBJECTS_OF_A_RUN), *others)
    try:
        yield
    finally:
        gc.set_threshold(least, *others)


@contextmanager
def _unlogged() -> Iterator[None]:
    """A process that dies cannot say so, and what managers log of planned faults is in the story."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
