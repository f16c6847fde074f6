"""Watches over the keys of one controller: finds loops, reports them and slows them down."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
import structlog
from attrs import define, field

from informers import ApiError, APIResource, Delta, Snapshot
from reconcile.client.client import Client, core_of, reads_of
from reconcile.client.field_managers import STORMS
from reconcile.client.own_writes import PATIENCE, SHORT_PATIENCE
from reconcile.conditions import merge_conditions
from reconcile.models import Unstructured, decode, encode, unstructured_kind
from reconcile.models.values import format_time
from reconcile.runs.diagnostics import observing
from reconcile.runs.run_record import RunRecord
from reconcile.runs.run_request import Cause, Request, Result
from reconcile.runs.write_events import EndedWrite
from reconcile.storms.changes import FieldRef, differences, effects_of, writer_of
from reconcile.storms.detection import find_loop
from reconcile.storms.loop_throttle import LoopThrottle
from reconcile.storms.meter import ActiveKey, Meter
from reconcile.storms.storm_options import Storms
from reconcile.storms.storm_report import REASON, WAITED_FOR_ITSELF, Storm, storm_of

LIVE_READS = 5
"""How often the trigger of a key is read live to find its writer. A writer that deletes its entries of
managedFields is never found, and must not cost a request a run."""
FOREIGN_WRITES_BEFORE_READ = 3
"""A key that other writers wake once or twice is no fight yet, and not worth a request."""
STATUS_WRITERS = 1000
"""Keys whose last run wrote only its own status. One report per controller is enough: some may be missed."""
_SOON = 0.001
"""Seconds until a key whose interval is already over is due."""


class StormMetrics(Protocol):
    def storms(self, active: int, begun: int) -> None:
        """`active` keys are in a loop now; `begun` of them have just been found."""
        ...


Report = Callable[[Snapshot, str, str], None]
"""Records a Warning event for an object: its state, the reason, the message."""


@define(eq=False)
class StormGuard:
    """The storms of one controller; `manager` is its field manager, `polls`: a timer wakes its keys."""

    policy: Storms
    resource: APIResource
    manager: str
    client: Client
    report: Report
    log: structlog.stdlib.BoundLogger
    metrics: StormMetrics | None = None
    polls: bool = False
    meter: Meter = field(init=False)
    _storms: dict[Request, Storm] = field(factory=dict, init=False)
    _status_writers: dict[Request, tuple[int, frozenset[FieldRef]]] = field(factory=dict, init=False)
    _reported_wait: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.meter = Meter(self.resource)
        # A timer lets keys look at the world: a run that finds more to do has not waited for its own status.
        self._reported_wait = self.polls

    @property
    def storming(self) -> bool:
        return bool(self._storms)

    @property
    def tracking(self) -> bool:
        return self.meter.any_active

    def storms(self) -> Iterator[Storm]:
        return iter([*self._storms.values()])

    def storm_of(self, request: Request) -> Storm | None:
        return self._storms.get(request)

    @observing(lambda *_: None)
    def note_trigger(self, request: Request, resource: APIResource, delta: Delta) -> None:
        active = self.meter.active(request)
        if active is not None:
            active.trigger = (resource, delta.old, delta.last)

    @observing(lambda *_: 0.0)
    async def wait(
        self, request: Request, causes: Sequence[Cause], primary: Snapshot | None, now: float
    ) -> float:
        """How many seconds a due key has to wait; 0 if it is not in a loop, has changed or was triggered."""
        storm = self._storms.get(request)
        if storm is None:
            return 0.0
        active = self.meter.active(request)
        if primary is None or primary.terminating or active is None or active.spec_changed(primary):
            await self._end(storm, primary)
            return 0.0
        if any(cause.verb == "triggered" for cause in causes):
            return 0.0
        return storm.throttle.wait(now)

    @observing(lambda _guard, _request, causes: causes)
    async def explain(self, request: Request, causes: Sequence[Cause]) -> Sequence[Cause]:
        """The causes of a run; with paths and writers where the key keeps writing."""
        active = self.meter.active(request)
        if active is None:
            return causes
        return [await self._explained(active, cause) for cause in causes]

    @observing(lambda *_, **__: None)
    async def run_ended(
        self,
        request: Request,
        record: RunRecord,
        result: Result,
        primary: Snapshot | None,
        now: float,
        *,
        repeated: bool = False,
    ) -> float | None:
        """Note the end of a run; returns in how many seconds the key is due (None: when woken).

        `repeated`: the runtime itself repeats the run, since it failed or had worked on an old state.
        """
        if primary is None:
            return None
        sent = [write for write in record.writes if not write.dry]
        if not self._reported_wait:
            self._look_for_status_waits(request, record.causes, sent, result.wants_run or repeated, primary)
        if not self.policy.detect:
            return None
        if not sent:
            self.meter.quiet(request, now)
        refs = self.meter.wrote(request, primary, sent, record.causes, now) if sent else []
        storm = self._storms.get(request)
        if storm is None:
            return await self._look_for_loop(request, primary, now) if refs else None
        storm.throttle.note_run(any(map(storm.loop.includes, refs)), now)
        if storm.throttle.over(now):
            await self._end(storm, primary)
            return None
        until = storm.throttle.probation_until or storm.throttle.held_until
        return max(_SOON, until - now)

    @observing(lambda *_: None)
    def idle_run_ended(self, request: Request, now: float) -> None:
        """Note the end of a run without writes while no key is in a loop: a cheaper `run_ended`."""
        if self.meter.keys:
            self.meter.quiet(request, now)
        if self._status_writers:
            self._status_writers.pop(request, None)

    def keys(self) -> Sequence[Request]:
        """The keys of which anything is remembered."""
        return [*self._storms, *self._status_writers, *self.meter.keys]

    def forget(self, request: Request) -> None:
        self.meter.forget(request)
        self._status_writers.pop(request, None)
        if self._storms.pop(request, None) is not None:
            self._count(0)

    # --- writers ----------------------------------------------------------------------------------

    async def _explained(self, active: ActiveKey, cause: Cause) -> Cause:
        if cause.resource is None or cause.key is None:
            return cause
        place = cause.resource, cause.key
        if cause.echo:
            return msgspec.structs.replace(cause, paths=active.written.get(place, ()), manager=self.manager)
        if active.trigger is None or (active.trigger[0], active.trigger[2].key) != place:
            return cause
        old, new = active.trigger[1:]
        paths = () if old is None else tuple(path for path, _, _ in differences(old, new))
        if self._needs_read(active, cause):
            active.reads += 1
            try:
                fields = await self.client.raw.managed_fields(cause.resource, cause.key)
            except ApiError:
                fields = ()
            active.manager = writer_of(fields, paths, but=self.manager) or active.manager
            active.writes_of = place
        return msgspec.structs.replace(
            cause, paths=paths, manager=active.manager if active.writes_of == place else ""
        )

    def _needs_read(self, active: ActiveKey, cause: Cause) -> bool:
        if active.reads >= LIVE_READS or (active.manager and active.writes_of == (cause.resource, cause.key)):
            return False
        return any(
            sum(write.woken_by in ("reverted", "other") for write in history) >= FOREIGN_WRITES_BEFORE_READ
            for history in active.histories.values()
        )

    # --- storms -----------------------------------------------------------------------------------

    async def _look_for_loop(self, request: Request, primary: Snapshot, now: float) -> float | None:
        active = self.meter.active(request)
        loop = None if active is None else find_loop(active.histories, now, (self.resource, request.key))
        if loop is None or active is None:
            return None
        if await self._cache_was_behind(primary):
            self.meter.forget(request)
            return None
        throttle = LoopThrottle(self.policy.longest)
        throttle.begin(now)
        storm = self._storms[request] = storm_of(request, loop, active, self.manager, throttle, now)
        self.meter.note_loop(request)
        self._count(1)
        message = storm.message()
        self.log.warning("reconcile storm", key=str(request), storm=message, interval=throttle.seconds)
        self.report(primary, REASON, message)
        await self._set_condition(primary, True, message)
        return throttle.seconds

    async def _cache_was_behind(self, primary: Snapshot) -> bool:
        """Whether the key repeats itself as a stalled watch shows the past; then the cache is current now.

        A run for an object that is gone makes what another controller deletes each time.
        """
        key = primary.key
        informer = core_of(self.client).informer(self.resource, key.namespace)
        if informer is None:
            return False
        try:
            live = await reads_of(self.client).snapshot(self.resource, key, live=True)
        except ApiError:
            return False

        def is_shown() -> bool:
            cached = informer.store.get(key)
            if live is None:
                return cached is None or cached.uid != primary.uid
            return cached is not None and cached.version >= live.version

        if is_shown():
            return False
        if not await informer.wait_until(is_shown, SHORT_PATIENCE):
            informer.relist()
            await informer.wait_until(is_shown, PATIENCE)
        elif live is not None and live.uid == primary.uid:
            return False  # as a rule the run's own write was still on its way
        self.log.info("the cache was behind, so a key repeated itself", key=str(key))
        return True

    async def _end(self, storm: Storm, primary: Snapshot | None) -> None:
        self.forget(storm.request)
        self.log.info("reconcile storm is over", key=str(storm.request))
        if primary is not None:
            await self._set_condition(primary, False, "")

    def _count(self, begun: int) -> None:
        if self.metrics is not None:
            self.metrics.storms(len(self._storms), begun)

    async def _set_condition(self, primary: Snapshot, storming: bool, message: str) -> None:
        """Write the condition on the object, if the author wants it. A failure is only logged."""
        if not self.policy.condition:
            return
        condition = {
            "type": REASON,
            "status": "True" if storming else "False",
            "reason": "Loop" if storming else "Over",
            "message": message,
        }
        try:
            await self._write_condition(primary, condition)
        except Exception as error:
            self.log.warning("the condition of a storm could not be written", error=str(error))

    async def _write_condition(self, primary: Snapshot, condition: dict[str, Any]) -> None:
        """Put it beside the others. Raises StaleVersion where others keep writing, and errors of requests."""

        def put(found: Unstructured) -> Unstructured:
            if found.uid != primary.uid:
                return found
            body = encode(found)
            status = body.get("status") or {}
            now = format_time(self.client.clock.now())
            merged = merge_conditions(status.get("conditions") or (), [condition], now, None)
            return decode(type(found), {**body, "status": {**status, "conditions": merged}})

        # No apply: where a definition does not say that conditions are keyed, it would replace all of them.
        writer = self.client.with_options(field_manager=f"{self.manager}{STORMS}")
        of, key = self.resource, primary.key
        model = unstructured_kind(of.api_version, of.kind, plural=of.plural, namespaced=of.namespaced)
        await writer.modify(model, key.name, key.namespace, put, subresource="status")

    # --- runs that wait for their own status ----------------------------------------------------------

    def _look_for_status_waits(
        self,
        request: Request,
        causes: Sequence[Cause],
        sent: Sequence[EndedWrite],
        runs_again: bool,
        primary: Snapshot,
    ) -> None:
        """Report once a reconciler that changes its own status and returns, to be woken by that."""
        refs = frozenset(effect.ref for write in sent for effect in effects_of(write))
        before = self._status_writers.pop(request, None)
        nothing_changed = all(cause.key is None or cause.verb == "resynced" for cause in causes)
        if before is not None and nothing_changed and before[0] == primary.version and refs - before[1]:
            self.log.warning("a run waited for its own status", key=str(request), remedy=WAITED_FOR_ITSELF)
            self.report(primary, "WaitsForItself", WAITED_FOR_ITSELF)
            self._reported_wait = True
            self._status_writers.clear()
            return
        own = [write.written for write in sent if (write.resource, write.key) == (self.resource, request.key)]
        # A run that fails or asks for another one is repeated anyway, so it does not wait for its write.
        last: Any = own[-1] if own else None
        status_alone = len(own) == len(sent) and all(write.subresource == "status" for write in sent)
        if (
            last is not None
            and status_alone
            and not runs_again
            and len(self._status_writers) < STATUS_WRITERS
        ):
            self._status_writers[request] = (last.version, refs)
