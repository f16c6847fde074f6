"""All schedules of a small scenario, each as a run from its start."""

import heapq
from collections.abc import Sequence
from time import perf_counter

from attrs import define, field, frozen

from reconcile.testing.exploration.authors_memory import MOST_VALUES, remembers_times
from reconcile.testing.exploration.cache_reads import CacheReads, recorded_reads
from reconcile.testing.exploration.schedule_gates import RunName, ScheduleGates, Transition
from reconcile.testing.exploration.schedule_graph import END, Label, Node, ScheduleGraph, Visit
from reconcile.testing.exploration.schedule_state import RunInput, ScheduleState, Touched
from reconcile.testing.faults import Choice, FaultPlan
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import Apply
from reconcile.testing.scenario_modes import Broken
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from reconcile.testing.sealed_loop import SimulationError
from reconcile.testing.shrinking import shrink
from reconcile.testing.world import World


class NotRepeatable(SimulationError):
    """A run took another course than before under the same schedule, so that nothing can be explored."""


_UNSEEN = f"states may be taken for one, as the code remembers more than the {MOST_VALUES} values looked at"


@frozen
class ExploreReport:
    """What `explore` has done.

    `runs` were played, through `states` that differ. If that was all, it is `exhaustive`, and they stand for
    all `schedules`; that number is None if it was not all, or if states recur, so that there is no end to
    schedules.
    """

    runs: int
    states: int
    transitions: int
    exhaustive: bool
    schedules: int | None
    seconds: float
    sees_all: bool = True
    """Whether all that the controllers' code remembers was looked at. If not, states may be taken for one."""

    def __str__(self) -> str:
        seen = "" if self.sees_all else f"; {_UNSEEN}"
        played = f"{self.runs} runs, {self.states} states"
        if not self.exhaustive:
            return f"stopped after {played} and {self.seconds:.0f} s: not exhaustive{seen}"
        number = (
            "all schedules, without end as states recur"
            if self.schedules is None
            else (f"all {self.schedules} schedules")
        )
        return f"{number} ({played} after reduction){seen}"


def explore(
    scenario: Scenario,
    *,
    objects: int = 3,
    managers: int = 2,
    crashes: int = 1,
    lost_answers: int = 0,
    seconds: float = 60.0,
    most: int | None = None,
) -> ExploreReport:
    """Run a small scenario under all schedules, up to the order of what commutes.

    A schedule decides which run begins next, which request reaches the server, which answer reaches its run,
    which cache sees the next change, and where up to `crashes` processes die and `lost_answers` answers to
    writes are lost. Time passes only when nothing else can happen. What follows a `Wait` may come at any
    moment. The scenario may have up to `objects` objects of users and `managers` managers. It stops after so
    many real `seconds`, or `most` runs; then the report is not `exhaustive`.

    Raises Broken, with the least departure from the usual order that was found to break an invariant;
    ValueError for a scenario that is too large; and SimulationError if a run cannot go on.
    """
    __tracebackhide__ = True
    _check(scenario, objects, managers)
    search = ScheduleSearch(ScenarioRunner(scenario), crashes, lost_answers)
    broken = search.explore(perf_counter() + seconds, most)
    if broken is not None:
        raise broken
    return search.report()


def _check(scenario: Scenario, objects: int, managers: int) -> None:
    steps = [step.manifest for step in scenario.steps if isinstance(step, Apply)]
    names = {
        (one.get("kind"), one["metadata"].get("namespace"), one["metadata"].get("name"))
        for one in (*scenario.objects, *steps)
    }
    if len(names) > objects:
        raise ValueError(f"the scenario has {len(names)} objects: pass objects={len(names)}, or use fewer")
    if scenario.replicas > managers:
        raise ValueError(f"the scenario has {scenario.replicas} managers: pass managers={scenario.replicas}")
    if scenario.sharding is not None:
        raise ValueError("what shares objects depends on time: use seeds() or sweep() for sharding=")


class _Seen(BaseException):
    """Ends a run whose further course is known."""


@frozen(order=False)
class _Task:
    """A transition to try: the `path` to a state, and the `label` of what is next there."""

    path: tuple[Label, ...]
    departures: tuple[Choice, ...]
    faults: int
    visit: Visit
    label: Label
    inputs: dict[RunName, RunInput]

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.faults, len(self.departures), len(self.path)


@define(eq=False)
class ScheduleSearch:
    """Explores all schedules of the scenario of a `runner`, with the fewest departures first."""

    runner: ScenarioRunner
    crashes: int = 0
    lost_answers: int = 0
    reduced: bool = True
    graph: ScheduleGraph = field(init=False)
    reads: CacheReads = field(factory=CacheReads, init=False)
    runs: int = field(default=0, init=False)
    sees_all: bool = field(default=True, init=False)
    has_times: bool = field(default=False, init=False)
    _tasks: list[tuple[tuple[int, int, int], int, _Task]] = field(factory=list, init=False)
    _serial: int = field(default=0, init=False)
    _began: float = field(factory=perf_counter, init=False)

    def __attrs_post_init__(self) -> None:
        self.graph = ScheduleGraph(self.reduced)

    def explore(self, until: float, most: int | None = None) -> Broken | None:
        """Explore until that moment (of `perf_counter`), or for so many runs; returns what is broken."""
        # Whole, while others end where their state recurs: a loop is found at once.
        self.runs += 1
        usual = self.runner.run(FaultPlan(schedule=()))
        if usual.failed:
            return self._least(usual, ())
        self.has_times = remembers_times(usual.world)
        task: _Task | None = None
        while True:
            broken = self._play(task)
            if broken is not None:
                return broken
            if not self._tasks:
                return self._endless(until)
            if perf_counter() >= until or self.runs == most:
                return None
            _, _, task = heapq.heappop(self._tasks)

    def _endless(self, until: float) -> Broken | None:
        """What happens in states from which no schedule seemed to lead to an end: a run by the usual order.

        Such runs were cut short in the middle, where their state recurred.
        """
        while (node := self.graph.endless()) is not None and perf_counter() < until:
            self.runs += 1
            run = self.runner.run(FaultPlan(schedule=node.departures))
            if run.failed:
                return self._least(run, node.departures)
            self.graph.ends.add(node.state)
        return None

    def report(self) -> ExploreReport:
        exhaustive = not self._tasks
        return ExploreReport(
            runs=self.runs,
            states=len(self.graph.nodes) + 1,
            transitions=self.graph.transitions,
            exhaustive=exhaustive,
            schedules=self.graph.schedules() if exhaustive else None,
            seconds=perf_counter() - self._began,
            sees_all=self.sees_all,
        )

    def add(self, task: _Task) -> None:
        """Try a transition later."""
        self._serial += 1
        heapq.heappush(self._tasks, (task.rank, self._serial, task))

    def _play(self, task: _Task | None) -> Broken | None:
        self.runs += 1
        player = _Player(self, task)
        try:
            with recorded_reads(self.reads):
                run = self.runner.run(FaultPlan(), explorer=player)
        except _Seen:
            return None
        player.end()
        return self._least(run, player.departures) if run.failed else None

    def _least(self, run: ScenarioRun, departures: Sequence[Choice]) -> Broken:
        rules = {violation.rule for violation in run.violations}

        def fails(smaller: FaultPlan) -> bool:
            return any(one.rule in rules for one in self.runner.run(smaller).violations)

        plan = FaultPlan(schedule=departures)
        return Broken(self.runner.run(shrink(plan, fails) if fails(plan) else plan))


@define(eq=False)
class _Player:
    """Decides on the course of one run: along the path of its task, then on to what is not known yet."""

    search: ScheduleSearch
    task: _Task | None
    departures: list[Choice] = field(factory=list)
    _path: list[Label] = field(factory=list)
    _faults: int = 0
    _gates: ScheduleGates | None = None
    _world: World | None = None
    _state: ScheduleState | None = None
    _visit: Visit | None = None
    _taken: Transition | None = None
    _sleeping: dict[Label, Touched] = field(factory=dict)
    _came_by: tuple[Node, Label] | None = None
    _over: bool = False

    def gates(self) -> ScheduleGates:
        self._gates = ScheduleGates(
            self,
            crashes=self.search.crashes,
            lost_answers=self.search.lost_answers,
            crashes_before=self.search.runner.scenario.outside is not None,
        )
        return self._gates

    def watch(self, world: World) -> None:
        self._world = world

    def choose(self, enabled: Sequence[Transition]) -> int:
        """What is next: the next part of the path, then the task's transition, then what is due."""
        if self._over:
            return 0
        task, done = self.task, len(self._path)
        labels = [one.label for one in enabled]
        if task is not None and done < len(task.path):
            return self._take(enabled, labels, task.path[done])
        assert self._world is not None
        assert self._gates is not None
        if self._state is None:
            search = self.search
            self._state = ScheduleState(self._world, self._gates, search.reads, search.has_times)
            if task is not None:
                self._state.inputs = dict(task.inputs)
        if task is not None and done == len(task.path):
            self._visit = task.visit
            return self._try(enabled, labels, task.label)
        self._finish_transition()
        if self._world.violations:
            self._over = True
            return 0
        visit = self._arrive(enabled, labels)
        if not visit.due:
            raise _Seen
        self._visit = visit
        first, *others = visit.due
        for label in others:
            self._try_later(enabled, labels, label)
        return self._try(enabled, labels, first)

    def time_passes(self) -> None:
        if self._state is not None and not self._over:
            self._finish_transition()
            self._state.time_passed()

    def end(self) -> None:
        """Note that the scenario has come to its end."""
        if self._came_by is not None and not self._over:
            node, label = self._came_by
            node.edges[label] = END

    def _arrive(self, enabled: Sequence[Transition], labels: Sequence[Label]) -> Visit:
        assert self._state is not None
        came_by, self._came_by = self._came_by, None
        sleeping, self._sleeping = self._sleeping, {}
        digest = self._state.digest(enabled)
        self.search.sees_all &= self._state.sees_all
        self.search.has_times |= self._state.has_times
        return self.search.graph.arrive(digest, labels, sleeping, came_by, self.departures)

    def _take(self, enabled: Sequence[Transition], labels: Sequence[Label], label: Label) -> int:
        if label not in labels:
            raise NotRepeatable(
                f"a run differs under the same schedule: {label!r} was possible, and now only {labels}; "
                "something depends on chance, on time, or on what an earlier run left behind"
            )
        place = labels.index(label)
        self._path.append(label)
        if place:
            self.departures.append(Choice(len(self._path), label))
        self._faults += enabled[place].kind in ("crash", "lose")
        return place

    def _try(self, enabled: Sequence[Transition], labels: Sequence[Label], label: Label) -> int:
        assert self._state is not None
        assert self._visit is not None
        place = self._take(enabled, labels, label)
        self._taken = enabled[place]
        self._visit.node.edges[label] = None
        self._state.began()
        return place

    def _try_later(self, enabled: Sequence[Transition], labels: Sequence[Label], label: Label) -> None:
        assert self._state is not None
        assert self._visit is not None
        place = labels.index(label)
        departures = (*self.departures, *([Choice(len(self._path) + 1, label)] if place else []))
        faults = self._faults + (enabled[place].kind in ("crash", "lose"))
        inputs: dict[RunName, RunInput] = {**self._state.inputs}
        self.search.add(_Task(tuple(self._path), departures, faults, self._visit, label, inputs))

    def _finish_transition(self) -> None:
        """Note what the last transition has touched, and what sleeps after it."""
        taken, self._taken = self._taken, None
        if taken is None or self._visit is None:
            return
        assert self._state is not None
        assert self._gates is not None
        touched = self._state.ended(taken, self._gates.answer)
        self._sleeping = self._visit.after(taken.label, touched)
        self._came_by = (self._visit.node, taken.label)
