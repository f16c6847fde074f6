"""Runs controllers: connects them to a cluster, starts and stops everything in order."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from attrs import evolve, frozen

from informers import Cache, Clock, InformerStatus, SystemClock, Transport, get_logger
from reconcile.client import Client
from reconcile.context import RunSync
from reconcile.controller import Controller
from reconcile.installed import check_scales
from reconcile.leadership import LeaderElection, LeaderElector, LedTransport
from reconcile.passes import Passes, in_thread
from reconcile.recorder import Recorder
from reconcile.runner import ControllerStatus, Runner


@frozen
class ManagerStatus:
    """What a manager does now; without leader election it leads."""

    server: str
    leading: bool
    controllers: Sequence[ControllerStatus]
    informers: Sequence[InformerStatus]


@frozen
class ManagerOptions:
    """How a manager runs, whatever it runs and wherever; `Manager` says what each means."""

    namespace: str
    name: str
    clock: Clock
    sync_seconds: float
    stop_seconds: float
    run_sync: RunSync
    leader_election: LeaderElection | None


class Manager:
    """Controllers that share one cluster, one cache and one life.

    `transport` is the way to the API server; without one, the kubeconfig rules of kubectl apply
    (`reconcile run` and in-cluster use), and `embedded=True` runs an API server inside this process.
    `namespace` keeps the manager to one namespace. `name` is the field manager of writes that belong
    to no controller. Names of controllers are unique in one manager.

    With `leader_election`, workers run and writes are sent only while this manager leads; until then it
    is a warm standby, with synced caches and filled queues.

    Start order: informers, first lists, leadership, workers. Stop order: no new keys, runs under way end
    (within `stop_seconds`, then they are cancelled), the Lease is released, informers.
    """

    def __init__(
        self,
        *controllers: Controller[Any],
        transport: Transport | None = None,
        embedded: bool = False,
        namespace: str = "",
        name: str = "reconcile",
        clock: Clock | None = None,
        sync_seconds: float = 120.0,
        stop_seconds: float = 30.0,
        run_sync: RunSync = in_thread,
        leader_election: LeaderElection | None = None,
    ) -> None:
        _check_names(controllers)
        if embedded and transport is not None:
            raise ValueError("embedded=True brings its own transport: give one or the other")
        self.controllers = controllers
        self.embedded = embedded
        self.options = ManagerOptions(
            namespace, name, clock or SystemClock(), sync_seconds, stop_seconds, run_sync, leader_election
        )
        self._transport = transport
        self._log: structlog.stdlib.BoundLogger = get_logger("reconcile")
        self._stopping = anyio.Event()
        self._started = anyio.Event()
        self._cache: Cache | None = None
        self._client: Client | None = None
        self._elector: LeaderElector | None = None
        self._runners: list[Runner[Any]] = []
        self._task: asyncio.Task[None] | None = None

    @property
    def client(self) -> Client:
        """Reads through the manager's cache, writes to its cluster. Raises RuntimeError before the start."""
        if self._client is None:
            raise RuntimeError("the manager has no client before it runs")
        return self._client

    @property
    def transport(self) -> Transport | None:
        """The way to the API server, once it is known: as given, or as found at the start."""
        return self._transport

    def on(self, transport: Transport, *, namespace: str | None = None) -> "Manager":
        """The same manager, not started, on that way to a server, and in that namespace if one is given."""
        other = Manager(*self.controllers, transport=transport)
        other.options = self.options if namespace is None else evolve(self.options, namespace=namespace)
        return other

    def status(self) -> ManagerStatus:
        """What every controller and every informer does now."""
        return ManagerStatus(
            server=self._transport.server if self._transport is not None else "",
            leading=self._elector is None or self._elector.is_leader,
            controllers=[runner.status() for runner in self._runners],
            informers=[informer.status() for informer in self._cache or ()],
        )

    def stop(self) -> None:
        """Ask for a clean stop; `run` returns when it is done."""
        self._stopping.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until `stop` or cancellation. Nothing outlives this call.

        Raises CacheSyncFailed if a resource cannot be followed at the start, NotAsDeclared if a kind with
        `scale=` cannot be scaled on that server, and the first error of any task otherwise,
        LeadershipLost among them. `task_status` is told when the caches are synced and, without
        leader election, the workers have started.
        """
        if self._cache is not None:
            raise RuntimeError("a manager runs once; make another one")
        if self.embedded:
            await self._run_embedded(task_status)
            return
        if self._transport is not None:
            await self._run_on(self._transport, task_status)
            return
        transport = await _connect()
        self._transport = transport
        try:
            await self._run_on(transport, task_status)
        finally:
            with anyio.CancelScope(shield=True):
                await transport.aclose()

    async def __aenter__(self) -> Self:
        """Start in a task of its own and wait until the workers run."""
        self._task = asyncio.create_task(self.run(), name=f"manager {self.options.name}")
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait((self._task, started), return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            started.cancel()
            await self._task
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._task is not None:
            with anyio.CancelScope(shield=True):  # the stop has a deadline of its own
                await self._task

    async def _run_embedded(self, task_status: TaskStatus[None]) -> None:
        from reconcile.embedded import ApiServer, InProcessTransport
        from reconcile.models import definition_of, kind_of

        server = ApiServer(clock=self.options.clock)
        transport = InProcessTransport(server)
        self._transport = transport
        client = Client(transport, field_manager=self.options.name, clock=self.options.clock)
        for kind in dict.fromkeys(kind for controller in self.controllers for kind in controller.kinds):
            served = kind_of(kind).resource
            if server.resources.get(served.group, served.version, served.plural) is None:
                await client.apply(definition_of(kind))
        async with anyio.create_task_group() as group:
            group.start_soon(server.run)
            await self._run_on(transport, task_status)
            group.cancel_scope.cancel()

    async def _run_on(self, transport: Transport, task_status: TaskStatus[None]) -> None:
        cache = Cache(transport, namespace=self.options.namespace, clock=self.options.clock)
        self._cache = cache
        if self.options.leader_election is not None:
            client = Client(transport, field_manager=self.options.name, clock=self.options.clock)
            self._elector = LeaderElector(client, self.options.leader_election)
            transport = LedTransport(transport, self._elector)
        self._client = Client(
            transport, cache=cache, field_manager=self.options.name, clock=self.options.clock
        )
        self._runners = [self._runner(controller, cache) for controller in self.controllers]
        try:
            async with anyio.create_task_group() as informers:
                for informer in cache:
                    informers.start_soon(informer.run)
                await self._run_workers(cache, task_status)
                informers.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _first(group) from None

    async def _run_workers(self, cache: Cache, task_status: TaskStatus[None]) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch_for_stop, group)
                await cache.wait_synced(self.options.sync_seconds)
                kinds = (kind for controller in self.controllers for kind in controller.kinds)
                await check_scales(self.client.transport, kinds)
                if self._elector is not None:
                    self._tell_started(task_status)
                    await self._elector.acquire()
                    group.start_soon(self._elector.hold)
                for runner in self._runners:
                    group.start_soon(runner.run)
                self._tell_started(task_status)
                self._log.info("started", controllers=[controller.name for controller in self.controllers])
        finally:
            if self._elector is not None:
                with anyio.CancelScope(shield=True):
                    await self._elector.release()

    def _tell_started(self, task_status: TaskStatus[None]) -> None:
        if not self._started.is_set():
            self._started.set()
            task_status.started()

    async def _watch_for_stop(self, group: TaskGroup) -> None:
        """On `stop`, close the queues; what still runs after the grace period is cancelled."""
        await self._stopping.wait()
        for runner in self._runners:
            runner.queue.close()
        with anyio.move_on_after(self.options.stop_seconds):
            for runner in self._runners:
                await runner.queue.join()
        group.cancel_scope.cancel()

    def _runner(self, controller: Controller[Any], cache: Cache) -> Runner[Any]:
        client = self.client
        recorder = Recorder(
            Client(client.transport, field_manager=controller.name, clock=self.options.clock), controller.name
        )
        log = get_logger(f"reconcile.{controller.name}").bind(controller=controller.name)
        return Runner(controller, Passes(controller, client, recorder, log, self.options.run_sync), cache)


def _check_names(controllers: Sequence[Controller[Any]]) -> None:
    names = [controller.name for controller in controllers]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two controllers are named {name!r}: give one of them another name=")


async def _connect() -> Transport:
    from informers.kubernetes import connect

    return await connect()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a caller wants to see, out of the groups that task groups wrap it in."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
