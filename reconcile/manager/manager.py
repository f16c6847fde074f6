"""Runs controllers: connects them to clusters, starts and stops everything in order."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from logging import INFO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio
from anyio.abc import TaskGroup, TaskStatus

from informers import SystemClock, Transport
from informers.extras import extras_named
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.controller.run_history import RunHistory
from reconcile.controller.runner import Runner
from reconcile.manager.assembly import Assembly
from reconcile.manager.ending_namespace import LET_GO_SECONDS, held_in, home_of, let_go
from reconcile.manager.event_loops import OtherLoops
from reconcile.manager.interpreter import collects_in_increments
from reconcile.manager.lifecycle import Lifecycle
from reconcile.manager.managed_clusters import ClusterSet
from reconcile.manager.option_checks import check_options, check_reach, check_server, check_unique_names
from reconcile.manager.option_list import (
    ManagerOptions,
    complete_options,
    followed_namespaces,
    from_environment,
    overridden,
    shown,
)
from reconcile.manager.transports import open_transports, serve_embedded
from reconcile.manager.webhook_serving import ServedWebhooks, routes_of, warn_unserved, webhooks_served
from reconcile.ops.health_checks import Check, ping
from reconcile.ops.serving_addresses import Address, parse_address
from reconcile.ops.watchdog import Watchdog, log_stall
from reconcile.runs.run_request import Cause, Named, Request
from reconcile.runs.supervision import noted, without_groups

if TYPE_CHECKING:
    from reconcile.manager.sharded_replica import ShardedReplica
    from reconcile.ops.manager_status import ManagerStatus
    from reconcile.ops.metrics import Metrics
    from reconcile.ops.page_routes import PageSources

_NO_FLAGS: ManagerOptions = {}


class Manager(Lifecycle):
    """Runs controllers on one cluster, or on several, with shared caches, from a start to a stop.

    The options are those of `ManagerOptions`, which the page Configuration explains; `RECONCILE_*` variables
    of `environ` (default: the process's) override text options at the start. Names of controllers, field
    managers and finalizers are unique (else ValueError).

    `transport` leads to the API server; without one, kubectl's rules for kubeconfigs apply (`reconcile run`
    and in-cluster use), and `embedded=True` runs an API server in this process. `clusters` are several, by
    names of your own: each a transport or a context of the kubeconfig, with a cache, a client (`client_of`)
    and runs of its own. Keys carry the cluster's name, and one that cannot be read does not hold up the
    others. The first has the Lease, and is that of `client`.

    With `loops`, so many event loops share the objects in this process. Pages, `status`, `runs` and `client`
    are those of the first; the others have pages on the ports that follow.

    With `leader_election`, workers run and writes are sent only while this manager leads; until then it is a
    warm standby, with synced caches and filled queues. `serve` is an address for `/healthz`, `/readyz`,
    `/metrics` and `/debug`, which answer from before the first lists until the very end.

    Start order: informers, first lists, leadership, workers. Stop order: no new keys, runs in progress end
    (cancelled after `stop_seconds`), the Lease is released, informers.

    Raises TypeError for an unknown option, and ConfigurationError for a value that an option does not take.
    """

    def __init__(
        self,
        *controllers: Controller[Any],
        environ: Mapping[str, str] | None = None,
        **options: Unpack[ManagerOptions],
    ) -> None:
        super().__init__()
        check_unique_names(controllers)
        self.controllers = controllers
        self.options = complete_options(options)
        check_server(self.options)
        self._environ = environ
        self._configured = False
        self._transport = self.options["transport"]
        self._metrics: Metrics | None = None
        self._address: Address | None = None
        self._webhooks = ServedWebhooks()
        self._assembly: Assembly | None = None
        self._watchdog: Watchdog | None = None
        self._loops: OtherLoops[Manager] = OtherLoops()

    @property
    def client(self) -> Client:
        """Reads through the manager's cache, writes to its cluster. Raises RuntimeError before the start."""
        if self._assembly is None:
            raise RuntimeError("the manager has no client before it runs")
        return self._assembly.clusters.members[0].client

    def client_of(self, cluster: str) -> Client:
        """The client of one of several clusters. Raises LookupError, and RuntimeError before the start."""
        return self._clusters.of(cluster).client

    @property
    def embedded(self) -> bool:
        """Whether it runs on an API server inside this process."""
        return self.options["embedded"]

    @property
    def namespaces(self) -> Sequence[str]:
        """The namespaces that it works in; empty for all."""
        return followed_namespaces(self.options)

    @property
    def address(self) -> str:
        """Where it serves now, with the port that was chosen for 0; empty where it does not."""
        return "" if self._address is None else str(self._address)

    @property
    def webhook_address(self) -> str:
        """Where it serves webhooks now, as `address`."""
        return self._webhooks.address

    @property
    def transport(self) -> Transport | None:
        """Leads to the API server: as given, or as opened at the start; None before that."""
        return self._transport

    def on(self, transport: Transport, /, **options: Unpack[ManagerOptions]) -> "Manager":
        """The same manager, not started, on that transport and with those options changed."""
        changes: ManagerOptions = {"embedded": False, "clusters": {}, **options, "transport": transport}
        # Variables must not override `options` a second time.
        environ = {} if self._configured else self._environ
        return Manager(*self.controllers, environ=environ, **overridden(self.options, changes))

    def configure(self, flags: ManagerOptions = _NO_FLAGS) -> None:
        """Override options by the environment, and then by `flags`; `run` calls it if it was not called.

        Raises ConfigurationError for an unknown variable, a wrong value, and options that do not fit
        together.
        """
        environ = os.environ if self._environ is None else self._environ
        changes: ManagerOptions = {**from_environment(environ), **flags}
        options = overridden(self.options, changes)
        check_options(options, self.controllers)
        self.options = options
        self._configured = True

    def status(self) -> "ManagerStatus":
        """What every controller and every informer does now."""
        from reconcile.ops.manager_status import ManagerStatus

        assembly = self._assembly
        clusters = [] if assembly is None else assembly.clusters.members
        elector = None if assembly is None else assembly.elector
        return ManagerStatus(
            server="" if self._transport is None else self._transport.server,
            clusters=[cluster.status() for cluster in clusters],
            leading=self._leads(),
            leader="" if elector is None else elector.leader,
            controllers=[runner.status() for runner in self._runners],
            informers=[status for cluster in clusters for status in cluster.informers()],
            sharding=None if self._replica is None else self._replica.status(),
        )

    def _leads(self) -> bool:
        """Whether it works: it leads, if it is to, or holds a bucket, if it shares the objects."""
        elector = None if self._assembly is None else self._assembly.elector
        if self.options["sharding"] is not None:
            return self._replica is not None and self._replica.works
        return self.options["leader_election"] is None or (elector is not None and elector.is_leader)

    def state(self) -> Mapping[str, Any]:
        """What `/debug/state` answers: queues with causes, runs, errors, informers; only what JSON has."""
        from reconcile.ops.debug_state import state_of

        return state_of(self.status(), self._runners, anyio.current_time())

    async def add(self, controller: Controller[Any]) -> None:
        """Add a controller; returns when its caches are synced and it works, or will when leading.

        Raises ValueError if its name is taken, CacheSyncFailed, DefinitionMismatch, DefinitionRefused,
        PredecessorActive, and RuntimeError while the manager stops. With `sharding`, also ConfigurationError
        if replicas would have to share more kinds, or others: give it such a controller before it runs.
        """
        if self._assembly is None:
            check_unique_names((*self.controllers, controller))
            self.controllers = (*self.controllers, controller)
            return
        check_reach(self.options, [controller])
        if self._assembly.replica is not None:
            self._assembly.replica.check_added(controller)
        if self.options["webhooks"]:
            warn_unserved(controller, self.controllers)
        if self.embedded:
            # Before its webhooks take the place of those of another controller.
            check_unique_names((*(runner.controller for runner in self._runners), controller))
            await serve_embedded(self._transport, self.options, [controller])
        await self._clusters.add(controller)
        await self._loops.call(lambda other: other.add(controller))

    async def remove(self, name: str) -> None:
        """Remove a controller. Raises LookupError.

        Its runs end, or are cancelled after `stop_seconds`; kinds that only it reads are no longer followed.
        """
        await self._clusters.remove(name, self.options["stop_seconds"])
        await self._loops.call(lambda other: other.remove(name))

    def runs(self, name: str, cluster: str = "") -> RunHistory:
        """The runs of a controller: those in progress, and the last ones of each key that ran recently.

        `running()`, `past(request)` and `recent()` read them. Of several clusters it is the first, unless
        `cluster` names another. Raises LookupError, and RuntimeError while the manager does not run.
        """
        for runner in self._clusters.named(name):
            if cluster in ("", runner.cluster):
                return runner.history
        raise LookupError(f"no cluster {cluster!r} has a controller {name!r}")

    def trigger(
        self, controller: Controller[Any] | str, key: Named, cause: str | Cause = "", *, priority: int = 0
    ) -> None:
        """Have an object reconciled by one of its controllers; from any task or thread.

        `cause` says why, in a few words. A `Request` may name its cluster; other keys mean all of them.
        Raises LookupError for a controller that does not work there, RuntimeError unless the manager runs,
        and ValueError for a key with a namespace where the kind has none, or the other way round.
        """
        in_all = bool(self._loops.threads)

        def trigger(manager: Manager) -> None:
            manager._clusters.trigger(controller, key, cause, priority, in_all_loops=in_all)

        trigger(self)
        self._loops.send(trigger)

    def pause(self, name: str) -> None:
        """Begin no runs of a controller until `resume`; its keys are collected. Raises LookupError."""
        for runner in self._clusters.named(name):
            runner.pause()
        self._loops.send(lambda other: other.pause(name))

    def resume(self, name: str) -> None:
        """Undo `pause`. Raises LookupError."""
        for runner in self._clusters.named(name):
            runner.resume()
        self._loops.send(lambda other: other.resume(name))

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until `stop` or cancellation. Nothing outlives this call. A second one raises RuntimeError.

        Raises ConfigurationError for a wrong `RECONCILE_` variable, ServeError if its port is not available,
        CacheSyncFailed if a resource cannot be followed at the start, DefinitionRefused if a definition may
        not be applied, DefinitionMismatch if a kind with `scale=` cannot be scaled on that server,
        PredecessorActive or UnwrittenDraft (see `Controller(predecessor=)`), and the first error of any task,
        LeadershipLost among them; Interrupted if other code cancelled one of its tasks. The log has each.
        `task_status` is set when the caches are synced and, without leader election, the workers have
        started.
        """
        if self._assembly is not None:
            raise RuntimeError("a manager runs once; make another one")
        with self._ending():
            if not self._configured:
                self.configure()
            if self._log.isEnabledFor(INFO):
                self._log.info("configuration", **shown(self.options))
            if collects_in_increments():
                self._log.warning(
                    "the garbage collector of this Python lets memory grow", use="3.14.5 or later, or 3.13"
                )
            self._loops = self._other_loops()
            with anyio.CancelScope() as starting:
                self._set_stop_action(starting.cancel)
                # The pages come first and go last: probes are answered while all else starts and stops.
                async with (
                    self._observed(),
                    self._loops.running(self._stopping),
                    open_transports(self.options, self.controllers) as transports,
                    self._served(next(iter(transports.values()))) as self._webhooks,
                ):
                    self._set_stop_action(None)
                    self._transport = next(iter(transports.values()))
                    await self._run_on(transports, task_status)

    @asynccontextmanager
    async def _observed(self) -> AsyncIterator[None]:
        options = self.options
        if not options["serve"] and options["metrics"] is None:
            yield
            return
        from reconcile.ops.metrics import Metrics

        election = options["leader_election"]
        lease = "" if election is None else election.name
        self._metrics = metrics = Metrics(self.status, registry=options["metrics"], lease=lease)
        try:
            if not options["serve"]:
                yield
                return
            from reconcile.ops.page_server import serving

            certificates = Path(options["serve_certificates"]) if options["serve_certificates"] else None
            address, pages = parse_address(options["serve"]), self._pages(metrics)
            async with serving(address, pages, certificates, metrics.certificate_read) as self._address:
                yield
        finally:
            self._address = None
            metrics.close()

    def _other_loops(self) -> "OtherLoops[Manager]":
        if self.options["loops"] == 1:
            return OtherLoops()
        from reconcile.manager.loop_threads import divided, options_of

        options = self.options = divided(self.options)
        return OtherLoops.of(
            options["loops"],
            lambda number: Manager(*self.controllers, environ={}, **options_of(options, number)),
        )

    @asynccontextmanager
    async def _served(self, transport: Transport) -> AsyncIterator[ServedWebhooks]:
        try:
            async with webhooks_served(self.options, self.controllers, transport, self._metrics) as served:
                yield served
        finally:
            self._webhooks = ServedWebhooks()

    def _pages(self, metrics: "Metrics") -> "PageSources":
        options = self.options
        checks: dict[str, Check] = {"ping": ping}
        alive: dict[str, Check] = {"ping": ping, "event-loop": ping}
        if options["loops"] > 1:
            alive["loops"], checks["loops"] = self._loops.check_alive, self._loops.check_started
        if options["ready_when"] != "up":
            checks["caches"] = self._check_caches
        if options["webhooks"] and routes_of(self.controllers):
            checks["webhooks"] = self._check_webhooks
        if options["ready_when"] == "leading":
            checks["leader"] = self._check_leader
        from reconcile.manager.status_serving import status_pages
        from reconcile.ops.debug_actions import DebugActions
        from reconcile.ops.page_authorization import PageAuthorizer
        from reconcile.ops.page_routes import PageSources

        actions = DebugActions(lambda: self._runners, lambda: self._replica, self._why)
        readyz = {**checks, **options["readiness"]}
        return PageSources(
            healthz={**alive, **options["liveness"]},
            readyz=readyz,
            metrics=metrics.text,
            state=self.state,
            actions=actions,
            more=[status_pages(options, self.status, actions, self._identity, readyz, metrics)],
            reviewer=PageAuthorizer(lambda: self._transport) if options["serve_review"] else None,
            metrics_local=options["serve_metrics"] == "local",
            held=lambda: 0.0 if self._watchdog is None else self._watchdog.held,
        )

    def _why(self, runner: Runner[Any], request: Request) -> tuple[str, str]:
        from reconcile.status.key_facts import why_of

        return why_of(runner, request, self.status(), self._replica)[:2]

    def _identity(self) -> str:
        """The name of this replica among others: in its ring, or as a candidate for the Lease."""
        assembly = self._assembly
        if assembly is not None and assembly.replica is not None:
            return assembly.replica.status().identity
        elector = None if assembly is None else assembly.elector
        return "" if elector is None else elector.election.identity

    def _check_caches(self) -> None:
        status = self.status()
        if not status.clusters:
            raise RuntimeError("not connected yet")
        if behind := [informer.resource for informer in status.informers if not informer.synced]:
            raise RuntimeError(f"no first list of {', '.join(behind)} yet")

    def _check_webhooks(self) -> None:
        if self._stopping.is_set() or not self._webhooks.address:
            raise RuntimeError("webhooks are not served")
        self._webhooks.check()

    def _check_leader(self) -> None:
        if not self._started.is_set() or not self.status().leading:
            sharded = self.options["sharding"] is not None
            raise RuntimeError("this replica holds no bucket" if sharded else "this manager does not lead")

    async def _run_on(self, transports: Mapping[str, Transport], task_status: TaskStatus[None]) -> None:
        assembly = self._assembly = self._assemble(transports)
        clusters = assembly.clusters
        try:
            for controller in self.controllers:
                clusters.declare(controller)
            with without_groups(self._log), self._watched(clusters):
                async with anyio.create_task_group() as informers:
                    if self._metrics is not None:
                        informers.start_soon(self._metrics.watch_loop)
                    for cluster in clusters:
                        cluster.cache.start(informers)
                    await self._run_workers(assembly, task_status)
                    # Informers end last: runs that end read their caches until the end.
                    informers.cancel_scope.cancel()
        finally:
            clusters.end()
            assembly.close()

    def _assemble(self, transports: Mapping[str, Transport]) -> Assembly:
        traces = None
        if self.options["traces"] is not None:
            with extras_named():
                from reconcile.ops.tracing import Traces

            traces = Traces(self.options["traces"])
        return Assembly(self.options, self.controllers, transports, self._log, self._metrics, traces)

    def _watched(self, clusters: ClusterSet) -> AbstractContextManager[object]:
        """Report what holds the event loop; not where the clock is a test's: time may be virtual there."""
        if not isinstance(self.options["clock"], SystemClock):
            return nullcontext()
        self._watchdog = Watchdog(log_stall(self._log), clusters.key_of)
        return self._watchdog.watching()

    async def _run_workers(self, assembly: Assembly, task_status: TaskStatus[None]) -> None:
        clusters, elector, replica = assembly.clusters, assembly.elector, assembly.replica
        try:
            async with anyio.create_task_group() as group:
                self._set_stop_action(partial(group.start_soon, self._end_work, assembly, group))
                await clusters.sync(group)
                if elector is not None:
                    # A standby counts as started: who waits for a start must not wait for the leader's end.
                    self._note_started(task_status)
                    await elector.acquire()
                    assembly.note_leading()
                    group.start_soon(noted, elector.hold, "leader election")
                # Only a leader looks for predecessors, and before its first run: a standby writes nothing.
                await clusters.check_predecessors(group)
                if replica is None:
                    clusters.start(group)
                else:
                    await replica.join(group)
                    await self._loops.wait_started()
                self._note_started(task_status)
                self._log.info("started", controllers=[controller.name for controller in self.controllers])
                await self._stopping.wait()
        finally:
            self._set_stop_action(None)
            # Also after the loss of a Lease: it goes with its namespace, perhaps before the pods.
            with anyio.move_on_after(LET_GO_SECONDS, shield=True):
                await self._let_go(assembly)
            if elector is not None:
                # Only now, when no run is left, since the next leader may write at once. Shielded, or
                # standbys of a cancelled manager would wait until the Lease runs out.
                with anyio.CancelScope(shield=True):
                    await elector.release()
            if replica is not None:
                with anyio.CancelScope(shield=True):
                    await replica.lease.leave()

    async def _end_work(self, assembly: Assembly, group: TaskGroup) -> None:
        ends = anyio.current_time() + self.options["stop_seconds"]
        if assembly.replica is not None:
            # First, while runs may still begin: buckets go to others one by one.
            await assembly.replica.leave(self.options["stop_seconds"])
        await assembly.clusters.stop(max(0.0, ends - anyio.current_time()))
        group.cancel_scope.cancel()

    async def _let_go(self, assembly: Assembly) -> None:
        """Release what would wait for ever for this manager if its namespace is being deleted."""
        home = home_of(self.options)
        held = held_in(home, assembly.clusters.members[0].runners) if home else []
        if held and not self.options["dry_run"]:
            await let_go(assembly.unguarded(), home, held, self.options["name"])

    @property
    def _runners(self) -> Sequence[Runner[Any]]:
        return [] if self._assembly is None else self._assembly.clusters.runners

    @property
    def _replica(self) -> "ShardedReplica | None":
        return None if self._assembly is None else self._assembly.replica

    @property
    def _clusters(self) -> ClusterSet:
        if self._assembly is None:
            raise RuntimeError("the manager does not run")
        return self._assembly.clusters
