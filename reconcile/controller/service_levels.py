"""Measures what an operator owes its users: how soon it reacts, how soon objects converge, and rest at rest.

Only where a manager has metrics. Times are those of the event loop's clock.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from attrs import define, evolve, field

from informers import Delta, Snapshot
from reconcile.controller.controller_status import ControllerStatus
from reconcile.controller.run_result import RunResult
from reconcile.controller.service_metrics import ServiceMetrics
from reconcile.runs.run_record import changed_something
from reconcile.runs.run_request import Cause, Request
from workqueue import Item

_CHANGES: Final = frozenset({"added", "updated", "deleted", "triggered"})
"""Causes that ask for a run now; a back-off, a timer and a resync have set their own time."""


@define
class _Unmet:
    """A generation that has not converged; `ran`: a run has seen it, ended well and asked for nothing."""

    since: float
    generation: int
    ran: bool = False


@define(eq=False)
class ServiceLevels:
    """The service levels of one controller, from `start` on: a standby follows changes and owes nothing."""

    metrics: ServiceMetrics
    _active: bool = field(default=False, init=False)
    # In the order of their times, so that the first is the oldest.
    _noticed: dict[Request, float] = field(factory=dict, init=False)
    _unmet: dict[Request, _Unmet] = field(factory=dict, init=False)
    _failing: dict[Request, float] = field(factory=dict, init=False)

    def added_to(self, status: ControllerStatus, now: float) -> ControllerStatus:
        """The status of the controller, with what is owed now."""
        return evolve(
            status,
            failing=len(self._failing),
            failing_seconds=next((now - since for since in self._failing.values()), 0.0),
            unconverged=len(self._unmet),
            unconverged_seconds=next((now - unmet.since for unmet in self._unmet.values()), 0.0),
        )

    # --- what happens -----------------------------------------------------------------------------

    def start(self) -> None:
        """Measure from now on: the controller begins its runs."""
        self._active = True

    def woken(self, request: Request, cause: Cause) -> None:
        """A key was queued, not by the first list or a resync. An echo of an own write is no change."""
        if self._active and cause.verb in _CHANGES and not cause.echo and request not in self._noticed:
            self._noticed[request] = _now()

    def resumed(self, request: Request | None = None) -> None:
        """A key, or the controller, is paused no more: what waited for that was not waiting for a worker."""
        if request is None:
            self._noticed.clear()
        else:
            self._noticed.pop(request, None)

    def run_began(self, request: Request, now: float) -> None:
        noticed = self._noticed.pop(request, None)
        if noticed is not None:
            self.metrics.reacted(now - noticed)

    def changed(self, request: Request, delta: Delta) -> None:
        """An object of the controller's kind changed in the cache, or is its object no more."""
        new, old = delta.new, delta.old
        if new is None:
            self._failing.pop(request, None)
        if new is None or new.terminating:
            self._unmet.pop(request, None)
            return
        if not self._active or delta.initial or delta.resync:
            return
        unmet = self._unmet.get(request)
        generation = new.generation
        before = old.generation if old is not None and old.is_same_object(new) else None
        if generation is not None and generation != before:
            if unmet is None or before is None:
                self._unmet.pop(request, None)
                unmet = self._unmet[request] = _Unmet(_now(), generation)
            # The clock goes on from the first generation that was not met: its user still waits.
            unmet.generation, unmet.ran = generation, False
        if unmet is not None and is_met(new, unmet.generation, unmet.ran):
            self._converged(request, unmet, _now())

    def run_ended(
        self, item: Item[Request], outcome: RunResult, snapshot: Snapshot | None, now: float
    ) -> None:
        """A run ended; `snapshot` is its object as the cache has it by now."""
        request, record = item.key, outcome.record
        if outcome.stale:
            return
        if outcome.error is not None:
            self._failing.setdefault(request, now)
        else:
            self._failing.pop(request, None)
            if item.causes and item.causes[0].verb == "resynced" and not item.retries and _is_rest(item):
                self.metrics.rested(changed_something(record))
        if snapshot is None or snapshot.terminating or snapshot.generation is None:
            return
        seen = None if record is None or record.primary is None else record.primary.generation
        ran = outcome.error is None and not outcome.result.wants_run and seen == snapshot.generation
        unmet = self._unmet.get(request)
        if unmet is not None:
            unmet.ran = unmet.ran or (ran and seen == unmet.generation)
            if is_met(snapshot, unmet.generation, unmet.ran):
                self._converged(request, unmet, now)
        elif _is_first(item) and not is_met(snapshot, snapshot.generation, ran):
            # It was there before the controller: how long it has waited is not known.
            self._unmet[request] = _Unmet(now, snapshot.generation, ran)

    def forget_where(self, is_gone: Callable[[Request], bool]) -> None:
        """Forget keys that another replica works on now."""
        for kept in (self._noticed, self._unmet, self._failing):
            for request in [request for request in kept if is_gone(request)]:
                kept.pop(request, None)

    def _converged(self, request: Request, unmet: _Unmet, now: float) -> None:
        del self._unmet[request]
        self.metrics.converged(now - unmet.since)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_rest(item: Item[Request]) -> bool:
    return all(cause.verb == "resynced" for cause in item.causes)


def _is_first(item: Item[Request]) -> bool:
    """Whether a run may be the first of its key here; the cause that says so may have been dropped."""
    return bool(item.dropped_causes) or any(cause.verb == "added" for cause in item.causes)


# --- whether a generation is met -------------------------------------------------------------------


class _Condition(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    observed_generation: int | None = None


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int | None = None
    conditions: list[_Condition] | None = None


class _StatusObject(msgspec.Struct):
    status: _Status | None = None


_READY: Final = ("Ready", "Available")
"""The first that an object has says whether it is ready, as for its health: Deployments have no Ready."""
_NOTHING: Final = _Status()
_status = msgspec.json.Decoder(_StatusObject)


def is_met(snapshot: Snapshot, generation: int, ran: bool) -> bool:
    """Whether an object says that a generation is observed and ready; `ran`: its runs have no more to do.

    An object that does not say whether it is ready, or for which generation, is taken to be as its runs are.
    A status that is kept out of the cache, or is of another form, says nothing.
    """
    if not ran and b"observedGeneration" not in snapshot.raw:
        return False  # as most objects are when their generation changes: they are not decoded for that
    try:
        status = _status.decode(snapshot.raw).status or _NOTHING
    except (msgspec.DecodeError, RecursionError):
        return ran
    observed = status.observed_generation
    if observed is not None and observed < generation:
        return False
    if not status.conditions:
        return ran
    conditions = {condition.type: condition for condition in status.conditions}
    ready = next((conditions[name] for name in _READY if name in conditions), None)
    if ready is None:
        return ran
    of = ready.observed_generation
    if ready.status != "True" or (of is not None and of < generation):
        return False
    return ran if observed is None and of is None else True
