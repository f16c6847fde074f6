"""Runs controllers: connects them to a cluster, starts and stops everything in order."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from logging import INFO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from attrs import evolve

from informers import Cache, Clock, InformerOptions, SystemClock, Transport, get_logger
from reconcile.client.client import Client
from reconcile.client.limits import RateLimiter
from reconcile.client.redaction import redact_event
from reconcile.controller.blocking import THREADS, Blocking
from reconcile.controller.declaration import DEFAULT_TIMEOUT, DEFAULT_WORKERS, Controller
from reconcile.controller.declared_writes import Undeclared
from reconcile.controller.event_recorder import recorder_of
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.runner import Runner
from reconcile.controller.takeover_selection import takeover_selection
from reconcile.manager.connection import connected, define, elector_on, way_of_runs
from reconcile.manager.leadership import LeaderElection, LeaderElector
from reconcile.manager.managed_clusters import ClusterSet, ManagedCluster
from reconcile.manager.option_list import (
    CLIENT_BURST,
    CLIENT_QPS,
    ByController,
    ConfigurationError,
    ManagerOptions,
    ReadyWhen,
    ServeMetrics,
    check_clusters,
    check_controllers,
    check_reach,
    check_serving,
    configured,
    from_environment,
    of_controller,
    shown,
)
from reconcile.manager.predecessor_check import NO_TAKEOVER, TakeoverPolicy, predecessor_check
from reconcile.manager.runner_set import RunnerSet
from reconcile.manager.service import Service
from reconcile.manager.unique_names import check_apart
from reconcile.models import Object
from reconcile.ops.access_reviews import AccessReviewer
from reconcile.ops.debug_actions import DebugActions
from reconcile.ops.debug_state import state_of
from reconcile.ops.health_checks import Check, ping
from reconcile.ops.manager_status import ManagerStatus
from reconcile.ops.page_server import Address, PageSources, parse_address, serving
from reconcile.ops.watchdog import Watchdog, log_stall
from reconcile.runs.supervision import first_error, noted

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from reconcile.embedded import ApiServer
    from reconcile.ops.metrics import Metrics
    from reconcile.ops.tracing import Traces

_NOTHING: Mapping[Any, Any] = {}


class Manager(Service):
    """Controllers that share one cluster, one cache and one life.

    `transport` is the way to the API server; without one, the kubeconfig rules of kubectl apply
    (`reconcile run` and in-cluster use), and `embedded=True` runs an API server inside this process.
    `clusters` are several, by names of your own: each a transport, or a context of the kubeconfig. Each
    has a cache and a client of its own (`client_of`), and keys carry its name; one that cannot be read
    does not hold up the others. The first has the Lease, and is what `client` is for.
    `namespace` keeps the manager to one namespace, `namespaces` to these, and then it needs Roles alone:
    kinds without namespaces and watches `everywhere` are refused. `name` is the field manager of writes
    that belong to no controller. Names of controllers are unique (else ValueError).

    With `leader_election`, workers run and writes are sent only while this manager leads; until then it
    is a warm standby, with synced caches and filled queues.

    `serve` is an address (`127.0.0.1:8080`, `:8080`) for `/healthz`, `/readyz`, `/metrics` and
    `/debug/state`, which answer from before the first lists until the very end. `/readyz` says yes when
    the process is up, or, by `ready_when`, when caches are synced, or when it also leads. With
    `serve_certificates`, a folder with `tls.crt` and `tls.key`, over TLS; they are taken anew when they
    change. With `serve_review` the API server says who may get `/metrics` and `/debug`, by token; else
    `/debug` is for this machine, and so is `/metrics` with `serve_metrics="local"`. `liveness` and
    `readiness` are further checks, by name: functions that raise if something is not well. With `metrics`,
    a prometheus-client registry, or with `serve` and a registry of its own, metrics are collected. With
    `traces`, an OpenTelemetry tracer provider, each run is a span and its requests are children.

    `client_qps` requests a second (0: any number), `client_burst` of them at once, may all controllers
    together make; a `limiter` in its place does the same for several managers. It slows down nothing else:
    not informers, not events, not the Lease.

    `workers` and `timeout` (seconds) are for controllers that do not say their own; as mappings they give
    them by controller, and go before what it says. At most `threads` blocking calls run at a time;
    `blocking` says where, by default in threads, and in step with the event loop under a test's clock.
    With `debug` each run is rehearsed, and fails where its desired state differs (`NondeterministicRun`).
    `takeover` is for clusters that others work on: what it keeps, whether it writes, whom it replaces.
    `informers` says what of a kind is followed and kept in memory; `Object` stands for all others.
    `undeclared` writes are refused or logged; if it is not said, refused where the clock is a test's.

    Options that text can say are overridden by `RECONCILE_*` variables of `environ` (default: the
    process's) when it starts; `reconcile.configuration` has the table.

    Start order: informers, first lists, leadership, workers. Stop order: no new keys, runs under way end
    (within `stop_seconds`, then they are cancelled), the Lease is released, informers.
    """

    def __init__(
        self,
        *controllers: Controller[Any],
        transport: Transport | None = None,
        clusters: Mapping[str, Transport | str] = _NOTHING,
        embedded: bool = False,
        namespace: str = "",
        namespaces: Iterable[str] = (),
        name: str = "reconcile",
        clock: Clock | None = None,
        sync_seconds: float = 120.0,
        stop_seconds: float = 30.0,
        blocking: Blocking | None = None,
        leader_election: LeaderElection | None = None,
        serve: str = "",
        serve_certificates: str = "",
        serve_review: bool = False,
        serve_metrics: ServeMetrics = "all",
        ready_when: ReadyWhen = "up",
        liveness: Mapping[str, Check] = _NOTHING,
        readiness: Mapping[str, Check] = _NOTHING,
        metrics: "CollectorRegistry | None" = None,
        traces: "TracerProvider | None" = None,
        limiter: RateLimiter | None = None,
        client_qps: float = CLIENT_QPS,
        client_burst: int = CLIENT_BURST,
        workers: ByController[int] = DEFAULT_WORKERS,
        timeout: ByController[float] = DEFAULT_TIMEOUT,
        threads: int = THREADS,
        debug: bool = False,
        takeover: TakeoverPolicy = NO_TAKEOVER,
        undeclared: Undeclared | None = None,
        informers: Mapping[type[Object], InformerOptions] = _NOTHING,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        check_apart(controllers)
        if bool(embedded) + bool(clusters) + (transport is not None) > 1:
            raise ValueError("give one of transport=, clusters= and embedded=True: where to run")
        self.controllers = controllers
        self.options = ManagerOptions(
            namespace=namespace,
            namespaces=namespaces,
            name=name,
            clock=clock or SystemClock(),
            sync_seconds=sync_seconds,
            stop_seconds=stop_seconds,
            limiter=limiter,
            client_qps=client_qps,
            client_burst=client_burst,
            workers=workers,
            timeout=timeout,
            threads=threads,
            debug=debug,
            takeover=takeover,
            undeclared=undeclared,
            informers=informers,
            blocking=blocking,
            leader_election=leader_election,
            embedded=embedded,
            clusters=check_clusters(clusters),
            serve=serve,
            serve_certificates=serve_certificates,
            serve_review=serve_review,
            serve_metrics=serve_metrics,
            ready_when=ready_when,
            liveness=liveness,
            readiness=readiness,
            metrics=metrics,
            traces=traces,
        )
        self._environ = environ
        self._configured = False
        self._metrics: Metrics | None = None
        self._traces: Traces | None = None
        self._address: Address | None = None
        self._transport = transport
        self._clusters: ClusterSet | None = None
        self._elector: LeaderElector | None = None
        self._watchdog: Watchdog | None = None
        self._server: ApiServer | None = None

    @property
    def client(self) -> Client:
        """Reads through the manager's cache, writes to its cluster. Raises RuntimeError before the start."""
        if self._clusters is None:
            raise RuntimeError("the manager has no client before it runs")
        return self._clusters.members[0].client

    def client_of(self, cluster: str) -> Client:
        """The same for one of several clusters. Raises LookupError, and RuntimeError before the start."""
        return self._running.of(cluster).client

    @property
    def embedded(self) -> bool:
        """Whether it runs on an API server inside this process."""
        return self.options.embedded

    @property
    def address(self) -> str:
        """Where it serves now, with the port that was found for 0; empty where it does not."""
        return "" if self._address is None else str(self._address)

    @property
    def transport(self) -> Transport | None:
        """The way to the API server, once it is known: as given, or as found at the start."""
        return self._transport

    def on(self, transport: Transport, *, namespace: str | None = None) -> "Manager":
        """The same manager, not started, on that way to a server, and in that namespace if one is given."""
        other = Manager(*self.controllers, transport=transport, environ=self._environ)
        other.options = evolve(self.options, embedded=False, clusters={})
        if namespace is not None:
            other.options = evolve(other.options, namespace=namespace, namespaces=())
        other._configured = self._configured
        return other

    def configure(self, flags: Mapping[str, Any] = _NOTHING) -> None:
        """Override options by the environment, and then by `flags`; `run` does it if nobody has.

        Raises ConfigurationError for a variable that is no option, or whose value is none.
        """
        environ = os.environ if self._environ is None else self._environ
        options = configured(self.options, {**from_environment(environ), **flags})
        check_controllers(options, self.controllers)
        check_serving(options)
        if options.embedded and self._transport is not None:
            raise ConfigurationError("an embedded server is asked for, but the manager brings its transport")
        if options.clusters and (options.embedded or self._transport is not None):
            raise ConfigurationError("clusters are asked for, but the manager runs on another server")
        self.options = options
        self._configured = True

    def status(self) -> ManagerStatus:
        """What every controller and every informer does now."""
        return ManagerStatus(
            server=self._transport.server if self._transport is not None else "",
            clusters=[cluster.status() for cluster in self._clusters or ()],
            leading=self.options.leader_election is None
            or (self._elector is not None and self._elector.is_leader),
            leader="" if self._elector is None else self._elector.leader,
            controllers=[runner.status() for runner in self._runners],
            informers=[status for cluster in self._clusters or () for status in cluster.informers()],
        )

    def state(self) -> Mapping[str, Any]:
        """What `/debug/state` says: queues with causes, runs, errors, informers; only what JSON has."""
        return state_of(self.status(), self._runners, anyio.current_time())

    async def add(self, controller: Controller[Any]) -> None:
        """Take in one more controller; returns when its caches are synced and it works, or will when leading.

        Before the start it is only noted. Raises ValueError where its name is taken, CacheSyncFailed,
        DefinitionMismatch, and RuntimeError where the manager stops: what is added either runs and is
        awaited, or is refused.
        """
        if self._clusters is None:
            check_apart((*self.controllers, controller))
            self.controllers = (*self.controllers, controller)
            return
        check_reach(self.options, [controller])
        if self._server is not None:
            await define(self._server, self.client, controller.kinds)
        await self._clusters.add(controller)

    async def remove(self, name: str) -> None:
        """Let a controller go: its runs end (within `stop_seconds`, then they are cancelled).

        What only it read is followed no longer. Raises LookupError for a name that no controller has.
        """
        await self._running.remove(name, self.options.stop_seconds)

    def pause(self, name: str) -> None:
        """Let a controller begin no runs until `resume`; its keys are collected. Raises LookupError."""
        for runner in self._running.named(name):
            runner.pause()

    def resume(self, name: str) -> None:
        """Undo `pause`. Raises LookupError."""
        for runner in self._running.named(name):
            runner.resume()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until `stop` or cancellation. Nothing outlives this call. A second one raises RuntimeError.

        Raises ConfigurationError for a wrong `RECONCILE_` variable, ServeError if its port cannot be had,
        CacheSyncFailed if a resource cannot be followed at the start, DefinitionMismatch if a kind with
        `scale=` cannot be scaled on that server, PredecessorActive (see `TakeoverPolicy`), and the first
        error of any task otherwise, LeadershipLost among them; Interrupted where other code cancelled one
        of its tasks. The log has each of them. `task_status` is told when the caches are synced and, without
        leader election, the workers have started.
        """
        if self._clusters is not None:
            raise RuntimeError("a manager runs once; make another one")
        with self._living():
            if not self._configured:
                self.configure()
            if self._log.isEnabledFor(INFO):
                self._log.info("configuration", **shown(self.options))
            if not self.options.serve and self.options.metrics is None:
                await self._run(task_status)
                return
            async with self._observed():
                await self._run(task_status)

    async def _run(self, task_status: TaskStatus[None]) -> None:
        if self.embedded:
            await self._run_embedded(task_status)
            return
        if self._transport is not None:
            await self._run_on({"": self._transport}, task_status)
            return
        async with AsyncExitStack() as connections:
            transports: dict[str, Transport] = {}
            for name, way in (self.options.clusters or {"": ""}).items():
                transports[name] = await connected(way, connections) if isinstance(way, str) else way
            self._transport = next(iter(transports.values()))
            await self._run_on(transports, task_status)

    @asynccontextmanager
    async def _observed(self) -> AsyncIterator[None]:
        """Collect metrics and serve pages, as far as that is wanted, around everything else."""
        options = self.options
        from reconcile.ops.metrics import Metrics

        lease = "" if options.leader_election is None else options.leader_election.name
        self._metrics = metrics = Metrics(self.status, registry=options.metrics, lease=lease)
        try:
            if not options.serve:
                yield
                return
            liveness = {"ping": ping, "event-loop": ping, **options.liveness}
            reviewer = AccessReviewer(lambda: self._transport) if options.serve_review else None
            actions = DebugActions(lambda: self._runners)
            local, ready = options.serve_metrics == "local", self._readiness()
            pages = PageSources(
                liveness, ready, metrics.text, self.state, actions, reviewer, local, self._held
            )
            certificates = Path(options.serve_certificates) if options.serve_certificates else None
            address = parse_address(options.serve)
            async with serving(address, pages, certificates, metrics.certificate_read) as self._address:
                yield
        finally:
            self._address = None
            metrics.close()

    def _readiness(self) -> Mapping[str, Check]:
        checks: dict[str, Check] = {"ping": ping}
        if self.options.ready_when != "up":
            checks["caches"] = self._check_caches
        if self.options.ready_when == "leading":
            checks["leader"] = self._check_leader
        return {**checks, **self.options.readiness}

    def _held(self) -> float:
        return 0.0 if self._watchdog is None else self._watchdog.held

    def _check_caches(self) -> None:
        if self._clusters is None:
            raise RuntimeError("not connected yet")
        informers = [informer for cluster in self._clusters for informer in cluster.cache]
        behind = [str(informer.resource) for informer in informers if not informer.synced]
        if behind:
            raise RuntimeError(f"no first list of {', '.join(behind)} yet")

    def _check_leader(self) -> None:
        if not self._started.is_set() or (self._elector is not None and not self._elector.is_leader):
            raise RuntimeError("another manager leads, or none")

    async def _run_embedded(self, task_status: TaskStatus[None]) -> None:
        from reconcile.embedded import ApiServer, InProcessTransport

        server = ApiServer(clock=self.options.clock)
        self._transport = transport = InProcessTransport(server)
        self._server = server
        client = Client(transport, field_manager=self.options.name, clock=self.options.clock)
        await define(server, client, [kind for controller in self.controllers for kind in controller.kinds])
        async with anyio.create_task_group() as group:
            group.start_soon(server.run)
            await self._run_on({"": transport}, task_status)
            group.cancel_scope.cancel()

    async def _run_on(self, transports: Mapping[str, Transport], task_status: TaskStatus[None]) -> None:
        self._blocking = self.options.blocking_code()
        if self.options.traces is not None:
            from reconcile.ops.tracing import Traces

            self._traces = Traces(self.options.traces)
        clusters = self._clusters = ClusterSet([self._cluster(*way) for way in transports.items()], self._log)
        try:
            for controller in self.controllers:
                clusters.declare(controller)
            with self._watched(clusters):
                async with anyio.create_task_group() as informers:
                    if self._metrics is not None:
                        informers.start_soon(self._metrics.watch_loop)
                    for cluster in clusters:
                        cluster.cache.start(informers)
                    await self._run_workers(clusters, task_status)
                    informers.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_error(group, self._log) from None
        finally:
            clusters.end()

    def _cluster(self, name: str, transport: Transport) -> ManagedCluster:
        """One of them; the Lease is in the first."""
        options = self.options
        if self._metrics is not None:
            transport = self._metrics.metered(transport)
        cache = options.cache_of(transport)
        cache.reach.log = cache.reach.log.bind(cluster=name) if name else cache.reach.log
        if options.leader_election is not None and self._elector is None:
            self._elector = elector_on(transport, cache.reach, options)
        transport = way_of_runs(transport, cache.reach, options, self._elector, self._traces)
        client = Client(
            transport,
            cache=cache,
            field_manager=options.name,
            clock=options.clock,
            dry_run=options.takeover.dry_run,
            limiter=options.request_limiter(),
        )
        runners = RunnerSet(cache, partial(self._runner, name, client, cache), options.sync_seconds)
        check = predecessor_check(options.takeover, client, self.controllers)
        return ManagedCluster(name, cache, client, runners, options.sync_seconds, check)

    def _watched(self, clusters: ClusterSet) -> AbstractContextManager[object]:
        """Report what holds the event loop; not where the clock is a test's: time may be virtual there."""
        if not isinstance(self.options.clock, SystemClock):
            return nullcontext()
        self._watchdog = Watchdog(log_stall(self._log), clusters.key_of)
        return self._watchdog.watching()

    async def _run_workers(self, clusters: ClusterSet, task_status: TaskStatus[None]) -> None:
        try:
            async with anyio.create_task_group() as group:
                self._when_stopped(partial(group.start_soon, self._end_work, clusters, group))
                await clusters.sync(group)
                if self._elector is not None:
                    self._tell_started(task_status)
                    await self._elector.acquire()
                    group.start_soon(noted, self._elector.hold, "leader election")
                await clusters.look()
                clusters.start(group)
                self._tell_started(task_status)
                self._log.info("started", controllers=[controller.name for controller in self.controllers])
                await self._stopping.wait()
        finally:
            self._when_stopped(None)
            if self._elector is not None:
                with anyio.CancelScope(shield=True):
                    await self._elector.release()

    async def _end_work(self, clusters: ClusterSet, group: TaskGroup) -> None:
        """Close the queues; what still runs after the grace period is cancelled."""
        await clusters.stop(self.options.stop_seconds)
        group.cancel_scope.cancel()

    @property
    def _runners(self) -> Sequence[Runner[Any]]:
        return [] if self._clusters is None else self._clusters.runners

    @property
    def _running(self) -> ClusterSet:
        if self._clusters is None:
            raise RuntimeError("the manager does not run")
        return self._clusters

    def _runner(self, cluster: str, client: Client, cache: Cache, controller: Controller[Any]) -> Runner[Any]:
        options, name = self.options, controller.name
        recorder = recorder_of(controller, client)
        log = get_logger(f"reconcile.{name}", redact_event).bind(controller=name)
        workers = of_controller(options.workers, name, controller.workers) or DEFAULT_WORKERS
        timeout = of_controller(options.timeout, name, controller.timeout) or DEFAULT_TIMEOUT
        shown_name = f"{cluster}/{name}" if cluster else name
        metrics = None if self._metrics is None else self._metrics.controller(shown_name, workers)
        traces = None if self._traces is None else self._traces.controller(shown_name)
        client_of = self.client_of if cluster else None
        executor = RunExecutor(controller, client, recorder, log, self._blocking, timeout, client_of)
        elsewhere = self._running.enqueue if cluster else None
        executor.declarations.refuse = options.refuses_undeclared
        executor.debug = options.debug
        executor.selection = takeover_selection(options.takeover.selector, self.controllers)
        reaches = self._running.reaches
        return Runner(controller, executor, cache, metrics, traces, workers, cluster, elsewhere, reaches)
