"""A transport that records every request and injects the faults of a plan."""

import weakref
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import NoReturn, Protocol

import anyio
import anyio.lowlevel
from attrs import evolve, frozen
from msgspec.structs import replace

from informers.api_errors import OutcomeUnknown, Unreachable
from informers.transport import HttpRequest, PassingTransport, Response, StreamingResponse, Transport
from reconcile.runs.tenure import tenure_here
from reconcile.testing.call_faults import CallFaults
from reconcile.testing.fault_answers import initial_events, list_at, stale_version, watch_from
from reconcile.testing.faults import (
    Crash,
    CrashAfter,
    CrashBefore,
    Delay,
    Drop,
    FailCall,
    Fault,
    FaultPlan,
    LoseReply,
    Meanwhile,
    Pause,
    Refuse,
    RefuseAsStale,
    ServiceFault,
    SlowReply,
    TimeTravel,
    What,
)
from reconcile.testing.faulty_calls import FaultyCall, OutsideService, concerns
from reconcile.testing.recorded_requests import RecordedRequest, service_of
from reconcile.testing.run_records import InjectedFault
from reconcile.testing.runs_under_way import outside_runs, run_here
from reconcile.testing.scenario_acts import ScenarioAct
from reconcile.testing.stream_faults import Backlog, alongside, whole_lines, with_faults
from reconcile.testing.virtual_time import loop_time

_NO_FAULTS = FaultPlan()


class FaultEffects(Protocol):
    """Carries out the faults that concern the server itself, as `ClusterActor` does."""

    def act(self, act: ScenarioAct, path: str) -> str: ...

    def version_before(self, path: str, changes: int) -> int: ...


@frozen
class ReceivedEvent:
    """A line that a manager received: the `line`th of the `watch`th watch of that path, both from 1."""

    path: str
    watch: int
    line: int
    text: bytes


class RequestGates(Protocol):
    """Where requests and their answers wait until a schedule lets them pass."""

    async def before(self, request: HttpRequest) -> None:
        """Wait until the request may reach the server."""
        ...

    async def after(self, request: HttpRequest, answer: Response) -> bool:
        """Wait until the answer may reach the caller; false: it is lost."""
        ...


class FaultyTransport(PassingTransport):
    """Passes everything on to `inner`, with the faults of `plan`; without a plan it only records.

    `requests` holds every request in order, `injected` the faults that happened, `applied` a line of text for
    each of them, and with `record_events` `events` the lines of all watches. After a crash the process counts
    as dead: every request and every chunk of a stream raises `Crash` until `restart()`.

    `process` is the number of the manager, from 1 on. `effects` carries out `Meanwhile` and `TimeTravel`;
    a plan with one needs it (ValueError). Requests and streams are held back until
    `late_until` (s, of the loop). Requests to an `outside` service are answered by it, and not by `inner`.
    """

    def __init__(
        self,
        inner: Transport,
        plan: FaultPlan = _NO_FAULTS,
        *,
        process: int = 1,
        effects: FaultEffects | None = None,
        record_events: bool = False,
        outside: Mapping[str, OutsideService] | None = None,
    ) -> None:
        _check_effects(plan.faults, effects)
        self._outside = outside or {}
        self.plan = plan
        self.requests: list[RecordedRequest] = []
        self.applied: list[str] = []
        self.injected: list[InjectedFault] = []
        self.events: list[ReceivedEvent] = []
        self.late_until = 0.0
        self._process = process
        self._effects = effects
        self._record_events = record_events
        self._watches: Counter[str] = Counter()
        me: FaultyTransport = weakref.proxy(self)  # the calls must not hold the transport that holds them
        self._calls = CallFaults(
            lambda: me.plan.faults, process, lambda path, fault, wait: me._note_call(path, fault, wait)
        )
        super().__init__(inner)
        self._counts = [0] * len(plan.faults)
        self._crash: Crash | None = None
        self._cut_off_until = 0.0
        self.pause: Callable[[float], None] | None = None
        """Has the process stand still for so many seconds; needed by a plan with a `Pause`."""
        self.gates: RequestGates | None = None
        """Where requests wait for the schedule of an exploration, if there is one."""

    @property
    def writes(self) -> list[RecordedRequest]:
        """The requests that asked for a change, in order."""
        return [request for request in self.requests if request.mutating]

    @property
    def called(self) -> list[str]:
        """The paths of the webhooks that the server called for these requests, in order."""
        return self._calls.paths

    @property
    def crashed(self) -> bool:
        """Whether the process counts as dead."""
        return self._crash is not None

    def add(self, *faults: Fault) -> None:
        """Add faults; they count requests from now on. Raises ValueError as the constructor does."""
        _check_effects(faults, self._effects)
        self.plan = evolve(self.plan, faults=(*self.plan.faults, *faults))
        self._counts += [0] * len(faults)

    def mend(self) -> None:
        """Forget all faults of the plan: from now on requests meet none."""
        self.plan = evolve(self.plan, faults=())
        self._counts = []

    def die(self) -> None:
        """End the process at once, without a request that caused it."""
        self._crash = self._crash or Crash("the process", carried_out=False)

    def restart(self) -> None:
        """Let requests pass again. Records stay, and the counts of faults go on."""
        self._crash = None

    def cut(self, seconds: float) -> None:
        """Let nothing pass to or from the API server for so many seconds; services outside are reached."""
        self._cut_off_until = max(self._cut_off_until, loop_time() + seconds)
        self.late_until = max(self.late_until, self._cut_off_until)

    @property
    def cut_off(self) -> bool:
        """Whether nothing passes now."""
        # Asked for each event of each watch, so first whether it was ever cut off.
        return self._cut_off_until > 0.0 and loop_time() < self._cut_off_until

    async def _reach(self) -> None:
        """Wait until requests and answers pass again."""
        if self.cut_off:
            await anyio.sleep_until(self._cut_off_until)
            await self._reach()  # it may have been cut off for longer meanwhile
        self.stay_dead()

    async def request(self, request: HttpRequest) -> Response:
        """Send a request and read the whole answer, unless a fault prevents it."""
        call = self._begin(request)
        refused = await self._before(call)
        if refused is not None:
            return refused
        if self.cut_off and call.service is None:
            await self._reach()
        if self.gates is not None:
            await self.gates.before(request)
            self.stay_dead()
            self.requests[call.number] = evolve(self.requests[call.number], at=loop_time())
        response = await self._deliver(call, request)
        if self.gates is not None:
            self.record(call, server_status=response.status)  # the process may die meanwhile
            await self._leave(call, request, response, self.gates)
        if self.cut_off and call.service is None:
            self.record(call, server_status=response.status)  # the caller may give up meanwhile
            await self._reach()
        return await self._after(call, response.status) or response

    async def _deliver(self, call: FaultyCall, request: HttpRequest) -> Response:
        """Have the server, or the service outside the cluster, answer a request that has reached it."""
        if call.service is None:
            with self._calls.caused_here():
                return await self._inner.request(request)
        for fault in call.met:
            if isinstance(fault, ServiceFault):
                self._note(call, fault)
        return await call.service.answer(request, call.met)

    async def _leave(
        self, call: FaultyCall, request: HttpRequest, answer: Response, gates: RequestGates
    ) -> None:
        """Wait until the schedule delivers the answer. Raises OutcomeUnknown if it is lost."""
        if not await gates.after(request, answer):
            self._note(call, LoseReply())
            raise OutcomeUnknown("the connection was reset (a choice of the schedule)", call.name)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send a request and read its answer as it comes, unless a fault prevents it."""
        call = self._begin(request, streaming=True)
        if call.met or self._record_events or self.cut_off:
            return self._stream(call, request)
        return _PlainStream(self, call, self._inner.stream(request))

    @asynccontextmanager
    async def _stream(self, call: FaultyCall, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        refused = await self._before(call)
        if refused is not None:
            yield StreamingResponse(refused.status, refused.headers, _one_chunk(refused.body))
            return
        if self.cut_off:
            await self._reach()
        travel = call.travel if "sendInitialEvents" in request.query else None
        opened = partial(self._travelled, call, travel) if travel else self._inner.stream
        async with AsyncExitStack() as stack:
            with self._calls.caused_here():
                answer = await stack.enter_async_context(opened(request))
            await self._after(call, answer.status)
            if not call.holding:
                async with aclosing(self._chunks(call, answer.chunks)) as chunks:
                    yield StreamingResponse(answer.status, answer.headers, chunks)
                return
            backlog = Backlog(whole_lines(answer.chunks))
            async with alongside(backlog.collect), aclosing(self._chunks(call, backlog)) as chunks:
                yield StreamingResponse(answer.status, answer.headers, chunks)

    @asynccontextmanager
    async def _travelled(
        self, call: FaultyCall, travel: TimeTravel, request: HttpRequest
    ) -> AsyncIterator[StreamingResponse]:
        """Open a watch that shows an earlier state first, and the events since then later."""
        assert self._effects is not None
        self._note(call, travel)
        version = str(self._effects.version_before(request.path, travel.events))
        before = await self._inner.request(replace(request, query=list_at(request.query, version)))
        watch = replace(request, query=watch_from(request.query, version))
        async with self._inner.stream(watch) as answer:
            chunks = _then(initial_events(before.body, version), travel.seconds, answer.chunks)
            async with aclosing(chunks):
                yield StreamingResponse(answer.status, answer.headers, chunks)

    def _begin(self, request: HttpRequest, *, streaming: bool = False) -> FaultyCall:
        self.stay_dead()
        query, tenure, run = dict(request.query), tenure_here(), run_here()
        number = 0
        if run is not None:
            number = run.ref.number
            run.sent.append(len(self.requests))
        service = self._outside.get(service_of(request.path)) if self._outside else None
        record = RecordedRequest(
            request.method,
            request.path,
            query,
            request.body,
            loop_time(),
            tenure=tenure,
            run=number,
            service_verb=None if service is None else service.verb_of(request),
        )
        self.requests.append(record)
        return FaultyCall(len(self.requests) - 1, record, tuple(self._met_by(record, streaming)), service)

    def _met_by(self, request: RecordedRequest, streaming: bool) -> Iterator[What]:
        for number, fault in enumerate(self.plan.faults):
            if fault.when.process not in (None, self._process):
                continue
            if not concerns(fault.what, request, streaming):
                continue
            if not fault.when.matches(request.verb, request.path):
                continue
            self._counts[number] += 1
            if fault.when.meets(self._counts[number]):
                yield fault.what

    async def _before(self, call: FaultyCall) -> Response | None:
        """Inject the faults before the server sees the request; returns their answer, if any."""
        if not call.met:
            return None
        await self._wait(call, Delay)
        for fault in call.met:
            if isinstance(fault, Pause) and self.pause is not None:
                self._note(call, fault)
                self.pause(fault.seconds)
                await anyio.lowlevel.checkpoint()  # it goes on when the process does
                self.stay_dead()
        for fault in call.met:
            if isinstance(fault, Meanwhile) and self._effects is not None:
                self._note(call, fault)
                with outside_runs():
                    self._effects.act(fault.act, call.request.path)
        match call.decisive:
            case Drop() as fault:
                self._note(call, fault)
                raise Unreachable("the connection was refused (a planned fault)", call.name)
            case CrashBefore() as fault:
                self._note(call, fault)
                self._die(call, carried_out=False)
            case RefuseAsStale() as fault:
                return self._answer(call, fault, stale_version(call.request.path))
            case Refuse(applied=False) as fault:
                return self._answer(call, fault, call.refusal(fault))
        return None

    async def _after(self, call: FaultyCall, status: int) -> Response | None:
        """Inject the faults after the server has answered; returns their answer, if any."""
        if not call.met:
            self.record(call, status=None if self.crashed else status, server_status=status)
            self.stay_dead()
            return None
        self.record(call, server_status=status)
        await self._wait(call, SlowReply)
        match call.decisive:
            case LoseReply() as fault:
                self._note(call, fault)
                raise OutcomeUnknown("the connection was reset (a planned fault)", call.name)
            case CrashAfter() as fault:
                self._note(call, fault)
                self._die(call, carried_out=True)
            case Refuse() as fault:
                return self._answer(call, fault, call.refusal(fault))
        self.record(call, status=status)
        return None

    async def _wait(self, call: FaultyCall, kind: type[Delay | SlowReply]) -> None:
        for fault in call.met:
            if isinstance(fault, kind):
                self._note_late(call, fault)
                await anyio.sleep(fault.seconds)
        self.stay_dead()

    def _answer(self, call: FaultyCall, fault: What, answer: Response) -> Response:
        self._note(call, fault)
        self.record(call, status=answer.status)
        return answer

    async def _chunks(self, call: FaultyCall, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        if call.stream_faults or self._record_events:
            chunks = chunks if call.holding else whole_lines(chunks)
        if call.stream_faults:
            chunks = with_faults(
                chunks, call.stream_faults, lambda fault: self._note_late(call, fault), call.name
            )
        self._watches[call.request.path] += 1
        watch = self._watches[call.request.path]
        number = 0
        try:
            async for chunk in chunks:
                if self.cut_off:
                    await self._reach()
                self.stay_dead()
                if self._record_events:
                    number += 1
                    self.events.append(ReceivedEvent(call.request.path, watch, number, chunk))
                yield chunk
            self.stay_dead()
        finally:
            await _close(chunks)

    def record(
        self, call: FaultyCall, *, status: int | None = None, server_status: int | None = None
    ) -> None:
        """Record what the caller and what the server answered."""
        run = run_here()
        if run is not None:
            run.look_around(call.number)
        self.requests[call.number] = self.requests[call.number].answered(status, server_status)

    def _note(self, call: FaultyCall, fault: What) -> None:
        self.applied.append(f"{loop_time():.3f}s {call.request}: {fault}")
        self.injected.append(InjectedFault(loop_time(), call.request.path, fault))
        # Who has no answer tries again later, so that nothing that follows is at rest yet.
        self.late_until = max(self.late_until, loop_time())

    def _note_late(self, call: FaultyCall, fault: What) -> None:
        self._note(call, fault)
        seconds: float | None = getattr(fault, "seconds", None)
        self.late_until = max(self.late_until, loop_time() + (seconds or 0.0))

    def _note_call(self, path: str, fault: FailCall, seconds: float) -> None:
        self.applied.append(f"{loop_time():.3f}s call of {path}: {fault}")
        self.injected.append(InjectedFault(loop_time(), path, fault))
        self.late_until = max(self.late_until, loop_time() + seconds)

    def _die(self, call: FaultyCall, *, carried_out: bool) -> NoReturn:
        self._crash = Crash(str(call.request), carried_out=carried_out)
        raise self._crash

    def stay_dead(self) -> None:
        """Raise `Crash` if the process counts as dead."""
        if self._crash is not None:
            raise self._crash


def _check_effects(faults: Iterable[Fault], effects: FaultEffects | None) -> None:
    if effects is None and any(isinstance(fault.what, Meanwhile | TimeTravel | FailCall) for fault in faults):
        raise ValueError("Meanwhile, TimeTravel and FailCall need an embedded server: pass effects=")


class _PlainStream(AbstractAsyncContextManager[StreamingResponse], AsyncIterator[bytes]):
    """A stream without faults, as most are, that ends with the process; a generator would be slower."""

    def __init__(
        self,
        transport: FaultyTransport,
        call: FaultyCall,
        opened: AbstractAsyncContextManager[StreamingResponse],
    ) -> None:
        self._transport = transport
        self._call = call
        self._opened = opened

    async def __aenter__(self) -> StreamingResponse:
        with self._transport._calls.caused_here():
            answer = await self._opened.__aenter__()
        self._transport.record(self._call, status=answer.status, server_status=answer.status)
        self._chunks = answer.chunks
        return StreamingResponse(answer.status, answer.headers, self)

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks, None)
        if self._transport.cut_off:
            await self._transport._reach()
        self._transport.stay_dead()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await _close(self._chunks)
        return await self._opened.__aexit__(kind, error, trace)


async def _close(chunks: AsyncIterator[bytes]) -> None:
    """Close a generator now: the garbage collector would do it in a task of its own, at any time."""
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()


async def _one_chunk(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _then(
    first: list[bytes], seconds: float, chunks: AsyncIterator[bytes]
) -> AsyncGenerator[bytes, None]:
    for line in first:
        yield line
    await anyio.sleep(seconds)
    async for chunk in chunks:
        yield chunk
