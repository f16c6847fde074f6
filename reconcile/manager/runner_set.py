"""The runners of one cluster, by the names of their controllers; they can be added and removed at work."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import define, field

from informers import Cache, get_logger
from reconcile.controller.declaration import Controller
from reconcile.controller.runner import Runner
from reconcile.manager.option_checks import check_unique_names
from reconcile.runs.supervision import noted, without_groups

_log = get_logger("reconcile")


@define(eq=False)
class RunnerSet:
    cache: Cache
    make: Callable[[Controller[Any]], Runner[Any]]
    sync_seconds: float
    ended: bool = field(default=False, init=False)
    _runners: dict[str, Runner[Any]] = field(factory=dict, init=False)
    _joining: dict[str, anyio.CancelScope] = field(factory=dict, init=False)
    _group: TaskGroup | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Runner[Any]]:
        return iter(list(self._runners.values()))

    def declare(self, controller: Controller[Any]) -> None:
        self._runners[controller.name] = self._connected(controller)

    def admit(self, controller: Controller[Any]) -> None:
        """Add a controller that starts with the others. Raises ValueError, RuntimeError while stopping."""
        self._refuse_while_stopping(controller.name)
        self.declare(controller)

    def start(self, group: TaskGroup) -> None:
        self._group = group
        for runner in self:
            group.start_soon(noted, runner.run, f"controller {runner.name}")

    async def add(self, controller: Controller[Any]) -> None:
        """Add a controller, and start it when its caches are synced and the others have started.

        Raises ValueError if its name is taken, RuntimeError if the manager stops meanwhile, and
        CacheSyncFailed.
        """
        self._refuse_while_stopping(controller.name)
        runner = self._connected(controller)
        scope = self._joining[controller.name] = anyio.CancelScope()
        try:
            with scope, without_groups():
                await self.cache.wait_synced(self.sync_seconds)
            # The stop may have begun meanwhile, and it does not wait for what joins after it.
            self._refuse_while_stopping(controller.name)
        except BaseException:
            runner.disconnect()
            raise
        finally:
            del self._joining[controller.name]
        self._runners[controller.name] = runner
        if self._group is not None:
            self._group.start_soon(noted, runner.run, f"controller {runner.name}")

    def __contains__(self, name: str) -> bool:
        return name in self._runners

    async def remove(self, name: str, seconds: float) -> None:
        """Remove a controller: its runs may end within `seconds`; kinds that only it reads are released."""
        runner = self.get(name)
        try:
            await runner.leave(seconds)
        finally:
            if self._runners.pop(name, None) is not None:
                runner.disconnect()

    def get(self, name: str) -> Runner[Any]:
        """Raises LookupError."""
        runner = self._runners.get(name)
        if runner is None:
            raise LookupError(f"no controller {name!r} runs here; there are: {', '.join(self._runners)}")
        return runner

    def key_of(self, task: asyncio.Task[Any]) -> str:
        """The controller and key of the run that a task executes; empty for other tasks. From any thread."""
        for runner in self:
            for run in runner.history.running():
                if run.task is task:
                    return f"{runner.controller.name} {run.request}"
        return ""

    async def stop(self, seconds: float) -> None:
        """Accept no more keys and controllers, and wait for the runs in progress, `seconds` at most."""
        self._refuse_more()
        # All queues close before any is drained: a run that ends must not enqueue keys elsewhere.
        for runner in self:
            runner.queue.close()
        with anyio.move_on_after(seconds) as grace:
            for runner in self:
                await runner.drain()
        if grace.cancelled_caught:
            keys = [f"{runner.name} {run.request}" for runner in self for run in runner.history.running()]
            _log.warning("cancelling runs that did not end in time", seconds=seconds, keys=keys)

    def end(self) -> None:
        self._refuse_more()
        self.ended = True

    def _refuse_more(self) -> None:
        self._stopping = True
        for scope in self._joining.values():
            scope.cancel()

    def _refuse_while_stopping(self, name: str) -> None:
        if self._stopping:
            raise RuntimeError(f"controller {name} was not added: the manager is stopping")

    def _connected(self, controller: Controller[Any]) -> Runner[Any]:
        if controller.name in self._joining:
            raise ValueError(f"two controllers are named {controller.name!r}: give one of them another name=")
        check_unique_names((*(runner.controller for runner in self), controller))
        runner = self.make(controller)
        runner.connect(self.cache)
        return runner
