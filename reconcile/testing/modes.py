"""The three ways to use a scenario: `sweep` it, `fuzz` it, `replay` what they found."""

from collections.abc import Iterator
from time import perf_counter

from attrs import frozen

from reconcile.testing.faults import (
    CrashAfter,
    CrashBefore,
    Fault,
    FaultPlan,
    Hold,
    LoseReply,
    RequestFault,
    StreamFault,
    When,
)
from reconcile.testing.requests import target_of
from reconcile.testing.running import Run, Theatre
from reconcile.testing.scenario import Scenario
from reconcile.testing.shrinking import same_rule, shrink
from reconcile.testing.telling import story

LAGS = (1, 2, 3)
BATCH = 25
"""Plans that are drawn by one state machine before the next seed."""
_AT_WRITES: tuple[RequestFault, ...] = (CrashBefore(), CrashAfter(), LoseReply())
_UNSWEPT = ("leases", "events")
_INITIAL_END = b"initial-events-end"


class Broken(AssertionError):
    """A scenario does not hold under some plan: its message is the story.

    `plan` is the least that was found to break it in this way, `run` the run under it.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(story(run))
        self.run = run
        self.plan = run.plan

    @property
    def rules(self) -> frozenset[str]:
        """The invariants that were broken."""
        return frozenset(found.rule for found in self.run.violations)


@frozen
class Report:
    """What was tried, and held: so many `runs`, of the `in_full` that there are; None: there is no end."""

    runs: int
    in_full: int | None = None

    def __str__(self) -> str:
        return f"{self.runs} runs" if self.in_full is None else f"{self.runs} runs of {self.in_full}"


def sweep(scenario: Scenario, *, seed: int = 0, most: int | None = None) -> Report:
    """Tell a scenario once without faults, and then once for each single thing that can go wrong in it.

    Those are, for every effective write of that first run: a crash before it, a crash after it, its
    answer lost; and for every event that a manager heard: that it comes only after the next 1, 2 and 3
    of its kind, or 10 seconds. Runs have the given `seed`; of more than `most` of them, so many are taken
    at even distances.

    Raises Broken for the first that breaks an invariant, shrunk to the least plan that still does, and
    SimulationError where a run cannot go on.
    """
    __tracebackhide__ = True  # for pytest: the story says what happened, better than our frames
    theatre = Theatre(scenario)
    first = judged(theatre, FaultPlan(seed=seed), listening=True)
    plans = list(_single_faults(first, seed))
    chosen = (
        plans if most is None or len(plans) <= most else [plans[n * len(plans) // most] for n in range(most)]
    )
    for plan in chosen:
        judged(theatre, plan)
    return Report(len(chosen), len(plans))


def fuzz(scenario: Scenario, *, seconds: float = 10.0, most: int | None = None, seed: int = 0) -> Report:
    """Let a scenario's controllers meet what users and networks may think of, for so many real seconds.

    What users do is drawn from the models (`Scenario.strategies`; or the applies and edits among its
    steps, and other values for the fields that they apply), in place of its steps. Children are deleted
    and touched, processes killed, clocks set; up to eight such things and faults meet in one run. At most
    `most` runs are made; the same `seed` draws the same ones. Needs hypothesis
    (`reconcile-runtime[testing]`).

    Raises Broken for the first that breaks an invariant, shrunk, and SimulationError where a run
    cannot go on.
    """
    from reconcile.testing.fuzzing import drawn

    __tracebackhide__ = True
    theatre = Theatre(scenario, references=2)
    until = perf_counter() + seconds
    told = 0

    def tell(plan: FaultPlan) -> None:
        nonlocal told
        if perf_counter() >= until or told == most:
            return
        told += 1
        run = theatre.run(plan)
        if run.failed:
            raise _Found(run)

    while perf_counter() < until and told != most:
        try:
            drawn(scenario, tell, seed=seed, count=BATCH)
        except _Found as found:
            raise _least(theatre, found.run) from None
        seed += 1
    return Report(told)


class _Found(Exception):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run


def replay(scenario: Scenario, plan: FaultPlan | str) -> Run:
    """Tell a scenario under one plan (or its JSON). Raises Broken if it does not hold, with its story."""
    __tracebackhide__ = True
    if isinstance(plan, str):
        plan = FaultPlan.from_json(plan)
    run = Theatre(scenario).run(plan)
    if run.failed:
        raise Broken(run)
    return run


def seeds(scenario: Scenario, count: int, *, first: int = 0) -> Report:
    """Tell a scenario without faults under `count` seeds. Raises Broken as `sweep` does."""
    __tracebackhide__ = True
    theatre = Theatre(scenario)
    for seed in range(first, first + count):
        judged(theatre, FaultPlan(seed=seed))
    return Report(count)


def judged(theatre: Theatre, plan: FaultPlan, *, listening: bool = False) -> Run:
    """The run under a plan. Raises Broken, for a plan as small as can be, where it does not hold."""
    __tracebackhide__ = True
    run = theatre.run(plan, listening=listening)
    if run.failed:
        raise _least(theatre, run)
    return run


def _least(theatre: Theatre, run: Run) -> Broken:
    rules = {found.rule for found in run.violations}

    def fails(smaller: FaultPlan) -> bool:
        return same_rule(rules, {found.rule for found in theatre.run(smaller).violations})

    return Broken(theatre.run(shrink(run.plan, fails)))


def _single_faults(first: Run, seed: int) -> Iterator[FaultPlan]:
    for process in first.world.processes:
        number = process.number if len(first.world.processes) > 1 else None
        nths: dict[tuple[str, str], int] = {}
        for request in process.transport.requests:
            if not request.mutating or target_of(request.path)[0] in _UNSWEPT:
                continue
            nth = nths[request.verb, request.path] = nths.get((request.verb, request.path), 0) + 1
            if request.effective:
                for what in _AT_WRITES:
                    when = When(request.verb, request.path, nth, process=number)
                    yield FaultPlan([Fault(when, what)], seed=seed)
        initial: set[tuple[str, int]] = set()
        for event in process.transport.heard:
            watch = (event.path, event.watch)
            if _INITIAL_END in event.text:
                initial.add(watch)
            elif watch in initial and b'"BOOKMARK"' not in event.text[:24]:
                for lag in LAGS:
                    held: StreamFault = Hold(event.line - 1, lag)
                    when = When("watch", event.path, event.watch, process=number)
                    yield FaultPlan([Fault(when, held)], seed=seed)
