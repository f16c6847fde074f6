"""A world in which a scenario is played: managers on faulty connections, and acts one after another."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import evolve

from informers.transport import Transport
from reconcile.controller.runner import Runner
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.log import StoredChange
from reconcile.manager.manager import Manager
from reconcile.models import kind_of
from reconcile.runs.tenure import tenure_here, within
from reconcile.sharding.ring import assignment_name
from reconcile.simulation import Delays, SimulatedNodes, SimulatedWorkloads
from reconcile.testing import free_invariants
from reconcile.testing.exploration.livelocks import LivelockWatch
from reconcile.testing.exploration.obligation_watch import ObligationWatch
from reconcile.testing.exploration.schedule_gates import ChosenWatches, ProcessGates, ScheduleGates
from reconcile.testing.exploration.world_state import runners_of
from reconcile.testing.faults import FaultPlan
from reconcile.testing.faulty_transport import FaultyTransport
from reconcile.testing.late_watches import LateWatches
from reconcile.testing.manager_process import WORKERS, ManagerProcess
from reconcile.testing.recorded_requests import UNCOUNTED
from reconcile.testing.run_records import KeyRun, Livelock, TimedChange
from reconcile.testing.runs_under_way import in_step, outside_runs, run_here, step_here
from reconcile.testing.scenario import Invariant, Scenario, ScenarioStep
from reconcile.testing.scenario_acts import ScenarioAct, Wait
from reconcile.testing.virtual_time import VirtualTimeLoop, loop_time, outside_processes
from reconcile.testing.world import World

_NODES = 3
_SECONDS_OF_A_START = 1.0
"""Before the first step managers have their first lists, so that `objects` are there at their start."""
_SECONDS_OF_A_RUN = 4.0


class Restless(Exception):
    """The world does not come to rest."""


def nodes_of(delays: Delays) -> SimulatedNodes:
    return SimulatedNodes(_NODES, delays)


class SimulatedWorld:
    """Plays a scenario under a plan. `view` is the world that invariants and steps see."""

    def __init__(
        self,
        scenario: Scenario,
        base: ApiServer,
        plan: FaultPlan,
        *,
        record_events: bool = False,
        gates: ScheduleGates | None = None,
    ) -> None:
        self.scenario = scenario
        self.gates = gates
        self._is_fair = gates is None or plan.schedule == ()
        self.view = World(
            base,
            plan.seed,
            scenario.make_outside(),
            ignored=scenario.without,
            most_requests=scenario.most_requests,
            most_failures=scenario.most_failures,
            elects_leader=scenario.leader_election is not None,
            sharding=scenario.sharding,
        )
        if gates is not None:
            self.view.deliveries = gates.story
        self._rest = self.view.rest
        self._others: list[Manager] = []
        """Managers beside those of processes; a list, so that the watch on loops does not refer to this."""
        self._livelocks = LivelockWatch(self.view, partial(_runners_of_all, self._others))
        self._obligations = ObligationWatch(self.view, scenario.obligations)
        self._living = False
        self._settling: asyncio.Handle | None = None
        self._group: TaskGroup | None = None
        self.view.server.log.on_change(self._on_change)
        numbers = range(1, scenario.replicas + 1)
        self._processes = [self._process(number, plan, record_events) for number in numbers]
        self.view.processes = self._processes
        lines = {process.number: process.transport for process in self._processes}
        for service in self.view.services:
            service.join(lines, plan.seed, self._rest.changed)

    def _process(self, number: int, plan: FaultPlan, record_events: bool) -> ManagerProcess:
        world = self.view
        transport = FaultyTransport(
            self._connection(number, plan),
            plan,
            process=number,
            effects=world.actor,
            record_events=record_events,
            outside={service.name: service for service in world.services},
        )
        if self.gates is not None:
            transport.gates = ProcessGates(self.gates, number)
        return ManagerProcess(
            number,
            self.scenario,
            transport,
            clock=world.clock,
            outside=world.outside,
            log=world.server.log,
            run_ended=self._run_ended,
            gates=self.gates,
        )

    def _connection(self, number: int, plan: FaultPlan) -> Transport:
        """What delivers the lines of watches: as late as the seed says, or when the schedule does."""
        server = self.view.server
        if self.gates is not None:
            return ChosenWatches(server, self.gates, number)
        return LateWatches(server, 1_000 * plan.seed + number, lag=self.scenario.lag)

    def crash(self, process: int) -> None:
        """End a process, as a schedule has chosen; it starts again at once."""
        self._processes[process - 1].kill("a crash")

    def _run_ended(self, run: KeyRun, undeclared: Sequence[str]) -> None:
        self.view.runs.append(run)
        self._look_for_storm()
        for write in undeclared:
            self.view.violate("declared", f"writes= of controller {run.controller} lacks {write}")

    # --- playing ----------------------------------------------------------------------------------

    async def play(self, steps: Sequence[ScenarioStep]) -> None:
        """Take the steps in order; between two without a `Wait` the world comes to rest and is checked."""
        world = self.view
        self._obligations.begin()
        for number, step in enumerate(steps):
            if self.gates is not None and number and isinstance(steps[number - 1], Wait):
                await self.gates.act(number + 1)
            if callable(step):
                self._rest.stir()
                world.note(f"step {getattr(step, '__name__', step)}")
                with in_step():
                    await step(world)
            else:
                await self._act(step)
            following = steps[number + 1 : number + 2]
            if not following or not (isinstance(step, Wait) or isinstance(following[0], Wait)):
                await self._come_to_rest()
                free_invariants.check(world, free_invariants.AT_REST)
                world.mark_rest()
                self._check(self.scenario.invariants)
                self._obligations.judge()

    async def _act(self, step: ScenarioAct) -> None:
        if self.gates is None or not isinstance(step, Wait):
            await self.view.act(step)

    async def _come_to_rest(self) -> None:
        """Wait until nothing has changed and nothing was held back for `quiet_seconds`. Raises Restless."""
        quiet = self.scenario.quiet_seconds + self.view.garbage_seconds
        until = self._livelocks.until = loop_time() + self.scenario.limit_seconds
        # Times are compared, not spans: the rest of a span may be too short for a float to change by it.
        while loop_time() < (due := self._last_event() + quiet):
            if loop_time() >= until or self._rest.restless:
                self.view.livelock = self.view.livelock or self._livelocks.likeliest()
                self._obligations.judge()
                raise Restless(self._why_restless())
            await self._rest.pause(min(due, until))
        # It only looks at rest while a storm guard holds a key.
        self._look_for_storm()
        if self.view.livelock is not None:
            self._obligations.judge()
            raise Restless(self._why_restless())

    @property
    def _looks_for_loops(self) -> bool:
        """Not where a schedule chooses, which need not be fair: that one line stays away proves nothing."""
        return self.view.livelock is None and self._is_fair and self.scenario.checks("converges")

    def _look_for_storm(self) -> None:
        if self._looks_for_loops:
            self._end_in(self._livelocks.storm())

    def _end_in(self, livelock: Livelock | None) -> None:
        """End the run in that loop, if there is one."""
        self.view.livelock = livelock
        if livelock is not None:
            self._rest.give_up()

    def _last_event(self) -> float:
        late = [process.transport.late_until for process in self._processes]
        return max(self._rest.last_change, *late, *(service.late_until for service in self.view.services))

    def _why_restless(self) -> str:
        livelock = self.view.livelock
        if livelock is not None and livelock.ends_run:
            return str(livelock)
        counted = [one for one in self.view.changes if one.change.resource not in UNCOUNTED]
        last = ", ".join(f"{_name(one.change)} at {one.at:.1f} s" for one in counted[-3:])
        text = f"{self._rest.changes} changes and still not at rest; the last: {last or 'none'}"
        return text if livelock is None else f"{text}; {livelock}"

    async def stay_at_rest(self) -> None:
        """Check that a world at rest stays so, and that another run of every key requests nothing."""
        world = self.view
        since, changes, troubles = loop_time(), len(world.changes), self._troubles()
        await anyio.sleep(self.scenario.quiet_seconds)
        if self._troubles() != troubles:
            return  # a fault of a renewal, say: then something has happened
        for request in world.requests_since(since):
            if request.mutating:
                world.violate("stays", f"{request}, although nothing had changed")
        for one in world.changes[changes:]:
            if one.change.resource not in UNCOUNTED:
                world.violate("stays", f"{_name(one.change)} changed after the world had come to rest")
        since = loop_time()
        if self._trigger_all():
            await anyio.sleep(_SECONDS_OF_A_RUN)
            if self._troubles() != troubles:
                return
            for request in world.requests_since(since):
                if request.verb != "watch" and (request.mutating or not request.outside):
                    world.violate("extra-run", f"{request}, by a run with nothing to do")

    def _troubles(self) -> int:
        """How many faults and deaths there were so far; only those of replicas, which renew Leases, go on."""
        if self.scenario.sharding is None:
            return 0
        return sum(len(one.transport.applied) + len(one.deaths) for one in self._processes)

    def _check(self, invariants: Sequence[Invariant]) -> None:
        for invariant in invariants:
            try:
                invariant(self.view)
            except AssertionError as error:
                name = getattr(invariant, "__name__", str(invariant))
                self.view.violate(name, str(error) or "does not hold")

    def _trigger_all(self) -> bool:
        triggered = False
        for process in self._processes:
            manager = process.manager
            if manager is None or (self.scenario.leader_election and not manager.status().leading):
                continue
            for controller in process.controllers:
                resource = kind_of(controller.kind).resource
                for stored in self.view.server.log.snapshot((resource.group, resource.plural)):
                    manager.trigger(controller, stored.key, "once more")
                    triggered = True
        return triggered

    # --- running ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all managers, and the server's own controllers, until the context is left."""
        failure: Exception | None = None
        self._living = True
        if self.gates is not None:
            self._follow(self.gates)
        async with anyio.create_task_group() as group:
            self._group = group
            if self.scenario.nodes is not None:
                self._others.append(self._node_manager(self.scenario.nodes))
                group.start_soon(self._others[0].run)
            for process in self._processes:
                group.start_soon(process.run)
            try:
                await anyio.sleep(_SECONDS_OF_A_START)
                yield
            except Exception as error:
                failure = error  # raised below: here the group of the processes would wrap it
            self._living = False
            for process in self._processes:
                process.thaw()
            group.cancel_scope.cancel()
        self._others.clear()
        self.view.server.close()
        for process in self._processes:
            process.end()
        if failure is not None:
            raise failure

    def _follow(self, gates: ScheduleGates) -> None:
        """Have the loop go on as the schedule chooses."""
        gates.processes = self
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualTimeLoop):
            loop.schedule = gates.step

    def _node_manager(self, delays: Delays) -> Manager:
        """The manager that runs pods and, with `workloads`, creates them."""
        workloads = SimulatedWorkloads().controllers if self.scenario.workloads else ()
        return Manager(
            *(evolve(one, workers=WORKERS) for one in (nodes_of(delays).controller, *workloads)),
            transport=InProcessTransport(self.view.server),
            clock=self.view.clock,
            environ={},
        )

    def _settle(self) -> None:
        self._settling = None
        if self._living:
            with within(None), outside_runs():  # what follows from the writes of a run is not its own
                self.view.server.settle()
                if self._group is not None and self.view.server.has_waiting_work:
                    self._group.start_soon(self.view.server.settle_waiting)

    def _on_change(self, change: StoredChange) -> None:
        run = run_here()
        by = None if run is None else run.ref
        self.view.changes.append(TimedChange(loop_time(), change, tenure_here(), by, step_here()))
        if self._living and self._settling is None:
            # A plain callback: a task that waits for changes would cost far more in each run. In a context of
            # its own: the process of the writer may be frozen before it runs.
            loop = asyncio.get_running_loop()
            if self.view.garbage_seconds:
                delay = self.view.garbage_seconds
                self._settling = loop.call_later(delay, self._settle, context=outside_processes())
            else:
                self._settling = loop.call_soon(self._settle, context=outside_processes())
        if change.resource not in UNCOUNTED or self._assigns(change):
            self._rest.changed()
            if self._looks_for_loops:
                self._end_in(self._livelocks.changed())
        if self.scenario.always:
            self._check(self.scenario.always)
        if self.scenario.obligations:
            self._obligations.changed(change)

    def _assigns(self, change: StoredChange) -> bool:
        """Whether it is about which replica has which objects: some may still be without."""
        ring = self.scenario.sharding
        return ring is not None and change.key.name == assignment_name(ring.name)


def _runners_of_all(managers: Sequence[Manager]) -> Sequence[Runner[Any]]:
    return [runner for manager in managers for runner in runners_of(manager)]


def _name(change: StoredChange) -> str:
    return f"{change.resource[1]} {change.key}"
