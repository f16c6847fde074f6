"""A controller at work: watch events become keys in a queue, workers take them and run the reconciler."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
import structlog
from anyio import TaskHandle
from anyio.abc import TaskGroup
from attrs import evolve, frozen

from informers import APIResource, Cache, Delta, Handler, Informer, Reachability, Registration, Snapshot
from informers.cancellation import asked_to_end, interrupted, live_on
from reconcile.controller.background_tasks import BackgroundTasks
from reconcile.controller.deadlines import RunLimit
from reconcile.controller.declaration import DEFAULT_WORKERS, Controller, Watch
from reconcile.controller.declared_writes import DeclaredWrites
from reconcile.controller.event_recorder import FLUSH_SECONDS
from reconcile.controller.follow_up import FollowUp
from reconcile.controller.function_failures import FunctionFailures
from reconcile.controller.key_mapping import (
    MappedHandler,
    OwnedHandler,
    ReferencedHandler,
    ReferenceIndex,
    SelectorIndex,
    cause_of,
    wakes,
)
from reconcile.controller.outage_recovery import OutageRecovery, RunGate
from reconcile.controller.reconcile_run import ReconcileTimeout, RunExecutor, RunResult
from reconcile.controller.run_history import ControllerMetrics, ControllerTraces, RunHistory
from reconcile.controller.run_output import PendingEvent
from reconcile.controller.selected_objects import is_left_alone, narrowed, of_chosen
from reconcile.controller.source_tasks import SourceTasks
from reconcile.controller.triggers import trigger_of
from reconcile.models import DecodeError, Object, decode, kind_of
from reconcile.runs.run_failures import Failures
from reconcile.runs.run_request import Cause, Request
from reconcile.storms import Origin
from reconcile.storms.guard import StormGuard
from workqueue import Item, KeyBackoff, QueueClosed, QueueStatus, WorkQueue
from workqueue.causes import NO_CAUSES, Causes, joined

T = TypeVar("T", bound=Object)

INITIAL_PRIORITY = -100
"""What was there before comes after what changes now (controller-runtime's handler priority)."""
_STORM = Cause("scheduled", note="storm guard")


@frozen
class ControllerStatus:
    """What a controller does now: its queue, and runs by how they ended since it was started."""

    name: str
    queue: QueueStatus
    runs: int
    failures: int
    paused: bool = False


Elsewhere: TypeAlias = Callable[[str, Request, Cause, int], None]
"""Has a key of another cluster reconciled, by the controller of that name there."""


class _Closed(Exception):
    """The key in hand goes back: no run may begin now."""


class Runner(Generic[T]):
    """Connects a controller to the informers of a cache, and works its queue.

    The informers are declared at construction, before the cache runs; workers start with `run`,
    which the manager calls once the cache is synced.
    """

    def __init__(
        self,
        controller: Controller[T],
        executor: RunExecutor[T],
        cache: Cache,
        metrics: ControllerMetrics | None = None,
        traces: ControllerTraces | None = None,
        workers: int = 0,
        cluster: str = "",
        elsewhere: "Elsewhere | None" = None,
        all_reaches: Callable[[], Iterable[Reachability]] = tuple,
    ) -> None:
        self.controller = controller
        self.cluster = cluster
        self._narrows = bool(controller.selector)
        self._elsewhere = elsewhere
        self.queue: WorkQueue[Request] = WorkQueue(
            limiter=KeyBackoff(controller.backoff, chance=executor.client.clock.random),
            metrics=None if metrics is None else metrics.queue,
        )
        self.workers = workers or controller.workers or DEFAULT_WORKERS
        self.history = RunHistory(metrics, traces)
        executor.on_wait = None if metrics is None else metrics.caught_up
        self._executor = executor
        self._log: structlog.stdlib.BoundLogger = executor.log
        self._runs = 0
        self.failures = Failures(executor.log)
        self._gate = RunGate(cache.reach)
        self._recovery = OutageRecovery(cache.reach, self.queue, self.enqueue_at, all_reaches)
        random = executor.client.clock.random
        self._follow_up = FollowUp(
            controller, self.queue, self._recovery, self.failures, random, self._has_object
        )
        self._ended: anyio.Event | None = None
        """Set where `run` ends; None where it does not run."""
        self._tasks = anyio.create_task_group()
        self._begun: list[TaskHandle[None]] = []
        self._unbegun = 0
        self._idle = 0
        self._resting: dict[Request, Causes] = {}
        self._declared: list[APIResource] = []
        self._indexes: list[str] = []
        self._registrations: list[Registration] = []
        self._trigger = trigger_of(self.enqueue_at, traces)
        resource = kind_of(controller.kind).resource
        self.guard = StormGuard(
            controller.storms,
            resource,
            controller.field_manager,
            executor.client,
            self._tell,
            executor.log,
            metrics,
            polls=controller.every is not None,
        )
        executor.echoes.resources = {kind_of(kind).resource for kind in controller.heard}
        self._primary = self._declare(cache, resource)
        self._backgrounds = BackgroundTasks(
            controller.kind,
            controller.background,
            self._primary,
            self.enqueue,
            executor.client.clock,
            self._log,
            cluster,
            controller.keeps,
        )
        self._sources = SourceTasks(
            controller.sources,
            self._primary,
            self.enqueue,
            executor.client.clock,
            self._log,
            cluster,
            controller.keeps,
        )
        self._wake_failures = FunctionFailures(self._log, self._sources.objects, self.enqueue)
        self._listen(self._primary, self._on_primary, controller.resync)
        for kind in controller.owns:
            informer = self._declare(cache, kind_of(kind).resource)
            self._listen(
                informer, OwnedHandler(controller.kind, informer, self._primary.store.get, self._hear)
            )
        for number, watch in enumerate(controller.watches):
            self._connect(cache, watch, f"{controller.name}/{number}")
        for kind in controller.reads:
            self._declare(cache, kind_of(kind).resource)
        controller.connect(self._trigger, cluster)

    @property
    def name(self) -> str:
        """The controller's, behind that of its cluster where there are several: `east/site`."""
        return f"{self.cluster}/{self.controller.name}" if self.cluster else self.controller.name

    @property
    def declarations(self) -> DeclaredWrites:
        """What the controller declares to write, and what its runs asked for besides."""
        return self._executor.declarations

    def status(self) -> ControllerStatus:
        """What the controller does now."""
        return ControllerStatus(
            self.name, self.queue.status(), self._runs, self.failures.count, self._gate.paused
        )

    async def run(self) -> None:
        """Work until the queue is closed and empty."""
        self._ended = anyio.Event()
        try:
            async with self._tasks as tasks:
                with self._executor.recorder.writing_in(tasks):
                    await self._run(tasks)
                tasks.cancel_scope.cancel()
        finally:
            self._executor.deadlines.close()
            self._wake_failures.close()
            self._ended.set()
            self._ended = None

    async def _run(self, beside: TaskGroup) -> None:
        await self._sources.start(beside)
        self._backgrounds.start(beside)
        self._unbegun, self._idle = self.workers - 1, 1
        await self._work()
        self._unbegun = 0
        for worker in self._begun:
            await worker.wait()
        self._backgrounds.stop()
        with anyio.move_on_after(FLUSH_SECONDS):
            await self._executor.recorder.flush()

    def pause(self) -> None:
        """Begin no more runs until `resume`; keys are collected, and runs under way end."""
        self._gate.pause()

    def resume(self) -> None:
        """Undo `pause`."""
        self._gate.resume()

    async def leave(self, seconds: float) -> None:
        """Hear of nothing more; runs under way may end within `seconds`, then they are cancelled."""
        self.disconnect()
        for registration in self._registrations:
            registration.remove()
        self.queue.close()
        try:
            with anyio.move_on_after(seconds):
                await self.drain()
        finally:
            self._tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._wait_ended()

    async def drain(self) -> None:
        """Wait until the runs under way have ended and told their last Events; the queue is closed."""
        await self.queue.join()
        if not self._gate.closed:
            await self._wait_ended()

    async def _wait_ended(self) -> None:
        if self._ended is not None:
            await self._ended.wait()

    def disconnect(self) -> None:
        """Let `Controller.trigger` not reach this any more."""
        self.controller.disconnect(self._trigger)

    def release(self, cache: Cache) -> None:
        """Undo what construction did to a cache; nothing may run any more."""
        self.disconnect()
        for registration in self._registrations:
            registration.remove()
        for index in self._indexes:
            self._primary.store.remove_index(index)
        self._indexes.clear()
        for resource in self._declared:
            cache.release(resource)
        self._declared.clear()

    def enqueue(self, request: Request, cause: Cause, initial: bool = False) -> None:
        """Have a key reconciled: in this cluster, unless it names another one."""
        self.enqueue_at(request, cause, INITIAL_PRIORITY if initial else 0)

    def enqueue_at(self, request: Request, cause: Cause, priority: int) -> None:
        """The same with a priority."""
        if request.cluster == self.cluster:
            self._add(request, priority, cause)
        elif not request.cluster:
            self._add(request._replace(cluster=self.cluster), priority, cause)
        elif self._elsewhere is not None:
            self._elsewhere(self.controller.name, request, cause, priority)
        else:
            self._log.error("woken in a cluster that this manager does not have", key=str(request))

    def _add(self, request: Request, priority: int, cause: Cause) -> None:
        if self._narrows and self._is_left_alone(request):
            return
        self.queue.add(request, priority=priority, cause=cause)
        if self._unbegun and not self._idle:
            self._begin_worker()

    def _is_left_alone(self, request: Request) -> bool:
        """Whether there is an object of that key and the controller's selector does not choose it."""
        primary = self._primary.store.get(request.key)
        left = primary is not None and not self.controller.keeps(primary)
        return left and not self._executor.tombstones.waits(request.key)

    # --- events to keys -------------------------------------------------------------------------

    def _on_primary(self, delta: Delta) -> None:
        key = delta.last.key
        namespace, name = key
        request = Request(namespace, name, self.cluster)
        seen = narrowed(delta, self.controller.keeps) if self._narrows else delta
        if seen is not None:
            if (
                seen.old is not None
                and self.controller.on_deleted is not None
                and self._primary.covers(namespace)
            ):
                self._executor.tombstones.note(delta)
            if seen.new is None:
                self.guard.forget(request)
            self._backgrounds.follow(delta)
            if wakes(
                self.controller.wakes, seen, self._wake_failures, self._primary.resource
            ) and not is_left_alone(seen, delta):
                self._hear(request, cause_of(self._primary, delta, key), delta)
                return
        self._executor.echoes.discard(request, self._primary.resource, delta)

    def _hear(self, request: Request, cause: Cause, delta: Delta) -> None:
        """A change concerns a key: it wakes, unless it is an echo that a run which has begun will see."""
        if not request.cluster and self.cluster:
            request = request._replace(cluster=self.cluster)
        resource = cause.resource
        assert resource is not None
        origin = self._executor.echoes.classify(request, resource, delta)
        if origin is Origin.SEEN:
            return
        if origin is Origin.OWN:
            cause = evolve(cause, echo=True)
        elif self.guard.tracking:
            self.guard.note_trigger(request, resource, delta)
        self.enqueue_at(request, cause, INITIAL_PRIORITY if delta.initial or delta.resync else 0)

    def _connect(self, cache: Cache, watch: Watch[Any, Any], index: str) -> None:
        informer = self._declare(cache, kind_of(watch.kind).resource, watch.everywhere)
        if watch.to is not None:
            self._listen(informer, MappedHandler(watch, informer, self._hear, self._wake_failures))
            return
        used = ReferenceIndex if watch.by is not None else SelectorIndex
        store, function = self._primary.store, used(self.controller.kind, watch, self._wake_failures)
        self._indexes.append(index)
        store.add_index(index, of_chosen(function, self.controller.keeps) if self._narrows else function)
        users = partial(function.users, store, index)
        self._listen(informer, ReferencedHandler(watch, informer, users, self._hear, self._wake_failures))

    def _declare(self, cache: Cache, resource: APIResource, everywhere: bool = False) -> Informer:
        informer = cache.declare(resource, everywhere=everywhere)
        self._executor.follow(informer)
        self._declared.append(resource)
        return informer

    def _listen(self, informer: Informer, handler: Handler, resync: float | None = None) -> None:
        self._registrations.append(informer.add_handler(handler, resync=resync))

    # --- working ----------------------------------------------------------------------------------

    def _begin_worker(self) -> None:
        """One more: there are keys, and nobody who waits for them. Who has few keys has few workers."""
        self._unbegun -= 1
        self._idle += 1
        self._begun.append(self._tasks.create_task(self._work()))

    async def _work(self) -> None:
        with closing(self._executor.limit()) as limit:
            await self._work_within(limit, asyncio.current_task())

    async def _work_within(self, limit: RunLimit, task: asyncio.Task[Any] | None) -> None:
        while True:
            try:
                async with self.queue.get() as item:
                    self._idle -= 1
                    if self._unbegun and not self._idle and self.queue.has_more:
                        self._begin_worker()
                    try:
                        if self._gate.closed:
                            raise _Closed
                        is_calm = not self._resting and not self.guard.storming
                        if is_calm or not await self._is_put_off(item):
                            await self._reconcile(item, limit, task)
                    finally:
                        self._idle += 1
            except _Closed:
                await self._gate.wait()
            except QueueClosed:
                return
            except asyncio.CancelledError:
                if asked_to_end():
                    raise
                await live_on()  # other code cancelled this task; its key is back in the queue
            except Exception:
                self.pause()  # the key goes back: no other worker shall meet the same fault before the end
                raise

    async def _reconcile(self, item: Item[Request], limit: RunLimit, task: asyncio.Task[Any] | None) -> None:
        causes: Sequence[Cause] = item.causes
        if self.guard.tracking:
            causes = await self.guard.explain(item.key, causes)
        with self.history.run(item, task) as run:
            try:
                outcome = run.outcome = await self._outcome(item, causes, limit)
                if task is not None and task.cancelling():
                    await live_on()  # the run cancelled its own task, and did not wait for what follows
            except asyncio.CancelledError as error:
                if asked_to_end():
                    raise
                await live_on()
                outcome = run.outcome = RunResult(
                    error=interrupted("the task of the run", error), secretive=True
                )
        self._runs += 1
        self._follow_up.after(item, outcome)
        record = outcome.record
        if record is not None and (record.writes or self.guard.storming):
            look = await self.guard.run_ended(
                item.key, record, outcome.result, record.primary, run.ended, repeated=outcome.repeated
            )
            if look is not None:
                self.queue.add_after(item.key, look, priority=item.priority, cause=_STORM)
        else:
            self.guard.idle_run_ended(item.key, run.ended)

    async def _outcome(self, item: Item[Request], causes: Sequence[Cause], limit: RunLimit) -> RunResult:
        if self.controller.background is not None:
            with anyio.move_on_after(self._executor.timeout) as patience:
                await self._backgrounds.ended(item.key)
            if patience.cancelled_caught:  # else one task that ignores its end would hold a worker for ever
                late = (
                    f"its background task did not end within {self._executor.timeout:g} s of being cancelled"
                )
                return RunResult(error=ReconcileTimeout(late))
        return await self._executor.run(item.key, causes, item.retries, limit)

    async def _is_put_off(self, item: Item[Request]) -> bool:
        """Whether a key that is due does not run now: it rests, or is in a storm."""
        if item.key in self._resting:
            later = (item.causes, item.dropped_causes)
            self._resting[item.key] = joined(self._resting[item.key], later)
            return True
        if not self.guard.storming:
            return False
        primary = self._primary.store.get(item.key.key)
        seconds = await self.guard.wait(item.key, item.causes, primary, anyio.current_time())
        if not seconds:
            return False
        for cause in item.causes or (_STORM,):
            self.queue.add_after(item.key, seconds, priority=item.priority, cause=cause)
        return True

    def rest(self, request: Request) -> None:
        """Run one key no more until `wake`; what would have it run is remembered."""
        self._resting.setdefault(request, NO_CAUSES)

    def wake(self, request: Request) -> bool:
        """Undo `rest`; false if the key did not rest."""
        missed = self._resting.pop(request, None)
        for cause in () if missed is None else missed[0]:
            self._add(request, 0, cause)
        return missed is not None

    @property
    def working(self) -> bool:
        """Whether it begins runs: it is not paused."""
        return not self._gate.paused

    def knows(self, request: Request) -> bool:
        """Whether there is an object of that key, or was one of late."""
        return self._primary.store.get(request.key) is not None or bool(self.history.past(request))

    def _has_object(self, request: Request) -> bool:
        primary = self._primary.store.get(request.key)
        return primary is not None and self.controller.keeps(primary)

    @property
    def resting(self) -> Sequence[Request]:
        """The keys that rest."""
        return [*self._resting]

    def _tell(self, snapshot: Snapshot, reason: str, message: str) -> None:
        try:
            obj = decode(self.controller.kind, snapshot.raw)
        except DecodeError:
            return
        self._executor.recorder.record(obj, PendingEvent("Warning", reason, message))
