"""Holds the keys of a controller during an outage of the API server, and runs them when it answers again."""

from collections.abc import Callable, Iterable
from functools import partial

import anyio
from attrs import define, field

from informers import Reachability, is_unreachable
from informers.cancellation import leaf_errors
from reconcile.client.own_writes import CacheBehind
from reconcile.controller.run_result import RunResult
from reconcile.controller.triggers import EnqueueKey
from reconcile.runs.run_request import Cause, Request
from workqueue import WorkQueue


@define(eq=False)
class RunGate:
    """Closed while a controller may not begin runs: it is paused or its server is known to be down."""

    reach: Reachability
    _resumed: anyio.Event | None = field(default=None, init=False)

    @property
    def closed(self) -> bool:
        return self._resumed is not None or self.reach.down

    @property
    def paused(self) -> bool:
        return self._resumed is not None

    def pause(self) -> None:
        if self._resumed is None:
            self._resumed = anyio.Event()

    def resume(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()

    async def wait(self) -> None:
        while self.closed:
            if self._resumed is not None:
                await self._resumed.wait()
            else:
                await self.reach.wait_up()


@define(eq=False)
class OutageRecovery:
    """Runs the keys again whose runs failed because of an outage of `reach` or another cluster."""

    reach: Reachability
    queue: WorkQueue[Request]
    enqueue: EnqueueKey
    all_reaches: Callable[[], Iterable[Reachability]] = tuple

    def takes(self, request: Request, outcome: RunResult) -> bool:
        """Whether an ongoing outage made a run fail, so that it does not count as a failure of the key."""
        if outcome.error is None or not is_of_outage(outcome.error):
            return False
        if self.reach.down:
            return True
        # After another cluster's outage the key is retried with back-off, and when that outage is over.
        for reach in self.all_reaches():
            if reach.troubled and reach is not self.reach:
                self._wake_later(reach, request)
        return False

    def note_success(self, request: Request, outcome: RunResult) -> None:
        """A run succeeded; if it caught the error of a request, its work may be incomplete."""
        if self.reach.troubled and outcome.record is not None and not outcome.record.flawless:
            self._wake_later(self.reach, request)

    def _wake_later(self, reach: Reachability, request: Request) -> None:
        reach.when_up((id(self), request), partial(self._wake, request))

    def _wake(self, request: Request) -> None:
        """Run a key as if it had not failed before: the failures were those of the server."""
        self.queue.forget(request)
        self.enqueue(request, Cause("retried"), 0)


def is_of_outage(error: BaseException) -> bool:
    """Whether an error means that the server did not answer, or was raised from such errors alone."""
    return all(_is_of_outage(leaf, set()) for leaf in leaf_errors(error))


def _is_of_outage(error: BaseException, seen: set[int]) -> bool:
    """Checks the error and its chain of causes, which may be circular, so the seen ones are kept."""
    if isinstance(error, CacheBehind) or is_unreachable(error):
        return True
    seen.add(id(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is None or id(cause) in seen:
        return False
    return all(id(leaf) not in seen and _is_of_outage(leaf, seen) for leaf in leaf_errors(cause))
