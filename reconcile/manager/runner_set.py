"""The controllers of one manager: they come, rest and go while it runs."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, field

from informers import Cache, get_logger
from reconcile.controller.declaration import Controller
from reconcile.controller.runner import Runner
from reconcile.manager.unique_names import check_unique_names
from reconcile.runs.supervision import first_error, noted

_log = get_logger("reconcile")


@define(eq=False)
class RunnerSet:
    """The controllers at work, by their names. `make` connects a controller to the cache."""

    cache: Cache
    make: Callable[[Controller[Any]], Runner[Any]]
    sync_seconds: float
    _runners: dict[str, Runner[Any]] = field(factory=dict, init=False)
    _joining: dict[str, anyio.CancelScope] = field(factory=dict, init=False)
    _group: TaskGroup | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Runner[Any]]:
        return iter(list(self._runners.values()))

    def declare(self, controller: Controller[Any]) -> None:
        """Take one in before anything runs."""
        self._check_name(controller)
        self._runners[controller.name] = self.make(controller)

    def admit(self, controller: Controller[Any]) -> None:
        """Take one in that begins with the others. Raises ValueError, and RuntimeError at the end."""
        self._refuse_at_the_end(controller.name)
        self.declare(controller)

    def start(self, group: TaskGroup) -> None:
        """Have them all work in that group, and whoever is added later."""
        self._group = group
        for runner in self:
            group.start_soon(noted, runner.run, f"controller {runner.name}")

    async def add(self, controller: Controller[Any]) -> None:
        """Take one in, and have it work when its caches are synced (and the others work).

        Raises ValueError where its name is taken, RuntimeError where the end has begun, or begins
        meanwhile, and CacheSyncFailed; then it leaves no trace.
        """
        self._refuse_at_the_end(controller.name)
        self._check_name(controller)
        runner = self.make(controller)
        scope = self._joining[controller.name] = anyio.CancelScope()
        try:
            with scope:
                await self._wait_synced()
            self._refuse_at_the_end(controller.name)
        except BaseException:
            runner.release(self.cache)
            raise
        finally:
            del self._joining[controller.name]
        self._runners[controller.name] = runner
        if self._group is not None:
            self._group.start_soon(noted, runner.run, f"controller {runner.name}")

    def __contains__(self, name: str) -> bool:
        return name in self._runners

    async def remove(self, name: str, seconds: float) -> None:
        """Let one go: runs under way may end within `seconds`; what nobody else reads is not followed."""
        runner = self.get(name)
        try:
            await runner.leave(seconds)
        finally:
            if self._runners.pop(name, None) is not None:
                runner.release(self.cache)

    def get(self, name: str) -> Runner[Any]:
        """The one of that name. Raises LookupError."""
        runner = self._runners.get(name)
        if runner is None:
            raise LookupError(f"no controller {name!r} runs here; there are: {', '.join(self._runners)}")
        return runner

    def key_of(self, task: asyncio.Task[Any]) -> str:
        """Which controller's run of which key a task is; empty if it is none. From any thread."""
        for runner in self:
            for run in runner.history.running():
                if run.task is task:
                    return f"{runner.controller.name} {run.request}"
        return ""

    async def stop(self, seconds: float) -> None:
        """Take no more keys and no more controllers; wait for the runs under way, so long."""
        self._stopping = True
        for scope in self._joining.values():
            scope.cancel()
        for runner in self:
            runner.queue.close()
        with anyio.move_on_after(seconds) as grace:
            for runner in self:
                await runner.drain()
        if grace.cancelled_caught:
            late = [f"{runner.name} {run.request}" for runner in self for run in runner.history.running()]
            _log.warning("runs did not end in time and are cancelled", seconds=seconds, keys=late)

    def end(self) -> None:
        """Nothing runs any more: let nobody join, or trigger what would not be heard."""
        self._stopping = True
        for scope in self._joining.values():
            scope.cancel()
        for runner in self:
            runner.disconnect()

    async def _wait_synced(self) -> None:
        try:
            await self.cache.wait_synced(self.sync_seconds)
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    def _refuse_at_the_end(self, name: str) -> None:
        if self._stopping:
            raise RuntimeError(f"controller {name} is not taken in: the manager is stopping")

    def _check_name(self, controller: Controller[Any]) -> None:
        if controller.name in self._joining:
            raise ValueError(f"two controllers are named {controller.name!r}: give one of them another name=")
        check_unique_names((*(runner.controller for runner in self), controller))
