"""A controller at work: workers take keys from its queue, one run after the other."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from contextlib import closing
from typing import Generic, TypeAlias, TypeVar

import anyio
import structlog
from anyio import TaskHandle
from anyio.abc import TaskGroup

from informers import Cache, Informer, Reachability, Snapshot
from informers.cancellation import asked_to_end, interrupted, live_on
from informers.logs import is_worth_a_line
from reconcile.controller.cache_connection import CacheConnection
from reconcile.controller.controller_status import ControllerStatus
from reconcile.controller.deadlines import RunLimit
from reconcile.controller.declaration import DEFAULT_WORKERS
from reconcile.controller.declared_writes import DeclaredWrites
from reconcile.controller.event_recorder import FLUSH_SECONDS
from reconcile.controller.follow_up import FollowUp
from reconcile.controller.outage_recovery import OutageRecovery, RunGate
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.run_history import RunHistory
from reconcile.controller.run_log import LONG_SECONDS, RunLog
from reconcile.controller.run_output import PendingEvent
from reconcile.controller.run_result import ReconcileTimeout, RunResult
from reconcile.controller.triggers import INITIAL_PRIORITY, from_any_thread
from reconcile.models import DecodeError, Object, decode
from reconcile.runs.run_failures import Failures
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.tenure import within
from reconcile.storms.guard import StormGuard
from workqueue import Item, KeyBackoff, QueueClosed, WorkQueue
from workqueue.entries import NO_CAUSES, Causes, joined

T = TypeVar("T", bound=Object)

_STORM = Cause("scheduled", note="the storm guard")

EnqueueElsewhere: TypeAlias = Callable[[str, Request, Cause, int], None]
"""Queues a key of another cluster, for the controller of that name there; with a cause and a priority."""


class _GateClosed(Exception):
    """Raised to put the current key back while no run may begin."""


class Runner(Generic[T]):
    """A controller at work in one cluster: its queue, its workers, and the follow-up of each run.

    `connect` it to a cache before that runs, then `run` it once the cache is synced; `disconnect` undoes
    `connect`. `reach` shows whether the cluster can be reached, `all_reaches` the same of all clusters.
    `elsewhere` takes keys of other clusters.

    Where the executor has `held` buckets, only keys of objects in these are queued and run: `gain` queues
    those of further ones, `release` ends the work on those that go to another replica.
    """

    def __init__(
        self,
        executor: RunExecutor[T],
        reach: Reachability,
        *,
        history: RunHistory | None = None,
        workers: int = 0,
        cluster: str = "",
        elsewhere: EnqueueElsewhere | None = None,
        all_reaches: Callable[[], Iterable[Reachability]] = tuple,
    ) -> None:
        controller = self.controller = executor.controller
        random, metrics = executor.client.clock.random, None if history is None else history.metrics
        self.cluster = cluster
        self.history = history or RunHistory()
        self.failures = Failures(executor.log)
        self._backoff: KeyBackoff[Request] = KeyBackoff(controller.backoff, chance=random)
        self.queue: WorkQueue[Request] = WorkQueue(
            limiter=self._backoff, metrics=None if metrics is None else metrics.queue
        )
        self.workers = workers or controller.workers or DEFAULT_WORKERS
        self.guard = StormGuard(
            controller.storms,
            executor.resource,
            controller.field_manager,
            executor.client,
            self._record_warning,
            executor.log,
            metrics,
            polls=controller.every is not None,
        )
        self.trigger = from_any_thread(self._trigger, self.history.traces)
        """The same as `enqueue`, from any thread; the log names keys that this replica does not work on."""
        self._executor = executor
        self._log: structlog.stdlib.BoundLogger = executor.log
        self._held = executor.held
        self._narrows = bool(controller.selector) or self._held is not None
        self._refused = 0
        self._elsewhere = elsewhere
        self._gate = RunGate(reach)
        recovery = OutageRecovery(reach, self.queue, self.enqueue, all_reaches)
        run_log = RunLog(self.failures, self.history, min(LONG_SECONDS, executor.timeout / 2))
        self._follow_up = FollowUp(
            controller, self.queue, recovery, run_log, random, lambda key: self._connected.keeps(key)
        )
        self._levels = self.history.levels
        self._connection: CacheConnection[T] | None = None
        self._ended: anyio.Event | None = None
        """Set where `run` ends; None where it does not run."""
        self._left = False
        self._tasks = anyio.create_task_group()
        self._runs = 0
        self._started: list[TaskHandle[None]] = []
        self._unstarted, self._idle = 0, 0
        self._resting: dict[Request, Causes] = {}

    @property
    def name(self) -> str:
        """The name of the controller, after that of the cluster where there are several: `east/site`."""
        return f"{self.cluster}/{self.controller.name}" if self.cluster else self.controller.name

    @property
    def declarations(self) -> DeclaredWrites:
        """The declared writes of the controller, and its undeclared ones so far."""
        return self._executor.declarations

    def status(self) -> ControllerStatus:
        queue, paused, resting = self.queue.status(), self._gate.paused, len(self._resting)
        status = ControllerStatus(self.name, queue, self._runs, self.failures.count, paused, resting)
        return status if self._levels is None else self._levels.added_to(status, anyio.current_time())

    # --- connecting -------------------------------------------------------------------------------

    def connect(self, cache: Cache) -> None:
        """Declare the informers in `cache`, and queue their keys. Raises RuntimeError if connected."""
        if self._connection is not None:
            raise RuntimeError(f"controller {self.name} is connected to a cache already")
        primary = cache.declare(self._executor.resource)
        # Known before it is opened: a cache that runs already brings keys meanwhile.
        self._connection = CacheConnection(
            cache, primary, self._executor, self.guard, self.enqueue, self.cluster, self._levels
        )
        try:
            self._connection.open()
        except BaseException:
            self._connection = None
            raise

    def disconnect(self) -> None:
        """Undo `connect`, if it is connected. No run may be under way any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @property
    def _connected(self) -> CacheConnection[T]:
        if self._connection is None:
            raise RuntimeError(f"controller {self.name} is not connected to a cache")
        return self._connection

    # --- start and end ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until the queue is closed and empty. Raises RuntimeError if it is not connected."""
        if self._left and self._connection is None:
            return  # removed before its task began
        connection = self._connected
        self._ended = anyio.Event()
        if self._held is not None:
            self.gain(self._held.held)  # some came after it was connected, when nobody knew it yet
        if self._levels is not None:
            self._levels.start()
        try:
            async with self._tasks as tasks:
                with self._executor.recorder.writing_in(tasks):
                    await self._run(connection, tasks)
                tasks.cancel_scope.cancel()
        finally:
            self._executor.deadlines.close()
            connection.failures.close()
            self._ended.set()
            self._ended = None

    async def _run(self, connection: CacheConnection[T], beside: TaskGroup) -> None:
        # Sources first: a worker must not decide before those with `initial` have delivered what they know.
        await connection.start_sources(beside)
        connection.backgrounds.start(beside)
        self._unstarted, self._idle = self.workers - 1, 1
        await self._work()
        self._unstarted = 0
        for worker in self._started:
            await worker.wait()
        connection.backgrounds.stop()
        # Last, since the runs that have just ended recorded Events too.
        with anyio.move_on_after(FLUSH_SECONDS):
            await self._executor.recorder.flush()

    async def leave(self, seconds: float) -> None:
        """Take no more keys; runs under way may end within `seconds`, then they are cancelled."""
        self._left = True
        self._connected.mute()
        self.queue.close()
        try:
            with anyio.move_on_after(seconds):
                await self.drain()
        finally:
            self._tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._wait_ended()

    async def drain(self) -> None:
        """Wait for the runs under way and their last Events, after the queue was closed."""
        await self.queue.join()
        if not self._gate.closed:  # workers that wait at the gate do not end: their caller cancels them
            await self._wait_ended()

    async def _wait_ended(self) -> None:
        if self._ended is not None:
            await self._ended.wait()

    def pause(self) -> None:
        """Begin no more runs until `resume`; keys are collected, and runs under way end."""
        self._gate.pause()

    def resume(self) -> None:
        if self._levels is not None:
            self._levels.resumed()
        self._gate.resume()

    # --- keys -------------------------------------------------------------------------------------

    def enqueue(self, request: Request, cause: Cause, priority: int = 0) -> None:
        """Have a key reconciled: in this cluster, unless it names another one."""
        if request.cluster == self.cluster:
            self._add(request, priority, cause)
        elif not request.cluster:
            self._add(self._here(request), priority, cause)
        elif self._elsewhere is not None:
            self._elsewhere(self.controller.name, request, cause, priority)
        else:
            self._log.error("woken in a cluster that this manager does not have", key=str(request))

    def object_of(self, request: Request) -> Snapshot | None:
        """The object of a key as the cache has it, whichever replica works on it."""
        return self._connected.object_of(self._here(request))

    def held_in(self, namespace: str) -> Sequence[Snapshot]:
        """The cached objects of a namespace that are being deleted and wait for the controller's cleanup."""
        return [
            snapshot
            for snapshot in self._connected.primary.store
            if snapshot.key.namespace == namespace and self.controller.holds(snapshot)
        ]

    def is_left(self, request: Request) -> bool:
        """Whether replicas share the objects, and this one does not work on an object of that key."""
        return self._held is not None and self._connected.leaves_alone(self._here(request))

    def _trigger(self, request: Request, cause: Cause, priority: int, *, in_all_loops: bool = False) -> None:
        if request.cluster in ("", self.cluster) and self.is_left(request):
            self._refused += 1
            if not in_all_loops and is_worth_a_line(self._refused):
                self._log.warning(
                    "not triggered: this replica does not hold an object of that key",
                    key=str(request),
                    times=self._refused,
                )
            return
        self.enqueue(request, cause, priority)

    def _here(self, request: Request) -> Request:
        return request._replace(cluster=self.cluster)

    def _add(self, request: Request, priority: int, cause: Cause) -> None:
        if self._narrows and self._connected.leaves_alone(request):
            return
        self.queue.add(request, priority=priority, cause=cause)
        if self._levels is not None and priority > INITIAL_PRIORITY:
            self._levels.woken(request, cause)
        if self._unstarted and not self._idle:
            self._start_worker()

    def rest(self, request: Request) -> None:
        """Run one key no more until `wake`; causes for it are remembered."""
        self._resting.setdefault(request, NO_CAUSES)

    def wake(self, request: Request) -> bool:
        """Undo `rest`; false if the key did not rest."""
        missed = self._resting.pop(request, None)
        if self._levels is not None:
            self._levels.resumed(request)
        for cause in () if missed is None else missed[0]:
            self._add(request, 0, cause)
        return missed is not None

    @property
    def resting(self) -> Set[Request]:
        return self._resting.keys()

    @property
    def informers(self) -> Sequence[Informer]:
        """All that the cache follows to which it is connected, also for other controllers."""
        return () if self._connection is None else [*self._connection.cache]

    @property
    def working(self) -> bool:
        """Whether it begins runs: it is not paused."""
        return not self._gate.paused

    def knows(self, request: Request) -> bool:
        """Whether there is an object of that key, or was one lately; of those that this replica works on."""
        found = self._connected.object_of(request) is not None and not self._gave_up(request)
        return found or bool(self.history.past(request))

    def _gave_up(self, request: Request) -> bool:
        return self._held is not None and not self._connected.is_held(request)

    # --- buckets ----------------------------------------------------------------------------------

    def gain(self, buckets: Collection[int], *, clean: bool = True) -> None:
        """Work on the objects in these buckets too; to be called once they are held.

        Unless `clean`, the former holder has not said up to which version it has written: then deletions and
        creates with generated names wait again until the cache of their kind is certainly up to date.
        """
        assert self._held is not None
        if not clean:
            self._executor.distrust_cache()
        label = self._held.buckets.label
        causes = {bucket: Cause("added", note=f"gained bucket {label(bucket)}") for bucket in buckets}
        for bucket, request in self._connected.requests_in(buckets):
            self._add(request, INITIAL_PRIORITY, causes[bucket])
        self._connected.backgrounds.refresh()

    async def release(self, buckets: Collection[int]) -> None:
        """End all work in these buckets, and forget it; to be called once they are closed.

        Runs under way end, with their status written; a cancellation of this call cancels them too. Then the
        cache shows all that was written. Events are written later, as ever. Raises CacheBehind and errors of
        reads where the cache may not show a write; nothing is forgotten then, and the call can be repeated.
        """
        runs, connection = self._executor.runs, self._connected
        assert runs is not None
        try:
            # First, as each of them needs a moment to end.
            connection.backgrounds.refresh()
            await runs.ended(buckets)
            # By sets, as the next holder waits for this: to ask for the buckets of each key took most of it.
            known = connection.known_in(buckets)
            await self._executor.settle(known)
            await connection.backgrounds.all_ended(known.__contains__)
        except anyio.get_cancelled_exc_class():
            self.cancel_runs(buckets)
            self.forget(buckets)
            raise
        self.forget(buckets)

    def at_work_in(self, buckets: Collection[int]) -> Set[int]:
        """Those of these buckets in which runs are under way."""
        return set() if self._executor.runs is None else self._executor.runs.at_work_in(buckets)

    def cancel_runs(self, buckets: Collection[int]) -> None:
        """Cancel the runs in these buckets; a thread of blocking code goes on until it returns."""
        if self._executor.runs is not None:
            self._executor.runs.cancel(buckets)

    def forget(self, buckets: Collection[int]) -> None:
        """Forget the keys in these buckets, and in none that is held or still to be released."""
        held, runs, guard = self._held, self._executor.runs, self.guard
        if self._connection is None or held is None or runs is None:
            return  # it was removed meanwhile
        if self._executor.observer is not None:
            self._executor.observer.forgotten(buckets)
        staying = self._connected.known_in([bucket for bucket in held.held if bucket not in buckets])

        def is_gone(request: Request) -> bool:
            return request not in staying and request not in runs

        for request in {*self.queue.keys(), *self._backoff.keys(), *self._resting, *guard.keys()}:
            if is_gone(request):
                self.queue.discard(request)
                self._resting.pop(request, None)
                guard.forget(request)
        self._executor.tombstones.forget_where(lambda key: is_gone(self._here(Request(*key))))
        self._executor.forget_where(is_gone)
        self.history.forget_where(is_gone)

    # --- workers ----------------------------------------------------------------------------------

    def _start_worker(self) -> None:
        """Called when a key waits and no worker is idle, so that few keys have few workers."""
        self._unstarted -= 1
        self._idle += 1
        with within(None):  # the run that has queued the key may be of another bucket
            self._started.append(self._tasks.create_task(self._work()))

    async def _work(self) -> None:
        with closing(self._executor.limit()) as limit:
            await self._work_within(limit)

    async def _work_within(self, limit: RunLimit) -> None:
        while True:
            try:
                # An exception that leaves this block hands the key back: due again at once, with its causes.
                async with self.queue.get() as item:
                    self._idle -= 1
                    if self._unstarted and not self._idle and self.queue.has_more:
                        self._start_worker()
                    try:
                        if self._gate.closed:
                            raise _GateClosed
                        is_calm = not self._resting and not self.guard.storming
                        if self._gave_up(item.key):
                            self.queue.discard(item.key)  # it was queued while its bucket was held
                        elif is_calm or not await self._is_put_off(item):
                            await self._reconcile(item, limit)
                    finally:
                        self._idle += 1
            except _GateClosed:
                await self._gate.wait()
            except QueueClosed:
                return
            except asyncio.CancelledError:
                if asked_to_end():
                    raise
                await live_on()  # other code cancelled this task; its key is back in the queue
            except Exception:
                self.pause()  # else another worker would take the key and fail the same way, before the end
                raise

    async def _reconcile(self, item: Item[Request], limit: RunLimit) -> None:
        causes: Sequence[Cause] = item.causes
        if self.guard.tracking:
            causes = await self.guard.explain(item.key, causes)
        with self.history.run(item, limit.task, limit.now) as run:
            try:
                outcome = run.outcome = await self._outcome(item, causes, limit)
                if limit.task.cancelling():
                    await live_on()  # the run cancelled its own task, and did not wait for what follows
            except asyncio.CancelledError as error:
                if asked_to_end():
                    raise
                await live_on()
                outcome = run.outcome = RunResult(
                    error=interrupted("the task of the run", error), secretive=True
                )
        self._runs += 1
        # The next run is queued before the guard is asked: its condition may take a request.
        self._follow_up.after(item, outcome)
        if self._levels is not None:
            self._levels.run_ended(item, outcome, self._connected.object_of(item.key), run.ended)
        if self._gave_up(item.key):
            self.queue.discard(item.key)
        record = outcome.record
        if record is not None and record.writes:
            self._connected.wake_if_lost(item.key)
        if record is not None and (record.writes or self.guard.storming):
            with within(record.tenure):
                due = await self.guard.run_ended(
                    item.key, record, outcome.result, record.primary, run.ended, repeated=outcome.repeated
                )
            if due is not None:
                self.queue.add_after(item.key, due, priority=item.priority, cause=_STORM)
        else:
            self.guard.idle_run_ended(item.key, run.ended)

    async def _outcome(self, item: Item[Request], causes: Sequence[Cause], limit: RunLimit) -> RunResult:
        executor = self._executor
        if self.controller.background is not None:
            # `cleanup` must not run beside the object's task; one that does not end holds no worker for ever.
            with anyio.move_on_after(executor.timeout) as patience:
                await self._connected.backgrounds.ended(item.key)
            if patience.cancelled_caught:
                late = f"its background task did not end within {executor.timeout:g} s of being cancelled"
                return RunResult(error=ReconcileTimeout(late))
        return await executor.run(item.key, causes, item.retries, limit)

    async def _is_put_off(self, item: Item[Request]) -> bool:
        """Whether a due key does not run now: it rests, or is in a storm."""
        if item.key in self._resting:
            later = (item.causes, item.dropped_causes)
            self._resting[item.key] = joined(self._resting[item.key], later)
            return True
        if not self.guard.storming:
            return False
        primary = self._connected.object_of(item.key)
        seconds = await self.guard.wait(item.key, item.causes, primary, anyio.current_time())
        if not seconds:
            return False
        for cause in item.causes or (_STORM,):
            self.queue.add_after(item.key, seconds, priority=item.priority, cause=cause)
        return True

    def _record_warning(self, snapshot: Snapshot, reason: str, message: str) -> None:
        try:
            obj = decode(self.controller.kind, snapshot.raw)
        except DecodeError:
            return
        self._executor.recorder.record(obj, PendingEvent("Warning", reason, message))
