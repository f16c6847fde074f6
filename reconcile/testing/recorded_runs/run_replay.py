"""Executes recorded runs: feeds the caches what they received, and each run what it got, in the same order.

The runs begin, are answered and go on at the very events at which they did, on virtual time. So they see the
same caches at each step, whatever else happens beside them, and the same code decides the same. Nothing
leaves the process: the loop is one of the test kit.
"""

import asyncio
import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import anyio
import msgspec
from attrs import define, field

from informers import Cache, Informer, InformerOptions, Key, Snapshot, get_logger
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
from reconcile.client.client import Client
from reconcile.controller.declaration import DEFAULT_TIMEOUT, Controller
from reconcile.controller.event_recorder import Recorder
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.run_result import RunResult
from reconcile.controller.runner import Runner
from reconcile.controller.takeover_selection import takeover_selection
from reconcile.models import Object, kind_of
from reconcile.recording.recorded_events import (
    Answered,
    Began,
    Buckets,
    Changed,
    Ended,
    Header,
    RecordedCause,
    Stored,
    Woke,
    resource_of,
)
from reconcile.recording.recording_reader import Recording, RecordingProblem
from reconcile.runs.run_request import Cause, Request
from reconcile.storms import Echoes
from reconcile.testing.recorded_runs.replay_report import ReplayReport
from reconcile.testing.recorded_runs.replayed_buckets import ReplayedBuckets
from reconcile.testing.recorded_runs.replayed_world import (
    ReplayBlocking,
    ReplayClock,
    ReplayedRun,
    ReplayTap,
    ReplayTransport,
    replayed,
)
from reconcile.testing.recorded_runs.run_differences import differences, has_read_masks
from reconcile.testing.recorded_runs.run_traces import RunTraces
from reconcile.testing.virtual_time import simulate

PATIENCE = 30.0
"""Seconds beyond its recorded end for which a replayed run may go on, by its own timers."""
_MOMENT = 1e-9
"""Virtual seconds that pass only once nothing else can run."""

Chosen = Callable[[float, str], bool]
"""Whether a run is compared, by the second of its begin and its id."""


def replay_recording(
    recording: Recording,
    controllers: Sequence[Controller[Any]],
    *,
    chosen: Chosen = lambda at, run: True,
    informers: Mapping[type[Object], InformerOptions] | None = None,
) -> ReplayReport:
    """Execute the runs of a recording with these controllers, and compare what they decide.

    All runs are executed, since later ones may depend on what they leave in memory; those that are `chosen`
    are compared. `informers` are those options of the manager. Raises RecordingProblem for a damaged
    recording, and RealWorldError where the code reaches for a network, a thread or the real time.
    """
    return simulate(
        partial(_replayed, recording, controllers, chosen, informers or {}),
        limit_seconds=float("inf"),
        in_order=True,
    )


async def _replayed(
    recording: Recording,
    controllers: Sequence[Controller[Any]],
    chosen: Chosen,
    informers: Mapping[type[Object], InformerOptions],
) -> ReplayReport:
    try:
        replay = _Replay(recording.header, controllers, chosen, informers)
    except (ValueError, TypeError) as error:
        raise RecordingProblem(f"the header of the recording cannot be used: {error}") from None
    failure: Exception | None = None
    with closing(recording.events()) as events:
        async with anyio.create_task_group() as group:
            try:
                await replay.play(RunTraces(events), group)
            except Exception as error:
                failure = error  # raised below: here the group would wrap it
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return replay.report


@define(eq=False)
class _Active:
    run: ReplayedRun
    request: Request
    executor: RunExecutor[Any]
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    over: anyio.Event = field(factory=anyio.Event)
    result: RunResult | None = None
    failure: BaseException | None = None


class _SilentRecorder(Recorder):
    """Events are written beside runs, not by them: they are not replayed."""

    def record(self, *_: Any, **__: Any) -> None:
        """Record nothing."""


@define(eq=False)
class _Replay:
    header: Header
    controllers: Sequence[Controller[Any]]
    chosen: Chosen
    informers: Mapping[type[Object], InformerOptions]
    report: ReplayReport = field(factory=ReplayReport, init=False)
    _caches: dict[str, Cache] = field(factory=dict, init=False)
    _clients: dict[str, Client] = field(factory=dict, init=False)
    _executors: dict[tuple[str, str], RunExecutor[Any]] = field(factory=dict, init=False)
    _buckets: ReplayedBuckets | None = field(default=None, init=False)
    _active: dict[int, _Active] = field(factory=dict, init=False)
    _fed: bool = field(default=False, init=False)
    """Whether a cache has got anything: what a later file begins with is known then."""

    def __attrs_post_init__(self) -> None:
        options, began = self.header.options, datetime.datetime.fromisoformat(self.header.began)

        def wall() -> datetime.datetime:
            return began + datetime.timedelta(seconds=asyncio.get_running_loop().time())

        clock = ReplayClock(wall)
        buckets = self._buckets = ReplayedBuckets.of(options, clock)
        kept = {kind_of(kind).resource: one for kind, one in self.informers.items() if kind is not Object}
        for cluster in _texts(options.get("clusters")) or [""]:
            transport = ReplayTransport(cluster)
            cache = self._caches[cluster] = transport.cache = Cache(
                transport,
                namespaces=_texts(options.get("namespaces")),
                defaults=self.informers.get(Object),
                options=kept,
                shares=None if buckets is None else buckets.share,
                taps=lambda informer: ReplayTap(),
                clock=clock,
            )
            self._clients[cluster] = Client(
                transport,
                cache=cache,
                field_manager=str(options.get("name") or "reconcile"),
                clock=clock,
                dry_run=bool(options.get("dry_run")),
            )
            for controller in self.controllers:
                if not controller.clusters or cluster in controller.clusters:
                    self._executors[cluster, controller.name] = self._executor(cluster, controller)

    def _executor(self, cluster: str, controller: Controller[Any]) -> RunExecutor[Any]:
        options, client = self.header.options, self._clients[cluster]
        timeouts = options.get("timeout")
        seconds = timeouts.get(controller.name) if isinstance(timeouts, dict) else 0.0
        executor: RunExecutor[Any] = RunExecutor(
            controller,
            client,
            _SilentRecorder(client, controller.name),
            get_logger(f"reconcile.replay.{controller.name}"),
            ReplayBlocking(),
            float(seconds or controller.timeout or DEFAULT_TIMEOUT),
            client_of=self._clients.__getitem__ if cluster else None,
            debug=bool(options.get("debug")),
            undeclared="refuse" if options.get("undeclared") == "refuse" else "warn",
            selection=takeover_selection(str(options.get("selector") or ""), self.controllers),
            held=None if self._buckets is None else self._buckets.of_controller(controller),
            epoch_of=_epoch,
        )
        # The recorded causes say already which changes were echoes.
        executor.echoes = Echoes(())
        runner = Runner(executor, self._caches[cluster].reach, cluster=cluster)
        runner.connect(self._caches[cluster])
        if self._buckets is not None:
            self._buckets.admit(executor, runner)
        return executor

    # --- events -----------------------------------------------------------------------------------

    async def play(self, traces: RunTraces, group: anyio.abc.TaskGroup) -> None:
        for event in traces:
            if self._active:
                await _until(event.at / 1e6)
            match event:
                case Changed():
                    await self._change(event)
                case Stored() if not self._fed:
                    await self._fill(event)
                case Buckets() if self._buckets is not None:
                    self._buckets.change(event, partial(self._informer, ""))
                    await anyio.sleep(_MOMENT)
                case Began():
                    await self._begin(event, traces, group)
                case Answered() if (active := self._active.get(event.run)) is not None:
                    active.run.pass_answer(event.number)
                    await anyio.sleep(_MOMENT)
                case Woke() if (active := self._active.get(event.run)) is not None:
                    active.run.pass_wait(event.look)
                    await anyio.sleep(_MOMENT)
                case Ended():
                    traces.done_with(event.run)
                    await self._end(event)
            if not isinstance(event, Stored | Buckets):
                self._fed = True
        self.report.cut_off += len(self._active)
        for active in self._active.values():
            active.scope.cancel()

    def _informer(self, cluster: str, resource: str) -> Informer | None:
        cache = self._caches.get(cluster)
        return None if cache is None else cache.find(resource_of(resource))

    async def _change(self, event: Changed) -> None:
        informer = self._informer(event.cluster, event.resource)
        if informer is None:
            self.report.not_followed.add(event.resource)
            return
        effect = _effect_of(event, informer)
        if effect is not None:
            await informer.carry_out(event.part, effect)
        if any(active.run.waits_by_itself for active in self._active.values()):
            await self._wake()

    async def _fill(self, event: Stored) -> None:
        informer = self._informer(event.cluster, event.resource)
        if informer is None:
            return
        read = [(_read(informer, body), marks, note) for body, marks, note in event.objects]
        found = [(one, marks, note) for one, marks, note in read if one is not None]
        staged = [one.with_marks(marks) if marks else one for one, marks, _ in found]
        await informer.carry_out(event.part, StageObjects(staged))
        await informer.carry_out(event.part, Commit(event.version))
        for one, _, note in found:
            if note:
                informer.store.note(one.key, note)

    async def _wake(self) -> None:
        for cache in self._caches.values():
            for informer in cache:
                informer.notify()
        await anyio.sleep(_MOMENT)

    # --- runs -------------------------------------------------------------------------------------

    async def _begin(self, event: Began, traces: RunTraces, group: anyio.abc.TaskGroup) -> None:
        await _until(event.at / 1e6)
        trace = traces.of(event)
        executor = self._executors.get((event.cluster, event.controller))
        if executor is None:
            self.report.unknown_controllers.add(event.controller)
            return
        request = Request(event.namespace, event.name, event.cluster)
        for other in [
            one for one in self._active.values() if (one.request, one.executor) == (request, executor)
        ]:
            await self._finish(other)
        active = self._active[event.run] = _Active(ReplayedRun(trace), request, executor)
        group.start_soon(_execute, active, [_cause(one) for one in event.causes], event.attempt)
        await anyio.sleep(_MOMENT)

    async def _finish(self, active: _Active) -> None:
        """Let a run come to its end, by its timers if need be."""
        with anyio.move_on_after(PATIENCE):
            await active.over.wait()
        active.scope.cancel()
        await active.over.wait()

    async def _end(self, event: Ended) -> None:
        active = self._active.pop(event.run, None)
        if active is None:
            return
        if event.result == "cancelled":
            active.scope.cancel()
        elif self._buckets is not None:
            self._buckets.strike(active.executor, active.request)
        if not active.over.is_set():
            await self._finish(active)
        if active.failure is not None:
            raise active.failure
        if any(request.method == "DELETE" for request in active.run.new):
            # The cache keeps what was not deleted then: the next run of the key must not wait for that.
            active.executor.forget_where(lambda other: other == active.request)
        began = active.run.trace.began
        if not self.chosen(began.at / 1e6, event.reconcile_id):
            return
        found = differences(active.run, event, active.result)
        masked = bool(found) and has_read_masks(active.run, active.result)
        self.report.add(event, active.run, found, masked)


async def _execute(active: _Active, causes: Sequence[Cause], attempt: int) -> None:
    token = replayed.set(active.run)
    try:
        with active.scope:
            active.result = await active.executor.run(active.request, causes, attempt)
    finally:
        replayed.reset(token)
        active.over.set()


async def _until(at: float) -> None:
    """Let what is due before that time run first."""
    late = at - asyncio.get_running_loop().time()
    if late > 0:
        await anyio.sleep(late)


def _epoch() -> int:
    run = replayed.get()
    return 0 if run is None else run.trace.began.epoch


def _effect_of(event: Changed, informer: Informer) -> Effect | None:
    read = [one for body in event.objects if (one := _read(informer, body)) is not None]
    match event.op:
        case "put" if read:
            return Put(read[0])
        case "remove" if read:
            return Remove(read[0])
        case "stage":
            return StageObjects(read)
        case "unstage":
            return UnstageObject(Key(event.namespace, event.name))
        case "leave" if read:
            return Leave(read[0])
        case "left":
            held = informer.store.get(Key(event.namespace, event.name))
            return None if held is None else StageLeft([held])
        case "merge":
            return Merge(read)
        case "lose":
            return Drop(Key(event.namespace, event.name), event.version or None)
        case "reach":
            return Reach(event.version)
        case "commit":
            return Commit(event.version)
        case "clear":
            return Clear()
        case "drop":
            return DropStage()
    return None


def _read(informer: Informer, body: bytes) -> Snapshot | None:
    try:
        return informer.read(body)
    except msgspec.DecodeError:
        return None


def _cause(recorded: RecordedCause) -> Cause:
    where = resource_of(recorded.resource) if recorded.resource else None
    return Cause(
        recorded.verb,
        where,
        None if where is None else Key(recorded.namespace, recorded.name),
        recorded.version,
        recorded.note,
        recorded.echo,
        recorded.since,
        tuple(recorded.paths),
        recorded.manager,
    )


def _texts(value: Any) -> Sequence[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
