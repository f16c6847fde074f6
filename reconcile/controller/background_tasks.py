"""One task for each object, beside its reconciler, to follow the external state of the object.

A task runs while workers do and its object exists; it has ended before the object's `cleanup` runs or a
namesake gets a task. It may only ask for runs, and is paced: `reconcile` decides and writes.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup
from attrs import define, field

from informers import Clock, Delta, Snapshot, Store
from reconcile.client import redaction
from reconcile.client.redaction import SecretValues
from reconcile.controller.triggers import EnqueueKey
from reconcile.models import Object, decode, kind_of
from reconcile.runs.run_request import Request
from reconcile.runs.supervision import supervise

if TYPE_CHECKING:
    from reconcile.controller.object_background import BackgroundFunction

T = TypeVar("T", bound=Object)

_STATES = 8
"""Of an object, whose secret values are hidden: a task lives long, and speaks of the latest ones."""


@define(eq=False)
class _ObjectTask:
    """The task of one object. `after` is set when the task of an earlier namesake has ended."""

    uid: str
    after: anyio.Event | None
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    ended: anyio.Event = field(factory=anyio.Event)


@define(eq=False)
class _ObjectView(Generic[T]):
    """What a task sees of its object; the secret values in it are kept out of what the task logs."""

    kind: type[T]
    store: Store
    request: Request
    uid: str
    values: SecretValues
    _version: int = field(default=-1, init=False)

    def current(self) -> T | None:
        snapshot = self.store.get(self.request.key)
        if snapshot is None or snapshot.uid != self.uid:
            return None
        if snapshot.version != self._version:
            self._version = snapshot.version
            self.values.add(kind_of(self.kind).resource, snapshot.raw)
            self.values.keep_latest(_STATES)
        return decode(self.kind, snapshot.raw)


@define(eq=False)
class BackgroundTasks(Generic[T]):
    """The tasks of a controller's objects; none before `start`, and none where `function` is None."""

    kind: type[T]
    function: "BackgroundFunction[T] | None"
    store: Store
    enqueue: EnqueueKey
    clock: Clock
    log: structlog.stdlib.BoundLogger
    cluster: str = ""
    keeps: Callable[[Snapshot], bool] = lambda snapshot: True
    secret_fields: redaction.DeclaredFields = field(factory=dict)
    _tasks: dict[Request, _ObjectTask] = field(factory=dict, init=False)
    _group: TaskGroup | None = field(default=None, init=False)

    def start(self, group: TaskGroup) -> None:
        """Start a task for each object; from now on tasks start and end with their objects."""
        if self.function is None:
            return
        self._group = group
        self.refresh()

    def refresh(self) -> None:
        """Start and end tasks, as `keeps` chooses other objects now; none before `start`."""
        if self._group is None:
            return
        for snapshot in self.store:
            self._keep(Request(*snapshot.key, self.cluster), snapshot)

    def stop(self) -> None:
        """Start no more tasks. Running ones end with their group."""
        self._group = None

    def follow(self, delta: Delta) -> None:
        """Start or end a task, if a change of the store is the beginning or the end of an object."""
        if self._group is not None:
            self._keep(Request(*delta.last.key, self.cluster), delta.new)

    async def ended(self, request: Request) -> None:
        """Wait until the task of an object that is being deleted has ended."""
        task = self._tasks.get(request)
        if task is not None and task.scope.cancel_called:
            await task.ended.wait()

    async def all_ended(self, concerns: Callable[[Request], bool]) -> None:
        """Wait until the tasks of some keys have ended, as far as they were ended."""
        for request in [*self._tasks]:
            if concerns(request):
                await self.ended(request)

    def __len__(self) -> int:
        return sum(not task.ended.is_set() for task in self._tasks.values())

    def _keep(self, request: Request, snapshot: Snapshot | None) -> None:
        has_task = snapshot is not None and not snapshot.terminating and self.keeps(snapshot)
        uid = snapshot.uid if snapshot is not None and has_task else None
        task = self._tasks.get(request)
        if task is not None and task.uid == uid and not task.scope.cancel_called:
            return
        if task is not None:
            task.scope.cancel()
        if uid is None:
            if task is not None and task.ended.is_set():
                del self._tasks[request]
            return
        assert self._group is not None
        successor = _ObjectTask(uid, None if task is None else task.ended)
        self._tasks[request] = successor
        self._group.start_soon(self._run, request, successor)

    async def _run(self, request: Request, task: _ObjectTask) -> None:
        from reconcile.controller.object_background import Background, PacedTrigger

        assert self.function is not None
        log = self.log.bind(key=str(request))
        trigger = PacedTrigger(lambda cause: self.enqueue(request, cause, 0))
        view = _ObjectView(self.kind, self.store, request, task.uid, SecretValues(self.secret_fields))
        background = Background(request, task.uid, log, self.clock, view.current, trigger.ask)
        redaction.seen.set(view.values)  # of this task alone, and of what it starts
        try:
            if task.after is not None:
                await task.after.wait()
            with task.scope:
                await supervise(partial(self.function, background), "background", self.clock, log)
        finally:
            trigger.end()
            task.ended.set()
            if task.scope.cancel_called and self._tasks.get(request) is task:
                del self._tasks[request]
