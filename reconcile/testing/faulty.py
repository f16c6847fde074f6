"""A transport on which everything is recorded and a plan goes wrong."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import NoReturn, Protocol

import anyio
from attrs import evolve, frozen

from informers.errors import OutcomeUnknown, Unreachable
from informers.transport import PassingTransport, Response, StreamingResponse, Transport
from reconcile.testing.acts import Act
from reconcile.testing.answers import exactly, first_events, refusal, resumed, stale
from reconcile.testing.faults import (
    Coalesce,
    Crash,
    CrashAfter,
    CrashBefore,
    Delay,
    Drop,
    Fault,
    FaultPlan,
    Hold,
    LoseReply,
    Meanwhile,
    Refuse,
    RefuseAsStale,
    SlowReply,
    StreamFault,
    TimeTravel,
    What,
)
from reconcile.testing.lines import Backlog, beside, spoiled, whole_lines
from reconcile.testing.loop import loop_time
from reconcile.testing.requests import RecordedRequest

_NOTHING: Mapping[str, str] = {}
_NO_FAULTS = FaultPlan()


class Surroundings(Protocol):
    """Where a transport leads, for the faults that are not its own doing."""

    def act(self, act: Act, path: str) -> str:
        """Somebody else acts, `path` being that of the request; what has happened, in a few words."""
        ...

    def version_before(self, path: str, changes: int) -> int:
        """The version at which the collection of `path` was so many changes ago."""
        ...


@frozen
class HeardEvent:
    """A line of a watch that passed: of the `watch`th of that path, the `line`th, both from 1 on."""

    path: str
    watch: int
    line: int
    text: bytes


class FaultyTransport(PassingTransport):
    """Passes everything on to `inner`, save what `plan` does to it; with no plan it only records.

    `requests` holds every request in the order in which they were made; `applied` one line for each
    fault that happened. After a crash the process is dead: every request and every chunk of a
    stream raises `Crash`, until `restart()`.

    `process` says which of several managers this is the way of, from 1 on. `around` carries out
    `Meanwhile` and `TimeTravel`: a plan with one of them needs it (ValueError). With `listening`,
    `heard` holds the lines of all watches. Until `late_until` (s, of the loop) a stream is held back.
    """

    def __init__(
        self,
        inner: Transport,
        plan: FaultPlan = _NO_FAULTS,
        *,
        process: int = 1,
        around: Surroundings | None = None,
        listening: bool = False,
    ) -> None:
        _check_around(plan.faults, around)
        self.plan = plan
        self.requests: list[RecordedRequest] = []
        self.applied: list[str] = []
        self.heard: list[HeardEvent] = []
        self.late_until = 0.0
        self._process = process
        self._around = around
        self._listening = listening
        self._watches: Counter[str] = Counter()
        super().__init__(inner)
        self._counts = [0] * len(plan.faults)
        self._crash: Crash | None = None

    @property
    def writes(self) -> list[RecordedRequest]:
        """The requests that asked for a change, in order."""
        return [request for request in self.requests if request.mutating]

    @property
    def crashed(self) -> bool:
        """Whether the process counts as dead."""
        return self._crash is not None

    def add(self, *faults: Fault) -> None:
        """Let more go wrong from now on; requests are counted from here. Raises ValueError as when made."""
        _check_around(faults, self._around)
        self.plan = evolve(self.plan, faults=(*self.plan.faults, *faults))
        self._counts += [0] * len(faults)

    def die(self) -> None:
        """The process is dead from now on, without a request to blame."""
        self._crash = self._crash or Crash("the process", carried_out=False)

    def restart(self) -> None:
        """The process lives again. Records stay, and faults go on counting where they were."""
        self._crash = None

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
        body: bytes | None = None,
    ) -> Response:
        """Send one request and read the whole answer, unless a fault stands between."""
        call = self._begin(RecordedRequest(method, path, dict(query), body, loop_time()))
        instead = await self._before(call)
        if instead is not None:
            return instead
        response = await self._inner.request(method, path, query, headers, body)
        return await self._after(call, response.status) or response

    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it comes, as far as faults let it."""
        request = RecordedRequest(method, path, dict(query), None, loop_time())
        call = self._begin(request, streaming=True)
        if call.met or self._listening:
            return self._stream(call, method, path, query, headers)
        return _Passing(self, call, self._inner.stream(method, path, query, headers))

    @asynccontextmanager
    async def _stream(
        self, call: "_Call", method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[StreamingResponse]:
        instead = await self._before(call)
        if instead is not None:
            yield StreamingResponse(instead.status, instead.headers, _one_chunk(instead.body))
            return
        travel = call.travel if "sendInitialEvents" in query else None
        opened = partial(self._travelled, call, travel) if travel else self._inner.stream
        async with opened(method, path, query, headers) as answer:
            await self._after(call, answer.status)
            if not call.holding:
                async with aclosing(self._chunks(call, answer.chunks)) as chunks:
                    yield StreamingResponse(answer.status, answer.headers, chunks)
                return
            backlog = Backlog(whole_lines(answer.chunks))
            async with beside(backlog.collect), aclosing(self._chunks(call, backlog)) as chunks:
                yield StreamingResponse(answer.status, answer.headers, chunks)

    @asynccontextmanager
    async def _travelled(
        self,
        call: "_Call",
        travel: TimeTravel,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> AsyncIterator[StreamingResponse]:
        """What there was before and then, later, the stream."""
        assert self._around is not None
        self._note(call, travel)
        version = str(self._around.version_before(path, travel.events))
        before = await self._inner.request("GET", path, exactly(query, version), headers)
        async with self._inner.stream(method, path, resumed(query, version), headers) as answer:
            chunks = _then(first_events(before.body, version), travel.seconds, answer.chunks)
            async with aclosing(chunks):
                yield StreamingResponse(answer.status, answer.headers, chunks)

    def _begin(self, request: RecordedRequest, *, streaming: bool = False) -> "_Call":
        self.stay_dead()
        self.requests.append(request)
        return _Call(len(self.requests) - 1, request, tuple(self._met_by(request, streaming)))

    def _met_by(self, request: RecordedRequest, streaming: bool) -> Iterator[What]:
        for number, fault in enumerate(self.plan.faults):
            if fault.when.process not in (None, self._process):
                continue
            if not _concerns(fault.what, request, streaming):
                continue
            if not fault.when.matches(request.verb, request.path):
                continue
            self._counts[number] += 1
            if fault.when.meets(self._counts[number]):
                yield fault.what

    async def _before(self, call: "_Call") -> Response | None:
        """What comes to pass before the server sees the request: perhaps an answer in its place."""
        if not call.met:
            return None
        for fault in call.met:
            if isinstance(fault, Delay):
                self._note(call, fault)
                await anyio.sleep(fault.seconds)
        self.stay_dead()
        for fault in call.met:
            if isinstance(fault, Meanwhile) and self._around is not None:
                self._note(call, fault)
                self._around.act(fault.act, call.request.path)
        match call.decisive:
            case Drop() as fault:
                self._note(call, fault)
                raise Unreachable("the connection was refused (a planned fault)", call.name)
            case CrashBefore() as fault:
                self._note(call, fault)
                self._die(call, carried_out=False)
            case RefuseAsStale() | Refuse(applied=False) as fault:
                self._note(call, fault)
                answer = refusal(fault) if isinstance(fault, Refuse) else stale(call.request.path)
                self.record(call, status=answer.status)
                return answer
        return None

    async def _after(self, call: "_Call", status: int) -> Response | None:
        """What comes to pass between the server's answer and the caller: perhaps another answer."""
        if not call.met:
            self.stay_dead()
            self.record(call, status=status, server_status=status)
            return None
        self.record(call, server_status=status)
        for fault in call.met:
            if isinstance(fault, SlowReply):
                self._note(call, fault)
                await anyio.sleep(fault.seconds)
        self.stay_dead()
        match call.decisive:
            case LoseReply() as fault:
                self._note(call, fault)
                raise OutcomeUnknown("the connection was reset (a planned fault)", call.name)
            case CrashAfter() as fault:
                self._note(call, fault)
                self._die(call, carried_out=True)
            case Refuse() as fault:
                self._note(call, fault)
                answer = refusal(fault)
                self.record(call, status=answer.status)
                return answer
        self.record(call, status=status)
        return None

    async def _chunks(self, call: "_Call", chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        if call.spoiling or self._listening:
            chunks = chunks if call.holding else whole_lines(chunks)
        if call.spoiling:
            chunks = spoiled(chunks, call.spoiling, lambda fault: self._note_late(call, fault), call.name)
        self._watches[call.request.path] += 1
        watch = self._watches[call.request.path]
        number = 0
        try:
            async for chunk in chunks:
                self.stay_dead()
                if self._listening:
                    number += 1
                    self.heard.append(HeardEvent(call.request.path, watch, number, chunk))
                yield chunk
            self.stay_dead()
        finally:
            await _close(chunks)

    def record(self, call: "_Call", *, status: int | None = None, server_status: int | None = None) -> None:
        """Note what was answered, and what the server had answered."""
        self.requests[call.number] = self.requests[call.number].answered(status, server_status)

    def _note(self, call: "_Call", fault: What) -> None:
        self.applied.append(f"{loop_time():.3f}s {call.request}: {fault}")

    def _note_late(self, call: "_Call", fault: What) -> None:
        self._note(call, fault)
        seconds: float | None = getattr(fault, "seconds", None)
        self.late_until = max(self.late_until, loop_time() + (seconds or 0.0))

    def _die(self, call: "_Call", *, carried_out: bool) -> NoReturn:
        self._crash = Crash(str(call.request), carried_out=carried_out)
        raise self._crash

    def stay_dead(self) -> None:
        """Raise `Crash` where the process counts as dead."""
        if self._crash is not None:
            raise self._crash


def _check_around(faults: Iterable[Fault], around: Surroundings | None) -> None:
    if around is None and any(isinstance(fault.what, Meanwhile | TimeTravel) for fault in faults):
        raise ValueError("Meanwhile and TimeTravel need a server that can be acted on: around=")


class _Passing(AbstractAsyncContextManager[StreamingResponse], AsyncIterator[bytes]):
    """A stream that no fault meets, and its chunks while the process lives: what most watches are."""

    def __init__(
        self,
        transport: FaultyTransport,
        call: "_Call",
        opened: AbstractAsyncContextManager[StreamingResponse],
    ) -> None:
        self._transport = transport
        self._call = call
        self._opened = opened

    async def __aenter__(self) -> StreamingResponse:
        answer = await self._opened.__aenter__()
        self._transport.record(self._call, status=answer.status, server_status=answer.status)
        self._chunks = answer.chunks
        return StreamingResponse(answer.status, answer.headers, self)

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks, None)
        self._transport.stay_dead()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await _close(self._chunks)
        return await self._opened.__aexit__(kind, error, trace)


@frozen
class _Call:
    """A request under way: its place in the record, and the faults that it met."""

    number: int
    request: RecordedRequest
    met: tuple[What, ...]

    @property
    def name(self) -> str:
        return f"{self.request.method} {self.request.path}"

    @property
    def decisive(self) -> What | None:
        """The first fault that ends the request; waiting and what befalls a stream do not."""
        for fault in self.met:
            if not isinstance(fault, Delay | SlowReply | Meanwhile | StreamFault):
                return fault
        return None

    @property
    def spoiling(self) -> list[StreamFault]:
        """What befalls its stream."""
        return [fault for fault in self.met if isinstance(fault, StreamFault)]

    @property
    def holding(self) -> bool:
        """Whether lines are held back, so that somebody has to read on meanwhile."""
        return any(isinstance(fault, Hold | Coalesce) for fault in self.met)

    @property
    def travel(self) -> TimeTravel | None:
        """The first journey into the past."""
        return next((fault for fault in self.met if isinstance(fault, TimeTravel)), None)


def _concerns(what: What, request: RecordedRequest, streaming: bool) -> bool:
    if isinstance(what, StreamFault):
        return streaming
    if isinstance(what, RefuseAsStale):
        return request.verb in ("update", "patch", "delete")
    return True


async def _close(chunks: AsyncIterator[bytes]) -> None:
    """Left to the collector, a generator would be closed by a task of its own, whenever that comes by."""
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
