"""A controller at work: watch events become keys in a queue, workers take them and run passes."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import anyio
import structlog
from attrs import frozen

from informers import Cache, Delta, Informer, Key, Snapshot
from reconcile.controller import Controller, Watch, wakes_by_default
from reconcile.models import DoesNotFit, Object, decode, kind_of
from reconcile.passes import Outcome, Passes
from reconcile.requests import Cause, Request
from reconcile.runs import ControllerMetrics, RunHistory
from workqueue import Item, KeyBackoff, QueueClosed, QueueStatus, WorkQueue

T = TypeVar("T", bound=Object)

INITIAL_PRIORITY = -100
"""What was there before comes after what changes now (controller-runtime's handler priority)."""


@frozen
class ControllerStatus:
    """What a controller does now: its queue, and runs by how they ended since it was started."""

    name: str
    queue: QueueStatus
    runs: int
    failures: int


class Runner(Generic[T]):
    """Connects a controller to the informers of a cache, and works its queue.

    The informers are declared at construction, before the cache runs; workers start with `run`,
    which the manager calls once the cache is synced.
    """

    def __init__(
        self,
        controller: Controller[T],
        passes: Passes[T],
        cache: Cache,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self.controller = controller
        self.queue: WorkQueue[Request] = WorkQueue(
            limiter=KeyBackoff(chance=passes.client.clock.random),
            metrics=None if metrics is None else metrics.queue,
        )
        self.history = RunHistory(metrics)
        self._passes = passes
        self._log: structlog.stdlib.BoundLogger = passes.log
        self._runs = 0
        self._failures = 0
        resource = kind_of(controller.kind).resource
        self._wakes = controller.wakes or wakes_by_default
        self._primary = cache.declare(resource)
        self._primary.add_handler(self._on_primary)
        for kind in controller.owns:
            informer = cache.declare(kind_of(kind).resource)
            informer.add_handler(_Owned(self, informer))
        for number, watch in enumerate(controller.watches):
            self._connect(cache, watch, f"{controller.name}/{number}")

    def status(self) -> ControllerStatus:
        """What the controller does now."""
        return ControllerStatus(self.controller.name, self.queue.status(), self._runs, self._failures)

    async def run(self) -> None:
        """Work until the queue is closed and empty."""
        async with anyio.create_task_group() as group:
            for _ in range(self.controller.workers):
                group.start_soon(self._work)

    def enqueue(self, request: Request, cause: Cause, *, initial: bool = False) -> None:
        """Have a key reconciled."""
        self.queue.add(request, priority=INITIAL_PRIORITY if initial else 0, cause=cause)

    # --- events to keys -------------------------------------------------------------------------

    def _on_primary(self, delta: Delta) -> None:
        if delta.old is not None and delta.new is not None and not self._wakes(delta.old, delta.new):
            return
        self.enqueue(Request(*delta.last.key), cause_of(self._primary, delta), initial=delta.initial)

    def _connect(self, cache: Cache, watch: Watch[Any, Any], index: str) -> None:
        informer = cache.declare(kind_of(watch.kind).resource, everywhere=watch.everywhere)
        if watch.by is not None:
            self._primary.store.add_index(index, _References(self.controller.kind, watch, self._log))
            informer.add_handler(_Used(self, informer, index))
        else:
            informer.add_handler(_Mapped(self, informer, watch))

    def users(self, index: str, key: Key) -> Iterable[Snapshot]:
        """The objects of this controller that use an object of a watched kind."""
        return self._primary.store.by_index(index, key)

    # --- working ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            try:
                async with self.queue.get() as item:
                    await self._reconcile(item)
            except QueueClosed:
                return

    async def _reconcile(self, item: Item[Request]) -> None:
        with self.history.run(item) as run:
            outcome = run.outcome = await self._passes.run(item.key, item.causes, item.retries)
        self._runs += 1
        self._follow_up(item, outcome)

    def _follow_up(self, item: Item[Request], outcome: Outcome) -> None:
        if outcome.stale:
            self.queue.add(item.key, priority=item.priority, cause=Cause("retried"))
            return
        if outcome.error is not None:
            self._retry(item, outcome)
            return
        self.queue.forget(item.key)
        if outcome.result.again:
            self.queue.add(item.key, priority=item.priority, cause=Cause("scheduled"))
        elif outcome.result.after is not None:
            delay = outcome.result.after
            self.queue.add_after(item.key, delay, priority=item.priority, cause=Cause("scheduled"))

    def _retry(self, item: Item[Request], outcome: Outcome) -> None:
        self._failures += 1
        log = self._log.bind(key=str(item.key), reconcile_id=outcome.reconcile_id)
        if outcome.terminal:
            log.error("failed for good", error=_describe(outcome.error))
            return
        delay = self.queue.add_rate_limited(item.key, priority=item.priority, cause=Cause("retried"))
        log.warning("failed", error=_describe(outcome.error), retry_in=round(delay, 3))
        log.debug("traceback", exc_info=outcome.error)


def cause_of(informer: Informer, delta: Delta) -> Cause:
    """What a change of a store says as the cause of a run."""
    verb: Any = "added" if delta.old is None else "deleted" if delta.new is None else "updated"
    return Cause(verb, informer.resource, delta.last.key, delta.last.version)


@frozen
class _Owned:
    """A change of a child wakes its controlling owner: that of the old state too, if it changed."""

    runner: Runner[Any]
    informer: Informer

    def __call__(self, delta: Delta) -> None:
        resource = kind_of(self.runner.controller.kind).resource
        cause = cause_of(self.informer, delta)
        for snapshot in (delta.old, delta.new):
            owner = None if snapshot is None else snapshot.controller
            if snapshot is None or owner is None:
                continue
            if (owner.group, owner.kind) == (resource.group, resource.kind):
                namespace = snapshot.key.namespace if resource.namespaced else ""
                self.runner.enqueue(Request(namespace, owner.name), cause, initial=delta.initial)


@frozen
class _Used:
    """A change of a watched object wakes the objects that use it."""

    runner: Runner[Any]
    informer: Informer
    index: str

    def __call__(self, delta: Delta) -> None:
        cause = cause_of(self.informer, delta)
        for user in self.runner.users(self.index, delta.last.key):
            self.runner.enqueue(Request(*user.key), cause, initial=delta.initial)


@frozen
class _Mapped:
    """A change of a watched object wakes whom it says it concerns, in its old and its new state."""

    runner: Runner[Any]
    informer: Informer
    watch: Watch[Any, Any]

    def __call__(self, delta: Delta) -> None:
        assert self.watch.to is not None
        cause = cause_of(self.informer, delta)
        for snapshot in (delta.old, delta.new):
            if snapshot is None:
                continue
            for request in self.watch.to(decode(self.watch.kind, snapshot.raw)):
                self.runner.enqueue(request, cause, initial=delta.initial)


@frozen
class _References:
    """The index of which objects use which: what `by` answers, as keys."""

    kind: type[Any]
    watch: Watch[Any, Any]
    log: structlog.stdlib.BoundLogger

    def __call__(self, snapshot: Snapshot) -> Iterable[Key]:
        assert self.watch.by is not None
        try:
            named = self.watch.by(decode(self.kind, snapshot.raw))
        except DoesNotFit:
            return ()
        except Exception:
            self.log.exception("by= of a watch failed", key=str(snapshot.key), kind=self.watch.kind.__name__)
            return ()
        if named is None:
            return ()
        names = [named] if isinstance(named, str | Key) else list(named)
        namespace = snapshot.key.namespace if kind_of(self.watch.kind).resource.namespaced else ""
        return [name if isinstance(name, Key) else Key(namespace, name) for name in names]


def _describe(error: Exception | None) -> str:
    return f"{type(error).__name__}: {error}" if error is not None else ""
