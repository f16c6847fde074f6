"""A request in progress, and the faults that concern it."""

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from informers.transport import HttpRequest, Response
from reconcile.testing.fault_answers import refusal
from reconcile.testing.faults import (
    Coalesce,
    Delay,
    FailCall,
    FailOperation,
    Hold,
    Meanwhile,
    PartOfBatch,
    Pause,
    Refuse,
    RefuseAsStale,
    ServiceFault,
    SlowReply,
    StaleRead,
    StreamFault,
    TimeTravel,
    Verb,
    What,
)
from reconcile.testing.recorded_requests import RecordedRequest


class OutsideService(Protocol):
    """A service outside the cluster, as `FakeService` is one; its paths begin with `//` and its name."""

    def verb_of(self, request: HttpRequest) -> Verb: ...

    async def answer(self, request: HttpRequest, met: Sequence[What]) -> Response: ...

    def refusal(self, fault: Refuse) -> Response: ...


@frozen
class FaultyCall:
    """A request in progress: its index in the record, and the faults that concern it."""

    number: int
    request: RecordedRequest
    met: tuple[What, ...]
    service: OutsideService | None = None

    def refusal(self, fault: Refuse) -> Response:
        """The answer of a planned fault, in the form of the server that was asked."""
        return refusal(fault) if self.service is None else self.service.refusal(fault)

    @property
    def name(self) -> str:
        return f"{self.request.method} {self.request.path}"

    @property
    def decisive(self) -> What | None:
        """The first fault that ends the request; others are met beside it."""
        for fault in self.met:
            if not isinstance(fault, Delay | SlowReply | Meanwhile | Pause | StreamFault | ServiceFault):
                return fault
        return None

    @property
    def stream_faults(self) -> list[StreamFault]:
        return [fault for fault in self.met if isinstance(fault, StreamFault)]

    @property
    def holding(self) -> bool:
        """Whether lines are held back, so that a task has to read on meanwhile."""
        return any(isinstance(fault, Hold | Coalesce) for fault in self.met)

    @property
    def travel(self) -> TimeTravel | None:
        return next((fault for fault in self.met if isinstance(fault, TimeTravel)), None)


def concerns(what: What, request: RecordedRequest, streaming: bool) -> bool:
    """Whether a request counts for a fault of this kind."""
    if isinstance(what, TimeTravel):
        return streaming and "sendInitialEvents" in request.query
    if isinstance(what, StreamFault | FailCall):
        return streaming and not isinstance(what, FailCall)
    if request.outside:
        return not isinstance(what, RefuseAsStale) and _fits_service(what, request)
    if isinstance(what, ServiceFault):
        return False
    if isinstance(what, RefuseAsStale):
        return request.verb in ("update", "patch", "delete")
    return True


def _fits_service(what: What, request: RecordedRequest) -> bool:
    match what:
        case StaleRead():
            return not request.mutating
        case FailOperation() | PartOfBatch():
            return request.mutating
        case Meanwhile(act=act):
            return getattr(act, "what", None) != ""  # one without an object is about that of a request
    return True
