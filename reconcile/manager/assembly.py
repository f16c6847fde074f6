"""Builds what a manager runs: for each cluster a cache, a client and runners, and the elector of them all."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from attrs import evolve

from informers import APIResource, Cache, Informer, ReachTransport, SystemClock, Transport, get_logger
from informers.informer_share import Share
from informers.informer_tap import InformerTap
from reconcile.client.buckets import Buckets
from reconcile.client.certainty import Certainty, LedTransport
from reconcile.client.client import Client
from reconcile.client.guarded_writes import HeldTransport
from reconcile.client.redaction import redact_event
from reconcile.client.request_limiter import RequestLimiter
from reconcile.controller.blocking import Blocking, InStep, Threads
from reconcile.controller.declaration import DEFAULT_TIMEOUT, DEFAULT_WORKERS, Controller
from reconcile.controller.event_recorder import recorder_of
from reconcile.controller.held_buckets import HeldBuckets
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.run_ends import RunEnds
from reconcile.controller.run_history import ControllerMetrics, RunHistory
from reconcile.controller.runner import Runner
from reconcile.controller.takeover_selection import takeover_selection
from reconcile.manager.managed_clusters import ClusterSet, ManagedCluster, works_in
from reconcile.manager.option_list import (
    ManagerOptions,
    followed_namespaces,
    for_controller,
    lease_terms,
    refuses_undeclared,
)
from reconcile.manager.runner_set import RunnerSet
from reconcile.models import Object, kind_of

if TYPE_CHECKING:
    from reconcile.controller.service_levels import ServiceLevels
    from reconcile.manager.definition_keeping import DefinitionKeeper
    from reconcile.manager.leadership import LeaderElector
    from reconcile.manager.predecessor_check import PredecessorCheck
    from reconcile.manager.sharded_replica import ShardedReplica
    from reconcile.ops.metrics import Metrics
    from reconcile.ops.tracing import Traces
    from reconcile.recording.run_recorder import RunRecorder
    from reconcile.sharding.options import Sharding


class Assembly:
    """The clusters of one manager, complete with clients and runners, and its elector if it has one."""

    _executors: type[RunExecutor[Any]] = RunExecutor
    """What executes runs; the test kit has its own, in which runs wait for a schedule."""

    def __init__(
        self,
        options: ManagerOptions,
        controllers: Sequence[Controller[Any]],
        transports: Mapping[str, Transport],
        log: structlog.stdlib.BoundLogger,
        metrics: "Metrics | None" = None,
        traces: "Traces | None" = None,
    ) -> None:
        self._options = options
        self._controllers = controllers
        self._metrics = metrics
        self._traces = traces
        self._blocking = blocking_code(options)
        if metrics is not None:
            transports = {name: metrics.metered(transport) for name, transport in transports.items()}
        self._transports = transports
        self._sharding = sharding_of(options)
        self._certainty = Certainty(options["clock"])
        buckets = Buckets() if self._sharding is None else Buckets(self._sharding.buckets)
        self._held = HeldBuckets(buckets, certainty=self._certainty)
        self._leading = HeldBuckets(buckets, only=buckets.count, certainty=self._certainty)
        self.replica: ShardedReplica | None = None
        self._recording = run_recorder_of(options, controllers, tuple(transports), log, self._sharding)
        caches = {
            name: cache_of(options, transport, name, self._share, self._taps(name))
            for name, transport in transports.items()
        }
        # The Lease is in the first cluster, and so are the Service and the certificates of webhooks.
        self._first = next(iter(caches))
        self.elector = self._elector(transports[self._first], caches[self._first])
        members = [self._cluster(name, transports[name], cache) for name, cache in caches.items()]
        self.clusters = ClusterSet(members, log)
        if self._sharding is not None:
            from reconcile.manager.sharded_replica import replica_of

            transport = transports[members[0].name]
            held = self._held, self._leading
            self.replica = replica_of(
                options,
                self._sharding,
                controllers,
                members[0],
                transport,
                held,
                self._certainty,
                metrics,
                None if self._recording is None else self._recording.buckets,
            )

    def close(self) -> None:
        """End what was opened here: the recording, if there is one."""
        if self._recording is not None:
            self._recording.file.close()

    def note_leading(self) -> None:
        """Have a recording say that this manager leads from now on."""
        if self._recording is not None and self.elector is not None:
            self._recording.note(f"leads, epoch {self.elector.epoch}")

    def _taps(self, cluster: str) -> Callable[[Informer], InformerTap] | None:
        return None if self._recording is None else partial(self._recording.tap, cluster)

    def _elector(self, transport: Transport, cache: Cache) -> "LeaderElector | None":
        election = self._options["leader_election"]
        if election is None:
            return None
        from reconcile.manager.leadership import LeaderElector

        # Not paced: an elector keeps its own pace, also after an outage, or the Lease would run out.
        transport = ReachTransport(transport, cache.reach, paced=False)
        client = Client(transport, field_manager=self._options["name"], clock=self._options["clock"])
        return LeaderElector(client, election, lease_terms(self._options))

    def unguarded(self) -> Client:
        """A client of the cluster with the Lease whose writes nothing guards."""
        cluster = self.clusters.of(self._first)
        transport = ReachTransport(self._transports[self._first], cluster.cache.reach)
        return Client(transport, field_manager=self._options["name"], clock=self._options["clock"])

    def _share(self, resource: APIResource) -> Share | None:
        return None if self.replica is None else self.replica.work.initial_share(resource)

    def _held_by(self, controller: Controller[Any]) -> HeldBuckets | None:
        if self._sharding is None:
            return None
        return self._held if controller.sharded else self._leading

    def _cluster(self, name: str, transport: Transport, cache: Cache) -> ManagedCluster:
        options = self._options
        through, clock = self._transport_of_runs(transport, cache), options["clock"]
        recorder = self._recording
        if recorder is not None:
            through, clock = recorder.transport(name, through), recorder.clock(clock)
        client = Client(
            through,
            cache=cache,
            field_manager=options["name"],
            clock=clock,
            dry_run=options["dry_run"],
            limiter=request_limiter(options),
        )
        runners = RunnerSet(cache, partial(self._runner, name, client, cache), options["sync_seconds"])
        # Predecessors are frozen before a replica holds any bucket, and a standby needs the versions of its
        # classes before there is a leader.
        unguarded = ReachTransport(transport, cache.reach)
        check = partial(self._predecessor_check, client, unguarded)
        keeper = self._definition_keeper(name, unguarded, client)
        freezes = options["freeze_predecessor"]
        return ManagedCluster(name, cache, client, runners, options["sync_seconds"], keeper, check, freezes)

    def _predecessor_check(self, client: Client, transport: Transport) -> "PredecessorCheck | None":
        from reconcile.manager.predecessor_check import predecessor_check_of

        return predecessor_check_of(self._options, client, self._controllers, transport)

    def _definition_keeper(
        self, cluster: str, transport: Transport, client: Client
    ) -> "DefinitionKeeper | None":
        options = self._options
        if options["definitions"] == "check" or options["dry_run"]:
            return None
        from reconcile.manager.definition_keeping import definition_keeper_of

        controllers = [one for one in self._controllers if works_in(one, cluster)]
        service = options["webhook_service"] if cluster == self._first else ""
        return definition_keeper_of(options, transport, client, controllers, service, self._metrics)

    def _transport_of_runs(self, transport: Transport, cache: Cache) -> Transport:
        """What the requests of runs pass: paced after outages, guarded by leadership, traced, or shadowed."""
        transport = ReachTransport(transport, cache.reach)
        if self.elector is not None:
            transport = LedTransport(transport, self.elector.certainty)
        if self._sharding is not None:
            transport = HeldTransport(LedTransport(transport, self._certainty))
        if self._traces is not None:
            transport = self._traces.traced(transport)
        if not self._options["dry_run"]:
            return transport
        from reconcile.manager.shadow import ShadowTransport

        return ShadowTransport(transport, self._options["clock"])

    def _runner(self, cluster: str, client: Client, cache: Cache, controller: Controller[Any]) -> Runner[Any]:
        options, name = self._options, controller.name
        log = get_logger(f"reconcile.{name}", redact_event).bind(controller=name)
        if (kind := controller.resource.kind).lower() != name:
            log = log.bind(kind=kind)  # else the name says it
        workers = for_controller(options["workers"], name, controller.workers, DEFAULT_WORKERS)
        timeout = for_controller(options["timeout"], name, controller.timeout, DEFAULT_TIMEOUT)
        label = f"{cluster}/{name}" if cluster else name
        metrics = None if self._metrics is None else self._metrics.controller(label, workers)
        writer, blocking = client, self._blocking
        if self._recording is not None:
            writer, blocking = self._recording.unrecorded(client), self._recording.blocking(blocking)
        executor = self._executors(
            controller,
            client,
            recorder_of(controller, writer),
            log,
            blocking,
            timeout,
            client_of=(lambda other: self.clusters.of(other).client) if cluster else None,
            on_wait=None if metrics is None else metrics.caught_up,
            debug=options["debug"],
            undeclared="refuse" if refuses_undeclared(options) else "warn",
            selection=takeover_selection(options["selector"], self._controllers),
            held=self._held_by(controller),
            epoch_of=lambda: 0 if self.elector is None else self.elector.epoch,
            observer=None if self._recording is None else self._recording.observer(cluster, name),
        )
        return Runner(
            executor,
            cache.reach,
            history=self._history(executor, label, metrics),
            workers=workers,
            cluster=cluster,
            elsewhere=self.clusters.enqueue if cluster else None,
            all_reaches=lambda: self.clusters.reaches(),
        )

    def _history(
        self, executor: RunExecutor[Any], label: str, metrics: ControllerMetrics | None
    ) -> RunHistory:
        # A method of its own, which the test kit overrides to record each run.
        traces = None if self._traces is None else self._traces.controller(label)
        levels = None if metrics is None else service_levels(metrics)
        if not self._options["serve"]:
            return RunHistory(metrics, traces, levels=levels)
        from reconcile.controller.write_details import WriteDetails

        # Only pages show them.
        return RunHistory(metrics, traces, WriteDetails(), RunEnds(), levels)


def service_levels(metrics: ControllerMetrics) -> "ServiceLevels":
    """What measures the service levels of a controller; loaded only where there are metrics."""
    from reconcile.controller.service_levels import ServiceLevels

    return ServiceLevels(metrics)


def run_recorder_of(
    options: ManagerOptions,
    controllers: Sequence[Controller[Any]],
    clusters: Sequence[str],
    log: structlog.stdlib.BoundLogger,
    sharding: "Sharding | None" = None,
) -> "RunRecorder | None":
    """What records the runs of a manager; its module is loaded only where there is a recording."""
    if not options["record"]:
        return None
    from reconcile.recording.recording_start import open_recorder

    limits = {
        controller.name: for_controller(
            options["timeout"], controller.name, controller.timeout, DEFAULT_TIMEOUT
        )
        for controller in controllers
    }
    needed = {
        "clusters": list(clusters),
        "controllers": [controller.name for controller in controllers],
        "debug": options["debug"],
        "dry_run": options["dry_run"],
        "name": options["name"],
        "namespaces": list(followed_namespaces(options)),
        "selector": options["selector"],
        "timeout": limits,
        "undeclared": "refuse" if refuses_undeclared(options) else "warn",
    }
    if sharding is not None:
        needed["sharding"] = _shares(sharding, controllers)
    return open_recorder(options["record"], options["record_mb"], options["clock"], controllers, needed, log)


def _shares(sharding: "Sharding", controllers: Sequence[Controller[Any]]) -> Mapping[str, Any]:
    """What replay needs to know of a ring, and whose recording it is."""
    from reconcile.recording.recorded_events import resource_text
    from reconcile.sharding.shared_kinds import shared_kinds

    shared = {resource_text(resource): how.value for resource, how in shared_kinds(controllers).items()}
    return {
        "ring": sharding.place,
        "identity": sharding.identity,
        "buckets": sharding.buckets,
        "shared": shared,
    }


def sharding_of(options: ManagerOptions) -> "Sharding | None":
    """The ring of the manager, with its identity in it."""
    given = options["sharding"]
    if given is None:
        return None
    return evolve(given, canary=options["canary"] or given.canary).identified(options["clock"])


def cache_of(
    options: ManagerOptions,
    transport: Transport,
    cluster: str = "",
    shares: Callable[[APIResource], Share | None] | None = None,
    taps: Callable[[Informer], InformerTap] | None = None,
) -> Cache:
    kinds = {kind: kept for kind, kept in options["informers"].items() if kind is not Object}
    return Cache(
        transport,
        namespaces=followed_namespaces(options),
        defaults=options["informers"].get(Object),
        options={kind_of(kind).resource: kept for kind, kept in kinds.items()},
        clock=options["clock"],
        log=get_logger("informers").bind(cluster=cluster) if cluster else None,
        shares=shares,
        taps=taps,
    )


def request_limiter(options: ManagerOptions) -> RequestLimiter | None:
    """The given limiter, or a new one by `client_qps`; None for no limit."""
    if options["limiter"] is not None or not options["client_qps"]:
        return options["limiter"]
    return RequestLimiter(options["client_qps"], options["client_burst"])


def blocking_code(options: ManagerOptions) -> Blocking:
    """In threads, or in step with the event loop where the clock is a test's."""
    if options["blocking"] is not None:
        return options["blocking"]
    return Threads(options["threads"]) if isinstance(options["clock"], SystemClock) else InStep()
