"""The clusters of one manager, each with a cache, a client and runners of its own.

A single cluster that cannot be read at the start is an error; of several it is left out until it can be.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from attrs import define, evolve, field

from informers import ApiError, Cache, CacheSyncFailed, Reachability
from informers.broadcast import Broadcast
from reconcile.client.client import Client
from reconcile.client.redaction import redacted
from reconcile.controller.declaration import Controller
from reconcile.controller.runner import Runner
from reconcile.manager.installed_definitions import check_scales
from reconcile.manager.runner_set import RunnerSet
from reconcile.manager.server_readiness import until_ready
from reconcile.models import kind_of
from reconcile.runs.run_request import Cause, Named, Request, as_request
from reconcile.runs.supervision import noted, without_groups
from reconcile.webhooks.definition_refused import DefinitionRefused

if TYPE_CHECKING:
    from informers import InformerStatus
    from reconcile.manager.definition_keeping import DefinitionKeeper
    from reconcile.manager.predecessor_check import PredecessorCheck
    from reconcile.ops.manager_status import ClusterStatus

RETRY_SECONDS = 5.0
"""Until a cluster that failed at its start is tried again."""


def works_in(controller: Controller[Any], cluster: str) -> bool:
    return not controller.clusters or cluster in controller.clusters


@define(eq=False)
class ManagedCluster:
    name: str
    cache: Cache
    client: Client
    runners: RunnerSet
    sync_seconds: float
    definitions: "DefinitionKeeper | None" = None
    predecessor_check_of: "Callable[[], PredecessorCheck | None]" = lambda: None
    """Makes the check of predecessors; called once, and only where it is needed."""
    freezes: bool = False
    """Whether predecessors are frozen."""
    works: bool = False
    tried: bool = False
    error: Exception | None = None
    _check: "PredecessorCheck | None" = field(default=None, init=False)

    def status(self) -> "ClusterStatus":
        from reconcile.ops.manager_status import ClusterStatus

        reach = self.cache.reach.status()
        error = "" if self.works or self.error is None else f"{type(self.error).__name__}: {self.error}"
        return ClusterStatus(
            self.name,
            self.client.transport.server,
            self.works,
            reach.error or error,
            reach.reachable,
            round(reach.down_seconds, 3),
            reach.outages,
        )

    def informers(self) -> "Sequence[InformerStatus]":
        """Resources are prefixed by the cluster's name, if it has one."""
        statuses = self.cache.status()
        if not self.name:
            return statuses
        return [evolve(status, resource=f"{self.name}/{status.resource}") for status in statuses]

    def takes(self, controller: Controller[Any]) -> bool:
        return works_in(controller, self.name)

    async def sync(self) -> None:
        """Wait for the first lists.

        Raises CacheSyncFailed, DefinitionMismatch, DefinitionRefused, or the error of a request.
        """
        if self.definitions is not None:
            await until_ready(self.definitions.serve, self.sync_seconds)
        with without_groups():
            while not all(informer.synced for informer in self.cache):  # controllers may be added meanwhile
                await self.cache.wait_synced(self.sync_seconds)
        kinds = [kind for runner in self.runners for kind in runner.controller.kinds]
        await until_ready(partial(check_scales, self.client.transport, kinds), self.sync_seconds)
        self.works = self.tried = True

    def start(self, group: TaskGroup) -> None:
        """Start the controllers, and what keeps their definitions."""
        self.runners.start(group)
        self.keep_definitions(group)

    def keep_definitions(self, group: TaskGroup) -> None:
        """Start what keeps the definitions of the controllers."""
        if self.definitions is not None:
            group.start_soon(noted, self.definitions.run, "definitions")

    async def check_predecessors(self, controllers: Sequence[Controller[Any]] = ()) -> None:
        """Check, before they write, that no predecessor is active.

        Raises PredecessorActive, and UnwrittenDraft for a draft that would take objects over.
        """
        candidates = controllers or [runner.controller for runner in self.runners]
        if all(controller.predecessor is None for controller in candidates):
            return
        if (check := self._predecessor_check()) is not None:
            await until_ready(partial(check.check, candidates), self.sync_seconds)

    def keep_frozen(self, group: TaskGroup) -> None:
        """Start what keeps predecessors frozen that the check froze."""
        check = self._predecessor_check() if self.freezes else None
        if check is not None and check.freeze is not None:
            group.start_soon(noted, check.freeze.keep, "freeze of the predecessor")

    def _predecessor_check(self) -> "PredecessorCheck | None":
        self._check = self._check or self.predecessor_check_of()
        return self._check


@define(eq=False)
class ClusterSet:
    members: Sequence[ManagedCluster]
    log: structlog.stdlib.BoundLogger
    _started: bool = field(default=False, init=False)
    _changes: Broadcast = field(factory=Broadcast, init=False)

    def __iter__(self) -> Iterator[ManagedCluster]:
        return iter(self.members)

    @property
    def runners(self) -> Sequence[Runner[Any]]:
        return [runner for cluster in self.members for runner in cluster.runners]

    def reaches(self) -> Sequence[Reachability]:
        return [cluster.cache.reach for cluster in self.members]

    def of(self, name: str) -> ManagedCluster:
        """Raises LookupError."""
        for cluster in self.members:
            if cluster.name == name:
                return cluster
        names = ", ".join(cluster.name for cluster in self.members if cluster.name)
        raise LookupError(f"there is no cluster {name!r}; there are: {names or 'one without a name'}")

    def key_of(self, task: asyncio.Task[Any]) -> str:
        """The controller and key of the run that a task executes; empty for other tasks. From any thread."""
        return next(filter(None, (cluster.runners.key_of(task) for cluster in self.members)), "")

    def enqueue(self, controller: str, request: Request, cause: Cause, priority: int) -> None:
        try:
            runner = self.of(request.cluster).runners.get(controller)
        except LookupError as error:
            self.log.error(
                "a key names a cluster without that controller",
                controller=controller,
                key=str(request),
                error=str(error),
            )
        else:
            runner.enqueue(request, cause, priority)

    def trigger(
        self,
        controller: Controller[Any] | str,
        key: Named,
        cause: str | Cause,
        priority: int,
        *,
        in_all_loops: bool = False,
    ) -> None:
        """With `in_all_loops`, the event loop that holds the object runs it, and no other logs a refusal."""
        request, name = as_request(key), controller if isinstance(controller, str) else controller.name
        runners = [runner for runner in self.named(name) if request.cluster in ("", runner.cluster)]
        if not runners:
            raise LookupError(f"controller {name} does not work in cluster {request.cluster!r}")
        if all(cluster.runners.ended for cluster in self.members):
            raise RuntimeError("the manager has ended: nothing can be triggered")
        kind = runners[0].controller.kind
        if kind_of(kind).resource.namespaced != bool(request.namespace):
            expected = "a namespace and a name" if kind_of(kind).resource.namespaced else "a name alone"
            raise ValueError(f"{key!r} is not a key of {kind.__name__}: expected {expected}")
        reason = cause if isinstance(cause, Cause) else Cause("triggered", note=cause)
        reason = msgspec.structs.replace(reason, note=redacted(reason.note))
        for runner in runners:
            runner.trigger(request, reason, priority, in_all_loops=in_all_loops)

    # --- adding and removing controllers --------------------------------------------------------

    def declare(self, controller: Controller[Any]) -> None:
        """Raises LookupError for a cluster, and ValueError."""
        for name in controller.clusters:
            self.of(name)
        for cluster in self.members:
            if cluster.takes(controller):
                cluster.runners.declare(controller)

    async def add(self, controller: Controller[Any]) -> None:
        """Add a controller to all of its clusters or to none. Raises what `Manager.add` raises."""
        for name in controller.clusters:
            self.of(name)
        added: list[ManagedCluster] = []
        try:
            for cluster in filter(lambda cluster: cluster.takes(controller), self.members):
                if cluster.works or len(self.members) == 1:
                    if cluster.definitions is not None:
                        await cluster.definitions.serve_kinds_of(controller)
                    await check_scales(cluster.client.transport, controller.kinds)
                    await cluster.check_predecessors([controller])
                    await cluster.runners.add(controller)
                else:
                    cluster.runners.admit(controller)  # starts with the others
                added.append(cluster)
                if cluster.definitions is not None:
                    cluster.definitions.admit(controller)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for cluster in added:
                    await cluster.runners.remove(controller.name, 0)
            raise

    async def remove(self, name: str, seconds: float) -> None:
        having = self._having(name)
        async with anyio.create_task_group() as group:
            for cluster in having:
                group.start_soon(cluster.runners.remove, name, seconds)

    def named(self, name: str) -> Sequence[Runner[Any]]:
        """Raises LookupError."""
        return [cluster.runners.get(name) for cluster in self._having(name)]

    def _having(self, name: str) -> Sequence[ManagedCluster]:
        having = [cluster for cluster in self.members if name in cluster.runners]
        if not having:
            self.members[0].runners.get(name)
        return having

    # --- start and stop -------------------------------------------------------------------------

    async def sync(self, group: TaskGroup) -> None:
        """Wait for the first lists of one cluster, and an attempt at each; the rest joins in `group`."""
        if len(self.members) == 1:
            await self.members[0].sync()
            return
        for cluster in self.members:
            group.start_soon(self._try, cluster)
            group.start_soon(self._join, cluster, group)
        await self._changes.wait_until(self._first_round_is_over)
        if not any(cluster.works for cluster in self.members):
            raise next(cluster.error for cluster in self.members if cluster.error is not None)

    async def check_predecessors(self, group: TaskGroup) -> None:
        """Check that no predecessor is active; of several clusters each is checked when it joins.

        What keeps predecessors frozen runs in `group`.
        """
        if len(self.members) == 1:
            await self.members[0].check_predecessors()
            self.members[0].keep_frozen(group)

    def start(self, group: TaskGroup) -> None:
        """Start the controllers, now and in clusters that join later; called when leading."""
        self._started = True
        if len(self.members) == 1:
            self.members[0].start(group)
        else:
            self._changes.notify()

    async def stop(self, seconds: float) -> None:
        """Accept no more keys, and wait for runs in progress, `seconds` at most for all clusters together."""
        async with anyio.create_task_group() as group:
            for cluster in self.members:
                group.start_soon(cluster.runners.stop, seconds)

    def end(self) -> None:
        for cluster in self.members:
            cluster.runners.end()
            cluster.cache.end()

    def _first_round_is_over(self) -> bool:
        if any(cluster.works for cluster in self.members):
            return all(cluster.tried for cluster in self.members)
        return all(cluster.error is not None for cluster in self.members)

    async def _try(self, cluster: ManagedCluster) -> None:
        """Wait until each informer has its first list, or has failed to get it once."""
        async with anyio.create_task_group() as group:
            for informer in cluster.cache:
                done = partial(lambda informer: informer.synced or informer.error is not None, informer)
                group.start_soon(informer.wait_until, done, cluster.sync_seconds)
        cluster.tried = True
        self._changes.notify()

    async def _left_out(self, cluster: ManagedCluster, error: Exception) -> None:
        """Say that a cluster cannot be read, and wait until it is worth another try."""
        cluster.error = error
        self.log.warning(
            "the cluster is left out until it can be read", cluster=cluster.name, error=str(error)
        )
        self._changes.notify()
        await anyio.sleep(RETRY_SECONDS)

    async def _join(self, cluster: ManagedCluster, group: TaskGroup) -> None:
        while not cluster.works:
            try:
                await cluster.sync()
            except (CacheSyncFailed, DefinitionRefused, ApiError) as error:
                await self._left_out(cluster, error)
        self._changes.notify()
        await self._changes.wait_until(lambda: self._started)
        while True:
            try:
                await cluster.check_predecessors()
                break
            except ApiError as error:
                await self._left_out(cluster, error)
        cluster.keep_frozen(group)
        cluster.start(group)
        self.log.info("cluster joined", cluster=cluster.name)
