"""A controller at work: watch events become keys in a queue, workers take them and run passes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from logging import ERROR, WARNING
from threading import get_ident
from typing import Any, Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup
from attrs import frozen

from informers import Cache, Delta
from reconcile.background import Backgrounds
from reconcile.controller import Controller, Watch
from reconcile.handlers import Mapped, Owned, References, Used, cause_of
from reconcile.models import Object, kind_of
from reconcile.passes import Outcome, Passes
from reconcile.requests import Cause, Request, Result, as_request
from reconcile.runs import ControllerMetrics, RunHistory
from reconcile.sources import Source, Surroundings, Synced
from reconcile.supervision import supervise
from workqueue import Item, KeyBackoff, QueueClosed, QueueStatus, WorkQueue

T = TypeVar("T", bound=Object)

INITIAL_PRIORITY = -100
"""What was there before comes after what changes now (controller-runtime's handler priority)."""
EVERY_JITTER = 0.1


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
        self._primary = cache.declare(resource)
        self._backgrounds = Backgrounds(
            controller.kind,
            controller.background,
            self._primary,
            self.enqueue,
            passes.client.clock,
            self._log,
        )
        self._primary.add_handler(self._on_primary, resync=controller.resync)
        for kind in controller.owns:
            informer = cache.declare(kind_of(kind).resource)
            informer.add_handler(Owned(controller.kind, informer, self.enqueue))
        for number, watch in enumerate(controller.watches):
            self._connect(cache, watch, f"{controller.name}/{number}")

    def status(self) -> ControllerStatus:
        """What the controller does now."""
        return ControllerStatus(self.controller.name, self.queue.status(), self._runs, self._failures)

    async def run(self) -> None:
        """Work until the queue is closed and empty."""
        with self._triggerable():
            async with anyio.create_task_group() as beside:
                await self._start_sources(beside)
                self._backgrounds.start(beside)
                async with anyio.create_task_group() as workers:
                    for _ in range(self.controller.workers):
                        workers.start_soon(self._work)
                self._backgrounds.stop()
                beside.cancel_scope.cancel()

    def enqueue(self, request: Request, cause: Cause, initial: bool = False) -> None:
        """Have a key reconciled."""
        self.queue.add(request, priority=INITIAL_PRIORITY if initial else 0, cause=cause)

    # --- events to keys -------------------------------------------------------------------------

    def _on_primary(self, delta: Delta) -> None:
        if self._primary.covers(delta.last.key.namespace):
            self._passes.departures.note(delta)
        self._backgrounds.follow(delta)
        if delta.resync or self.controller.wakes.wakes(delta.old, delta.new):
            late = delta.initial or delta.resync
            self.enqueue(Request(*delta.last.key), cause_of(self._primary, delta), late)

    def _connect(self, cache: Cache, watch: Watch[Any, Any], index: str) -> None:
        informer = cache.declare(kind_of(watch.kind).resource, everywhere=watch.everywhere)
        if watch.by is None:
            informer.add_handler(Mapped(watch, informer, self.enqueue))
            return
        self._primary.store.add_index(index, References(self.controller.kind, watch, self._log))
        users = partial(self._primary.store.by_index, index)
        informer.add_handler(Used(watch, informer, users, self.enqueue))

    # --- keys from elsewhere ----------------------------------------------------------------------

    @contextmanager
    def _triggerable(self) -> Iterator[None]:
        """Let `Controller.trigger` reach the queue, from this thread and from others."""
        thread, token = get_ident(), anyio.lowlevel.current_token()

        def trigger(request: Request, cause: Cause, priority: int) -> None:
            add = partial(self.queue.add, request, priority=priority, cause=cause)
            if get_ident() == thread:
                add()
            else:
                anyio.from_thread.run_sync(add, token=token)

        self.controller.connect(trigger)
        try:
            yield
        finally:
            self.controller.disconnect(trigger)

    async def _start_sources(self, group: TaskGroup) -> None:
        """Start the sources, and wait for what each of them knows at its start."""
        known: list[anyio.Event] = []
        for source in self.controller.sources:
            synced = anyio.Event()
            follow = partial(self._follow, source, synced)
            group.start_soon(supervise, follow, source.name, self._passes.client.clock, self._log)
            if source.initial:
                known.append(synced)
        for synced in known:
            await synced.wait()

    async def _follow(self, source: Source, synced: anyio.Event) -> None:
        surroundings = Surroundings(self._objects, self._passes.client.clock)
        async for told in source.start(surroundings):
            if isinstance(told, Synced):
                synced.set()
                continue
            initial = source.initial and not synced.is_set()
            self.enqueue(as_request(told), Cause("triggered", note=source.name), initial)
        synced.set()

    def _objects(self) -> Iterator[Request]:
        return (Request(*snapshot.key) for snapshot in self._primary.store)

    # --- working ----------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            try:
                async with self.queue.get() as item:
                    await self._reconcile(item)
            except QueueClosed:
                return

    async def _reconcile(self, item: Item[Request]) -> None:
        await self._backgrounds.ended(item.key)
        with self.history.run(item) as run:
            outcome = run.outcome = await self._passes.run(item.key, item.causes, item.retries)
        self._runs += 1
        self._follow_up(item, outcome)

    def _follow_up(self, item: Item[Request], outcome: Outcome) -> None:
        if outcome.stale:
            self.queue.add(item.key, priority=item.priority, cause=Cause("retried"))
        elif outcome.error is None:
            self.queue.forget(item.key)
            self._run_again(item, outcome.result)
            self._run_every(item)
        elif outcome.terminal:
            self._fail(outcome, item, "failed for good")
            self._run_every(item)
        else:
            delay = self.queue.add_rate_limited(item.key, priority=item.priority, cause=Cause("retried"))
            self._fail(outcome, item, "failed", retry_in=round(delay, 3))

    def _run_again(self, item: Item[Request], result: Result) -> None:
        priority = item.priority if result.priority is None else result.priority
        if result.again:
            self.queue.add(item.key, priority=priority, cause=Cause("scheduled"))
        elif result.after is not None:
            self.queue.add_after(item.key, result.after, priority=priority, cause=Cause("scheduled"))

    def _run_every(self, item: Item[Request]) -> None:
        """Set the timer of an object that is there; a run that comes sooner sets it anew."""
        seconds = self.controller.every
        if seconds is None or self._primary.store.get(item.key.key) is None:
            return
        delay = seconds * (1 + EVERY_JITTER * self._passes.client.clock.random())
        self.queue.add_after(item.key, delay, priority=item.priority, cause=Cause("scheduled", note="every"))

    def _fail(self, outcome: Outcome, item: Item[Request], event: str, **more: Any) -> None:
        self._failures += 1
        log = self._log.bind(key=str(item.key), reconcile_id=outcome.reconcile_id)
        log.log(ERROR if outcome.terminal else WARNING, event, error=outcome.message, **more)
        log.debug("traceback", exc_info=outcome.error)
