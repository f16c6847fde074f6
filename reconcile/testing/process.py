"""The machine of one manager: the manager runs there, dies, and is started anew."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from attrs import evolve, frozen

from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.controller.declared_writes import DeclaredWrites
from reconcile.controller.run_history import ActiveRun, RunHistory
from reconcile.controller.runner import Runner
from reconcile.manager.assembly import Assembly
from reconcile.manager.manager import Manager
from reconcile.runs.requests import Cause, Request
from reconcile.testing.faults import Crash
from reconcile.testing.faulty import FaultyTransport
from reconcile.testing.late import LateWatches

if TYPE_CHECKING:
    from informers import Cache, Transport
    from reconcile.testing.world import World

WORKERS = 2
"""Of a controller that does not say how many: enough for two keys to meet each other."""
MOST_LIVES = 50


@frozen
class KeyRun:
    """A run of a controller for one key. Times are those of the loop; `outcome` is success, error, …

    Most are made and never looked at: what a person reads is written when it is asked for.
    """

    process: int
    life: int
    controller: str
    request: Request
    started: float
    ended: float
    woken_by: Sequence[Cause]
    outcome: str
    message: str

    @property
    def causes(self) -> Sequence[str]:
        """Why it ran, as people read it."""
        return tuple(map(str, self.woken_by))


@frozen
class Death:
    """The end of a life of a process: `why` a fault, an act or the manager itself ended it."""

    process: int
    life: int
    at: float
    why: str


class Process:
    """Number `number` of the managers; `run` keeps it alive. `lives` counts how often it was started."""

    def __init__(self, world: "World", number: int, *, listening: bool) -> None:
        seed = 1_000 * world.seed + number
        late = LateWatches(world.server, seed, lag=world.scenario.lag)
        self.number = number
        self.transport = FaultyTransport(
            late, world.plan, process=number, around=world.stage, listening=listening
        )
        self.lives = 0
        self.deaths: list[Death] = []
        self.controllers: Sequence[Controller[Any]] = ()
        self.manager: Manager | None = None
        self._world = world
        self._scope: anyio.CancelScope | None = None

    async def run(self) -> None:
        """Live, die and live again, until cancelled."""
        while self.lives < MOST_LIVES:
            self.lives += 1
            await self._live()
            self.manager = None
            self.transport.restart()
            await anyio.sleep(self._world.scenario.restart_seconds)

    def kill(self, why: str) -> None:
        """Let it die now."""
        if self.manager is None:
            return
        self._die(why)
        self.transport.die()
        if self._scope is not None:
            self._scope.cancel()

    def end(self) -> None:
        """The world is at its end: the manager is taken apart, what it has done stays."""
        manager, self.manager = self.manager, None
        if manager is not None:
            _take_apart(manager)
        del self._world

    async def _live(self) -> None:
        scenario = self._world.scenario
        self.controllers = scenario.make_controllers(self._world.outside)
        election = scenario.leader_election
        if election is not None:
            election = evolve(election, identity=f"manager-{self.number}.{self.lives}")
        self.manager = _Watched(
            self,
            self._world,
            *self.controllers,
            transport=self.transport,
            clock=self._world.clock,
            leader_election=election,
            workers=WORKERS,
            undeclared="refuse" if scenario.checks("declared") else "warn",
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

    def _die(self, why: str) -> None:
        if self.deaths and self.deaths[-1].life == self.lives:
            return
        self.deaths.append(Death(self.number, self.lives, anyio.current_time(), why))


def _take_apart(manager: Manager) -> None:
    """Cut the references between the parts of a manager that has ended: it goes without being collected.

    To look for cycles would be a twentieth of what a run of a small scenario takes.
    """
    for cluster in () if manager._assembly is None else manager._assembly.clusters:
        for informer in cluster.cache:
            for part in informer._parts.values():
                vars(part.reflector).clear()
            vars(informer).clear()
        for runner in cluster.runners:
            vars(runner).clear()
        vars(cluster.cache).clear()
    vars(manager).clear()


class _Watched(Manager):
    """A manager that tells the world of every run."""

    def __init__(
        self, process: Process, world: "World", *controllers: Controller[Any], **options: Any
    ) -> None:
        super().__init__(*controllers, **options)
        self._process = process
        self._world = world

    def _assemble(self, transports: "Mapping[str, Transport]") -> Assembly:
        return _WatchedAssembly(
            self._process, self._world, self.options, self.controllers, transports, self._log
        )


class _WatchedAssembly(Assembly):
    def __init__(self, process: Process, world: "World", *parts: Any) -> None:
        self._process = process
        self._world = world
        super().__init__(*parts)

    def _runner(
        self, cluster: str, client: Client, cache: "Cache", controller: Controller[Any]
    ) -> Runner[Any]:
        runner = super()._runner(cluster, client, cache, controller)
        runner.history = _Told(self._process, self._world, runner.declarations)
        return runner


class _Told(RunHistory):
    def __init__(self, process: Process, world: "World", declarations: DeclaredWrites) -> None:
        super().__init__()
        self._process = process
        self._world = world
        self._declarations = declarations
        self._controller = declarations.controller.name

    def end(self, run: ActiveRun, now: float) -> None:
        """A run is over: the world is told."""
        outcome = run.outcome
        self._world.runs.append(
            KeyRun(
                self._process.number,
                self._process.lives,
                self._controller,
                run.request,
                run.started,
                now,
                run.causes,
                "cancelled" if outcome is None else outcome.name,
                "" if outcome is None else outcome.message,
            )
        )
        for lacking in self._declarations.missing:
            self._world.violate("declared", f"writes= of controller {self._controller} lacks {lacking}")
        super().end(run, now)
