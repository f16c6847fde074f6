"""The world of one run: a server, managers on faulty ways to it, somebody who acts, and all that happened."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from attrs import evolve, frozen

from informers import StatusError
from reconcile.client.client import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.log import StoredChange
from reconcile.embedded.stored_forms import body_in
from reconcile.manager.manager import Manager
from reconcile.models import Object, decode, kind_of
from reconcile.simulation import Delays, SimulatedWorkloads
from reconcile.testing.acts import Act, DelayGarbage, JumpClock, Kill, Wait
from reconcile.testing.clock import VirtualClock
from reconcile.testing.faults import FaultPlan
from reconcile.testing.invariants import AT_REST, check_requests
from reconcile.testing.loop import loop_time
from reconcile.testing.process import WORKERS, KeyRun, Process
from reconcile.testing.requests import RecordedRequest, target_of
from reconcile.testing.scenario import FreeInvariant, Scenario, Step, Violation
from reconcile.testing.stage import Stage, nodes_of
from reconcile.testing.veil import Veil

O = TypeVar("O", bound=Object)  # noqa: E741

UNCOUNTED = (("coordination.k8s.io", "leases"), ("", "events"), ("events.k8s.io", "events"))
"""Changes that do not keep a world from being at rest."""
MOST_CHANGES = 1_000
"""So many changes while the world should come to rest, and it is called restless."""
_SECONDS_OF_A_START = 1.0
"""Before the first step managers have their first lists: what shall be there by then is in `objects`."""
_SECONDS_OF_A_RUN = 4.0


class Restless(Exception):
    """The world does not come to rest."""


@frozen
class Happened:
    """A change of the server's log, and when (time of the loop) it happened."""

    at: float
    change: StoredChange


@frozen
class Done:
    """An act of somebody, or a step of the scenario, and when."""

    at: float
    text: str


class World:
    """What an invariant is a function of, and a step of a scenario acts on.

    `outside` is what the scenario has outside the cluster. `changes` is the whole truth of the server since
    the run began, `runs` all runs of controllers, `done` what was done by others, `violations` what has been
    found so far.
    """

    def __init__(
        self, scenario: Scenario, base: ApiServer, plan: FaultPlan, veil: Veil, *, listening: bool = False
    ) -> None:
        self.scenario = scenario
        self.plan = plan
        self.seed = plan.seed
        self.clock = VirtualClock(plan.seed)
        self.server = base.copy(self.clock)
        self.stage = Stage(self.server)
        self.outside: Any = scenario.make_outside()
        self.runs: list[KeyRun] = []
        self.changes: list[Happened] = []
        self.done: list[Done] = []
        self.violations: list[Violation] = []
        self.requests_seen: dict[int, int] = {}
        self.veil = veil
        self._garbage_seconds = 0.0
        self._last_change = 0.0
        self._since_act = 0
        self._living = False
        self._housekeeping: asyncio.Handle | None = None
        self._restless = False
        self._resting: asyncio.Future[None] | None = None
        self.server.log.on_change(self._on_change)
        self.processes = [
            Process(self, number, listening=listening) for number in range(1, scenario.replicas + 1)
        ]

    @functools.cached_property
    def user(self) -> Client:
        """A client of the administrator: its reads are live, nothing goes wrong on its way."""
        return Client(InProcessTransport(self.server), field_manager="user", clock=self.clock)

    # --- looking ----------------------------------------------------------------------------------

    def objects(self, kind: type[O], namespace: str = "") -> list[O]:
        """The objects of a kind as the server has them now, by namespace and name."""
        resource = kind_of(kind).resource
        served = self.server.resources.get(resource.group, resource.version, resource.plural)
        if served is None:
            return []
        stored = self.server.log.snapshot(served.storage_key)
        return [decode(kind, body_in(one, served)) for one in stored if namespace in ("", one.key.namespace)]

    def has_any(self, kind: type[Object]) -> bool:
        """Whether the server has an object of a kind now."""
        resource = kind_of(kind).resource
        served = self.server.resources.get(resource.group, resource.version, resource.plural)
        return served is not None and self.server.log.count(served.storage_key) > 0

    def find(self, kind: type[O], name: str, namespace: str = "default") -> O | None:
        """One object as the server has it now."""
        resource = kind_of(kind).resource
        found = self.objects(kind, namespace if resource.namespaced else "")
        return next((one for one in found if one.name == name), None)

    @property
    def requests(self) -> list[RecordedRequest]:
        """What the managers have asked of the server, in order of time."""
        made = [request for process in self.processes for request in process.transport.requests]
        return sorted(made, key=lambda request: request.at)

    def now(self) -> float:
        """Seconds since the run began."""
        return loop_time()

    # --- acting -----------------------------------------------------------------------------------

    async def act(self, act: Act) -> None:
        """Let somebody act, now; a `Wait` takes its time."""
        self._stir()
        match act:
            case Wait(seconds=seconds):
                await anyio.sleep(seconds)
                return
            case JumpClock(seconds=seconds):
                self.clock.advance(seconds)
            case DelayGarbage(seconds=seconds):
                self._garbage_seconds = seconds
            case Kill(process=number):
                if number <= len(self.processes):
                    self.processes[number - 1].kill("killed")
            case _:
                try:
                    self.note(self.stage.act(act))
                except StatusError as refused:
                    self.note(f"{type(act).__name__.lower()}: refused, {refused}")
                return
        self.note(str(act))

    def note(self, text: str) -> None:
        """Something was done by somebody; for the story."""
        self.done.append(Done(loop_time(), text))

    async def play(self, steps: Sequence[Step]) -> None:
        """The steps in order; the world comes to rest, and is checked, wherever no `Wait` stands."""
        for number, step in enumerate(steps):
            if callable(step):
                self._stir()
                self.note(f"step {getattr(step, '__name__', step)}")
                await step(self)
            else:
                await self.act(step)
            following = steps[number + 1 : number + 2]
            if not following or not (isinstance(step, Wait) or isinstance(following[0], Wait)):
                await self.rest()
                self.check((*AT_REST, *self.scenario.invariants))

    async def rest(self) -> None:
        """Wait until nothing has changed for `quiet_seconds`, nor news been held back. Raises Restless."""
        quiet = self.scenario.quiet_seconds + self._garbage_seconds
        until = loop_time() + self.scenario.limit_seconds
        # Times are compared, not spans: what is left of a span may be too short for a float to see it pass.
        while loop_time() < (due := self._last_news() + quiet):
            if loop_time() >= until or self._restless:
                raise Restless(self._why_restless())
            await self._pause(min(due, until))
        check_requests(self)

    async def _pause(self, until: float) -> None:
        """Sleep until that time, or until there is no hope of rest; all runs do, so without a scope."""
        loop = asyncio.get_running_loop()
        self._resting = resting = loop.create_future()
        timer = loop.call_at(until, _end_pause, resting)
        try:
            await resting
        finally:
            timer.cancel()

    def _last_news(self) -> float:
        return max(self._last_change, *(process.transport.late_until for process in self.processes))

    async def stay(self) -> None:
        """The world is at rest: it must stay so, and a run of every key must ask for nothing."""
        since, changes = loop_time(), len(self.changes)
        await anyio.sleep(self.scenario.quiet_seconds)
        for request in self._asked_since(since):
            if request.mutating:
                self.violate("stays", f"{request}, though nothing had changed for long")
        for happened in self.changes[changes:]:
            if happened.change.resource not in UNCOUNTED:
                name = f"{happened.change.resource[1]} {happened.change.key}"
                self.violate("stays", f"{name} changed after the world had come to rest")
        since = loop_time()
        if self._trigger_all():
            await anyio.sleep(_SECONDS_OF_A_RUN)
            for request in self._asked_since(since):
                if request.verb != "watch":
                    self.violate("extra-run", f"{request}, by a run with nothing to do")

    def check(self, invariants: Sequence[Any]) -> None:
        """Note which of these functions raise AssertionError."""
        for invariant in invariants:
            try:
                invariant(self)
            except AssertionError as error:
                name = getattr(invariant, "__name__", str(invariant))
                self.violate(name, str(error) or "does not hold")

    def violate(self, rule: str, text: str) -> None:
        """Something that must hold did not; each is noted once, and not at all if the scenario is without."""
        found = Violation(rule, text, loop_time())
        if rule not in self.scenario.without and found not in self.violations:
            self.violations.append(found)

    def checks(self, name: FreeInvariant) -> bool:
        """Whether an invariant of the kit is checked."""
        return self.scenario.checks(name)

    # --- living -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """All managers run, and the server's own controllers, until the context is left."""
        failure: Exception | None = None
        self._living = True
        async with anyio.create_task_group() as group:
            if self.scenario.nodes is not None:
                group.start_soon(self._cluster(self.scenario.nodes).run)
            for process in self.processes:
                group.start_soon(process.run)
            try:
                await anyio.sleep(_SECONDS_OF_A_START)
                yield
            except Exception as error:
                failure = error  # raised below: here it would come out wrapped in the group of the processes
            self._living = False
            group.cancel_scope.cancel()
        self.server.close()
        for process in self.processes:
            process.end()
        if failure is not None:
            raise failure

    def _cluster(self, delays: Delays) -> Manager:
        """What runs pods, and makes those of workloads, where the scenario has it so."""
        workloads = SimulatedWorkloads().controllers if self.scenario.workloads else ()
        return Manager(
            *(evolve(one, workers=WORKERS) for one in (nodes_of(delays).controller, *workloads)),
            transport=InProcessTransport(self.server),
            clock=self.clock,
            environ={},
        )

    def _keep_house(self) -> None:
        self._housekeeping = None
        if self._living:
            self.server.settle()

    def _on_change(self, change: StoredChange) -> None:
        now = loop_time()
        self.changes.append(Happened(now, change))
        if self._living and self._housekeeping is None:
            # A plain callback, which is much cheaper than a task that waits for changes.
            loop = asyncio.get_running_loop()
            if self._garbage_seconds:
                self._housekeeping = loop.call_later(self._garbage_seconds, self._keep_house)
            else:
                self._housekeeping = loop.call_soon(self._keep_house)
        if change.resource not in UNCOUNTED:
            self._last_change = now
            self._since_act += 1
            if self._since_act > MOST_CHANGES:
                self._restless = True
                if self._resting is not None:
                    _end_pause(self._resting)
        if self.scenario.always:
            self.check(self.scenario.always)

    def _stir(self) -> None:
        self._last_change = loop_time()
        self._since_act = 0

    def _trigger_all(self) -> bool:
        found = False
        for process in self.processes:
            if process.manager is None or not self._leads(process.manager):
                continue
            for controller in process.controllers:
                resource = kind_of(controller.kind).resource
                for stored in self.server.log.snapshot((resource.group, resource.plural)):
                    controller.trigger(stored.key, "once more")
                    found = True
        return found

    def _leads(self, manager: Manager) -> bool:
        return self.scenario.leader_election is None or manager.status().leading

    def _asked_since(self, since: float) -> Iterator[RecordedRequest]:
        for process in self.processes:
            for request in reversed(process.transport.requests):
                if request.at < since:
                    break
                if target_of(request.path)[0] not in ("leases", "events"):
                    yield request

    def _why_restless(self) -> str:
        late = [one for one in self.changes if one.change.resource not in UNCOUNTED][-3:]
        last = ", ".join(f"{one.change.resource[1]} {one.change.key} at {one.at:.1f} s" for one in late)
        return f"{self._since_act} changes and still not at rest; the last: {last or 'none'}"


def _end_pause(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
