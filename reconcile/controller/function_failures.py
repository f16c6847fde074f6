"""Handles author's functions that fail at a change, so that no change is lost."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog
from attrs import define, field

from informers import APIResource, Snapshot
from informers.functions import name_of
from informers.logs import is_worth_a_line
from reconcile.client.redaction import DeclaredFields, concealing
from reconcile.controller.triggers import INITIAL_PRIORITY, EnqueueKey
from reconcile.runs.run_failures import described
from reconcile.runs.run_request import Cause, Request

SWEEP_SECONDS = 5.0
"""Seconds during which changes of unknown keys are collected before all objects run: once for a burst."""


@define(eq=False)
class FunctionFailures:
    """Logs failures, and wakes all objects if need be; `objects` gives the keys of all objects."""

    log: structlog.stdlib.BoundLogger
    objects: Callable[[], Iterable[Request]]
    enqueue: EnqueueKey
    secret_fields: DeclaredFields = field(factory=dict)
    _failures: dict[str, int] = field(factory=dict, init=False)
    _sweep: asyncio.TimerHandle | None = field(default=None, init=False)

    def report(
        self,
        place: str,
        function: Any,
        error: BaseException,
        instead: str,
        resource: APIResource,
        states: Sequence[Snapshot | None],
    ) -> None:
        """Log a failure and the behaviour `instead`, ever less often; `states` were the arguments."""
        count = self._failures[place] = self._failures.get(place, 0) + 1
        if not is_worth_a_line(count):
            return
        key = next(str(state.key) for state in states if state is not None)
        with concealing(resource, states, self.secret_fields):
            self.log.error(
                "a function of the operator failed",
                place=place,
                function=name_of(function),
                error=described(error),
                instead=instead,
                key=key,
                times=count,
                exc_info=error,
            )

    def sweep(self, place: str) -> None:
        """Run all objects once for the changes of the next seconds: any of them may be concerned."""
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._wake_all, place)

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()

    def _wake_all(self, place: str) -> None:
        self._sweep = None
        for request in self.objects():
            self.enqueue(request, Cause("scheduled", note=f"{place} failed"), INITIAL_PRIORITY)


def requests_of(result: Any) -> Iterable[Request]:
    """The keys that a function returned. Raises TypeError."""
    if isinstance(result, Request):
        raise TypeError("it returned one Request: return several, such as [request]")
    if isinstance(result, str) or not isinstance(result, Iterable):
        raise TypeError(f"it returned {type(result).__name__}: expected Requests, such as [Request(...)]")
    requests = list(result)
    for request in requests:
        if not isinstance(request, Request) or not all(isinstance(part, str) for part in request):
            raise TypeError(f"it returned {type(request).__name__} among what should be Requests")
    return requests
