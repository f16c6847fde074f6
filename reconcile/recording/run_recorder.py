"""Records what a manager receives and decides: its caches, its runs, their requests, times and chance.

It stands where a run meets the world: before the transport of runs, behind the caches, and at the clock. Only
requests that a run makes are recorded, in its own task or in one that it has started.
"""

import asyncio
import datetime
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar, Token
from functools import partial
from typing import Any, TypeVar

import structlog
from attrs import define, field

from informers import Clock, Informer, Response, Snapshot, Transport
from informers.reflector_state import (
    Clear,
    Commit,
    DropStage,
    Put,
    Reach,
    Remove,
    StageObjects,
    UnstageObject,
)
from informers.store_effects import Drop, Effect, Leave, Merge, StageLeft
from informers.transport import HttpRequest, PassingTransport, StreamingResponse
from reconcile.client import redaction
from reconcile.client.client import Client
from reconcile.controller.blocking import Ask, Blocking
from reconcile.controller.run_result import RunResult
from reconcile.recording import event_masks
from reconcile.recording.bucket_recorder import BucketRecorder
from reconcile.recording.recorded_events import Buckets, Changed, Ended, Noted, Woke, resource_text
from reconcile.recording.recording_file import Masked, RecordingFile
from reconcile.runs.run_request import Cause, Request

R = TypeVar("R")

_MOST_CHANCE = 10_000
"""Values that a run takes from the clock and that are recorded; a run that takes more cannot be replayed."""
_MOST_READ = 20_000
"""States of objects whose JSON is kept until it is known what becomes of them."""
_SMALL = 100
"""About how many bytes an event takes beside its bodies."""
_CHANCE = 40
"""The same for a time, a random number or a UUID."""
_KEPT_HEADERS = ("retry-after",)
_STAGING = (StageObjects, StageLeft, UnstageObject)
_STAGED = (Commit, DropStage, Clear)

_here: ContextVar["_Run | None"] = ContextVar("recorded_run", default=None)


@define(eq=False)
class RunRecorder:
    """Records the clusters of one manager into `file`, which is open."""

    file: RecordingFile
    _began: float = field(init=False)
    _time: Callable[[], float] = field(init=False)
    changes: int = field(default=0, init=False)
    """How many changes of caches, and of buckets, were recorded."""
    buckets: BucketRecorder = field(init=False)
    """Where replicas share the objects, what this one has of them."""
    _runs: int = field(default=0, init=False)
    _caches: list["_Tap"] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._began = self._time()
        self.buckets = BucketRecorder(lambda: self.at, self._note_buckets)

    @property
    def at(self) -> int:
        """Microseconds since the recording began."""
        return int((self._time() - self._began) * 1e6)

    def transport(self, cluster: str, inner: Transport) -> Transport:
        """What the requests of runs in a cluster pass first."""
        return _RecordingTransport(self, cluster, inner)

    def clock(self, inner: Clock) -> Clock:
        """The clock of the clients of runs."""
        return _RecordingClock(inner)

    def blocking(self, inner: Blocking) -> Blocking:
        """Where the blocking calls of runs are executed."""
        return _RecordingBlocking(self, inner)

    def woke(self) -> None:
        """Record that the run of the calling code has waited for something here, and goes on."""
        run = _here.get()
        if run is not None and not run.over:
            run.seen = self.changes
            event = Woke(self.at, run.number)
            self.file.add(lambda masks: event, _SMALL)

    def look(self) -> None:
        """Record that the run of the calling code looks into a cache, if that is not what it last saw."""
        run = _here.get()
        if run is None or run.over:
            return
        number, run.looks = run.looks, run.looks + 1
        if run.seen != self.changes:
            run.seen = self.changes
            event = Woke(self.at, run.number, number)
            self.file.add(lambda masks: event, _SMALL)

    def unrecorded(self, client: Client) -> Client:
        """What writes for a client of runs outside of them: Events, which a task of its own sends."""
        transport, clock = client.transport, client.clock
        assert isinstance(transport, _RecordingTransport)
        assert isinstance(clock, _RecordingClock)
        return Client(transport.inner, field_manager=client.field_manager, clock=clock.inner)

    def tap(self, cluster: str, informer: Informer) -> "_Tap":
        """What looks on at an informer."""
        tap = _Tap(self, cluster, informer)
        self._caches.append(tap)
        return tap

    def observer(self, cluster: str, controller: str) -> "_Observer":
        """What looks on at the runs of a controller in a cluster."""
        return _Observer(self, cluster, controller)

    def note(self, text: str) -> None:
        """Record something that concerns all runs."""
        event = Noted(self.at, text)
        self.file.add(lambda masks: event, _SMALL)

    def rotate(self) -> None:
        """Begin the next file, if it is time, and if no cache is in the middle of a list."""
        if self.file.rotating and not any(tap.staged_parts for tap in self._caches):
            self.file.rotate(self._stored)

    def _stored(self) -> Iterator[Masked]:
        """What there is, as events for the beginning of a file; a cache has what is followed of it."""
        yield from (_as_it_is(event) for event in self.buckets.stored())
        for tap in self._caches:
            yield from tap.stored()

    def _note_buckets(self, event: Buckets) -> None:
        self.changes += 1
        self.file.add(_as_it_is(event), _SMALL + 4 * len(event.buckets))

    def next_run(self) -> int:
        self._runs += 1
        return self._runs


def _as_it_is(event: Buckets) -> Masked:
    """An event in which nothing can be secret."""
    return lambda masks: event


# --- runs -------------------------------------------------------------------------------------------------


@define(eq=False)
class _Run:
    recorder: RunRecorder
    number: int
    seen: int = 0
    """The changes of caches before its last event: it has seen these, wherever replay is."""
    looks: int = 0
    requests: int = 0
    chance: list[tuple[str, str | float]] = field(factory=list)
    over: bool = False
    _token: Token["_Run | None"] = field(init=False)

    def enter(self) -> None:
        self._token = _here.set(self)

    def took(self, what: str, value: str | float) -> None:
        if not self.over and len(self.chance) < _MOST_CHANCE:
            self.chance.append((what, value))

    def ended(self, outcome: RunResult | None) -> None:
        self.over = True
        _here.reset(self._token)
        recorder = self.recorder
        if outcome is None:
            event = Ended(recorder.at, self.number, "", "cancelled", False, None, None, "", "", self.chance)
        else:
            error, result = outcome.error, outcome.result
            event = Ended(
                recorder.at,
                self.number,
                outcome.reconcile_id,
                outcome.name,
                outcome.stale,
                result.requeue_after,
                result.priority,
                "" if error is None else type(error).__name__,
                outcome.message,
                self.chance,
            )
        secrets = () if outcome is None or not outcome.secretive else outcome.secrets.bodies
        size = _SMALL + len(event.message) + _CHANCE * len(self.chance)
        recorder.file.add(partial(event_masks.ended, event, secrets), size)


@define(eq=False)
class _Observer:
    recorder: RunRecorder
    cluster: str
    controller: str

    def began(self, request: Request, causes: Sequence[Cause], attempt: int, epoch: int) -> _Run | None:
        recorder = self.recorder
        if recorder.file.ended:
            return None
        recorder.rotate()
        run = _Run(recorder, recorder.next_run(), recorder.changes)
        place = (recorder.at, run.number, self.cluster, self.controller, request.namespace, request.name)
        # Copied: what runs on may change a list of causes, but not the causes.
        size = (2 + len(causes)) * _SMALL
        recorder.file.add(partial(event_masks.began, *place, attempt, epoch, tuple(causes)), size)
        run.enter()
        return run

    def forgotten(self, buckets: Collection[int]) -> None:
        self.recorder.buckets.forgotten(self.controller, buckets)


# --- requests ---------------------------------------------------------------------------------------------


class _RecordingTransport(PassingTransport):
    def __init__(self, recorder: RunRecorder, cluster: str, inner: Transport) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._cluster = cluster

    @property
    def inner(self) -> Transport:
        """What it records."""
        return self._inner

    async def request(self, request: HttpRequest) -> Response:
        run = _here.get()
        if run is None or run.over or self._recorder.file.ended:
            return await self._inner.request(request)
        number = self._sent(run, request)
        try:
            answer = await self._inner.request(request)
        except Exception as error:  # a cancelled request has no end: nor has it when it is replayed
            self._failed(run, number, request, error)
            raise
        self._answered(run, number, request, answer.status, answer.headers, answer.body)
        return answer

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        run = _here.get()
        if run is not None and not run.over:
            # Its lines are not recorded: replay says so, and cannot go on with the run.
            number = self._sent(run, request)
            self._answered(run, number, request, 0, {}, b"")
        return self._inner.stream(request)

    def _sent(self, run: _Run, request: HttpRequest) -> int:
        number, run.requests = run.requests, run.requests + 1
        event = partial(
            event_masks.sent, self._recorder.at, run.number, number, self._cluster, request, _secrets_seen()
        )
        self._recorder.file.add(event, 2 * _SMALL + len(request.body or b""))
        return number

    def _answered(
        self,
        run: _Run,
        number: int,
        request: HttpRequest,
        status: int,
        headers: Mapping[str, str],
        body: bytes,
    ) -> None:
        if run.over:
            return
        run.seen = self._recorder.changes
        kept = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
        recorder, secrets = self._recorder, _secrets_seen()
        place = recorder.at, run.number, number
        event = partial(event_masks.answered, *place, request, status, kept, body, secrets)
        recorder.file.add(event, _SMALL + len(body))

    def _failed(self, run: _Run, number: int, request: HttpRequest, error: Exception) -> None:
        if not run.over:
            run.seen = self._recorder.changes
            name, message = type(error).__name__, str(error)
            place = self._recorder.at, run.number, number
            event = partial(event_masks.failed, *place, name, message, _secrets_seen())
            self._recorder.file.add(event, _SMALL + len(message))


def _secrets_seen() -> Sequence[bytes]:
    values = redaction.seen.get()
    return values.bodies if values else ()


# --- the clock --------------------------------------------------------------------------------------------


@define(eq=False)
class _RecordingClock:
    inner: Clock

    def now(self) -> datetime.datetime:
        value = self.inner.now()
        if (run := _here.get()) is not None:
            run.took("now", value.isoformat())
        return value

    def random(self) -> float:
        value = self.inner.random()
        if (run := _here.get()) is not None:
            run.took("random", value)
        return value

    def uuid(self) -> uuid.UUID:
        value = self.inner.uuid()
        if (run := _here.get()) is not None:
            run.took("uuid", str(value))
        return value

    def suspended(self) -> float:
        return self.inner.suspended()


# --- blocking code ----------------------------------------------------------------------------------------


@define(eq=False)
class _RecordingBlocking:
    """Records where the loop carries out what blocking code asks for, and where that code has ended."""

    recorder: RunRecorder
    inner: Blocking

    async def call(self, function: Callable[[], R], log: structlog.stdlib.BoundLogger) -> R:
        try:
            return await self.inner.call(function, log)
        finally:
            self.recorder.woke()

    async def call_with_loop(self, function: Callable[[Ask], R], log: structlog.stdlib.BoundLogger) -> R:
        woke = self.recorder.woke

        def recorded(ask: Ask) -> R:
            def ask_noted(call: Callable[[], Awaitable[Any]], /) -> Any:
                async def answer() -> Any:
                    woke()
                    return await call()

                return ask(answer)

            return function(ask_noted)

        try:
            return await self.inner.call_with_loop(recorded, log)
        finally:
            woke()


# --- caches -----------------------------------------------------------------------------------------------


@define(eq=False)
class _Tap:
    """Looks on at one informer. What was read is kept until it is known what becomes of it."""

    recorder: RunRecorder
    cluster: str
    informer: Informer
    resource: str = field(init=False)
    staged_parts: set[str] = field(factory=set, init=False)
    """The parts of which a list is being read: no file may begin in the middle of one."""
    _read: dict[int, tuple[Snapshot, bytes]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.resource = resource_text(self.informer.resource)

    def read(self, raw: bytes, snapshot: Snapshot) -> None:
        if self.recorder.file.ended:
            return
        if len(self._read) >= _MOST_READ:
            self._read.clear()  # nothing came of most: what still does is recorded as it is stored
        self._read[id(snapshot)] = snapshot, raw

    def applied(self, part: str, effect: Effect) -> None:
        recorder = self.recorder
        if recorder.file.ended:
            self._read.clear()
            return
        recorder.rotate()
        recorder.changes += 1
        if isinstance(effect, _STAGING):
            self.staged_parts.add(part)
        elif isinstance(effect, _STAGED):
            self.staged_parts.discard(part)
        if isinstance(effect, StageLeft):
            for snapshot in effect.snapshots:
                self._left(part, snapshot)
            return
        event = Changed(recorder.at, self.cluster, self.resource, part, "")
        if isinstance(effect, (Put, Remove)):
            event.op = "put" if isinstance(effect, Put) else "remove"
            event.objects = [self._raw_of(effect.snapshot)]
        else:
            self._note(event, effect)
        self._add(event)

    def _add(self, event: Changed) -> None:
        size = _SMALL + sum(map(len, event.objects))
        self.recorder.file.add(partial(event_masks.changed, event), size)

    def _left(self, part: str, snapshot: Snapshot) -> None:
        """An object that is not followed comes with a list: that of one which was is recorded."""
        self._read.pop(id(snapshot), None)
        if self.informer.store.get(snapshot.key) is not None:
            event = Changed(self.recorder.at, self.cluster, self.resource, part, "left")
            event.namespace, event.name = snapshot.key
            self._add(event)

    def _note(self, event: Changed, effect: Effect) -> None:
        match effect:
            case StageObjects(snapshots):
                event.op, event.objects = "stage", [self._raw_of(snapshot) for snapshot in snapshots]
            case Leave(snapshot):
                self._note_leaving(event, snapshot)
            case Merge(snapshots):
                event.op, event.objects = "merge", [*self._news_among(snapshots)]
            case Drop(key, missing_at):
                event.op, event.version = "lose", missing_at or 0
                event.namespace, event.name = key
            case Reach(version):
                event.op, event.version = "reach", version
            case Commit(version):
                event.op, event.version = "commit", version
            case UnstageObject(key):
                event.op, event.namespace, event.name = "unstage", key.namespace, key.name
            case Clear():
                event.op = "clear"
            case DropStage():
                event.op = "drop"
                self._read.clear()

    def _note_leaving(self, event: Changed, snapshot: Snapshot) -> None:
        raw = self._raw_of(snapshot)
        if self.informer.store.get(snapshot.key) is None:
            # One of another replica, from a server that does not select by shard: only the version is news.
            event.op, event.version = "reach", snapshot.version
        else:
            event.op, event.objects = "leave", [raw]

    def _news_among(self, snapshots: Sequence[Snapshot]) -> Iterator[bytes]:
        for snapshot in snapshots:
            raw, held = self._raw_of(snapshot), self.informer.store.get(snapshot.key)
            if held is None or not held.same_as(snapshot):
                yield raw

    def _raw_of(self, snapshot: Snapshot) -> bytes:
        known = self._read.pop(id(snapshot), None)
        return snapshot.raw if known is None else known[1]

    async def look(self) -> None:
        self.recorder.look()

    async def wait(self, wait: Callable[[], Awaitable[None]]) -> None:
        await wait()
        self.recorder.woke()

    def stored(self) -> Iterator[Masked]:
        """The content of its store, as events for the beginning of a file."""
        store = self.informer.store
        for part in store.parts:
            snapshots = list(store.held(part))
            notes = [store.noted(snapshot.key) for snapshot in snapshots]
            place = self.recorder.at, self.cluster, self.resource, part, store.reached(part)
            yield partial(event_masks.stored, *place, snapshots, notes)
