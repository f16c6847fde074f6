"""Watches over the keys of one controller: meters them, finds loops, tells of them and slows them down."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import structlog
from attrs import define, evolve, field

from informers import ApiError, Delta, Resource, Snapshot
from reconcile.client.client import Client
from reconcile.client.field_managers import STORMS
from reconcile.models.codec import format_time
from reconcile.runs.diagnostics import observing
from reconcile.runs.requests import Cause, Request, Result
from reconcile.runs.run_record import RunRecord, Sent
from reconcile.storms.changes import differences, steps_of
from reconcile.storms.detection import find_loop
from reconcile.storms.interval import Stretch
from reconcile.storms.managers import writer_of
from reconcile.storms.meter import Meter, Warm
from reconcile.storms.policy import Storms
from reconcile.storms.report import REASON, WAITED_FOR_ITSELF, Storm, found

LIVE_READS = 5
"""How often a key's trigger is read live to find out who writes it, until that is known."""
HITS_BEFORE_READING = 3
STEPPERS = 1000


class StormMetrics(Protocol):
    """What is told of the storms of one controller."""

    def storms(self, active: int, begun: int) -> None:
        """So many keys are in a loop now; so many of them began to be just now."""
        ...


Tell = Callable[[Snapshot, str, str], None]
"""Tells people about an object, by a Warning event: its state, the reason, the message."""


@define(eq=False)
class StormGuard:
    """The storms of one controller. `manager` is the field manager of its writes.

    One that `polls` is woken by a timer to look at the world: a run of it that finds more to do than the run
    before has waited for nothing.
    """

    policy: Storms
    resource: Resource
    manager: str
    client: Client
    tell: Tell
    log: structlog.stdlib.BoundLogger
    metrics: StormMetrics | None = None
    polls: bool = False
    meter: Meter = field(init=False)
    _storms: dict[Request, Storm] = field(factory=dict, init=False)
    _stepped: dict[Request, tuple[int, frozenset[Any]]] | None = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.meter = Meter(self.resource)
        if self.polls:
            self._stepped = None

    @property
    def storming(self) -> bool:
        """Whether any key is in a loop."""
        return bool(self._storms)

    @property
    def wary(self) -> bool:
        """Whether any key keeps writing."""
        return self.meter.any_warm

    def storms(self) -> Iterator[Storm]:
        """The keys in a loop now."""
        return iter([*self._storms.values()])

    def storm_of(self, request: Request) -> Storm | None:
        """That of one key, if it is in one."""
        return self._storms.get(request)

    @observing(lambda *_: None)
    def hears(self, request: Request, resource: Resource, delta: Delta) -> None:
        """Somebody else's change wakes a key."""
        warm = self.meter.warm(request)
        if warm is not None:
            warm.hears(resource, delta)

    @observing(lambda *_: 0.0)
    async def wait(
        self, request: Request, causes: Sequence[Cause], primary: Snapshot | None, now: float
    ) -> float:
        """For how many seconds a key that is due has to wait; 0 for any that is in no loop.

        A key whose spec has changed, that is going, or that somebody asks for, waits for nothing.
        """
        storm = self._storms.get(request)
        if storm is None:
            return 0.0
        warm = self.meter.warm(request)
        if primary is None or primary.terminating or warm is None or warm.spec_changed(primary):
            await self._end(storm, primary)
            return 0.0
        if any(cause.verb == "triggered" for cause in causes):
            return 0.0
        return storm.stretch.wait(now)

    @observing(lambda _guard, _request, causes: causes)
    async def begin(self, request: Request, causes: Sequence[Cause]) -> Sequence[Cause]:
        """The causes of a run; with paths and writers where the key keeps running."""
        warm = self.meter.warm(request)
        if warm is None:
            return causes
        return [await self._known(warm, cause) for cause in causes]

    @observing(lambda *_, **__: None)
    async def ended(
        self,
        request: Request,
        record: RunRecord,
        result: Result,
        primary: Snapshot | None,
        now: float,
        *,
        repeated: bool = False,
    ) -> float | None:
        """A run has ended. After how many seconds to look at the key again; None: no need.

        `repeated`: the runtime itself runs the key again, since the run failed or had worked on an old state.
        """
        sent = [one for one in record.sent if not one.dry]
        if primary is None:
            return None
        if self._stepped is not None:
            self._look_for_steps(request, record.causes, sent, result.wants_run or repeated, primary)
        if not self.policy.detect:
            return None
        if not sent:
            self.meter.quiet(request, now)
        spots = self.meter.wrote(request, primary, sent, record.causes, now) if sent else []
        storm = self._storms.get(request)
        if storm is None:
            return await self._look_for_loop(request, primary, now) if spots else None
        looping = any(map(storm.loop.has, spots))
        storm.stretch.ran(looping, now)
        if storm.stretch.over(now):
            await self._end(storm, primary)
            return None
        until = storm.stretch.probation_until or storm.stretch.held_until
        return max(0.001, until - now)

    @observing(lambda *_: None)
    def rested(self, request: Request, now: float) -> None:
        """A run has ended that wrote nothing, and no key is in a loop: all that `ended` would do."""
        if self.meter.keys:
            self.meter.quiet(request, now)
        if self._stepped:
            self._stepped.pop(request, None)

    def forget(self, request: Request) -> None:
        """The object is gone."""
        self.meter.forget(request)
        if self._stepped:
            self._stepped.pop(request, None)
        if self._storms.pop(request, None) is not None:
            self._count(0)

    # --- who writes -------------------------------------------------------------------------------

    async def _known(self, warm: Warm, cause: Cause) -> Cause:
        if cause.resource is None or cause.key is None:
            return cause
        if cause.echo:
            paths = warm.written.get((cause.resource, cause.key), ())
            return evolve(cause, paths=paths, manager=self.manager)
        trigger = warm.trigger
        if trigger is None or (trigger[0], trigger[2].key) != (cause.resource, cause.key):
            return cause
        old, new = trigger[1:]
        paths = () if old is None else tuple(path for path, _, _ in differences(old, new))
        if await self._is_to_be_read(warm, cause):
            warm.reads += 1
            try:
                fields = await self.client.managed_fields(cause.resource, cause.key)
            except ApiError:
                fields = ()
            warm.manager = writer_of(fields, paths, but=self.manager) or warm.manager
            warm.writes_of = (cause.resource, cause.key)
        manager = warm.manager if warm.writes_of == (cause.resource, cause.key) else ""
        return evolve(cause, paths=paths, manager=manager)

    async def _is_to_be_read(self, warm: Warm, cause: Cause) -> bool:
        if warm.reads >= LIVE_READS or (warm.manager and warm.writes_of == (cause.resource, cause.key)):
            return False
        return any(
            sum(hit.origin in ("reverted", "other") for hit in trail) >= HITS_BEFORE_READING
            for trail in warm.trails.values()
        )

    # --- storms -----------------------------------------------------------------------------------

    async def _look_for_loop(self, request: Request, primary: Snapshot, now: float) -> float | None:
        warm = self.meter.warm(request)
        loop = None if warm is None else find_loop(warm.trails, now, (self.resource, request.key))
        if loop is None or warm is None:
            return None
        stretch = Stretch(self.policy.longest)
        stretch.begin(now)
        storm = found(request, loop, warm, self.manager, stretch, now)
        self._storms[request] = storm
        self.meter.found(request)
        self._count(1)
        message = storm.message()
        self.log.warning("reconcile storm", key=str(request), storm=message, interval=stretch.seconds)
        self.tell(primary, REASON, message)
        await self._set_condition(primary, True, message)
        return stretch.seconds

    async def _end(self, storm: Storm, primary: Snapshot | None) -> None:
        self.forget(storm.request)
        self.log.info("reconcile storm is over", key=str(storm.request))
        if primary is not None:
            await self._set_condition(primary, False, "")

    def _count(self, begun: int) -> None:
        if self.metrics is not None:
            self.metrics.storms(len(self._storms), begun)

    async def _set_condition(self, primary: Snapshot, storming: bool, message: str) -> None:
        """Say it on the object, where the author wants that. Failing to do so costs nobody anything."""
        if not self.policy.condition:
            return
        condition = {
            "type": REASON,
            "status": "True" if storming else "False",
            "reason": "Loop" if storming else "Over",
            "message": message,
            "lastTransitionTime": format_time(self.client.clock.now()),
        }
        manifest = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": primary.key.name, "namespace": primary.key.namespace},
            "status": {"conditions": [condition]},
        }
        writer = self.client.with_options(field_manager=f"{self.manager}{STORMS}")
        try:
            await writer.apply(manifest, subresource="status", force=True)
        except Exception as error:
            self.log.warning("the condition of a storm could not be written", error=str(error))

    # --- runs that wait for their own status ----------------------------------------------------------

    def _look_for_steps(
        self,
        request: Request,
        causes: Sequence[Cause],
        sent: Sequence[Sent],
        runs_again: bool,
        primary: Snapshot,
    ) -> None:
        """Report once a reconciler that changes its own status and returns, to be woken by that.

        A run that fails expects its retry, as one that asks for another run does: none waits for its write.
        """
        assert self._stepped is not None
        spots = frozenset(step.spot for one in sent for step in steps_of(one))
        before = self._stepped.pop(request, None)
        changed_nothing = all(cause.key is None or cause.verb == "resynced" for cause in causes)
        if before is not None and changed_nothing and before[0] == primary.version and spots - before[1]:
            self.log.warning("a run waited for its own status", key=str(request), remedy=WAITED_FOR_ITSELF)
            self.tell(primary, "WaitsForItself", WAITED_FOR_ITSELF)
            self._stepped = None
            return
        own = [one.written for one in sent if (one.resource, one.key) == (self.resource, request.key)]
        last = own[-1] if own else None
        status_alone = len(own) == len(sent) and all(one.subresource == "status" for one in sent)
        if last is not None and status_alone and not runs_again and len(self._stepped) < STEPPERS:
            self._stepped[request] = (last.version, spots)
