"""The process of one simulated manager, which runs, dies and is started again."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from attrs import define, evolve, field, frozen

from informers import Clock
from reconcile.controller.deadlines import RunLimit
from reconcile.controller.declaration import Controller
from reconcile.controller.declared_writes import DeclaredWrites
from reconcile.controller.held_buckets import HeldRun, HeldRuns
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.run_history import ActiveRun, ControllerMetrics, RunHistory
from reconcile.controller.run_result import RunResult, all_are
from reconcile.embedded.log import Log
from reconcile.manager.assembly import Assembly
from reconcile.manager.leadership import LeaseTerms
from reconcile.manager.manager import Manager
from reconcile.manager.option_list import ManagerOptions
from reconcile.runs.run_request import Cause, Request, TerminalError
from reconcile.runs.tenure import Tenure
from reconcile.testing.exploration.schedule_gates import RunName, ScheduleGates, within_run
from reconcile.testing.faults import Crash
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.manager_identity import identity_of
from reconcile.testing.run_records import Death, KeyRun, Standstill
from reconcile.testing.runs_under_way import Reached, RunRef, RunUnderWay, enter_run
from reconcile.testing.scenario import Scenario
from reconcile.testing.virtual_time import VirtualTimeLoop, enter_process, loop_time

if TYPE_CHECKING:
    from informers import Transport

WORKERS = 2
"""For a controller that does not say how many: enough for two keys to run at the same time."""
MOST_LIVES = 50

MakeControllers = Callable[[Any], Sequence[Controller[Any]]]
"""Makes the controllers of a life, with what exists outside the cluster."""

RunEnded = Callable[[KeyRun, Sequence[str]], None]
"""Receives each run that ended, and the undeclared writes of its controller."""


Begin = Callable[[str, Request], Awaitable[RunName]]
"""Waits until a run of a controller may begin."""


class _RunRecorder(Protocol):
    """Receives each run of a manager, when it begins and when it has ended."""

    begin: Begin | None

    def run_begins(self, run: ActiveRun, declarations: DeclaredWrites) -> None: ...

    def run_ends(
        self, run: ActiveRun, now: float, declarations: DeclaredWrites, work: "_Work | None"
    ) -> None: ...


class ManagerProcess:
    """The process of manager `number`; `run` keeps it alive, `lives` counts its starts."""

    def __init__(
        self,
        number: int,
        scenario: Scenario,
        transport: FaultyTransport,
        *,
        clock: Clock,
        outside: Any,
        log: Log,
        run_ended: RunEnded,
        gates: ScheduleGates | None = None,
    ) -> None:
        self.number = number
        self.transport = transport
        self.lives = 0
        self.deaths: list[Death] = []
        self.standstills: list[Standstill] = []
        self.controllers: Sequence[Controller[Any]] = ()
        self.manager: Manager | None = None
        self.under_way: dict[ActiveRun, RunUnderWay] = {}
        self._runs = 0
        self._scenario = scenario
        self._clock = clock
        self._outside = outside
        self._log = log
        self._run_ended = run_ended
        self._gates = gates
        self.begin: Begin | None = None if gates is None else partial(self._begin, gates)
        self._begun: dict[tuple[str, Request], float] = {}
        self._make_controllers: MakeControllers | None = scenario.make_controllers
        self._deployed = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._rests_for: float | None = None
        self._inside = Context()

    async def run(self) -> None:
        """Start the manager again each time that it dies, until cancelled."""
        enter_process(self.number)
        self._inside = copy_context()  # for what ends it from outside: if it is frozen, that is held too
        self.transport.pause = self.freeze
        try:
            while self.lives < MOST_LIVES:
                while self._make_controllers is None:
                    await self._deployed.wait()
                self.lives += 1
                await self._live()
                self.manager = None
                self.transport.restart()
                rests_for, self._rests_for = self._rests_for, None
                await anyio.sleep(self._restart_seconds if rests_for is None else rests_for)
        finally:
            self.transport.pause = None  # each would keep the other alive for the collector

    @property
    def _restart_seconds(self) -> float:
        """At once under a schedule, which decides on what else happens before it goes on."""
        return self._scenario.restart_seconds if self._gates is None else 0.0

    def kill(self, why: str) -> None:
        if self.manager is None:
            return
        self.thaw()
        self._die(why)
        self.transport.die()
        if self._scope is not None:
            self._inside.run(self._scope.cancel)

    def stop(self, rests_for: float) -> None:
        """Have the manager end as it likes; it starts again so many seconds after that."""
        if self.manager is not None:
            self._rests_for = rests_for
            self._inside.run(self.manager.stop)

    def deploy(self, controllers: MakeControllers | None) -> None:
        """Have it end as in a rollout, and start again with these controllers; None: stay down."""
        self._make_controllers = controllers
        if controllers is None:
            self._deployed = anyio.Event()
        else:
            self._deployed.set()
        self.stop(self._scenario.restart_seconds)

    def freeze(self, seconds: float) -> None:
        """Have the process stand still for so long."""
        loop, now = asyncio.get_running_loop(), loop_time()
        if isinstance(loop, VirtualTimeLoop):
            loop.freeze(self.number, seconds)
            self.standstills.append(Standstill(self.number, self.lives, now, now + seconds))
            self.transport.late_until = max(self.transport.late_until, now + seconds)

    def thaw(self) -> None:
        """Have it go on."""
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualTimeLoop):
            loop.thaw(self.number)

    @property
    def alive(self) -> bool:
        """Whether its manager runs now."""
        return self.manager is not None

    def end(self) -> None:
        """Release the manager at the end of the world; its records stay."""
        manager, self.manager = self.manager, None
        if manager is not None:
            _take_apart(manager)
        del self._run_ended

    async def _live(self) -> None:
        assert self._make_controllers is not None
        self.controllers = self._make_controllers(self._outside)
        election = self._scenario.leader_election
        if election is not None:
            election = evolve(election, identity=identity_of(self.number, self.lives))
        sharding = self._scenario.sharding
        if sharding is not None:
            sharding = evolve(sharding, identity=identity_of(self.number, self.lives))
        elected = election is not None or sharding is not None
        times = terms_as_options(self._scenario.lease_terms) if elected else {}
        self.manager = _RecordedManager(
            self,
            *self.controllers,
            transport=self.transport,
            clock=self._clock,
            leader_election=election,
            sharding=sharding,
            **times,
            workers=WORKERS,
            undeclared="refuse" if self._scenario.checks("declared") else "warn",
            environ={},
        )
        with anyio.CancelScope() as self._scope:
            try:
                await self.manager.run()
            except* Crash as group:
                self._die(str(group.exceptions[0]))
            except* Exception as group:
                error = group.exceptions[0]
                self._die(f"{type(error).__name__}: {error}")

    async def _begin(self, gates: ScheduleGates, controller: str, request: Request) -> RunName:
        """Wait until the schedule begins a run."""
        run = RunName(self.number, self.lives, controller, request)
        await gates.begin_run(run)
        self._begun[controller, request] = loop_time()
        return run

    def run_begins(self, run: ActiveRun, declarations: DeclaredWrites) -> None:
        """Note a run that begins, in its task."""
        self._runs += 1
        ref = RunRef(self.number, declarations.controller.name, run.request, self._runs)
        under_way = self.under_way[run] = RunUnderWay(ref, run.started, run.causes, self._reached)
        under_way.look_around()
        enter_run(under_way)

    def _reached(self) -> Reached:
        assembly = None if self.manager is None else self.manager._assembly
        clusters = () if assembly is None else assembly.clusters
        caches = (informer.store.version for cluster in clusters for informer in cluster.cache)
        return (self._log.version, *caches)

    def run_ends(
        self, run: ActiveRun, now: float, declarations: DeclaredWrites, work: "_Work | None"
    ) -> None:
        """Record a run that has ended, in its task."""
        under_way = self.under_way.pop(run, None)
        enter_run(None)
        outcome, name = run.outcome, declarations.controller.name
        recorded = KeyRun(
            process=self.number,
            life=self.lives,
            controller=name,
            request=run.request,
            started=self._begun.pop((name, run.request), run.started),
            ended=now,
            woken_by=run.causes,
            outcome="cancelled" if outcome is None else outcome.name,
            message="" if outcome is None else outcome.message,
            tenure=None if work is None else work.tenure,
            read=0 if work is None else work.read,
            ref=None if under_way is None else under_way.ref,
            given_up=outcome is not None and _is_given_up(outcome),
        )
        self._run_ended(recorded, declarations.missing)

    def _die(self, why: str) -> None:
        if self.deaths and self.deaths[-1].life == self.lives:
            return  # a crash cancels the manager, which then fails in other ways too
        now = anyio.current_time()
        self.deaths.append(Death(self.number, self.lives, now, why))
        if self._scenario.sharding is not None:
            # Others learn of it only when its Lease has run out.
            gone = now + self._scenario.lease_terms.duration
            self.transport.late_until = max(self.transport.late_until, gone)


def _is_given_up(outcome: RunResult) -> bool:
    return outcome.error is not None and all_are(outcome.error, TerminalError)


def terms_as_options(terms: LeaseTerms) -> ManagerOptions:
    """The same times as options of a manager."""
    return {
        "lease_seconds": terms.duration,
        "renew_seconds": terms.renew_deadline,
        "retry_seconds": terms.retry,
    }


def _take_apart(manager: Manager) -> None:
    """Break the reference cycles of an ended manager: collecting them takes 5% of a small scenario's run."""
    assembly = manager._assembly
    for cluster in () if assembly is None else assembly.clusters:
        for informer in cluster.cache:
            for part in informer._parts.values():
                vars(part.reflector).clear()
            vars(informer).clear()
        for runner in cluster.runners:
            if runner._connection is not None:
                vars(runner._connection).clear()
            vars(runner).clear()
        vars(cluster.cache).clear()
    if assembly is not None:
        vars(assembly).clear()
    vars(manager).clear()


class _RecordedManager(Manager):
    def __init__(self, recorder: _RunRecorder, *controllers: Controller[Any], **options: Any) -> None:
        super().__init__(*controllers, **options)
        self._recorder = recorder

    def _assemble(self, transports: "Mapping[str, Transport]") -> Assembly:
        return _RecordedAssembly(self._recorder, self.options, self.controllers, transports, self._log)


class _ScheduledExecutor(RunExecutor[Any]):
    """Executes runs that begin when a schedule says so."""

    __slots__ = ("begin",)

    begin: Begin

    async def run(
        self, request: Request, causes: Sequence[Cause] = (), attempt: int = 0, limit: RunLimit | None = None
    ) -> RunResult:
        with within_run(await self.begin(self.controller.name, request)):
            return await super().run(request, causes, attempt, limit)


class _RecordedAssembly(Assembly):
    def __init__(self, recorder: _RunRecorder, *parts: Any) -> None:
        self._recorder = recorder
        if recorder.begin is not None:
            self._executors = _ScheduledExecutor
        super().__init__(*parts)

    def _history(
        self, executor: RunExecutor[Any], label: str, metrics: ControllerMetrics | None
    ) -> RunHistory:
        runs = None
        if isinstance(executor, _ScheduledExecutor) and self._recorder.begin is not None:
            executor.begin = self._recorder.begin
        if executor.held is not None:
            runs = executor.runs = _RememberedRuns(executor.held)
        return _RecordingHistory(self._recorder, executor.declarations, runs)


@frozen
class _Work:
    """Under which tenure a run worked, and on which version of its object."""

    tenure: Tenure
    read: int


@define(eq=False)
class _RememberedRuns(HeldRuns):
    """Remembers the work of a run, also of one that was cancelled and has no outcome."""

    work: dict[Request, _Work] = field(factory=dict, init=False)

    def end(self, run: HeldRun) -> None:
        tenure, primary = run.record.tenure, run.record.primary
        if tenure is not None and primary is not None:
            self.work[run.request] = _Work(tenure, primary.version)
        super().end(run)


class _RecordingHistory(RunHistory):
    def __init__(
        self, recorder: _RunRecorder, declarations: DeclaredWrites, runs: "_RememberedRuns | None"
    ) -> None:
        super().__init__()
        self._recorder = recorder
        self._declarations = declarations
        self._remembered = runs

    def begin(self, run: ActiveRun) -> None:
        super().begin(run)
        self._recorder.run_begins(run, self._declarations)

    def end(self, run: ActiveRun, now: float) -> None:
        work = None if self._remembered is None else self._remembered.work.pop(run.request, None)
        self._recorder.run_ends(run, now, self._declarations, work)
        super().end(run, now)
