"""Plans that are drawn at first, and then mostly made from those that held."""

from collections.abc import Iterator, Sequence

from attrs import define, field

from reconcile.testing.faults import FaultPlan
from reconcile.testing.fuzzing import REFERENCES, drawn_plans, fault_kinds, process_acts
from reconcile.testing.guidance.corpus import Corpus
from reconcile.testing.guidance.covered_lines import LineRecorder, line_recorder
from reconcile.testing.guidance.mutation import Mutator, Parent
from reconcile.testing.guidance.observed_run import places_of
from reconcile.testing.guidance.situations import situations_of
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import ScenarioAct
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from reconcile.testing.seeded_random import SeededRandom

_DRAWN_AT_ONCE = 10
_FRESH = 0.2
"""The part of the plans that are drawn anew."""
_MOST_STOCK = 200


@define(eq=False)
class GuidedPlans:
    """Chooses plans for a scenario, and learns from each run which to change next.

    First come the `given` plans, and the steps of the scenario without faults. The same `seed` and given
    plans choose the same ones, on one version of Python.
    """

    scenario: Scenario
    seed: int
    given: Sequence[FaultPlan] = ()
    corpus: Corpus = field(factory=Corpus)
    runner: ScenarioRunner = field(init=False)
    _lines: LineRecorder = field(init=False)
    _chance: SeededRandom = field(init=False)
    _mutator: Mutator = field(init=False)
    _batches: int = field(default=0, init=False)
    _fresh: list[FaultPlan] = field(factory=list, init=False)
    _stock: list[FaultPlan] = field(factory=list, init=False)
    """The plans drawn last, whose acts and faults others borrow."""

    def __attrs_post_init__(self) -> None:
        self._lines = line_recorder(self.scenario)
        self.runner = ScenarioRunner(self._lines.instrumented(self.scenario), references=REFERENCES)
        self._chance = SeededRandom(f"{self.seed}/plans")
        self._mutator = Mutator(self._chance, fault_kinds(self.scenario), process_acts(self.scenario))

    @property
    def reached(self) -> int:
        """How many situations the runs have reached so far."""
        return self.corpus.situations

    def least(self) -> Sequence[FaultPlan]:
        """Few plans that reach what all the kept ones do."""
        return self.corpus.least()

    def plans(self) -> Iterator[FaultPlan]:
        """Plans without end. Each has to be run before the next is asked for."""
        yield from self.given
        yield FaultPlan((), _own_acts(self.scenario), self.seed)
        while True:
            if not self.corpus.kept or self._chance.random() < _FRESH:
                yield self._drawn()
            else:
                parent = self.corpus.choose(self._chance)
                yield self._mutator.child(parent, self._borrowed(), self.corpus.parents)

    def run(self, plan: FaultPlan) -> ScenarioRun:
        """Run a plan, and keep it if it holds."""
        run = self.runner.run(plan, during=self._lines.recording)
        reached = self.corpus.learn(situations_of(run, self._lines.taken()))
        if not run.failed:
            self.corpus.keep(Parent(plan, places_of(run)), reached)
        return run

    def _drawn(self) -> FaultPlan:
        if not self._fresh:
            self._draw()
        return self._fresh.pop(0)

    def _borrowed(self) -> Sequence[FaultPlan]:
        if not self._stock:
            self._draw()
        return self._stock

    def _draw(self) -> None:
        drawn = drawn_plans(self.scenario, seed=self.seed + self._batches, count=_DRAWN_AT_ONCE)
        self._batches += 1
        self._fresh += drawn
        self._stock = [*self._stock, *drawn][-_MOST_STOCK:]


def _own_acts(scenario: Scenario) -> Sequence[ScenarioAct] | None:
    """The steps of a scenario; None if one of them is a function, which no plan can hold."""
    acts = [step for step in scenario.steps if not callable(step)]
    return acts if len(acts) == len(scenario.steps) else None
