"""One task for each object, beside its reconciler: to listen to what the object stands for.

A task is started when workers are and the object is there; it is cancelled, and has ended, before the
object's `cleanup` runs or another object of its name gets a task. It may only ask for runs: what is
to be done is decided, and written, in `reconcile`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup
from attrs import define, field, frozen

from informers import Clock, Delta, Informer, Snapshot
from reconcile.models import Object, decode
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.supervision import supervise

T = TypeVar("T", bound=Object)


@frozen
class Background(Generic[T]):
    """What the task of one object gets."""

    request: Request
    uid: str
    log: structlog.stdlib.BoundLogger
    clock: Clock
    _current: Callable[[], T | None]
    _enqueue: Callable[[Cause], None]

    @property
    def object(self) -> T | None:
        """The object as it is cached now; None once it is gone. Raises DecodeError."""
        return self._current()

    def trigger(self, cause: str = "") -> None:
        """Have the object reconciled; `cause` says why, in a few words."""
        self._enqueue(Cause("triggered", note=cause))


BackgroundFunction = Callable[[Background[T]], Awaitable[None]]


@define(eq=False)
class _ObjectTask:
    """The task of one object. `after` is the end of the task that had its name before."""

    uid: str
    after: anyio.Event | None
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    ended: anyio.Event = field(factory=anyio.Event)


@define(eq=False)
class BackgroundTasks(Generic[T]):
    """The tasks of a controller's objects; none before `start`, and none where `function` is None."""

    kind: type[T]
    function: BackgroundFunction[T] | None
    informer: Informer
    enqueue: Callable[[Request, Cause], None]
    clock: Clock
    log: structlog.stdlib.BoundLogger
    cluster: str = ""
    keeps: Callable[[Snapshot], bool] = lambda snapshot: True
    _tasks: dict[Request, _ObjectTask] = field(factory=dict, init=False)
    _group: TaskGroup | None = field(default=None, init=False)

    def start(self, group: TaskGroup) -> None:
        """Start the tasks of all objects there are; from now on they come and go with them."""
        if self.function is None:
            return
        self._group = group
        for snapshot in self.informer.store:
            self._keep(Request(*snapshot.key, self.cluster), snapshot)

    def stop(self) -> None:
        """Start no more tasks. Those that run end with their group."""
        self._group = None

    def follow(self, delta: Delta) -> None:
        """Look whether a change of the store is the beginning or the end of an object."""
        if self._group is not None:
            self._keep(Request(*delta.last.key, self.cluster), delta.new)

    async def ended(self, request: Request) -> None:
        """Wait until no task of an object that is going runs any more."""
        task = self._tasks.get(request)
        if task is not None and task.scope.cancel_called:
            await task.ended.wait()

    def __len__(self) -> int:
        """How many tasks have not ended."""
        return sum(not task.ended.is_set() for task in self._tasks.values())

    def _keep(self, request: Request, snapshot: Snapshot | None) -> None:
        has_task = snapshot is not None and not snapshot.terminating and self.keeps(snapshot)
        wanted = snapshot.uid if snapshot is not None and has_task else None
        task = self._tasks.get(request)
        if task is not None and task.uid == wanted:
            return
        if task is not None:
            task.scope.cancel()
        if wanted is None:
            if task is not None and task.ended.is_set():
                del self._tasks[request]
            return
        assert self._group is not None
        successor = _ObjectTask(wanted, None if task is None else task.ended)
        self._tasks[request] = successor
        self._group.start_soon(self._run, request, successor)

    async def _run(self, request: Request, task: _ObjectTask) -> None:
        assert self.function is not None
        log = self.log.bind(key=str(request))
        given = Background(
            request,
            task.uid,
            log,
            self.clock,
            partial(self._current, request, task.uid),
            partial(self.enqueue, request),
        )
        try:
            if task.after is not None:
                await task.after.wait()
            with task.scope:
                await supervise(partial(self.function, given), "background", self.clock, log)
        finally:
            task.ended.set()
            if task.scope.cancel_called and self._tasks.get(request) is task:
                del self._tasks[request]

    def _current(self, request: Request, uid: str) -> T | None:
        snapshot = self.informer.store.get(request.key)
        return None if snapshot is None or snapshot.uid != uid else decode(self.kind, snapshot.raw)
