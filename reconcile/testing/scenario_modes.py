"""The ways to use a scenario: `sweep` and `fuzz` it, `replay` a plan, or run it under many `seeds`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import get_args

from attrs import frozen

from informers.extras import extras_named
from reconcile.testing.fake_services.service import FakeService
from reconcile.testing.fake_services.service_faults import faults_at
from reconcile.testing.faults import (
    CallFailure,
    CrashAfter,
    CrashBefore,
    FailCall,
    Fault,
    FaultPlan,
    Hold,
    LoseReply,
    Pause,
    RequestFault,
    StreamFault,
    When,
)
from reconcile.testing.old_views import old_view_plans
from reconcile.testing.recorded_requests import RecordedRequest, service_of
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from reconcile.testing.shrinking import shrink
from reconcile.testing.unattended_acts import unattended_act_plans
from reconcile.webhooks.routes import CONVERT

LAGS = (1, 2, 3)
_AT_WRITES: tuple[RequestFault, ...] = (CrashBefore(), CrashAfter(), LoseReply())
_AT_CALLS: tuple[CallFailure, ...] = get_args(CallFailure)
_OUTAGE = 3
"""Calls of one webhook that fail one after the other."""
_INITIAL_END = b"initial-events-end"


class Broken(AssertionError):
    """A scenario does not hold under some plan; the message is the trace of the run.

    `plan` is the least that was found to break it in this way, `run` the run under it.
    """

    def __init__(self, run: ScenarioRun) -> None:
        super().__init__(format_trace(run))
        self.run = run
        self.plan = run.plan

    @property
    def rules(self) -> frozenset[str]:
        """The invariants that do not hold."""
        return frozenset(violation.rule for violation in self.run.violations)


@frozen
class ScenarioReport:
    """How many `runs` held, and how many there are `in_full`; None if there is no end to them.

    `reached` is how many situations a guided fuzz met: while it grows with the runs, more runs are worth it.
    """

    runs: int
    in_full: int | None = None
    reached: int | None = None

    def __str__(self) -> str:
        if self.reached is not None:
            return f"{self.runs} runs, {self.reached} situations"
        return f"{self.runs} runs" if self.in_full is None else f"{self.runs} runs of {self.in_full}"


def sweep(
    scenario: Scenario, *, seed: int = 0, most: int | None = None, old_views: bool = False
) -> ScenarioReport:
    """Run a scenario once without faults, and then once for each single thing that can go wrong in it.

    For each effective write of the first run: a crash before it, a crash after it, its answer lost. For each
    event that a manager received: it arrives only after the next 1, 2 or 3 of its kind, or 10 seconds later.
    Each step after the first is also taken while no process runs, after one that died at rest, if the steps
    are acts and there is one replica.
    For each webhook that its requests called: it is down, too slow, answers wrongly, or its certificate is
    not trusted, for three calls. Each write to a `FakeService` meets the same as others; it may also be
    refused, or answered with an error though it was done. A read of it may be refused, or not see the last
    write if the service promises no better. With `sharding`, each write may also find its process standing
    still for longer than its Lease, and what a replica writes into the Leases of the ring counts, unlike
    renewals.
    All runs have `seed`.

    With `old_views`, the process is also killed after each step, and the next one sees each kind, for 5
    seconds, as it was 1 to 4 changes before. It may create and delete again what it needs not, but nothing
    may get lost that existed when the world was at rest. This needs one replica, and steps that are acts.

    If there are more than `most`, so many are taken at even distances.

    Raises Broken for the first run that breaks an invariant, shrunk to the least plan that still does,
    SimulationError if a run cannot go on, and ValueError for a scenario that `old_views` does not fit.
    """
    __tracebackhide__ = True  # for pytest: the trace of the run says more than these frames
    runner = ScenarioRunner(scenario)
    first = _held(runner, FaultPlan(seed=seed), record_events=True)
    plans = [*_single_faults(first, scenario, seed), *unattended_act_plans(scenario, seed)]
    if old_views:
        plans += old_view_plans(scenario, seed)
    chosen = plans
    if most is not None and len(plans) > most:
        chosen = [plans[number * len(plans) // most] for number in range(most)]
    for plan in chosen:
        _held(runner, plan)
    return ScenarioReport(len(chosen), len(plans))


def fuzz(
    scenario: Scenario,
    *,
    seconds: float = 10.0,
    most: int | None = None,
    seed: int = 0,
    guided: bool = True,
    corpus: str | Path | None = None,
) -> ScenarioReport:
    """Run a scenario under random acts of users and random faults, for so many real seconds.

    In place of the steps, acts are drawn from `Scenario.strategies`, or from the applies and edits among the
    steps, with other values. Children are deleted and touched, processes killed, clocks set; several such
    acts and faults meet in one run. At most `most` runs are made; the same `seed` makes the same ones in
    a process that has loaded the same modules, as Hypothesis also tries constants that are found in them.
    Needs hypothesis (`reconcile-runtime[testing]`).

    Plans that held are changed into others, with faults at requests that their runs showed; above all those
    that reached something new: a line of the controllers, an answer, or the end of a run, after some faults,
    in some state of the world. That finds sooner what several faults in order cause. With `guided=False`
    each plan is drawn without regard to the others.

    `corpus` is a folder that has the kept plans from one fuzz to the next, and the least that broke the
    scenario, which is tried first. Raises ValueError for files there that are not plans.

    Raises Broken as `sweep` does, and SimulationError if a run cannot go on.
    """
    with extras_named():
        from reconcile.testing.fuzzing import DrawnPlans
    from reconcile.testing.guidance.corpus_folder import CorpusFolder
    from reconcile.testing.guidance.guided_plans import GuidedPlans

    __tracebackhide__ = True
    if corpus is not None and not guided:
        raise ValueError("corpus= keeps what a guided fuzz learns: leave guided=False out")
    until = perf_counter() + seconds
    folder = None if corpus is None else CorpusFolder(Path(corpus))
    given = () if folder is None else folder.plans()
    search = GuidedPlans(scenario, seed, given) if guided else DrawnPlans(scenario, seed)
    runs, broken = 0, None
    try:
        for plan in search.plans():
            if perf_counter() >= until or runs == most:
                break
            runs += 1
            run = search.run(plan)
            if run.failed:
                broken = _least(search.runner, run)
                raise broken
    finally:
        if folder is not None:
            least = None if broken is None else broken.plan
            folder.write(search.least(), tried=given[:runs], broken=least)
    return ScenarioReport(runs, reached=search.reached)


class _Said:
    """What a replica has written into each Lease of its ring, beside when it did."""

    def __init__(self) -> None:
        self._last: dict[str, object] = {}

    def is_new(self, request: RecordedRequest) -> bool:
        """Whether it says something that the last write of that Lease did not."""
        body = request.body if request.method in ("POST", "PUT") else None
        metadata = body.get("metadata", {}) if isinstance(body, dict) else {}
        name, said = metadata.get("name", ""), metadata.get("annotations")
        before = self._last.get(name)
        self._last[name] = said
        return said is not None and said != before


def replay(scenario: Scenario, plan: FaultPlan | str) -> ScenarioRun:
    """Run a scenario under one plan (or its JSON). Raises Broken, with the trace, if it does not hold."""
    __tracebackhide__ = True
    if isinstance(plan, str):
        plan = FaultPlan.from_json(plan)
    run = ScenarioRunner(scenario).run(plan)
    if run.failed:
        raise Broken(run)
    return run


def seeds(scenario: Scenario, count: int, *, first: int = 0) -> ScenarioReport:
    """Run a scenario without faults under `count` seeds. Raises Broken as `sweep` does."""
    __tracebackhide__ = True
    runner = ScenarioRunner(scenario)
    for seed in range(first, first + count):
        _held(runner, FaultPlan(seed=seed))
    return ScenarioReport(count)


def _held(runner: ScenarioRunner, plan: FaultPlan, *, record_events: bool = False) -> ScenarioRun:
    """The run under a plan. Raises Broken, for the least such plan, if it does not hold."""
    __tracebackhide__ = True
    run = runner.run(plan, record_events=record_events)
    if run.failed:
        raise _least(runner, run)
    return run


def _least(runner: ScenarioRunner, run: ScenarioRun) -> Broken:
    rules = {violation.rule for violation in run.violations}

    def fails(smaller: FaultPlan) -> bool:
        return any(violation.rule in rules for violation in runner.run(smaller).violations)

    return Broken(runner.run(shrink(run.plan, fails)))


def _service_faults(
    request: RecordedRequest,
    services: Mapping[str, FakeService],
    nths: dict[tuple[str, str], int],
    process: int | None,
    seed: int,
) -> Iterator[FaultPlan]:
    nth = nths[request.verb, request.path] = nths.get((request.verb, request.path), 0) + 1
    when = When(request.verb, request.path, nth, process=process)
    if request.effective or not request.mutating:
        whats = (*_AT_WRITES, *faults_at(request, services[service_of(request.path)]))
        for what in whats if request.mutating else whats[len(_AT_WRITES) :]:
            yield FaultPlan([Fault(when, what)], seed=seed)


def _single_faults(first: ScenarioRun, scenario: Scenario, seed: int) -> Iterator[FaultPlan]:
    at_writes = _AT_WRITES
    if scenario.sharding is not None:
        at_writes = (*_AT_WRITES, Pause(scenario.lease_terms.duration + 2.0))
    services = {service.name: service for service in first.world.services}
    for process in first.world.processes:
        number = process.number if len(first.world.processes) > 1 else None
        nths: dict[tuple[str, str], int] = {}
        said = _Said()
        for request in process.transport.requests:
            if request.outside:
                yield from _service_faults(request, services, nths, number, seed)
                continue
            if not request.mutating or not (request.counted or scenario.sharding is not None):
                continue
            nth = nths[request.verb, request.path] = nths.get((request.verb, request.path), 0) + 1
            if request.effective and (request.counted or said.is_new(request)):
                for what in at_writes:
                    when = When(request.verb, request.path, nth, process=number)
                    yield FaultPlan([Fault(when, what)], seed=seed)
        for path in dict.fromkeys(process.transport.called):
            for how in _AT_CALLS:
                if how != "unconvertible" or path.startswith(f"/{CONVERT}/"):
                    when = When(path=path, times=_OUTAGE, process=number)
                    yield FaultPlan([Fault(when, FailCall(how))], seed=seed)
        initial: set[tuple[str, int]] = set()
        for event in process.transport.events:
            watch = (event.path, event.watch)
            if _INITIAL_END in event.text:
                initial.add(watch)
            elif watch in initial and b'"BOOKMARK"' not in event.text[:24]:
                for lag in LAGS:
                    late: StreamFault = Hold(event.line - 1, lag)
                    when = When("watch", event.path, event.watch, process=number)
                    yield FaultPlan([Fault(when, late)], seed=seed)
