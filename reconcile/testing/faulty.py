"""A transport on which everything is recorded and a plan goes wrong."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import NoReturn

import anyio
from attrs import evolve, frozen

from informers.errors import OutcomeUnknown, Unreachable
from informers.transport import PassingTransport, Response, StreamingResponse, Transport
from reconcile.testing.answers import refusal, stale
from reconcile.testing.faults import (
    Crash,
    CrashAfter,
    CrashBefore,
    Delay,
    Drop,
    FaultPlan,
    LoseReply,
    Refuse,
    RefuseAsStale,
    SlowReply,
    StreamFault,
    What,
)
from reconcile.testing.lines import spoiled, whole_lines
from reconcile.testing.requests import RecordedRequest

_NOTHING: Mapping[str, str] = {}
_NO_FAULTS = FaultPlan()


class FaultyTransport(PassingTransport):
    """Passes everything on to `inner`, save what `plan` does to it; with no plan it only records.

    `requests` holds every request in the order in which they were made; `applied` one line for each
    fault that happened. After a crash the process is dead: every request and every chunk of a
    stream raises `Crash`, until `restart()`.
    """

    def __init__(self, inner: Transport, plan: FaultPlan = _NO_FAULTS) -> None:
        self.plan = plan
        self.requests: list[RecordedRequest] = []
        self.applied: list[str] = []
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
        call = self._begin(RecordedRequest(method, path, dict(query), body, anyio.current_time()))
        instead = await self._before(call)
        if instead is not None:
            return instead
        response = await self._inner.request(method, path, query, headers, body)
        await self._after(call, response.status)
        return response

    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it comes, as far as faults let it."""
        return self._stream(method, path, query, headers)

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[StreamingResponse]:
        request = RecordedRequest(method, path, dict(query), None, anyio.current_time())
        call = self._begin(request, streaming=True)
        instead = await self._before(call)
        if instead is not None:
            yield StreamingResponse(instead.status, instead.headers, _one_chunk(instead.body))
            return
        async with self._inner.stream(method, path, query, headers) as answer:
            await self._after(call, answer.status)
            async with aclosing(self._chunks(call, answer.chunks)) as chunks:
                yield StreamingResponse(answer.status, answer.headers, chunks)

    def _begin(self, request: RecordedRequest, *, streaming: bool = False) -> "_Call":
        self._stay_dead()
        self.requests.append(request)
        return _Call(len(self.requests) - 1, request, tuple(self._met_by(request, streaming)))

    def _met_by(self, request: RecordedRequest, streaming: bool) -> Iterator[What]:
        for number, fault in enumerate(self.plan.faults):
            if not _concerns(fault.what, request, streaming):
                continue
            if not fault.when.matches(request.verb, request.path):
                continue
            self._counts[number] += 1
            if fault.when.meets(self._counts[number]):
                yield fault.what

    async def _before(self, call: "_Call") -> Response | None:
        """What comes to pass before the server sees the request: perhaps an answer in its place."""
        for fault in call.met:
            if isinstance(fault, Delay):
                self._note(call, fault)
                await anyio.sleep(fault.seconds)
        self._stay_dead()
        match call.decisive:
            case Drop() as fault:
                self._note(call, fault)
                raise Unreachable("the connection was refused (a planned fault)", call.name)
            case CrashBefore() as fault:
                self._note(call, fault)
                self._die(call, carried_out=False)
            case RefuseAsStale() | Refuse() as fault:
                self._note(call, fault)
                answer = refusal(fault) if isinstance(fault, Refuse) else stale(call.request.path)
                self._record(call, status=answer.status)
                return answer
        return None

    async def _after(self, call: "_Call", status: int) -> None:
        """What comes to pass between the server's answer and the caller."""
        self._record(call, server_status=status)
        for fault in call.met:
            if isinstance(fault, SlowReply):
                self._note(call, fault)
                await anyio.sleep(fault.seconds)
        self._stay_dead()
        match call.decisive:
            case LoseReply() as fault:
                self._note(call, fault)
                raise OutcomeUnknown("the connection was reset (a planned fault)", call.name)
            case CrashAfter() as fault:
                self._note(call, fault)
                self._die(call, carried_out=True)
        self._record(call, status=status)

    async def _chunks(self, call: "_Call", chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        faults = [fault for fault in call.met if isinstance(fault, StreamFault)]
        if faults:
            chunks = spoiled(whole_lines(chunks), faults, lambda fault: self._note(call, fault), call.name)
        async for chunk in chunks:
            self._stay_dead()
            yield chunk

    def _record(self, call: "_Call", *, status: int | None = None, server_status: int | None = None) -> None:
        before = self.requests[call.number]
        self.requests[call.number] = evolve(
            before, status=status or before.status, server_status=server_status or before.server_status
        )

    def _note(self, call: "_Call", fault: What) -> None:
        self.applied.append(f"{anyio.current_time():.3f}s {call.request}: {fault}")

    def _die(self, call: "_Call", *, carried_out: bool) -> NoReturn:
        self._crash = Crash(str(call.request), carried_out=carried_out)
        raise self._crash

    def _stay_dead(self) -> None:
        if self._crash is not None:
            raise self._crash


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
            if not isinstance(fault, Delay | SlowReply | StreamFault):
                return fault
        return None


def _concerns(what: What, request: RecordedRequest, streaming: bool) -> bool:
    if isinstance(what, StreamFault):
        return streaming
    if isinstance(what, RefuseAsStale):
        return request.verb in ("update", "patch", "delete")
    return True


async def _one_chunk(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
